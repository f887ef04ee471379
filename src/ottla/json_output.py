"""Where a command's JSON goes: to stdout, alone, or into a file, besides."""

from __future__ import annotations

import sys
from pathlib import Path

from ottla.whole_file import check_path, write_whole

STDOUT = "-"
OPTION = "--json-file"


def check_json_output(target: str | Path | None, *, what: str) -> None:
    """UserMistake where `what` could not be written there, before hours went into it; None is nowhere."""
    if target not in (None, STDOUT):
        check_path(Path(str(target)), what=what, option=OPTION)


def write_json(target: str | Path | None, text: str, *, what: str) -> None:
    """Write it, if it is to go anywhere; UserMistake where that fails."""
    if target == STDOUT:
        sys.stdout.write(text)
        sys.stdout.flush()
    elif target is not None:
        write_whole(Path(target), text, what=what, option=OPTION)
