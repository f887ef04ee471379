"""The options that several commands share, with the same name and the same words everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_PORT = 9092

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
        metavar="PORT",
    ),
]

DEFAULT_BOOTSTRAP = f"localhost:{DEFAULT_PORT}"
