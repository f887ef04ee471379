"""Brokers that answer what one does not expect: topics without a name, groups of other types."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.client.altering_proxy import AlteringProxy

import ottla
from ottla.cli import main
from ottla.console.console import Console
from ottla.console.server import ConsoleServer
from ottla.protocol.frames import decode_response, encode_response
from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponsePartition, MetadataResponseTopic

from .conftest import Asking

ODD_NAME = "n\x1b]0;x\x07‮<b>"


@pytest.fixture(scope="module")
def single() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(1) as cluster:
        cluster.create_topic("orders")
        yield cluster


@contextmanager
def changed(cluster: ottla.Cluster, request: Any, change: Callable[[Any], None]) -> Iterator[AlteringProxy]:
    """A proxy that changes all answers to these requests."""

    def wrong(frame: bytes, version: int) -> bytes:
        correlation_id, message = decode_response(memoryview(frame), request, version)
        change(message)
        return b"".join(bytes(chunk) for chunk in encode_response(correlation_id, message, version))

    proxy = AlteringProxy(cluster.bootstrap_servers, [wrong] * 1000, request.API_KEY)
    try:
        yield proxy
    finally:
        proxy.close()


def add_odd_topics(message: Any) -> None:
    part = MetadataResponsePartition(partition_index=0, leader_id=message.brokers[0].node_id, leader_epoch=0)
    message.topics.append(MetadataResponseTopic(error_code=100, name=None, topic_id=b"\3" * 16, partitions=[]))
    message.topics.append(MetadataResponseTopic(name=None, topic_id=b"\4" * 16, partitions=[part]))


def add_odd_name(message: Any) -> None:
    add_odd_topics(message)
    part = MetadataResponsePartition(partition_index=0, leader_id=message.brokers[0].node_id, leader_epoch=0)
    message.topics.append(MetadataResponseTopic(name=ODD_NAME, topic_id=b"\2" * 16, partitions=[part]))


def test_a_topic_without_a_name_or_with_an_odd_one_is_met(
    single: ottla.Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    with changed(single, MetadataRequest, add_odd_name) as proxy:
        with Console(proxy.bootstrap_servers) as console, ConsoleServer(console, "127.0.0.1", 0) as server:
            asking = Asking(server.url)
            names = [each["name"] for each in asking.get("api/topics")["topics"]]
            assert names == [ODD_NAME, "orders"]
            assert asking.get("api/brokers")["brokers"][0]["leads"] >= 1
            assert asking.get("api/topic-sizes")["offsets"]["orders"] == 0
            assert asking.get("api/topics/orders")["partitions"][0]["leader"] is not None
            assert asking.get("api/topics/orders/records")["records"] == []
            assert asking.get("api/groups")["untold"] == {}
        main(["topics", "-b", proxy.bootstrap_servers])
    shown = "".join(capfd.readouterr())
    assert "Traceback" not in shown
    assert "\x1b" not in shown


def test_topics_without_a_name_are_not_listed(single: ottla.Cluster, capfd: pytest.CaptureFixture[str]) -> None:
    with changed(single, MetadataRequest, add_odd_topics) as proxy:
        with ottla.Admin(proxy.bootstrap_servers) as admin:
            assert admin.list_topics() == ["orders"]
        assert main(["topics", "-b", proxy.bootstrap_servers]) == 0
    assert "orders" in capfd.readouterr().out


@pytest.mark.parametrize("kind", ["share", "streams"])
def test_a_group_of_another_type_is_listed_and_said_not_to_be_described(
    single: ottla.Cluster, capfd: pytest.CaptureFixture[str], kind: str
) -> None:
    def add_group(message: Any) -> None:
        message.groups.append(
            ListedGroup(group_id="shared", protocol_type=kind, group_state="Stable", group_type=kind.capitalize())
        )

    says = f"group 'shared' is a {kind} group: such a group is listed, but cannot be described here"
    with changed(single, ListGroupsRequest, add_group) as proxy:
        with Console(proxy.bootstrap_servers) as console, ConsoleServer(console, "127.0.0.1", 0) as server:
            asking = Asking(server.url)
            told = asking.get("api/groups")
            [row] = [each for each in told["groups"] if each["id"] == "shared"]
            assert (row["protocol"], row["lag"], row["lag_unknown"], told["lags_untold"]) == (kind, None, 0, None)
            status, _, content = asking.raw("GET", "api/group?id=shared")
            assert (status, says in json.loads(content)["error"]) == (400, True)
            status, _, content = asking.raw("GET", "api/group?id=nobody")
            assert (status, b"GROUP_ID_NOT_FOUND" in content) == (404, True)
        assert main(["groups", "shared", "-b", proxy.bootstrap_servers]) == 2
    assert says in capfd.readouterr().err
