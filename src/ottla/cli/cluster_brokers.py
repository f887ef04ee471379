"""`ottla cluster`: its state, brokers ended and started, and time."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from ottla.cli.cluster_faults import tell_faults
from ottla.cli.control import Address, AsJson, TokenFile, remote_cluster
from ottla.cli.options import whole
from ottla.cli.output import counted, new_table, tell
from ottla.errors import UserMistake

_SECONDS_MAX = 999_999_999

Broker = Annotated[str, typer.Argument(metavar="BROKER", help="The broker's id, or all.")]


def show(
    topic: Annotated[
        str | None, typer.Argument(metavar="TOPIC", help="Only this topic, which may be one of the brokers' own.")
    ] = None,
    address: Address = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the brokers, who leads each partition, who is in sync, and the faults in force."""
    told = remote_cluster(address, token_file).get("cluster")
    topics = told["topics"]
    if topic is not None:
        told["topics"] = topics = [each for each in topics if each["topic"] == topic]
        if not topics:
            raise UserMistake(f"there is no topic {topic!r} in this cluster")
    if as_json:
        typer.echo(json.dumps(told))
        return
    _tell_addresses(told["brokers"])
    _tell_partitions(topics, with_own=topic is not None)
    if told["faults"]:
        tell("")
        tell_faults(told["faults"])


def kill(broker: Broker, address: Address = None, token_file: TokenFile = None, as_json: AsJson = False) -> None:
    """End a broker as `kill -9` does: what it had written is still there when it starts again."""
    _tell_brokers(remote_cluster(address, token_file).post("brokers", broker, "kill"), as_json)


def power_off(
    broker: Broker,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            help="The same number leaves the same part of the same writes.",
            parser=whole("--seed", 0, such_as=7),
            metavar="NUMBER",
        ),
    ] = None,
    address: Address = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Cut a broker's power: what was not synced to its disk is lost, or left in part."""
    _tell_brokers(remote_cluster(address, token_file).post("brokers", broker, "power-off", seed=seed), as_json)


def pause(broker: Broker, address: Address = None, token_file: TokenFile = None, as_json: AsJson = False) -> None:
    """Freeze a broker: its connections stay open, and nothing is answered."""
    _tell_brokers(remote_cluster(address, token_file).post("brokers", broker, "pause"), as_json)


def resume(broker: Broker, address: Address = None, token_file: TokenFile = None, as_json: AsJson = False) -> None:
    """Let a paused broker go on where it was."""
    _tell_brokers(remote_cluster(address, token_file).post("brokers", broker, "resume"), as_json)


def stop(broker: Broker, address: Address = None, token_file: TokenFile = None, as_json: AsJson = False) -> None:
    """Shut a broker down in order: others lead first, then its logs are closed."""
    _tell_brokers(remote_cluster(address, token_file).post("brokers", broker, "stop"), as_json)


def start(broker: Broker, address: Address = None, token_file: TokenFile = None, as_json: AsJson = False) -> None:
    """Start a broker that is down, under its old address."""
    _tell_brokers(remote_cluster(address, token_file).post("brokers", broker, "start"), as_json)


def advance(
    seconds: Annotated[
        int,
        typer.Argument(
            metavar="SECONDS",
            help="How far.",
            parser=whole("SECONDS", 0, _SECONDS_MAX, such_as=600),
            show_default=False,
        ),
    ],
    address: Address = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Set the clock of brokers and controller ahead: what is due by then happens now.

    Transactions and sessions run into their timeouts, records come to the end of their retention. Clients go by
    clocks of their own.
    """
    told = remote_cluster(address, token_file).post("clock", advance_s=seconds)
    typer.echo(json.dumps(told)) if as_json else tell(
        f"the cluster's clock was set ahead by {counted(seconds, 'second')}"
    )


def _tell_brokers(told: dict[str, Any], as_json: bool) -> None:
    """The states of all brokers in one line."""
    if as_json:
        typer.echo(json.dumps(told))
    else:
        tell(", ".join(f"broker {each['id']} {each['state']}" for each in told["brokers"]))


def _tell_addresses(brokers: list[dict[str, Any]]) -> None:
    listeners = list(brokers[0]["addresses"])
    headings = ["address"] if len(listeners) == 1 else listeners
    table = new_table("broker", "state", *headings, right=("broker",))
    for each in brokers:
        table.add_row(f"{each['id']}", each["state"], *each["addresses"].values())
    tell(table)


def _tell_partitions(topics: list[dict[str, Any]], *, with_own: bool) -> None:
    """A line a partition; those of the brokers' own topics only where such a topic was asked for."""
    table = new_table("topic", "partition", "leader", "in sync", "replicas", right=("partition", "leader"))
    left_out = []
    for topic in topics:
        if topic["topic"].startswith("__") and not with_own:
            left_out.append(topic["topic"])
            continue
        for each in topic["partitions"]:
            table.add_row(
                topic["topic"],
                f"{each['partition']}",
                "none" if each["leader"] is None else f"{each['leader']}",
                " ".join(map(str, each["isr"])),
                " ".join(map(str, each["replicas"])),
            )
    tell("")
    tell(table if table.row_count else "no topics")
    for name in left_out:
        tell(f"{name}: see `ottla cluster show {name}`")
