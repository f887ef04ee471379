r"""Files of settings as Java writes them (`java.util.Properties`), which Kafka's own tools and clients share.

    # comment                       ! comment
    name=value                      name: value       name value
    name=a long value \
         that goes on here          (the backslash and the next line's leading blanks vanish)

`\t \n \r \f \uXXXX` and a backslash before any other character are escapes. Files are read as UTF-8; Java reads ASCII
the same, and Kafka's settings need no more. Invariant: an error names the file and the line, never a value.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from ottla.errors import ConfigError

_BLANK = " \t\f"
_KEY = re.compile(r"(?:[^\\=: \t\f]|\\.)*")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: str | os.PathLike[str]) -> dict[str, str]:
    """{name: value} of a file, the last one of each name; `ConfigError` where it cannot be read."""
    try:
        # Some editors begin a file with a byte order mark, which is no part of the first name.
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{os.fspath(path)} cannot be read ({(error.strerror or str(error)).lower()}).") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{os.fspath(path)} is no text in UTF-8, so it cannot be a properties file.") from None
    return parse_properties(text, os.fspath(path))


def parse_properties(text: str, name: str) -> dict[str, str]:
    """As `read_properties`, of a text; errors call it `name`."""
    values: dict[str, str] = {}
    for number, line in _logical_lines(text):
        found = _KEY.match(line)
        assert found is not None
        key, rest = found.group(), line[found.end() :].lstrip(_BLANK)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANK)
        try:
            values[_unescape(key)] = _unescape(rest)
        except ValueError:
            raise ConfigError(f"{name}, line {number}: \\u must be followed by four hexadecimal digits.") from None
    return values


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """(number, text) of the lines, continued ones joined, without comments and empty ones."""
    lines: list[tuple[int, str]] = []
    going_on = False
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = raw.lstrip(_BLANK)
        if not going_on and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        continues = backslashes % 2 == 1
        if continues:
            line = line[:-1]
        if going_on:
            lines[-1] = (lines[-1][0], lines[-1][1] + line)
        elif line:
            lines.append((number, line))
        # A line with nothing but a backslash is not continued, as in Java: a comment may follow it.
        going_on = continues and (going_on or bool(line))
    return lines


def _unescape(text: str) -> str:
    def replaced(found: re.Match[str]) -> str:
        letter = found.group(1)
        if letter[0] == "u":
            return chr(int(letter[1:], 16)) if len(letter) == 5 else _no_number()
        return _ESCAPES.get(letter, letter)

    return re.sub(r"\\(u[0-9a-fA-F]{0,4}|.)", replaced, text, flags=re.DOTALL)


def _no_number() -> str:
    raise ValueError
