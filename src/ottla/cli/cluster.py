"""`ottla cluster`: look at a served cluster, break it and heal it, from another terminal or machine."""

from __future__ import annotations

from typing import Any

import typer

from ottla.cli.cluster_brokers import advance, kill, pause, power_off, resume, show, start, stop
from ottla.cli.cluster_faults import await_fired, fault, faults, heal
from ottla.cli.cluster_leaders import await_isr, await_leader, elect_leader, move_coordinator, move_leader
from ottla.cli.control import ADDRESS_VARIABLE
from ottla.cli.narrow_help import Command, Group
from ottla.errors import UserMistake


class _ClusterGroup(Group):
    """If the name of a fault is given as a command, the error says how faults are put in force."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            from ottla.faults.fault import KINDS

            kind = args[0].replace("-", "_")
            if kind in KINDS:
                raise UserMistake(
                    f"{args[0]!r} is no command but a fault: `ottla cluster fault {kind} FIELD=VALUE ...` puts it in "
                    f"force; `ottla cluster fault --list {kind}` shows its fields"
                )
            if kind == "release":
                raise UserMistake("'release' is no command: `ottla cluster heal ID` releases what the fault holds")
        return super().resolve_command(ctx, args)


cluster = typer.Typer(
    cls=_ClusterGroup,
    no_args_is_help=True,
    help=f"""Cause faults in a cluster that `ottla serve --control PORT` runs, and heal (end) them.

    For example, with its address in the environment variable {ADDRESS_VARIABLE} or after --address:

        ottla cluster show
        ottla cluster kill 2
        ottla cluster start 2
        ottla cluster fault lose_ack topic=orders nth=3
        ottla cluster await-fired 1
        ottla cluster heal all

    Exit status: 0 done, 1 it failed or did not happen in time, 2 it cannot be done.
    """,
)
for command in (
    *(show, kill, power_off, pause, resume, stop, start),
    *(fault, faults, await_fired, heal),
    *(move_leader, elect_leader, move_coordinator, await_leader, await_isr, advance),
):
    cluster.command(cls=Command)(command)
