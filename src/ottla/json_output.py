"""Where a command writes its JSON: to stdout, and then nothing else, or to a file, beside its usual output."""

from __future__ import annotations

import sys
from pathlib import Path

from ottla.whole_file import check_path, write_whole

STDOUT = "-"
OPTION = "--json-file"


def check_json_output(target: str | Path | None, *, what: str) -> None:
    """UserMistake where `what` cannot be written there, before the work for it begins; None: it is written nowhere."""
    if target not in (None, STDOUT):
        check_path(Path(str(target)), what=what, option=OPTION)


def write_json(target: str | Path | None, text: str, *, what: str) -> None:
    """Write the text to `target` (None: nowhere); UserMistake where that fails."""
    if target == STDOUT:
        sys.stdout.write(text)
        sys.stdout.flush()
    elif target is not None:
        write_whole(Path(target), text, what=what, option=OPTION)
