"""`ottla serve`: an embedded cluster in the foreground."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.control import TOKEN_VARIABLE, open_control
from ottla.cli.options import DEFAULT_PORT, JSON_TO_STDOUT, DataDir, Port, whole
from ottla.cli.output import counted, log_to_stderr
from ottla.cli.signals import collect_signals
from ottla.cli.users import UsersFile, read_users
from ottla.errors import OttlaError, UserMistake

if TYPE_CHECKING:
    from ottla.cluster.cluster import Cluster
    from ottla.embedded_registry.registry import Registry
    from ottla.sockets.listener import Listener

_LOOK_S = 0.2  # how soon it is noticed that the brokers' process is gone
_PEM = {"exists": True, "dir_okay": False, "readable": True, "metavar": "FILE"}


def serve(
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            help="Make this topic if it is missing (may be given several times).",
            metavar="NAME[:COUNT]",
        ),
    ] = None,
    brokers: Annotated[
        int,
        typer.Option(
            "--brokers",
            help="How many brokers, 1 to 100.",
            parser=whole("--brokers", 1, 100, such_as=3),
            metavar="COUNT",
        ),
    ] = 3,
    port: Port = DEFAULT_PORT,
    data_dir: DataDir = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="A broker setting by Kafka's name (may be given several times).", metavar="NAME=VALUE"
        ),
    ] = None,
    listener: Annotated[
        list[str] | None,
        typer.Option(
            "--listener",
            help="A listener instead of --port (may be given several times); clients are told the address after @.",
            metavar="NAME=PROTOCOL://HOST:PORT[@HOST:PORT]",
        ),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option("--certificate", help="PEM file for SSL and SASL_SSL listeners.", **_PEM)
    ] = None,
    private_key: Annotated[
        Path | None, typer.Option("--private-key", help="Its key, where that is in another PEM file.", **_PEM)
    ] = None,
    client_ca: Annotated[
        Path | None,
        typer.Option(
            "--client-ca", help="Clients must show a certificate that a CA in this PEM file has signed.", **_PEM
        ),
    ] = None,
    users_file: UsersFile = None,
    user: Annotated[list[str] | None, typer.Option("--user", hidden=True)] = None,
    control: Annotated[
        str | None,
        typer.Option(
            "--control",
            help="Let `ottla cluster`, and programs by HTTP, cause and end faults at this address; a PORT alone "
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
    registry: Annotated[
        int | None,
        typer.Option(
            "--registry",
            help="Run a schema registry beside the brokers, on this port of 127.0.0.1, such as 8081; 0 is a free one.",
            parser=whole("--registry", 0, 65_535, such_as=8081),
            metavar="PORT",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help=f"{JSON_TO_STDOUT} One line with the addresses of the brokers.")
    ] = False,
) -> None:
    """Run Kafka brokers here until Ctrl+C or SIGTERM: for tests, for learning, not for production.

    With --data-dir everything is found again at the next start, even after kill -9.

    For example, with `ottla topics` in another terminal:

        ottla serve --topic orders:6 --data-dir kept
        ottla serve --brokers 1 --set log.segment.bytes=1048576
        ottla serve --listener IN=PLAINTEXT://127.0.0.1:9092 \\
            --listener OUT=PLAINTEXT://0.0.0.0:19092@myhost:19092
        ottla serve --listener S=SASL_SSL://127.0.0.1:9093 \\
            --certificate server.pem --users-file users.txt
        ottla serve --control 9190
        ottla serve --registry 8081

    Exit status: 0 after Ctrl+C or SIGTERM, 1 when the process of the brokers or of the registry ended by itself, 2 when
    a port, a folder, a setting or a topic cannot be used.
    """
    wanted = [_parse_topic(text) for text in topic or []]
    settings = dict(_parse_setting(text) for text in setting or [])
    if user:
        raise UserMistake(
            "--user would show the password to everybody on this machine, in the list of processes: write the line "
            "NAME:PASSWORD into a file and give --users-file FILE"
        )
    if users_file is not None and not any("=SASL_" in text for text in listener or []):
        raise UserMistake("--users-file is for listeners with SASL: give --listener NAME=SASL_SSL://... too")
    users = read_users(users_file)
    papers = {"certificate": certificate, "private_key": private_key, "client_ca": client_ca}
    listeners = dict(_parse_listener(text, papers, users) for text in listener or [])
    plain = _plain_listener(listeners) if registry is not None else None
    controlled = open_control(control, control_token_file)
    from ottla.clock import Clock
    from ottla.cluster.cluster import Cluster

    log_to_stderr("WARNING", "ottla")
    with (
        controlled or nullcontext(),
        Cluster(
            brokers=brokers,
            data_dir=data_dir,
            port=0 if listeners else port,
            listeners=listeners or None,
            settings=settings,
            # Which can be set ahead; otherwise it is the machine's.
            clock=None if controlled is None else Clock(),
        ) as cluster,
        # Behind the cluster, so that it ends before it.
        ExitStack() as more,
    ):
        for name, partitions in wanted:
            _create_topic(cluster, name, partitions)
        schemas = None if registry is None else _open_registry(cluster, plain, registry, more)
        asked = collect_signals()
        with nullcontext() if controlled is None else controlled.serving(cluster):
            address = None if controlled is None else controlled.address
            if as_json:
                kept = None if data_dir is None else str(data_dir.resolve())
                told = {"data_dir": kept, "control": address, "schema_registry": schemas and schemas.url}
                typer.echo(json.dumps({**_described(cluster), **told}))
            else:
                kept = f"logs in {data_dir}" if data_dir else "logs are temporary"
                where = cluster.bootstrap_servers
                typer.echo(f"{counted(brokers, 'broker')} at {where} ({kept}); Ctrl+C ends them")
                for name in list(cluster.listeners)[1:]:
                    typer.echo(f"listener {name} at {cluster.bootstrap_servers_of(name)}")
                if schemas is not None:
                    typer.echo(f"schema registry at {schemas.url}")
                if address is not None:
                    typer.echo(f"control at {address}: ottla cluster show --address {address}")
            while not asked:
                time.sleep(_LOOK_S)
                # In this order: the signal that ends this command may end its other processes, too.
                if not cluster.is_running and not asked:
                    then = f"start it again to go on with what is in {data_dir}" if data_dir else "its logs are gone"
                    raise OttlaError(f"the brokers' process ended by itself; {then}.")
                if schemas is not None and not schemas.is_running and not asked:
                    then = f"start again: schemas are kept in {data_dir}" if data_dir else "schemas and logs are gone"
                    raise OttlaError(f"the schema registry's process ended by itself; {then}.")


def _plain_listener(listeners: dict[str, Listener]) -> str | None:
    """The listener that the registry uses; None where there is only the usual one."""
    plain = [name for name, listener in listeners.items() if listener.protocol == "PLAINTEXT"]
    if listeners and not plain:
        raise UserMistake(
            "--registry speaks to brokers without TLS and passwords: give a listener PLAINTEXT://127.0.0.1:PORT, too"
        )
    return plain[0] if plain else None


def _open_registry(cluster: Cluster, plain: str | None, port: int, stack: ExitStack) -> Registry:
    from ottla.embedded_registry.registry import Registry

    servers = cluster.bootstrap_servers if plain is None else cluster.bootstrap_servers_of(plain)
    return stack.enter_context(Registry(servers, port=port))


def _described(cluster: Cluster) -> dict[str, Any]:
    addresses = {name: cluster.bootstrap_servers_of(name) for name in cluster.listeners}
    return {"bootstrap_servers": cluster.bootstrap_servers, "listeners": addresses, "pid": cluster.pid}


def _create_topic(cluster: Cluster, name: str, partitions: int) -> None:
    """Make the topic, unless an earlier run with the same --data-dir has."""
    from ottla.errors import KafkaError

    try:
        cluster.create_topic(name, partitions=partitions)
    except KafkaError as error:
        if error.name != "TOPIC_ALREADY_EXISTS":
            raise


def _parse_topic(text: str) -> tuple[str, int]:
    name, colon, count = text.partition(":")
    if not name or (colon and not (count.isdecimal() and 0 < int(count) <= 10_000)):
        raise UserMistake(f"--topic {text} is not NAME or NAME:PARTITIONS, such as orders:6")
    # Looked at here, before there is a data folder that a refused name would leave behind.
    from ottla.broker.topic_names import topic_name_fault

    if fault := topic_name_fault(name):
        raise UserMistake(f"--topic {text}: {fault}")
    return name, int(count) if colon else 3


def _parse_setting(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not name.strip() or not found:
        raise UserMistake(f"--set {text} is not NAME=VALUE, such as log.segment.bytes=1048576")
    return name.strip(), value


def _parse_listener(text: str, papers: dict[str, Path | None], users: dict[str, str]) -> tuple[str, Listener]:
    from ottla.sockets.listener import Listener

    name, equals, rest = text.partition("=")
    protocol, slashes, where = rest.partition("://")
    address, at, told = where.partition("@")
    try:
        if not (name and equals and slashes and (told or not at)):
            raise ValueError
        host, port = _parse_address(address)
        more: dict[str, Any] = {}
        if at:
            more["advertised_host"], more["advertised_port"] = _parse_address(told)
    except ValueError:
        raise UserMistake(
            f"--listener {text} is not NAME=PROTOCOL://HOST:PORT[@HOST:PORT], such as IN=PLAINTEXT://127.0.0.1:9092"
        ) from None
    if protocol.endswith("SSL"):
        more |= {**papers, "client_auth": "none" if papers["client_ca"] is None else "required"}
    if protocol.startswith("SASL"):
        more["users"] = users
    return name, Listener(protocol=protocol, host=host, port=port, **more)


def _parse_address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError
    return host.removeprefix("[").removesuffix("]"), int(port)
