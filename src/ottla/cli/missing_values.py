"""Options that would not mean what the command line seems to say.

An option whose value was forgotten must not take the next option for it: in `ottla trial lost-ack --report --junit
out.xml` the report would be written into a file with the name --junit. An option that says what is to be looked at must
not lose its first value: `ottla audit --ledger a.jsonl --ledger b.jsonl` would audit a part of the ledger. Of all other
options the last value counts, as everywhere: a script may set `--port`, and its caller another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ottla.errors import UserMistake

# Parameters of which several could be meant, and one is taken.
_LOOKED_AT = ("ledger", "topic", "input_file")


def check_values(params: Iterable[Any], arguments: Sequence[str]) -> None:
    """UserMistake where an option stands in the place of a value, or two things are given where one is looked at."""
    options = {name: each for each in params if each.param_type_name == "option" for name in _names(each)}
    before: set[str] = set()
    rest = iter(arguments)
    for given in rest:
        if given == "--":
            return
        name, is_whole, _ = given.partition("=") if given.startswith("--") else (given, "", "")
        option = options.get(name)
        if option is None or option.is_flag or option.count:
            continue
        if option.name in _LOOKED_AT and not option.multiple:
            if option.name in before:
                raise UserMistake(f"{name} is given more than once, and takes one value: give it once")
            before.add(option.name)
        value = None if is_whole else next(rest, None)
        form = option.metavar or "a value"
        if option.type.name in ("path", "file", "directory") and (value == "" or given == f"{name}="):
            # As a path it would be the folder where the program runs.
            raise UserMistake(f"{name} has an empty value; give {name} {form}")
        if value in options:
            raise UserMistake(f"{given} needs {form} behind it, and {value} is another option: give {given} {form}")


def _names(option: Any) -> tuple[str, ...]:
    return (*option.opts, *option.secondary_opts)
