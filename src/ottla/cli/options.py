"""The options that several commands share, with the same name and the same words everywhere.

Numbers are read here (`whole`) and not by typer, whose error messages name neither what was given nor what to give
instead, and change from one version to the next.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from ottla.errors import UserMistake
from ottla.json_output import STDOUT

DEFAULT_PORT = 9092
DEFAULT_BOOTSTRAP = f"localhost:{DEFAULT_PORT}"
_PORT_MAX = 65_535
_DIGITS_MAX = 18


def whole(option: str, least: int, most: int | None = None, *, such_as: int) -> Callable[[str], int]:
    """A parser for a whole number from `least` to `most`, for `typer.Option(parser=...)`; UserMistake."""

    def parse(text: str) -> int:
        # A default comes here as the number it is.
        given = str(text).strip() or "''"
        is_long = len(given) > _DIGITS_MAX
        if re.fullmatch(r"[+-]?[0-9]+", given) and not is_long:
            number = int(given)
            if number >= least and (most is None or number <= most):
                return number
        allowed = f"from {least} to {most:,}" if most is not None else f"of {least} or more"
        digits = f", of {_DIGITS_MAX} digits at most" if is_long else ""
        if is_long:
            given = f"{given[:20]}... ({len(given)} characters)"
        raise UserMistake(f"{option} {given} is no whole number {allowed}{digits}: give one such as {such_as}")

    return parse


BootstrapServers = Annotated[
    str,
    typer.Option(
        "--bootstrap-servers", "-b", help="Where the brokers are: host:port, several with commas.", metavar="ADDRESSES"
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", help="Keep the brokers' logs in this folder; without it they are temporary.", metavar="DIR"
    ),
]
Port = Annotated[
    int,
    typer.Option(
        "--port",
        help="Broker 1 listens here, the others on the ports after it; 0 takes free ports.",
        parser=whole("--port", 0, _PORT_MAX, such_as=DEFAULT_PORT),
        metavar="PORT",
    ),
]

Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        help="Where Spark works: local[2] unless given, spark://host:7077, yarn ...",
        metavar="MASTER",
    ),
]
JSON_TO_STDOUT = "Print JSON to stdout instead of text."
Json = Annotated[bool, typer.Option("--json", help=JSON_TO_STDOUT)]
JsonFile = Annotated[str | None, typer.Option("--json-file", help="Also write that JSON to this file.", metavar="FILE")]


def json_output(as_json: bool, json_file: str | None) -> str | None:
    """Where JSON goes by --json and --json-file; UserMistake for both."""
    if json_file == STDOUT:
        raise UserMistake("--json-file takes the name of a file: give --json for stdout")
    if as_json and json_file is not None:
        raise UserMistake("--json prints JSON instead of text, --json-file writes it besides: give one of the two")
    return STDOUT if as_json else json_file
