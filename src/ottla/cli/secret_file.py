"""Files that hold passwords and tokens: read whole, and told of where other users of the machine can read them too."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import typer

from ottla.errors import UserMistake

_BYTES_MAX = 1 << 20


def read_secret_file(path: Path, option: str, takes: str) -> str:
    """The text of the file; UserMistake where it cannot be read, which says what the `option` `takes`."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_BYTES_MAX + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise UserMistake(f"{path} cannot be read ({error.strerror}): check {option}") from None
    except UnicodeDecodeError:
        raise UserMistake(f"{path} is not UTF-8 text: {option} {takes}") from None
    if len(content) > _BYTES_MAX:
        raise UserMistake(f"{path} is longer than {_BYTES_MAX:,} bytes: {option} {takes}")
    if stat.S_ISREG(mode) and mode & (stat.S_IRGRP | stat.S_IROTH):
        typer.echo(f"ottla: {path} can be read by other users of this machine: chmod 600 {path}", err=True)
    return text
