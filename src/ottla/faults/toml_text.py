"""A TOML text that a person has written, with the lines in which its tables and fields stand: an error names the line.

tomllib tells no lines. They are looked for in the text, so a line is told only where it is certain which one it is.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from ottla.errors import ConfigError

_TABLE = re.compile(r"\s*\[\[\s*(\w+)\s*\]\]")
# Some editors begin a file with it; TOML knows no such character.
_BYTE_ORDER_MARK = "\ufeff"


class TomlText:
    """`content` is what the text says; ConfigError where it is not TOML. `where`: the file, as errors name it."""

    def __init__(self, text: str, where: str) -> None:
        text = text.removeprefix(_BYTE_ORDER_MARK)
        try:
            self.content: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{where} is not TOML: {error}") from None
        except RecursionError:
            raise ConfigError(f"{where} is nested too deep") from None
        self._where = where
        self._lines = text.splitlines()
        self._headers: dict[str, list[int]] = {}
        for number, line in enumerate(self._lines, 1):
            if (found := _TABLE.match(line)) is not None:
                self._headers.setdefault(found[1], []).append(number)

    def wrong(self, what: str, line: int | None = None) -> ConfigError:
        """What is wrong in this file, with the line where it is known."""
        return ConfigError(f"{self._where}{'' if line is None else f', line {line}'}: {what}")

    def header(self, name: str, nth: int) -> int | None:
        """The line with the n-th `[[name]]`, from 1; None where the tables are written in another way."""
        headers, tables = self._headers.get(name, []), self.content.get(name)
        if not isinstance(tables, list) or len(headers) != len(tables):
            return None
        return headers[nth - 1]

    def line(self, name: str, header: int | None = None) -> int | None:
        """The line that gives this field: of the table that begins at `header`, else the first one of the file.

        The header itself where the table does not have the field.
        """
        found = re.compile(rf"""\s*(\[+\s*(\w+\s*\.\s*)?)?["']?{re.escape(name)}\b""")
        for number in range(header or 0, len(self._lines)):
            if header is not None and _TABLE.match(self._lines[number]):
                break
            if found.match(self._lines[number]):
                return number + 1
        return header


def field_in(told: str, given: Mapping[str, Any]) -> str:
    """The field that a sentence is about, as far as it names one; the kind otherwise."""
    names = (name for name in given if name != "kind")
    return next((name for name in names if f"{name}=" in told or f"no field {name};" in told), "kind")
