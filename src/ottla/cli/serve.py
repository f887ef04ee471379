"""`ottla serve`: an embedded cluster in the foreground."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Annotated

import typer

from ottla.cli.options import DEFAULT_PORT, DataDir, Port
from ottla.errors import UserMistake


def serve(
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", help="Make this topic first (again for more).", metavar="NAME[:PARTITIONS]"),
    ] = None,
    brokers: Annotated[
        int, typer.Option("--brokers", help="How many brokers, 1 to 100.", min=1, max=100, metavar="COUNT")
    ] = 3,
    port: Port = DEFAULT_PORT,
    data_dir: DataDir = None,
) -> None:
    """Run Kafka brokers here until Ctrl+C: for tests, for learning, not for production.

    For example: `ottla serve --topic orders:6 --data-dir kept`, and in another terminal `ottla topics`.

    Exit status: 0 after Ctrl+C, 2 when a port, a folder or a topic cannot be used.
    """
    wanted = [_parse_topic(text) for text in topic or []]
    from ottla.cluster.cluster import Cluster

    _log_to_stderr()
    stop = threading.Event()

    def leave(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    with Cluster(brokers=brokers, data_dir=data_dir, port=port) as cluster:
        for name, partitions in wanted:
            cluster.create_topic(name, partitions=partitions)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, leave)
        kept = f"logs in {data_dir}" if data_dir else "logs are temporary"
        typer.echo(f"{brokers} broker{'s' * (brokers > 1)} at {cluster.bootstrap_servers} ({kept}); Ctrl+C ends them")
        stop.wait()


def _log_to_stderr() -> None:
    """What the brokers have to complain about belongs in sight here."""
    import logging

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
    handler.setLevel(logging.WARNING)
    logging.getLogger("ottla").addHandler(handler)


def _parse_topic(text: str) -> tuple[str, int]:
    name, colon, count = text.partition(":")
    if not name or (colon and not (count.isdecimal() and 0 < int(count) <= 10_000)):
        raise UserMistake(f"--topic {text} is not NAME or NAME:PARTITIONS, such as orders:6")
    # Looked at here, before there is a data folder that a refused name would leave behind.
    from ottla.broker.topic_names import topic_name_fault

    if fault := topic_name_fault(name):
        raise UserMistake(f"--topic {text}: {fault}")
    return name, int(count) if colon else 3
