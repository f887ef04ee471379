"""Sorts the options of a `.proto` file; all else stays as it is written."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.schemas.protobuf.tokens import Token, tokens

# An option in the text: where it begins and ends.
Span = tuple[int, int]


def sorted_options(text: str, name: str = "schema.proto") -> str:
    """The text with its options sorted by their words: `option` statements in each block, and those in brackets."""
    words = tokens(text, name)
    pieces: list[tuple[Span, Span]] = []
    for group in _groups(words):
        ordered = sorted(group, key=lambda span: " ".join(text[slice(*span)].split()))
        pieces += zip(group, ordered, strict=True)
    made, end = [], 0
    for place, taken in sorted(pieces):
        made += [text[end : place[0]], text[slice(*taken)]]
        end = place[1]
    return "".join([*made, text[end:]])


def _groups(words: list[Token]) -> Iterator[list[Span]]:
    """The groups of options that are sorted together."""
    blocks: list[list[Span]] = [[]]
    at = 0
    while at < len(words) - 1:
        is_first = at == 0 or words[at - 1].text in (";", "{", "}")
        if is_first and words[at].text == "option" and words[at + 1].text != "=":
            begin, at = at, _end(words, at, ";")
            blocks[-1].append((words[begin].at, words[at].at))
        elif words[at].text == "[":
            spans, at = _in_brackets(words, at + 1)
            yield spans
        elif words[at].text == "{":
            blocks.append([])
        elif words[at].text == "}" and len(blocks) > 1:
            yield blocks.pop()
        at += 1
    yield from blocks


def _in_brackets(words: list[Token], at: int) -> tuple[list[Span], int]:
    spans = []
    while at < len(words) - 1:
        end = _end(words, at, ",]")
        spans.append((words[at].at, words[end - 1].at + len(words[end - 1].text)))
        if words[end].text != ",":
            return spans, end
        at = end + 1
    return spans, at


def _end(words: list[Token], at: int, marks: str) -> int:
    """The index of the first word from here on that is one of the marks, outside of all brackets."""
    depth = 0
    while at < len(words) - 1:
        word = words[at].text
        if not depth and word and word in marks:
            break
        depth += (word in ("{", "[", "(", "<")) - (word in ("}", "]", ")", ">"))
        at += 1
    return at
