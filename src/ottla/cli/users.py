"""`--users-file FILE`, and `OTTLA_USERS` in its place: who may come in by SASL listeners, with which password.

What stands on a command line is shown to everybody on the machine, in the list of processes, so passwords do not stand
there. No error repeats a line: it may be a password.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Annotated

import typer

from ottla.errors import UserMistake

VARIABLE = "OTTLA_USERS"
_BYTES_MAX = 1 << 20

UsersFile = Annotated[
    Path | None,
    typer.Option(
        "--users-file",
        help="Who may come in by SASL listeners: a file with a line NAME:PASSWORD for each; without it, the "
        f"environment variable {VARIABLE} holds such lines.",
        metavar="FILE",
    ),
]


def read_users(path: Path | None) -> dict[str, str]:
    """Passwords by user name: the file's, without one the environment's; UserMistake for a line that is none.

    What the environment held is taken out of it, so that no program started from here inherits it.
    """
    given = os.environ.pop(VARIABLE, "")
    if path is None:
        return _parsed(given, VARIABLE)
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_BYTES_MAX + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise UserMistake(f"{path} cannot be read ({error.strerror}): check --users-file") from None
    except UnicodeDecodeError:
        raise UserMistake(f"{path} is not UTF-8 text: --users-file takes lines such as NAME:PASSWORD") from None
    if len(content) > _BYTES_MAX:
        raise UserMistake(f"{path} is longer than {_BYTES_MAX:,} bytes: --users-file takes lines such as NAME:PASSWORD")
    if stat.S_ISREG(mode) and mode & (stat.S_IRGRP | stat.S_IROTH):
        typer.echo(f"ottla: {path} can be read by other users of this machine: chmod 600 {path}", err=True)
    users = _parsed(text, str(path))
    if not users:
        raise UserMistake(f"{path} names no user: write a line NAME:PASSWORD for each")
    return users


def _parsed(text: str, where: str) -> dict[str, str]:
    users: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, password = line.partition(":")
        if not (name.strip() and colon and password):
            raise UserMistake(f"line {number} of {where} is not NAME:PASSWORD, such as ada:lovelace")
        if name.strip() in users:
            raise UserMistake(f"line {number} of {where} names {name.strip()!r} again: keep one of the lines")
        users[name.strip()] = password
    return users
