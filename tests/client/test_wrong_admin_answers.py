"""Answers to an Admin that leave out what was requested, or have other parts: requested again, and ignored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
from tests.client.altering_proxy import AlteringProxy
from tests.wrong_answers import framed

import ottla
from ottla.client.group_admin import GroupAdmin
from ottla.client.offset_lookup import OffsetLookup
from ottla.client.producer_admin import describe_producers
from ottla.protocol.frames import decode_response, encode_response
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.delete_records import DeleteRecordsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.describe_producers import DescribeProducersRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.protocol.messages.list_offsets import ListOffsetsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.offset_commit import OffsetCommitRequest

Change = Callable[[list[Any]], None]

# Where each answer keeps its parts.
PARTS = {
    CreateTopicsRequest: "topics",
    DeleteTopicsRequest: "responses",
    CreatePartitionsRequest: "results",
    DescribeConfigsRequest: "results",
    IncrementalAlterConfigsRequest: "responses",
    ListOffsetsRequest: "topics",
    DeleteRecordsRequest: "topics",
    MetadataRequest: "topics",
    DescribeTransactionsRequest: "transaction_states",
    DescribeGroupsRequest: "groups",
    DeleteGroupsRequest: "results",
    DescribeProducersRequest: "topics",
    OffsetCommitRequest: "topics",
}
CALLS: list[tuple[Any, Callable[[ottla.Admin, str], object], object]] = [
    (DeleteTopicsRequest, lambda admin, topic: admin.delete_topics(topic), None),
    (CreatePartitionsRequest, lambda admin, topic: admin.create_partitions(topic, 4), None),
    (DescribeConfigsRequest, lambda admin, topic: "segment.ms" in admin.describe_configs(topic=topic), True),
    (IncrementalAlterConfigsRequest, lambda admin, topic: admin.alter_configs({"segment.ms": 9}, topic=topic), None),
    (ListOffsetsRequest, lambda admin, topic: admin.end_offsets(topic), {0: 2, 1: 0, 2: 0}),
    (DeleteRecordsRequest, lambda admin, topic: admin.delete_records(topic, {0: 1, 1: 0}), {0: 1, 1: 0}),
    (MetadataRequest, lambda admin, topic: admin.describe(topic).name, None),
]

# The error that is raised if the answers stay like that.
DONE_THE_FIRST_TIME = {
    DeleteTopicsRequest: "UNKNOWN_TOPIC_OR_PARTITION",
    CreatePartitionsRequest: "INVALID_PARTITIONS",
}


def nothing(parts: list[Any]) -> None:
    parts.clear()


def renamed(parts: list[Any]) -> None:
    for part in parts:
        name = "resource_name" if hasattr(part, "resource_name") else "name"
        setattr(part, name, "nobody-asked")


def without_the_last_partition(parts: list[Any]) -> None:
    for part in parts:
        if getattr(part, "partitions", None):
            del part.partitions[-1]


def twice(parts: list[Any]) -> None:
    parts.extend(list(parts))


def changing(request: Any, change: Change) -> Callable[[bytes, int], bytes]:
    def changed(frame: bytes, version: int) -> bytes:
        correlation_id, message = decode_response(memoryview(frame), request, version)
        change(getattr(message, PARTS[request]))
        return b"".join(bytes(chunk) for chunk in encode_response(correlation_id, message, version))

    return changed


@pytest.fixture(scope="module")
def single() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=1) as cluster:
        yield cluster


# A topic may have any number of partitions, so nobody can see that the last one is missing.
CASES = [
    pytest.param(*call, change, id=f"{call[0].__name__.removesuffix('Request')}-{change.__name__}")
    for call in CALLS
    for change in (nothing, renamed, twice, without_the_last_partition)
    if call[0] is not MetadataRequest or change is not without_the_last_partition
]


@pytest.mark.parametrize(("request_class", "call", "expected", "change"), CASES)
def test_what_was_left_out_is_asked_again(
    single: ottla.Cluster,
    kafka_name: str,
    request_class: Any,
    call: Callable[[ottla.Admin, str], object],
    expected: object,
    change: Change,
) -> None:
    single.create_topic(kafka_name, partitions=3)
    with ottla.Producer(single.bootstrap_servers) as producer:
        for _ in range(2):
            producer.send(kafka_name, b"x", partition=0)
    # The connection's own Metadata request comes first.
    as_they_are = [lambda frame, _: framed(frame)] if request_class is MetadataRequest else []
    proxy = AlteringProxy(
        single.bootstrap_servers, [*as_they_are, changing(request_class, change)], request_class.API_KEY
    )
    try:
        with ottla.Admin(proxy.bootstrap_servers, retry_backoff_ms=10) as admin:
            if request_class in DONE_THE_FIRST_TIME and change in (nothing, renamed):
                with pytest.raises(ottla.KafkaError, match=DONE_THE_FIRST_TIME[request_class]):
                    call(admin, kafka_name)
            else:
                assert call(admin, kafka_name) == (kafka_name if request_class is MetadataRequest else expected)
        assert proxy.altered_count >= 1
    finally:
        proxy.close()


@pytest.mark.parametrize("change", [nothing, renamed, twice, without_the_last_partition])
def test_an_offset_lookup_asks_again_for_what_was_left_out(
    single: ottla.Cluster, kafka_name: str, change: Change
) -> None:
    single.create_topic(kafka_name, partitions=2)
    proxy = AlteringProxy(single.bootstrap_servers, [changing(ListOffsetsRequest, change)], ListOffsetsRequest.API_KEY)
    lookup = OffsetLookup(proxy.bootstrap_servers, retry_backoff_ms=10)
    try:
        assert lookup.offsets({(kafka_name, 0): -1, (kafka_name, 1): -1}) == {(kafka_name, 0): 0, (kafka_name, 1): 0}
        assert proxy.altered_count == 1
    finally:
        lookup.close()
        proxy.close()


@pytest.mark.parametrize("change", [nothing, renamed, twice, without_the_last_partition])
def test_offsets_that_were_left_out_are_committed_again(single: ottla.Cluster, kafka_name: str, change: Change) -> None:
    single.create_topic(kafka_name, partitions=2)
    changes = [changing(OffsetCommitRequest, change), lambda frame, _: framed(frame)]
    proxy = AlteringProxy(single.bootstrap_servers, changes, OffsetCommitRequest.API_KEY)
    lookup = OffsetLookup(proxy.bootstrap_servers, retry_backoff_ms=10)
    try:
        lookup.commit(kafka_name, {(kafka_name, 0): 0, (kafka_name, 1): 0}, 30_000)
        assert proxy.altered_count == (1 if change is twice else 2)
    finally:
        lookup.close()
        proxy.close()


def renamed_group(parts: list[Any]) -> None:
    for part in parts:
        part.group_id = "nobody-asked"


@pytest.mark.parametrize("change", [nothing, renamed_group, twice])
@pytest.mark.parametrize(
    ("request_class", "call"),
    [
        (DescribeGroupsRequest, lambda groups, name: groups.describe(name).group_id == name),
        (DeleteGroupsRequest, lambda groups, name: groups.delete([name]) is None),
    ],
    ids=["DescribeGroups", "DeleteGroups"],
)
def test_a_group_that_was_left_out_is_asked_for_again(
    single: ottla.Cluster,
    kafka_name: str,
    request_class: Any,
    call: Callable[[GroupAdmin, str], bool],
    change: Change,
) -> None:
    single.create_topic(kafka_name)
    lookup = OffsetLookup(single.bootstrap_servers)
    lookup.commit(kafka_name, {(kafka_name, 0): 0}, 30_000)
    lookup.close()
    proxy = AlteringProxy(single.bootstrap_servers, [changing(request_class, change)], request_class.API_KEY)
    try:
        with ottla.Admin(proxy.bootstrap_servers, retry_backoff_ms=10) as admin:
            groups = GroupAdmin(admin._driver, admin._settings)
            if request_class is DeleteGroupsRequest and change is not twice:
                # It was deleted the first time.
                with pytest.raises(ottla.KafkaError, match="GROUP_ID_NOT_FOUND"):
                    call(groups, kafka_name)
            else:
                assert call(groups, kafka_name)
        assert proxy.altered_count == 1
    finally:
        proxy.close()


def test_a_partition_whose_producers_are_left_out_is_named(single: ottla.Cluster, kafka_name: str) -> None:
    single.create_topic(kafka_name, partitions=2)
    changes = [changing(DescribeProducersRequest, without_the_last_partition)]
    proxy = AlteringProxy(single.bootstrap_servers, changes, DescribeProducersRequest.API_KEY)
    try:
        with ottla.Admin(proxy.bootstrap_servers) as admin:
            (broker,) = admin.cluster().brokers
            leaders = {(kafka_name, partition): broker.broker_id for partition in range(2)}
            found, untold = describe_producers(admin._driver, leaders)
        assert (found, untold) == ([], {(kafka_name, 1): f"the broker's answer leaves out {kafka_name}-1"})
    finally:
        proxy.close()


def unasked(parts: list[Any]) -> None:
    unasked = deepcopy(parts[0])
    unasked.transactional_id = "nobody-asked"
    parts.append(unasked)


@pytest.mark.parametrize("change", [nothing, twice, unasked])
def test_transactions_that_were_left_out_are_asked_for_again(
    single: ottla.Cluster, kafka_name: str, change: Change
) -> None:
    with ottla.Admin(single.bootstrap_servers) as admin:
        admin.fence_producers(kafka_name)
    request = DescribeTransactionsRequest
    proxy = AlteringProxy(single.bootstrap_servers, [changing(request, change)], request.API_KEY)
    try:
        with ottla.Admin(proxy.bootstrap_servers, retry_backoff_ms=10) as admin:
            assert list(admin.describe_transactions(kafka_name)) == [kafka_name]
        assert proxy.altered_count == 1
    finally:
        proxy.close()
