"""Faults from a TOML file: tables `[[fault]]`, each with a kind and that fault's fields, as in a file of `ottla trial`.

    [[fault]]
    kind = "lose_ack"
    topic = "orders"
    nth = 3

Every error names the file and the line.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.errors import ConfigError
from ottla.faults.fault import Fault, fault_from
from ottla.faults.toml_text import TomlText, field_in
from ottla.nearest import nearest_name


def read_faults(text: str, where: str, check: Callable[[Fault], None] = lambda _: None) -> list[Fault]:
    """The faults of a TOML text, in their order; ConfigError says where. `check` may raise one, too."""
    toml = TomlText(text, where)
    for name in toml.content:
        if name != "fault":
            near = nearest_name(name, ["fault"])
            hint = " did you mean [[fault]]?" if near else ""
            raise toml.wrong(
                f"{name!r} is not for a file of faults;{hint} it takes [[fault]] alone",
                toml.header(name, 1) or toml.line(name),
            )
    tables = toml.content.get("fault", [])
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise toml.wrong("each fault stands under a line [[fault]]", toml.line("fault"))
    if not tables:
        raise toml.wrong("it holds no fault: write one under a line [[fault]]")
    found = []
    for nth, given in enumerate(tables, 1):
        try:
            fault = fault_from(given)
            check(fault)
        except ConfigError as error:
            told, header = str(error), toml.header("fault", nth)
            raise toml.wrong(told, header and toml.line(field_in(told, given), header)) from None
        found.append(fault)
    return found
