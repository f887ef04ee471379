"""Files that hold passwords and tokens: a warning says where other users of the machine can read one, too."""

from __future__ import annotations

import stat
from contextlib import suppress
from pathlib import Path

import typer

from ottla.cli.small_file import read_small_file


def read_secret_file(path: Path, option: str, takes: str) -> str:
    """The text of the file; UserMistake where it cannot be read, which says what the `option` `takes`."""
    text = read_small_file(path, option, takes)
    with suppress(OSError):  # it may have been removed meanwhile
        mode = path.stat().st_mode
        if stat.S_ISREG(mode) and mode & (stat.S_IRGRP | stat.S_IROTH):
            typer.echo(f"ottla: {path} can be read by other users of this machine: chmod 600 {path}", err=True)
    return text
