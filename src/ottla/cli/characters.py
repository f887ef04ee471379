"""Characters that a terminal cannot show (`LC_ALL=C`, `PYTHONIOENCODING=ascii`) are spelled otherwise, everywhere.

`main` says so once for stdout and stderr: what we draw becomes what looks most like it in ASCII, as wide as it was,
so that columns and lanes stay; any other character, and a byte in the name of a file that is no text, is written as an
escape. What a file holds is shown without look-alikes (`show_exactly`): there an x must be an x.
"""

from __future__ import annotations

import codecs
import io
import sys

LOOK_ALIKE = "ottla.look-alike"
"""The name of this way with errors, as `str.encode` and `reconfigure` take it."""

LOOK_ALIKES = {
    "×": "x",
    "“": '"',
    "”": '"',
    "…": "...",
    "→": ">",
    "–": "-",
    "█": "#",
    "✓": "+",
    "✗": "x",
    "✕": "x",
    "•": "*",
    "●": "*",
    "⚡": "!",
    "⋮": ":",
    "│": "|",
    "─": "-",
    "┼": "+",
    "├": "|",
    "┤": "|",
    "◀": "<",
    "▶": ">",
}
# How Python deals with them where nobody has asked for anything; "replace" and its like are somebody's wish.
_UNASKED = ("strict", "surrogateescape", "backslashreplace")
_EXACTLY = "backslashreplace"


def use_look_alikes() -> None:
    """From now on stdout and stderr take every character."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in _UNASKED:
            stream.reconfigure(errors=LOOK_ALIKE)


def show_exactly(encoding: str | None = None) -> None:
    """From now on stdout spells out what it cannot show, and nothing is shown as something else."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding=encoding or sys.stdout.encoding, errors=_EXACTLY)


def _spelled(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    shown = (LOOK_ALIKES.get(each) or each.encode("ascii", _EXACTLY).decode() for each in lacking)
    return "".join(shown), error.end


codecs.register_error(LOOK_ALIKE, _spelled)
