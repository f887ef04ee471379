"""`ottla proxy`: a proxy in front of any Kafka, in the foreground."""

from __future__ import annotations

import json
import logging
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.control import TOKEN_VARIABLE, open_control
from ottla.cli.options import JSON_TO_STDOUT
from ottla.cli.output import counted
from ottla.cli.signals import collect_signals
from ottla.cli.small_file import read_small_file
from ottla.errors import ConfigError, UserMistake
from ottla.printable import printable
from ottla.remote.address import parse_address

if TYPE_CHECKING:
    from ottla.faults.fault import Fault
    from ottla.faults.verbs import FaultInForce
    from ottla.proxy.proxy import Proxy
    from ottla.sockets.listener import Listener

_LOOK_S = 0.2
_LONELY_S = 10.0  # after how long without a client that is said
_PEM = {"exists": True, "dir_okay": False, "readable": True, "metavar": "FILE"}


def proxy(
    upstream: Annotated[
        str,
        typer.Option("--upstream", help="The Kafka behind it: host:port, several with commas.", metavar="ADDRESSES"),
    ],
    faults: Annotated[
        Path | None,
        typer.Option("--faults", help="A TOML file with [[fault]] tables: the faults to cause.", metavar="FILE"),
    ] = None,
    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            help="Where clients connect: the port of the first broker; the others get the ports after it. 0 takes "
            "free ports.",
            metavar="[HOST:]PORT",
        ),
    ] = "127.0.0.1:19092",
    advertise: Annotated[
        str | None,
        typer.Option("--advertise", help="The host name that clients are told for the proxy.", metavar="HOST"),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option("--certificate", help="PEM file: clients speak TLS to the proxy.", **_PEM)
    ] = None,
    private_key: Annotated[
        Path | None,
        typer.Option("--private-key", help="The key of the certificate, if another PEM file has it.", **_PEM),
    ] = None,
    client_ca: Annotated[
        Path | None,
        typer.Option(
            "--client-ca", help="Clients must show a certificate that a CA in this PEM file has signed.", **_PEM
        ),
    ] = None,
    upstream_tls: Annotated[
        bool, typer.Option("--upstream-tls", help="Speak TLS to the brokers, and trust the CAs that the system trusts.")
    ] = False,
    upstream_config: Annotated[
        Path | None,
        typer.Option(
            "--upstream-config",
            help="A client's properties file; its security.protocol and ssl.* are used for connections to brokers.",
            metavar="FILE",
        ),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option("--record", help="Write all requests and answers into this new file.", metavar="FILE"),
    ] = None,
    payloads: Annotated[
        bool,
        typer.Option(
            "--payloads", help="With --record: also the bytes of requests and answers, not only hashes of the records."
        ),
    ] = False,
    control: Annotated[
        str | None,
        typer.Option(
            "--control",
            help="Let `ottla cluster fault`, and programs by HTTP, add and heal faults at this address; a PORT alone "
            "is on 127.0.0.1, 0 is a free port.",
            metavar="[HOST:]PORT",
        ),
    ] = None,
    control_token_file: Annotated[
        Path | None,
        typer.Option(
            "--control-token-file",
            help="Requests to --control must carry the token in this file. Without this option the token is in the "
            f"environment variable {TOKEN_VARIABLE}.",
            metavar="FILE",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help=f"{JSON_TO_STDOUT} One line with the address of the proxy.")
    ] = False,
) -> None:
    """Run a proxy between Kafka clients and brokers until Ctrl+C or SIGTERM, and cause faults on purpose.

    Clients connect to the proxy's address in place of the brokers' addresses. The proxy has a port for each broker, so
    every connection of a client goes through it. SASL passes through to the broker.

    For example:

        ottla proxy --upstream localhost:9092 --faults lost-ack.toml
        ottla proxy --upstream kafka:9093 --upstream-tls \\
            --listen 0.0.0.0:19092 --advertise myhost

    Exit status: 0 after Ctrl+C or SIGTERM, 2 when an address, a file or a port cannot be used.
    """
    from ottla.proxy.proxy import Proxy
    from ottla.remote.api import PROXY_ROUTES

    planned = [] if faults is None else _read_faults(faults)
    papers: dict[str, Any] = {"certificate": certificate, "private_key": private_key, "client_ca": client_ca}
    listener = _listener(listen, advertise, papers)
    settings = _upstream_settings(upstream_tls, upstream_config)
    if payloads and record is None:
        raise UserMistake("--payloads is for a recording: give --record FILE, too")
    controlled = open_control(control, control_token_file)
    handler = _tell_on(sys.stderr if as_json else sys.stdout)
    try:
        with (
            controlled or nullcontext(),
            Proxy(upstream, listener=listener, upstream_settings=settings, record=record, payloads=payloads) as running,
        ):
            asked = collect_signals()
            for fault in planned:
                running.faults.add(fault)
            with nullcontext() if controlled is None else controlled.serving(running, PROXY_ROUTES):
                address = None if controlled is None else controlled.address
                _begin(running, upstream, address, as_json=as_json)
                _wait(running, asked)
            every = running.faults.all()
        _sum_up(running, every)
    finally:
        logging.getLogger("ottla.proxy").removeHandler(handler)


def _begin(running: Proxy, upstream: str, control: str | None, *, as_json: bool) -> None:
    in_force = running.faults.in_force()
    if as_json:
        told = running.describe()
        told["control"] = control
        told["faults"] = [fault.what.to_dict() for fault in in_force]
        typer.echo(json.dumps(told))
        return
    typer.echo(f"proxy at {running.bootstrap_servers} for {upstream}; Ctrl+C ends it")
    if control is not None:
        typer.echo(f"control at {control}: ottla cluster fault lose_ack nth=3 --address {control}")
    for fault in in_force:
        typer.echo(f"fault {fault.id}: {fault.what.tell()}")


def _wait(running: Proxy, asked: list[int]) -> None:
    lonely_s = time.monotonic() + _LONELY_S
    while not asked:
        time.sleep(_LOOK_S)
        if lonely_s and time.monotonic() > lonely_s:
            lonely_s = 0.0
            if not running.describe()["connections"]:
                _say(f"no client has connected so far: give clients bootstrap.servers={running.bootstrap_servers}")


def _sum_up(running: Proxy, every: list[FaultInForce]) -> None:
    """What was seen, on stderr: stdout may not be read any more."""
    counts = running.describe()
    if counts["connections"]:
        _say(f"{counted(counts['connections'], 'connection')}, {counted(counts['requests'], 'request')}")
    else:
        _say(f"no client has connected: give clients bootstrap.servers={counts['bootstrap_servers']}")
    for fault in every:
        fired, matched = fault.fired, fault.matched
        told = f"fault {fault.id}, {fault.what.tell()}"
        if fired:
            _say(f"{told}: fired {fired} of {matched}")
        else:
            _say(f"{told}: never fired; {counted(matched, 'request')} matched")


def _say(sentence: str) -> None:
    typer.echo(f"ottla: {printable(sentence)}", err=True)


class _Teller(logging.Handler):
    """Prints what the proxy logs; it is silent once its output is not read any more."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self._stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        is_told = record.levelno < logging.WARNING
        line = printable(record.getMessage())
        try:
            if is_told:
                clock = time.strftime("%H:%M:%S", time.localtime(record.created))
                self._stream.write(f"{clock} {line}\n")
                self._stream.flush()
            else:
                sys.stderr.write(f"ottla: {line}\n")
        except (OSError, ValueError):
            self._stream = _Nowhere()


class _Nowhere:
    def write(self, _: str) -> None:
        """Nobody reads."""

    def flush(self) -> None:
        """Nobody reads."""


def _tell_on(stream: Any) -> logging.Handler:
    handler = _Teller(stream)
    logger = logging.getLogger("ottla.proxy")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    return handler


def _read_faults(path: Path) -> list[Fault]:
    from ottla.faults.fault_file import read_faults
    from ottla.proxy.faults_in_force import check_proxied

    text = read_small_file(path, "--faults", "takes a short TOML file")
    return read_faults(text, str(path), check_proxied)


def _listener(listen: str, advertise: str | None, papers: dict[str, Any]) -> Listener:
    from ottla.sockets.listener import Listener

    host, port = parse_address(listen, "--listen", least_port=0)
    if host in ("0.0.0.0", "::") and advertise is None:
        raise UserMistake(f"--listen {listen} takes all addresses of this machine: give --advertise HOST, too")
    if papers["certificate"] is None:
        given = next((name for name, path in papers.items() if path is not None), None)
        if given is not None:
            raise UserMistake(f"--{given.replace('_', '-')} is for TLS: give --certificate FILE, too")
        return Listener(host=host, port=port, advertised_host=advertise)
    wanted = "none" if papers["client_ca"] is None else "required"
    return Listener(protocol="SSL", host=host, port=port, advertised_host=advertise, client_auth=wanted, **papers)


def _upstream_settings(tls: bool, path: Path | None) -> dict[str, Any]:
    """The settings for connections to brokers: from a client's file those about TLS; the rest is for the clients."""
    found: dict[str, Any] = {}
    if path is not None:
        from ottla.client.properties import read_properties
        from ottla.connection.java_settings import not_in_python
        from ottla.connection.security_settings import SECURITY_SETTINGS

        known = {row.name for row in SECURITY_SETTINGS if not row.name.startswith("sasl.")}
        for name, value in read_properties(path).items():
            if name in known:
                found[name] = value
            elif name.startswith("ssl.") and (instead := not_in_python(name)):
                raise ConfigError(f"{path}: {instead}")
    if tls:
        if found.get("security.protocol", "SSL").upper() not in ("SSL", "SASL_SSL"):
            raise UserMistake(f"--upstream-tls and {path} do not agree: it has a security.protocol without TLS")
        found["security.protocol"] = "SSL"
    return found
