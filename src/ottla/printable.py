"""Text of others on a terminal: shown as it is, never obeyed."""

from __future__ import annotations


def printable(text: str, besides: str = "") -> str:
    r"""The text with what a terminal would obey spelled out, such as \x1b for escape; `besides` stay as they are."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in besides else each.encode("unicode_escape").decode() for each in text
    )
