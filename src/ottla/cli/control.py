"""What `ottla serve`, `ottla proxy` and `ottla cluster` share: the token, and where a cluster is controlled."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.options import JSON_TO_STDOUT
from ottla.cli.secret_file import read_secret_file
from ottla.errors import UserMistake
from ottla.remote.address import is_loopback, parse_address
from ottla.remote.client import RemoteCluster
from ottla.remote.token import check_token

if TYPE_CHECKING:
    from ottla.remote.server import ControlServer

ADDRESS_VARIABLE = "OTTLA_CONTROL"
TOKEN_VARIABLE = "OTTLA_CONTROL_TOKEN"

Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        "-a",
        help=f"What `ottla serve --control` shows; without it, the environment variable {ADDRESS_VARIABLE}.",
        metavar="HOST:PORT",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        help=f"A file with the cluster's token; without it, the environment variable {TOKEN_VARIABLE}.",
        metavar="FILE",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help=JSON_TO_STDOUT)]


def remote_cluster(address: str | None, token_file: Path | None) -> RemoteCluster:
    """The cluster at that address, or at the one the environment names; UserMistake."""
    given = address or os.environ.get(ADDRESS_VARIABLE)
    if not given:
        raise UserMistake(
            f"which cluster? Give --address HOST:PORT, or set {ADDRESS_VARIABLE}: "
            "`ottla serve --control PORT` shows its address"
        )
    host, port = parse_address(given, "--address" if address else ADDRESS_VARIABLE)
    return RemoteCluster(host, port, read_token(token_file, "--token-file"))


def read_token(path: Path | None, option: str) -> str | None:
    """The token in the file, without one the environment's, None where there is neither; UserMistake."""
    if path is not None:
        return check_token(read_secret_file(path, option, "takes one line, the token").strip(), str(path))
    token = os.environ.get(TOKEN_VARIABLE)
    return None if token is None else check_token(token.strip(), TOKEN_VARIABLE)


def open_control(address: str | None, token_file: Path | None) -> ControlServer | None:
    """The address, taken before anything else begins; None where none is wanted. UserMistake where it cannot be had."""
    if address is None:
        if token_file is not None:
            raise UserMistake("--control-token-file is for --control: give --control PORT, too")
        return None
    host, port = parse_address(address, "--control", least_port=0)
    token = read_token(token_file, "--control-token-file")
    # No program started from here inherits it.
    os.environ.pop(TOKEN_VARIABLE, None)
    from ottla.remote.server import ControlServer

    control = ControlServer(host, port, token=token)
    if token is None and not is_loopback(host):
        typer.echo(
            f"ottla: whoever reaches {control.address} can break what is served here: "
            f"give --control-token-file FILE, or set {TOKEN_VARIABLE}",
            err=True,
        )
    return control
