"""`ottla cluster`: leaders and coordinators moved and awaited."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from ottla.cli.cluster_faults import DEFAULT_TIMEOUT_S, Timeout
from ottla.cli.control import Address, AsJson, TokenFile, remote_cluster
from ottla.cli.options import whole
from ottla.cli.output import tell
from ottla.errors import UserMistake

Topic = Annotated[str, typer.Argument(metavar="TOPIC")]
Partition = Annotated[
    int, typer.Argument(metavar="PARTITION", parser=whole("PARTITION", 0, such_as=0), show_default=False)
]


def move_leader(
    topic: Topic,
    partition: Partition,
    broker: Annotated[
        int | None,
        typer.Option(
            "--to",
            help="This broker; without it, any other replica in sync.",
            parser=whole("--to", 0, such_as=2),
            metavar="BROKER",
        ),
    ] = None,
    address: Address = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Let another replica in sync lead a partition."""
    told = remote_cluster(address, token_file).post("partitions", topic, partition, "move-leader", broker_id=broker)
    _tell_partition(told, as_json)


def elect_leader(
    topic: Topic,
    partition: Partition,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean",
            help="If no replica in sync can lead, let another one lead: what it lacks is lost.",
        ),
    ] = False,
    address: Address = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Let the first replica of a partition lead, as Kafka prefers it."""
    told = remote_cluster(address, token_file).post("partitions", topic, partition, "elect-leader", unclean=unclean)
    _tell_partition(told, as_json)


def move_coordinator(
    group: Annotated[str | None, typer.Option("--group", help="Of this consumer group.", metavar="GROUP")] = None,
    transactional_id: Annotated[
        str | None, typer.Option("--transactional-id", help="Of this producer's transactions.", metavar="ID")
    ] = None,
    address: Address = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Let another broker coordinate a consumer group, or the transactions of a producer."""
    if (group is None) == (transactional_id is None):
        raise UserMistake("whose coordinator? Give either --group or --transactional-id")
    fields = {"group": group, "transactional_id": transactional_id}
    told = remote_cluster(address, token_file).post("coordinator", "move", **fields)
    typer.echo(json.dumps(told)) if as_json else tell(f"broker {told['coordinator']} coordinates it now")


def await_leader(
    topic: Topic,
    partition: Partition,
    other_than: Annotated[
        int | None,
        typer.Option(
            "--other-than",
            help="Until another broker than this one leads.",
            parser=whole("--other-than", 0, such_as=2),
            metavar="BROKER",
        ),
    ] = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    address: Address = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Wait until a broker leads a partition; exit status 1 where none does in time."""
    fields = {"await": "leader", "other_than": other_than, "timeout": timeout}
    told = remote_cluster(address, token_file).get("partitions", topic, partition, wait_s=timeout, **fields)
    _tell_partition(told, as_json)


def await_isr(
    topic: Topic,
    partition: Partition,
    size: Annotated[
        int | None,
        typer.Option(
            "--size",
            help="Until so many replicas are in sync; without it, all.",
            parser=whole("--size", 1, such_as=2),
            metavar="COUNT",
        ),
    ] = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    address: Address = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Wait until the replicas of a partition are in sync; exit status 1 where they are not in time."""
    fields = {"await": "isr", "size": size, "timeout": timeout}
    told = remote_cluster(address, token_file).get("partitions", topic, partition, wait_s=timeout, **fields)
    _tell_partition(told, as_json)


def _tell_partition(told: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(told))
        return
    leader = "nobody leads" if told["leader"] is None else f"broker {told['leader']} leads"
    in_sync = ", ".join(map(str, told["isr"])) or "none"
    tell(f"{leader} {told['topic']}-{told['partition']}; in sync: {in_sync}")
