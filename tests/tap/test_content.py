"""What messages say of topics, partitions and producers; every API in every version becomes an exchange."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tap.talk import answered, asked, batch, conversation, exchanges, heard

from ottla.protocol.apis import REQUESTS, RESPONSES
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.tap.api_names import API_NAMES, NOT_DECODED
from ottla.tap.exchange import Exchange, Outcome, Way, from_plain, to_plain
from ottla.tap.lines import exchange_line, remark_line

ALL_VERSIONS = [
    (key, version) for key in REQUESTS for version in range(REQUESTS[key].MIN_VERSION, REQUESTS[key].MAX_VERSION + 1)
]


def exchange(request: Any, response: Any, version: int) -> Exchange:
    pieces = [(Way.TO_BROKER, asked(request, version))]
    if response is not None:
        pieces.append((Way.TO_CLIENT, answered(response, version)))
    (seen,) = exchanges(heard(conversation(), *pieces))
    return seen


def test_every_version_of_every_api_is_read() -> None:
    for key, version in ALL_VERSIONS:
        request = REQUESTS[key](acks=1) if key == 0 else REQUESTS[key]()  # type: ignore[call-arg]
        seen = exchange(request, RESPONSES[key](), version)
        assert (seen.api_key, seen.version, seen.outcome, seen.unread) == (key, version, Outcome.ANSWERED, None)
        assert from_plain(to_plain(seen)) == seen


def test_every_api_of_kafka_has_one_name_and_is_named_in_one_place() -> None:
    assert list(API_NAMES) == list(range(93))
    assert len({*API_NAMES.values()}) == 93
    assert not NOT_DECODED.keys() & REQUESTS.keys()


def test_the_names_of_apis_are_those_of_their_messages() -> None:
    assert {key: f"{API_NAMES[key]}Request" for key in REQUESTS} == {
        key: request.__name__ for key, request in REQUESTS.items()
    }


def test_fetch_tells_offsets_batches_and_watermarks() -> None:
    whole = batch(2, base_offset=10) + batch(5, base_offset=12)
    request = FetchRequest(
        topics=[FetchTopic(topic="orders", partitions=[FetchPartition(partition=1, fetch_offset=10)])],
        forgotten_topics_data=[ForgottenTopic(topic="old", partitions=[3])],
    )
    data = PartitionData(partition_index=1, high_watermark=30, records=whole + batch()[:40])
    response = FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=[data])])
    (part,) = exchange(request, response, 12).partitions
    assert (part.topic, part.partition, part.offset, part.high_watermark) == ("orders", 1, 10, 30)
    assert (part.record_count, part.record_bytes, part.unread_bytes) == (7, len(whole) + 40, 40)
    assert [each.base_offset for each in part.batches] == [10, 12]


def test_topic_ids_have_names_once_an_answer_told_them() -> None:
    names: dict[bytes, str] = {}
    topic_id = bytes(range(16))
    told = conversation(topic_names=names)
    request = FetchRequest(topics=[FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition=1)])])
    metadata = MetadataResponse(topics=[MetadataResponseTopic(name="orders", topic_id=topic_id)])
    pieces = [
        (Way.TO_BROKER, asked(request, 15, 1)),
        (Way.TO_CLIENT, answered(FetchResponse(), 15, 1)),
        (Way.TO_BROKER, asked(MetadataRequest(), 12, 2)),
        (Way.TO_CLIENT, answered(metadata, 12, 2)),
        (Way.TO_BROKER, asked(request, 15, 3)),
        (Way.TO_CLIENT, answered(FetchResponse(), 15, 3)),
    ]
    before, _, after = exchanges(heard(told, *pieces))
    assert before.partitions[0].topic_id == after.partitions[0].topic_id == "AAECAwQFBgcICQoLDA0ODw"
    assert (before.partitions[0].topic, after.partitions[0].topic) == (None, "orders")
    assert from_plain(to_plain(before)) == before


def test_who_a_producer_is_comes_from_the_answer() -> None:
    seen = exchange(
        InitProducerIdRequest(transactional_id="pay", producer_id=4, producer_epoch=1),
        InitProducerIdResponse(producer_id=5, producer_epoch=0),
        4,
    )
    assert (seen.transactional_id, seen.producer_id, seen.producer_epoch) == ("pay", 5, 0)


def test_transaction_requests_tell_whose_and_how_they_end() -> None:
    ended = exchange(
        EndTxnRequest(transactional_id="pay", producer_id=4, committed=True), EndTxnResponse(error_code=47), 3
    )
    assert (ended.transactional_id, ended.producer_id, ended.committed) == ("pay", 4, True)
    assert ended.errors == ("INVALID_PRODUCER_EPOCH",)
    added = exchange(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="pay",
            v3_and_below_producer_id=4,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0, 1])],
        ),
        AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    name="orders",
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(partition_index=1, partition_error_code=51)
                    ],
                )
            ]
        ),
        3,
    )
    assert (added.transactional_id, added.producer_id) == ("pay", 4)
    assert [(part.topic, part.partition, part.error) for part in added.partitions] == [
        ("orders", 0, None),
        ("orders", 1, "CONCURRENT_TRANSACTIONS"),
    ]


def test_markers_tell_the_producer_and_partitions() -> None:
    marker = WritableTxnMarker(
        producer_id=4,
        producer_epoch=2,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name="orders", partition_indexes=[2])],
    )
    seen = exchange(WriteTxnMarkersRequest(markers=[marker]), None, 1)
    assert (seen.producer_id, seen.producer_epoch, seen.committed) == (4, 2, True)
    assert [(part.topic, part.partition) for part in seen.partitions] == [("orders", 2)]


@pytest.mark.parametrize(
    ("key_type", "expected"), [(0, ("the-key", None)), (1, (None, "the-key"))], ids=["group", "transaction"]
)
def test_whose_coordinator_is_asked_for(key_type: int, expected: tuple[str | None, str | None]) -> None:
    for request, version in [
        (FindCoordinatorRequest(key="the-key", key_type=key_type), 3),
        (FindCoordinatorRequest(coordinator_keys=["the-key"], key_type=key_type), 4),
    ]:
        seen = exchange(request, None, version)
        assert (seen.group_id, seen.transactional_id) == expected


def test_topics_named_in_a_list_are_told() -> None:
    seen = exchange(DeleteTopicsRequest(topic_names=["a", "b"]), None, 5)
    assert [(part.topic, part.partition) for part in seen.partitions] == [("a", None), ("b", None)]


DEFAULT_FRAMES = [
    (asked(REQUESTS[key](acks=1) if key == 0 else REQUESTS[key](), version), answered(RESPONSES[key](), version))  # type: ignore[call-arg]
    for key, version in ALL_VERSIONS
]


@given(st.sampled_from(DEFAULT_FRAMES), st.lists(st.tuples(st.booleans(), st.integers(0), st.integers(0, 255))))
def test_damaged_requests_and_answers_become_lines_all_the_same(
    frames: tuple[bytes, bytes], damages: list[tuple[bool, int, int]]
) -> None:
    damaged = [bytearray(frame) for frame in frames]
    for is_answer, place, byte in damages:
        frame = damaged[is_answer]
        # Their lengths and the answer's correlation id stay.
        frame[8 + place % (len(frame) - 8)] = byte
    entries = heard(conversation(), (Way.TO_BROKER, bytes(damaged[0])), (Way.TO_CLIENT, bytes(damaged[1])))
    assert entries
    for entry in entries:
        line = exchange_line(entry) if isinstance(entry, Exchange) else remark_line(entry)
        assert line.isprintable()
        assert from_plain(json.loads(json.dumps(to_plain(entry)))) == entry
