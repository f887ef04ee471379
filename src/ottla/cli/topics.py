"""`ottla topics`: what topics there are, or one of them in detail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.options import DEFAULT_BOOTSTRAP, BootstrapServers

if TYPE_CHECKING:
    from rich.table import Table

    from ottla.client.admin import Admin

_PATIENCE_MS = 5_000


def topics(
    topic: Annotated[str | None, typer.Argument(help="Show this topic's partitions.", metavar="TOPIC")] = None,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP,
) -> None:
    """List the topics with their numbers of partitions and records, or show one topic's partitions.

    For example: `ottla topics` and `ottla topics orders -b localhost:9092`
    """
    from ottla.client.admin import Admin
    from ottla.trial.screen import open_console

    console = open_console()
    with Admin(bootstrap_servers, default_api_timeout_ms=_PATIENCE_MS) as admin:
        if topic is not None:
            console.print(_partitions(admin, topic))
            return
        names = admin.list_topics()
        if names:
            console.print(_overview(admin, names))
        else:
            console.print(f"no topics at {bootstrap_servers}", soft_wrap=True)


def _overview(admin: Admin, names: list[str]) -> Table:
    table = _table("topic", "partitions", "replicas", "records")
    for name in names:
        described = admin.describe(name)
        begins, ends = admin.begin_offsets(name), admin.end_offsets(name)
        records = sum(end - begins.get(partition, end) for partition, end in ends.items())
        replicas = max((len(place.replicas) for place in described.partitions), default=0)
        table.add_row(name, f"{len(described.partitions)}", f"{replicas}", f"{records:,}")
    return table


def _partitions(admin: Admin, topic: str) -> Table:
    described = admin.describe(topic)
    begins, ends = admin.begin_offsets(topic), admin.end_offsets(topic)
    table = _table("partition", "leader", "replicas", "in sync", "first offset", "end offset")
    for place in described.partitions:
        number = place.partition
        table.add_row(
            f"{number}",
            "none" if place.leader is None else f"{place.leader}",
            " ".join(map(str, place.replicas)),
            " ".join(map(str, place.isr)),
            f"{begins.get(number, '')}",
            f"{ends.get(number, '')}",
        )
    return table


def _table(first: str, *others: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(first, overflow="fold")
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table
