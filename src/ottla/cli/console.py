"""`ottla console`: a page to look inside a Kafka, served to a browser until Ctrl+C."""

from __future__ import annotations

import json
import os
import time
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from ottla.cli.command_config import CommandConfig, client_arguments
from ottla.cli.control import remote_cluster
from ottla.cli.options import DEFAULT_BOOTSTRAP, JSON_TO_STDOUT, BootstrapServers
from ottla.cli.output import log_to_stderr
from ottla.cli.registry_options import URL_WORDS, told_as_options
from ottla.cli.secret_file import read_secret_file
from ottla.cli.signals import collect_signals
from ottla.errors import UserMistake
from ottla.remote.address import is_loopback, parse_address
from ottla.remote.token import check_token

DEFAULT_ADDRESS = "127.0.0.1:9080"
TOKEN_VARIABLE = "OTTLA_CONSOLE_TOKEN"
_PATIENCE_MS = 5_000
_LOOK_S = 0.2


def console(
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP,
    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            help="Where the page is; a PORT alone is on 127.0.0.1, 0 is a free port. Another HOST needs a token.",
            metavar="[HOST:]PORT",
        ),
    ] = DEFAULT_ADDRESS,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            help="The page opens only with the token in this file. Without this option the token is in the "
            f"environment variable {TOKEN_VARIABLE}.",
            metavar="FILE",
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Change nothing: no sending, no creating, no faults.")
    ] = False,
    registry: Annotated[
        str | None,
        typer.Option("--registry", help="A schema registry that keys and values are decoded by.", metavar="URL"),
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(
            "--control",
            help="Also look inside the cluster that `ottla serve --control` runs at this address; without -b, look at "
            "the brokers of that cluster.",
            metavar="HOST:PORT",
        ),
    ] = None,
    control_token_file: Annotated[
        Path | None, typer.Option("--control-token-file", help="A file with that cluster's token.", metavar="FILE")
    ] = None,
    command_config: CommandConfig = None,
    is_opened: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help=f"{JSON_TO_STDOUT} One line with the address.")] = False,
) -> None:
    """Look inside a Kafka with a browser: brokers, topics, groups, transactions, records. Ctrl+C ends it.

    For example:

        ottla console --open
        ottla console -b kafka:9092 --command-config client.properties --read-only
        ottla console --control 9190 --registry http://localhost:8081

    Exit status: 0 after Ctrl+C or SIGTERM, 2 when an address, a file or a setting cannot be used.
    """
    host, port = parse_address(listen, "--listen", least_port=0)
    token = _token(token_file)
    if token is None and not is_loopback(host):
        raise UserMistake(
            f"--listen {listen} can be reached from other machines: give --token-file FILE, or set {TOKEN_VARIABLE}"
        )
    if control_token_file is not None and control is None:
        raise UserMistake("--control-token-file is for --control: give --control HOST:PORT, too")
    from ottla.producer.settings import ProducerSettings
    from ottla.reader.settings import ReaderSettings

    inside = None if control is None else remote_cluster(control, control_token_file)
    from ottla.console.console import Console
    from ottla.console.served import Served
    from ottla.console.server import ConsoleServer

    servers, reading = client_arguments(
        command_config, ReaderSettings, bootstrap_servers, DEFAULT_BOOTSTRAP, default_api_timeout_ms=_PATIENCE_MS
    )
    _, writing = client_arguments(
        command_config, ProducerSettings, bootstrap_servers, DEFAULT_BOOTSTRAP, max_block_ms=_PATIENCE_MS
    )
    # What is sent from the page is no part of anybody's transaction.
    writing.pop("transactional_id", None)
    if inside is not None and servers == DEFAULT_BOOTSTRAP:
        servers = Served(inside).bootstrap_servers()
    with (
        told_as_options(URL_WORDS),
        Console(servers, reading=reading, writing=writing, registry=registry, control=inside) as looked_at,
        ConsoleServer(looked_at, host, port, token=token, read_only=read_only) as server,
    ):
        # What the page calls the console's log: failures of its own and of the web server.
        log_to_stderr("ERROR", "ottla.console", "uvicorn.error")
        asked = collect_signals()
        if as_json:
            typer.echo(json.dumps({"url": server.url, "bootstrap_servers": servers, "read_only": read_only}))
        else:
            typer.echo(f"console of {servers} at {server.url}; Ctrl+C ends it")
            if token is not None:
                typer.echo("the page asks for the token")
        if is_opened:
            webbrowser.open(server.url)
        while not asked:
            time.sleep(_LOOK_S)


def _token(path: Path | None) -> str | None:
    """The token in the file, without one the environment's, None where there is neither; UserMistake."""
    if path is not None:
        return check_token(read_secret_file(path, "--token-file", "takes one line, the token").strip(), str(path))
    # No program started from here inherits it.
    token = os.environ.pop(TOKEN_VARIABLE, None)
    return None if token is None else check_token(token.strip(), TOKEN_VARIABLE)
