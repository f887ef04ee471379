"""`ottla groups`: which consumer groups there are, how far each has read, moving one, and deleting them.

`ottla groups` lists them and `ottla groups NAME` shows one. A group that is called as one of the verbs is shown by
`ottla groups describe NAME`.
"""

from __future__ import annotations

from contextlib import closing
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
from ottla.cli.completion import complete_groups, complete_topics
from ottla.cli.narrow_help import Command
from ottla.cli.options import DEFAULT_BOOTSTRAP, BootstrapServers, Json, whole
from ottla.cli.output import counted, new_table, tell
from ottla.cli.where import parse_where
from ottla.errors import UserMistake
from ottla.printable import printable

if TYPE_CHECKING:
    from ottla.cli.group_reset import Planned

# Brokers may be busy with a group's members for a while.
_COMMIT_MS = 30_000
# What brokers of old do not say.
_UNKNOWN = "unknown"

groups = typer.Typer(
    cls=NamingGroup,
    invoke_without_command=True,
    subcommand_metavar="[GROUP | COMMAND [ARGS]...]",
    help="List consumer groups, show one with its lag, move its offsets and delete groups.\n\n"
    "For example, with a group `billing` that reads the topic `orders`:\n\n"
    "    ottla groups\n"
    "    ottla groups billing\n"
    "    ottla groups reset billing --topic orders --to earliest --execute\n\n"
    "Exit status: 0 when it is done, 2 when a group, a topic, an address or an option cannot be used.",
)


@groups.callback()
def overview(
    context: typer.Context,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """List the groups with their states and lags."""
    context.obj = Before(bootstrap_servers, command_config, as_json)
    if context.invoked_subcommand is None:
        _list(context, as_json)


@groups.command("list", cls=Command)
def list_all(
    context: typer.Context,
    bootstrap_servers: OwnBootstrapServers = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """List the groups with their states and lags, as `ottla groups` does."""
    _list(context, as_json, bootstrap_servers, command_config)


def _list(
    context: typer.Context, as_json: bool, bootstrap_servers: str | None = None, command_config: Path | None = None
) -> None:
    from ottla.console import group_views

    with looked_at(context, bootstrap_servers, command_config) as kafka:
        told = group_views.groups(kafka)
    for broker_id, why in told["untold"].items():
        typer.echo(f"ottla: groups of broker {broker_id} are missing: {printable(why)}", err=True)
    if told["lags_untold"]:
        typer.echo(f"ottla: {printable(told['lags_untold'])}", err=True)
    rows = told["groups"]
    if told_as_json(context, as_json, rows):
        return
    if rows:
        table = new_table("group", "protocol", "state", "coordinator", "lag", right=("coordinator", "lag"))
        for row in rows:
            kind = row["protocol"] or _UNKNOWN, row["state"] or _UNKNOWN
            table.add_row(row["id"], *kind, f"{row['coordinator']}", group_views.lag_told(row))
        tell(table)
    else:
        tell(f"no groups at {bootstrap_servers or context.obj.bootstrap_servers}")


@groups.command(cls=Command)
def describe(
    context: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP", autocompletion=complete_groups)],
    bootstrap_servers: OwnBootstrapServers = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Show how far a group has read each partition, its lag, and which member reads it."""
    from ottla.console import group_views

    with looked_at(context, bootstrap_servers, command_config) as kafka:
        told = group_views.group(kafka, group)
    if told["offsets_untold"]:
        typer.echo(f"ottla: {printable(told['offsets_untold'])}", err=True)
    if told_as_json(context, as_json, told):
        return
    assignor = f", assignor {told['assignor']}" if told["assignor"] else ""
    tell(
        f"{told['id']}: {told['state']}, {counted(len(told['members']), 'member')}, {told['protocol']} protocol"
        f"{assignor}, coordinator {told['coordinator']}"
    )
    numbers = "partition", "committed", "end", "lag"
    table = new_table("topic", *numbers, "client id", right=numbers)
    for topic in told["topics"]:
        for part in topic["partitions"]:
            # As Kafka's own tool shows what is not known.
            cells = (_number(part[name]) or "-" for name in ("committed", "end", "lag"))
            table.add_row(topic["topic"], f"{part['partition']}", *cells, part["client_id"] or "")
    tell(table if table.row_count else "no offsets are committed, and no partitions assigned")


@groups.command(cls=Command)
def delete(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="GROUP...", autocompletion=complete_groups)],
    bootstrap_servers: OwnBootstrapServers = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Delete groups that have no members, with their committed offsets."""
    with looked_at(context, bootstrap_servers, command_config) as kafka:
        delete_each(names, lambda name: kafka.groups.delete([name]))
    told_as_json(context, as_json, {"deleted": names})


@groups.command(cls=Command)
def reset(
    context: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP", autocompletion=complete_groups)],
    to: Annotated[
        str,
        typer.Option("--to", help="earliest, latest, an offset, or a time such as 2026-11-27T09:00.", metavar="WHERE"),
    ],
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            autocompletion=complete_topics,
            help="Move the group in this topic; may be given several times. Without it: in all that it has read.",
            metavar="TOPIC",
        ),
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option(
            "--partition",
            "-p",
            help="With one --topic: this partition alone; may be given several times.",
            parser=whole("--partition", 0, such_as=0),
            metavar="NUMBER",
        ),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Move the group; without this option only show what would change.")
    ] = False,
    bootstrap_servers: OwnBootstrapServers = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Move a group that has no members to other offsets; without --execute only show what would change.

    If a partition does not have that offset, its first offset or its end is taken. A time moves the group to the
    first record with that timestamp or a later one.
    """
    where = parse_where("--to", to)
    if partition and len(topic or ()) != 1:
        raise UserMistake("--partition is a partition of one topic: give one --topic")
    from ottla.cli.group_reset import plan_reset
    from ottla.client.offset_lookup import OffsetLookup

    addresses, settings = admin_arguments(context, bootstrap_servers, command_config)
    with closing(OffsetLookup(addresses, **settings)) as lookup:
        with looked_at(context, bootstrap_servers, command_config) as kafka:
            planned = plan_reset(kafka.groups, lookup, group, topic or (), partition or (), where)
        if execute:
            lookup.commit(group, {each.place: each.new for each in planned}, _COMMIT_MS)
    offsets = [_told(each) for each in planned]
    if told_as_json(context, as_json, {"group": group, "executed": execute, "offsets": offsets}):
        return
    numbers = "partition", "committed", "new", "first", "end"
    table = new_table("topic", *numbers, right=numbers)
    for each in planned:
        table.add_row(each.place[0], f"{each.place[1]}", *(_number(number) for number in each[1:]))
    tell(table)
    if not execute:
        typer.echo("ottla: nothing was changed; add --execute to do it", err=True)


def _told(planned: Planned) -> dict[str, Any]:
    (topic, partition), committed, new, first, end = planned
    return {
        "topic": topic,
        "partition": partition,
        "committed": committed,
        "new": new,
        "first_offset": first,
        "end_offset": end,
    }


def _number(number: int | None) -> str:
    return "" if number is None else f"{number:,}"
