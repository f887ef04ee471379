"""`--users-file FILE`, and `OTTLA_USERS` in its place: the users of SASL listeners, and their passwords.

What stands on a command line is shown to everybody on the machine, in the list of processes, so passwords do not stand
there. No error repeats a line: it may be a password.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ottla.cli.secret_file import read_secret_file
from ottla.errors import UserMistake

VARIABLE = "OTTLA_USERS"

UsersFile = Annotated[
    Path | None,
    typer.Option(
        "--users-file",
        help="Users of SASL listeners: a file with a line NAME:PASSWORD for each. Without this option the lines are in "
        f"the environment variable {VARIABLE}.",
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
    text = read_secret_file(path, "--users-file", "takes lines such as NAME:PASSWORD")
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
