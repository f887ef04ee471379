"""What one request costs the thread that serves all brokers: it grows with the request, not with its square."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import alter_configs, incremental_alter_configs
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.primitives import Decoder

from .group_world import GROUP, Client, find_coordinator
from .world import TOPIC, World

MANY = 300


class Counted(list[Any]):
    """A list that counts how many of its entries are gone through."""

    looks = 0

    def __iter__(self) -> Iterator[Any]:
        for entry in super().__iter__():
            self.looks += 1
            yield entry


@pytest.fixture
def world() -> World:
    world = World(1)
    world.create_topic()
    return world


@pytest.mark.parametrize(
    ("made", "resource"),
    [
        (alter_configs.AlterConfigsRequest, alter_configs.AlterConfigsResource),
        (incremental_alter_configs.IncrementalAlterConfigsRequest, incremental_alter_configs.AlterConfigsResource),
    ],
)
def test_resources_are_gone_through_a_few_times(world: World, made: Any, resource: Any) -> None:
    resources = Counted(resource(resource_type=2, resource_name=f"t{number}", configs=[]) for number in range(MANY))
    answer = world.ask(1, made(resources=resources, validate_only=True), version=1)
    assert [each.error_code for each in answer.responses] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * MANY
    assert resources.looks <= 5 * MANY


def test_what_members_subscribe_to_is_read_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    find_coordinator(world)
    names = [f"topic-{number}" for number in range(20)]
    encoded = b"".join(len(name).to_bytes(2) + name.encode() for name in names)
    client = Client(world, protocols={"range": b"\0\0" + len(names).to_bytes(4) + encoded + b"\xff\xff\xff\xff"})
    client.join()
    client.sync({client: b"all"})
    read = 0

    def count(metadata: bytes) -> Decoder:
        nonlocal read
        read += 1
        return Decoder(metadata)

    monkeypatch.setattr("ottla.broker.apis.offset_delete.Decoder", count)
    partitions = [OffsetDeleteRequestPartition(partition_index=0)] * MANY
    asked = OffsetDeleteRequest(group_id=GROUP, topics=[OffsetDeleteRequestTopic(name=TOPIC, partitions=partitions)])
    answer = world.ask(client.node, asked, version=0)
    assert [each.error_code for each in answer.topics[0].partitions] == [0] * MANY
    assert read == 1


def test_an_answer_waits_for_its_transactions_without_looking_at_all_of_them_for_each(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def count(entries: Any) -> bool:
        nonlocal looks
        for entry in entries:
            looks += 1
            if not entry:
                return False
        return True

    monkeypatch.setattr("ottla.broker.apis.add_partitions_to_txn.all", count, raising=False)
    asked = [
        AddPartitionsToTxnTransaction(transactional_id="t", producer_id=1, producer_epoch=0, verify_only=True)
        for _ in range(MANY)
    ]
    answer = world.ask(1, AddPartitionsToTxnRequest(transactions=asked), version=5)
    assert len(answer.results_by_transaction) == MANY
    assert looks <= MANY
