"""Where a command's JSON goes: to stdout, alone, or into a file, besides."""

from __future__ import annotations

import sys
from pathlib import Path

from ottla.whole_file import check_place, write_whole

STDOUT = "-"
OPTION = "--json-file"


def check_json_output(place: str | Path | None, *, what: str) -> None:
    """UserMistake where `what` could not be written there, before hours went into it; None is nowhere."""
    if place not in (None, STDOUT):
        check_place(Path(str(place)), what=what, option=OPTION)


def write_json(place: str | Path | None, text: str, *, what: str) -> None:
    """Write it, if it is to go anywhere; UserMistake where that fails."""
    if place == STDOUT:
        sys.stdout.write(text)
        sys.stdout.flush()
    elif place is not None:
        write_whole(Path(place), text, what=what, option=OPTION)
