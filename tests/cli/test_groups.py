"""`ottla groups`: listed, described with their lag, moved and deleted, in both protocols."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Consumer

import ottla
from ottla.cli import main
from ottla.client.offset_lookup import OffsetLookup
from ottla.cluster.cluster import Cluster

PATIENCE_S = 60
NOON_MS = int(datetime(2025, 11, 27, 12, tzinfo=UTC).timestamp() * 1000)
Groups = Callable[..., Any]
_numbers = itertools.count()


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """A topic `orders`: two partitions, of five records and of three, a minute apart, from noon on."""
    with Cluster(1) as cluster:
        cluster.create_topic("orders", partitions=2)
        with ottla.Producer(cluster.bootstrap_servers) as producer:
            for number in range(8):
                partition, minute = (0, number) if number < 5 else (1, number - 5)
                producer.send("orders", b"x", partition=partition, timestamp_ms=NOON_MS + minute * 60_000)
        yield cluster.bootstrap_servers


@pytest.fixture
def groups(servers: str, capfd: pytest.CaptureFixture[str], patient: None) -> Groups:
    def run(*arguments: str, status: int = 0) -> str:
        """What is on stdout, or for another status what is on stderr."""
        ended = main(["groups", *arguments, "-b", servers])
        shown = capfd.readouterr()
        assert ended == status, shown
        return shown.err if status else shown.out

    return run


@pytest.fixture
def billing(servers: str) -> str:
    """A group without members that has committed offsets: 2 of 5, and 3 of 3."""
    name = f"billing-{next(_numbers)}"
    lookup = OffsetLookup(servers)
    lookup.commit(name, {("orders", 0): 2, ("orders", 1): 3}, 30_000)
    lookup.close()
    return name


def committed(groups: Groups, group: str) -> dict[int, int]:
    [topic] = json.loads(groups("describe", group, "--json"))["topics"]
    return {part["partition"]: part["committed"] for part in topic["partitions"]}


def test_a_group_whose_name_a_terminal_would_obey_is_spelled_out(servers: str, groups: Groups) -> None:
    name = "\x1b]0;owned\x07\u202e-group"
    lookup = OffsetLookup(servers)
    lookup.commit(name, {("orders", 0): 2}, 30_000)
    lookup.close()
    for shown in (groups(), groups("describe", name)):
        assert r"\x1b]0;owned\x07\u202e-group" in shown
        assert all(each.isprintable() for each in shown.replace("\n", ""))
    groups("delete", name)


def test_groups_are_listed_with_their_lag(groups: Groups, billing: str) -> None:
    lines = [line.split() for line in groups().splitlines()]
    assert lines[0] == ["group", "protocol", "state", "coordinator", "lag"]
    assert [billing, "classic", "Empty", "1", "3"] in lines
    row = {
        "id": billing,
        "protocol": "classic",
        "protocol_type": "",
        "state": "Empty",
        "coordinator": 1,
        "lag": 3,
        "lag_unknown": 0,
    }
    assert row in json.loads(groups("list", "--json"))
    assert row in json.loads(groups("--json", "list"))


def test_group_is_described_by_its_name(groups: Groups, billing: str) -> None:
    lines = [line.split() for line in groups(billing).splitlines()]
    assert lines[0][:4] == [f"{billing}:", "Empty,", "0", "members,"]
    assert lines[2:] == [["orders", "0", "2", "5", "3"], ["orders", "1", "3", "3", "0"]]


@pytest.mark.parametrize("columns", [40, 60])
def test_nothing_is_lost_on_a_narrow_terminal(
    groups: Groups, billing: str, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for arguments, wanted in (
        ((), ("coordinator", billing)),
        (("reset", billing, "--to", "earliest"), ("committed", "orders")),
    ):
        shown = groups(*arguments)
        assert max(map(len, shown.splitlines())) <= columns
        assert all(word in shown for word in wanted)


@pytest.mark.parametrize(
    ("to", "offsets"),
    [
        ("earliest", {0: 0, 1: 0}),
        ("latest", {0: 5, 1: 3}),
        ("4", {0: 4, 1: 3}),
        ("2025-11-27T12:02", {0: 2, 1: 2}),
        ("2025-11-27T12:03:00Z", {0: 3, 1: 3}),
    ],
)
def test_reset_shows_what_it_would_do_and_does_it_only_when_told_to(
    groups: Groups, billing: str, to: str, offsets: dict[int, int]
) -> None:
    before = committed(groups, billing)
    told = json.loads(groups("reset", billing, "--to", to, "--json"))
    assert told["executed"] is False
    assert {each["partition"]: each["new"] for each in told["offsets"]} == offsets
    assert {each["partition"]: each["committed"] for each in told["offsets"]} == before == {0: 2, 1: 3}
    assert committed(groups, billing) == before
    assert json.loads(groups("reset", billing, "--to", to, "--execute", "--json"))["executed"] is True
    assert committed(groups, billing) == offsets


def test_reset_of_one_partition_leaves_the_others(groups: Groups, billing: str) -> None:
    groups("reset", billing, "--to", "earliest", "--topic", "orders", "-p", "1", "--execute")
    assert committed(groups, billing) == {0: 2, 1: 0}


def test_reset_prepares_a_group_that_is_yet_to_come(groups: Groups) -> None:
    groups("reset", "to-come", "--to", "latest", "--topic", "orders", "--execute")
    assert committed(groups, "to-come") == {0: 5, 1: 3}


def test_deleted_groups_are_gone(groups: Groups, billing: str) -> None:
    assert json.loads(groups("delete", billing, "--json")) == {"deleted": [billing]}
    assert billing not in groups()


@contextmanager
def reading(servers: str, group: str, protocol: str) -> Iterator[None]:
    """A member that has read all records and committed its offsets."""
    settings = {"group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": servers, "enable.auto.commit": False, **settings})
    consumer.subscribe(["orders"])
    try:
        give_up, read = time.monotonic() + PATIENCE_S, 0
        while read < 8:
            assert time.monotonic() < give_up
            message = consumer.poll(0.2)
            read += message is not None and message.error() is None
        consumer.commit(asynchronous=False)
        yield
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_group_with_members_is_neither_moved_nor_deleted_and_without_them_it_is(
    servers: str, groups: Groups, protocol: str
) -> None:
    name = f"members-{protocol}"
    with reading(servers, name, protocol):
        described = groups(name).splitlines()
        assert f"{name}: Stable, 1 member, {protocol} protocol" in described[0]
        assert described[2].split()[:5] == ["orders", "0", "5", "5", "0"]
        moved = groups("reset", name, "--to", "earliest", "--execute", status=2)
        assert "has 1 member (Stable), which would go on from their own offsets: stop them first" in moved
        assert "NON_EMPTY_GROUP" in groups("delete", name, status=2)
    groups("reset", name, "--to", "1", "--execute")
    assert committed(groups, name) == {0: 1, 1: 1}
    groups("delete", name)
    assert name not in groups()


def test_what_cannot_be_meant_is_refused(groups: Groups, billing: str) -> None:
    for arguments, said in (
        (("describe", "nobody"), "GROUP_ID_NOT_FOUND"),
        (("delete", "nobody"), "GROUP_ID_NOT_FOUND"),
        (("reset", "nobody", "--to", "earliest"), "GROUP_ID_NOT_FOUND"),
        (("reset", billing), "'--to'"),
        (("reset", billing, "--to", "soon"), "--to soon is neither earliest, latest, an offset, nor a time"),
        (("reset", billing, "--to", "0", "-p", "0"), "give one --topic"),
        (("reset", billing, "--to", "0", "-t", "orders", "-p", "2"), "orders has no partition 2"),
        (("reset", billing, "--to", "0", "-t", "nowhere"), "nowhere"),
        (("rest", billing), "'rest' is no command of `ottla groups`; did you mean reset?"),
        (("lst",), "(broker 1: group 'lst'); did you mean \"ottla groups list\"?"),
    ):
        told = groups(*arguments, status=2)
        assert said in told
        assert len(told.splitlines()) == 1
