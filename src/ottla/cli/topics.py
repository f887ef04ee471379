"""`ottla topics`: what topics there are, one of them in detail, and making, changing, trimming and deleting
them.

`ottla topics` lists them and `ottla topics NAME` shows one. A topic that is called as one of the verbs is shown by
`ottla topics describe NAME`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.admin_options import (
    Before,
    NamingGroup,
    OwnBootstrapServers,
    admin_arguments,
    delete_each,
    looked_at,
    told_as_json,
)
from ottla.cli.command_config import CommandConfig
from ottla.cli.completion import complete_topics
from ottla.cli.narrow_help import Command
from ottla.cli.options import DEFAULT_BOOTSTRAP, BootstrapServers, Json, whole
from ottla.cli.output import new_table, tell
from ottla.errors import UserMistake
from ottla.printable import printable

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.partition_offsets import Place
    from ottla.console.kafka import Kafka

# DeleteRecords' offset for all that consumers could read.
_ALL_RECORDS = -1
_PARTITIONS = whole("--partitions", 1, such_as=6)

Configs = Annotated[
    list[str] | None, typer.Option("--config", help="A setting; may be given several times.", metavar="NAME=VALUE")
]


topics = typer.Typer(
    cls=NamingGroup,
    invoke_without_command=True,
    subcommand_metavar="[TOPIC | COMMAND [ARGS]...]",
    help="List topics, show one, create, change and delete them.\n\n"
    "For example, while `ottla serve --topic orders` runs:\n\n"
    "    ottla topics\n"
    "    ottla topics orders\n"
    "    ottla topics create bills --partitions 6 --config retention.ms=60000\n\n"
    "Exit status: 0 when it is done, 2 when a topic, a setting or an address cannot be used.",
)


@topics.callback()
def overview(
    context: typer.Context,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """List the topics with their numbers of partitions and records."""
    context.obj = Before(bootstrap_servers, command_config, as_json)
    if context.invoked_subcommand is not None:
        return
    _list(context, as_json)


@topics.command("list", cls=Command)
def list_all(
    context: typer.Context,
    bootstrap_servers: OwnBootstrapServers = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """List the topics with their numbers of partitions and records, as `ottla topics` does."""
    _list(context, as_json, bootstrap_servers, command_config)


def _list(
    context: typer.Context,
    as_json: bool,
    bootstrap_servers: str | None = None,
    command_config: Path | None = None,
) -> None:
    with looked_at(context, bootstrap_servers, command_config) as kafka:
        rows = _rows(kafka)
    unknown = [row["topic"] for row in rows if row["records"] is None]
    if unknown:
        typer.echo(
            "ottla: records are not counted, because a partition has no leader, or its leader does not answer: "
            + printable(", ".join(unknown)),
            err=True,
        )
    if told_as_json(context, as_json, rows):
        return
    if rows:
        table = new_table("topic", "partitions", "replicas", "records", right=("partitions", "replicas", "records"))
        for row in rows:
            records = "unknown" if row["records"] is None else f"{row['records']:,}"
            table.add_row(row["topic"], f"{row['partitions']}", f"{row['replicas']}", records)
        tell(table)
    else:
        tell(f"no topics at {bootstrap_servers or context.obj.bootstrap_servers}")


@topics.command(cls=Command)
def describe(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics)],
    bootstrap_servers: OwnBootstrapServers = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Show a topic's partitions, and the settings it has of its own."""
    with looked_at(context, bootstrap_servers, command_config) as kafka:
        places = _places(kafka, topic)
        given = kafka.admin.describe_configs(topic=topic).values()
        configs = {each.name: each.value for each in given if each.source == "topic"}
    if told_as_json(context, as_json, {"topic": topic, "configs": configs, "partitions": places}):
        return
    names = "partition", "leader", "replicas", "in sync", "first offset", "end offset"
    table = new_table(*names, right=names)
    for place in places:
        table.add_row(
            f"{place['partition']}",
            "none" if place["leader"] is None else f"{place['leader']}",
            " ".join(map(str, place["replicas"])),
            " ".join(map(str, place["isr"])),
            "" if place["first_offset"] is None else f"{place['first_offset']}",
            "" if place["end_offset"] is None else f"{place['end_offset']}",
        )
    tell(table)
    if configs:
        tell("settings: " + ", ".join(f"{name}={value}" for name, value in configs.items()))


@topics.command(cls=Command)
def create(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    partitions: Annotated[
        int,
        typer.Option("--partitions", "-p", help="How many partitions.", parser=_PARTITIONS, metavar="COUNT"),
    ] = 1,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replicas",
            "-r",
            help="How many replicas; the brokers' default if left out.",
            parser=whole("--replicas", 1, such_as=3),
            metavar="COUNT",
        ),
    ] = None,
    config: Configs = None,
    bootstrap_servers: OwnBootstrapServers = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Create a topic."""
    configs = _pairs(config)
    with _admin(context, bootstrap_servers, command_config) as admin:
        admin.create_topics(topic, partitions=partitions, replication_factor=replication_factor, configs=configs)
    told_as_json(context, as_json, {"created": topic, "partitions": partitions, "configs": configs})


@topics.command(cls=Command)
def alter(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics)],
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            "-p",
            help="How many partitions in all; never fewer.",
            parser=_PARTITIONS,
            metavar="COUNT",
        ),
    ] = None,
    config: Configs = None,
    default: Annotated[
        list[str] | None, typer.Option("--default", help="A setting to give its default again.", metavar="NAME")
    ] = None,
    bootstrap_servers: OwnBootstrapServers = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Change a topic's settings, or give it more partitions."""
    changes: dict[str, str | None] = {**_pairs(config), **dict.fromkeys(default or ())}
    if partitions is None and not changes:
        raise UserMistake(f"nothing to change about {topic!r}: give --partitions, --config or --default.")
    with _admin(context, bootstrap_servers, command_config) as admin:
        if changes:
            admin.alter_configs(changes, topic=topic)
        if partitions is not None:
            admin.create_partitions(topic, partitions)
    # None: it was not asked for, and the default again.
    told_as_json(context, as_json, {"altered": topic, "partitions": partitions, "configs": changes})


@topics.command(cls=Command)
def delete(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="TOPIC...", autocompletion=complete_topics)],
    bootstrap_servers: OwnBootstrapServers = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Delete topics with all their records."""
    with _admin(context, bootstrap_servers, command_config) as admin:
        delete_each(names, admin.delete_topics)
    told_as_json(context, as_json, {"deleted": names})


@topics.command(cls=Command)
def trim(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics)],
    before: Annotated[
        list[str] | None,
        typer.Option(
            "--before",
            help="Delete the records of a partition before this offset; may be given several times.",
            metavar="PARTITION=OFFSET",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Delete all records of all partitions.")] = False,
    bootstrap_servers: OwnBootstrapServers = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Delete the oldest records of a topic, or all of them, and keep the topic."""
    offsets = _offsets(before)
    if everything == bool(offsets):
        raise UserMistake(f"which records of {topic!r}? Give --before PARTITION=OFFSET, or --all.")
    with _admin(context, bootstrap_servers, command_config) as admin:
        if everything:
            offsets = {place.partition: _ALL_RECORDS for place in admin.describe(topic).partitions}
        begins = admin.delete_records(topic, offsets)
    told = [{"partition": partition, "first_offset": offset} for partition, offset in begins.items()]
    if told_as_json(context, as_json, {"topic": topic, "partitions": told}):
        return
    for partition, offset in begins.items():
        tell(f"{topic}-{partition} begins at offset {offset} now")


def _offsets(given: list[str] | None) -> dict[int, int]:
    offsets: dict[int, int] = {}
    for each in given or ():
        partition, _, offset = each.partition("=")
        if not partition.isdecimal() or not offset.isdecimal():
            raise UserMistake(
                f"a partition's new beginning is given as PARTITION=OFFSET, such as 0=1500, not {each!r}."
            )
        offsets[int(partition)] = int(offset)
    return offsets


def _admin(context: typer.Context, bootstrap_servers: str | None = None, command_config: Path | None = None) -> Admin:
    from ottla.client.admin import Admin

    addresses, settings = admin_arguments(context, bootstrap_servers, command_config)
    return Admin(addresses, **settings)


def _pairs(given: list[str] | None) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for each in given or ():
        name, equals, value = each.partition("=")
        if not name or not equals:
            raise UserMistake(f"a setting is given as NAME=VALUE, such as retention.ms=60000, not {each!r}.")
        pairs[name.strip()] = value.strip()
    return pairs


def _rows(kafka: Kafka) -> list[dict[str, Any]]:
    """A row for each topic; its records are None where not all partitions tell theirs."""
    topics = [each for each in kafka.metadata().topics if not each.is_internal and not each.error_code]
    begins, ends = _begins_and_ends(kafka, kafka.leaders())
    rows = []
    for topic in sorted(topics, key=lambda each: each.name):
        places = [(topic.name, part.partition_index) for part in topic.partitions]
        is_known = all(place in begins and place in ends for place in places)
        rows.append(
            {
                "topic": topic.name,
                "partitions": len(places),
                "replicas": max((len(part.replica_nodes) for part in topic.partitions), default=0),
                "records": sum(ends[place] - begins[place] for place in places) if is_known else None,
            }
        )
    return rows


def _places(kafka: Kafka, topic: str) -> list[dict[str, Any]]:
    described = kafka.admin.describe(topic)
    leaders = {(topic, part.partition): part.leader for part in described.partitions if part.leader is not None}
    begins, ends = _begins_and_ends(kafka, leaders)
    return [
        {
            "partition": place.partition,
            "leader": place.leader,
            "replicas": list(place.replicas),
            "isr": list(place.isr),
            "first_offset": begins.get((topic, place.partition)),
            "end_offset": ends.get((topic, place.partition)),
        }
        for place in described.partitions
    ]


def _begins_and_ends(kafka: Kafka, leaders: dict[Place, int]) -> list[dict[Place, int]]:
    """The first offsets and the ends, without partitions whose leader does not answer."""
    from ottla.client.partition_offsets import Wanted, partition_offsets
    from ottla.reader.position import EARLIEST, LATEST

    return partition_offsets(kafka.driver, leaders, Wanted(EARLIEST), Wanted(LATEST))
