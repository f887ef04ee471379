"""An option whose value was forgotten: the next option must not be taken for it.

`ottla trial lost-ack --report --junit out.xml` would otherwise write a report into a file with the name --junit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ottla.errors import UserMistake


def check_values(params: Iterable[Any], arguments: Sequence[str]) -> None:
    """UserMistake where another option of the same command stands in the place of an option's value."""
    options = {name: each for each in params if each.param_type_name == "option" for name in _names(each)}
    rest = iter(arguments)
    for given in rest:
        if given == "--":
            return
        option = options.get(given)
        if option is None or option.is_flag or option.count:
            continue
        value = next(rest, None)
        if value in options:
            form = option.metavar or "a value"
            raise UserMistake(f"{given} needs {form} behind it, and {value} is another option: give {given} {form}")


def _names(option: Any) -> tuple[str, ...]:
    return (*option.opts, *option.secondary_opts)
