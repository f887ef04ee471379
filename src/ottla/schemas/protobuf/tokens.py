"""The words of a `.proto` file: identifiers, numbers, strings and punctuation, each with its line.

https://protobuf.dev/reference/protobuf/proto3-spec/#lexical_elements
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ottla.schemas.protobuf.errors import ProtobufSchemaError

_WORD: Final = re.compile(
    r"""(?P<blank>[ \t\r\n\f\v\ufeff]+ | //[^\n]* | /\*)
    | (?P<float>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?f? | [0-9]+[eE][+-]?[0-9]+f? | [0-9]+f\b)
    | (?P<integer>0[xX][0-9a-fA-F]+ | [0-9]+)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<string>"(?:[^"\\\n]|\\[^\n])*" | '(?:[^'\\\n]|\\[^\n])*')
    | (?P<mark>[;,=(){}\[\]<>.:/+-])""",
    re.VERBOSE,
)
_ESCAPE: Final = re.compile(
    rb"\\(?:[xX]([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
_PLAIN: Final = {
    b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v",
    b"\\": b"\\", b"'": b"'", b'"': b'"', b"?": b"?",
}  # fmt: skip


class Token(NamedTuple):
    """`kind` is name, integer, float, string, mark or end; `at` is where it begins in the file."""

    kind: str
    text: str
    line: int
    at: int = 0


def tokens(text: str, file: str) -> list[Token]:
    """All words of a file, the last of kind "end"; comments are left out."""
    found = []
    position = 0
    line = 1
    while position < len(text):
        match = _WORD.match(text, position)
        if match is None:
            raise ProtobufSchemaError(f"{file}, line {line}: {_shown(text, position)} cannot stand here.")
        kind = match.lastgroup or ""
        end = match.end()
        if match[0] == "/*":
            end = text.find("*/", position + 2) + 2
            if end == 1:
                raise ProtobufSchemaError(f"{file}, line {line}: this comment has no end.")
        if kind == "blank":
            line += text.count("\n", position, end)
        else:
            found.append(Token(kind, match[0], line, position))
        position = end
    found.append(Token("end", "", line, len(text)))
    return found


def _shown(text: str, position: int) -> str:
    if text[position] in "\"'":
        return "a string without an end"
    return repr(text[position])


def unquoted(token: Token, file: str) -> bytes:
    """The bytes of a string token, escapes replaced."""

    def replaced(match: re.Match[bytes]) -> bytes:
        hexadecimal, octal, short, long, plain = match.groups()
        if hexadecimal is not None:
            return bytes([int(hexadecimal, 16)])
        if octal is not None:
            return bytes([int(octal, 8) & 0xFF])
        point = short if short is not None else long
        if point is not None and int(point, 16) <= 0x10FFFF:
            return chr(int(point, 16)).encode("utf-8", "surrogatepass")
        if plain in _PLAIN:
            return _PLAIN[plain]
        raise ProtobufSchemaError(f"{file}, line {token.line}: a string has an escape that does not exist.")

    return _ESCAPE.sub(replaced, token.text[1:-1].encode("utf-8", "surrogatepass"))


def whole(text: str) -> int | None:
    """The value of digits: decimal, octal after a 0, hexadecimal after 0x."""
    try:
        return int(text, 16 if text[:2] in ("0x", "0X") else 8 if text[0] == "0" else 10)
    except ValueError:
        return None
