"""`ottla cluster`, run as a program or in this process."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

from ottla.cli import main

TIMEOUT_S = 60


class Ended(NamedTuple):
    status: int
    out: str
    err: str


def program(*arguments: str) -> Ended:
    """`ottla cluster` as a program."""
    ended = subprocess.run(
        [sys.executable, "-m", "ottla", "cluster", *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S * 2,
        check=False,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def here(*arguments: str) -> Ended:
    """The same in this process, which takes less time."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        status = main(["cluster", *arguments])
    return Ended(status, out.getvalue(), err.getvalue())


def done(*arguments: str, run: Callable[..., Ended] = here) -> str:
    """What it says when it was done."""
    ended = run(*arguments)
    assert (ended.status, ended.err) == (0, "")
    return ended.out


def refused(*arguments: str, status: int = 2, run: Callable[..., Ended] = here) -> str:
    """The one sentence with which it is not done."""
    ended = run(*arguments)
    assert (ended.status, ended.out) == (status, "")
    [sentence] = ended.err.splitlines()
    assert sentence.startswith("ottla: ")
    return sentence.removeprefix("ottla: ")
