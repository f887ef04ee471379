"""acks=all where the replicas in sync become too few while the request waits: what the producer is told.

There is an error for that, NOT_ENOUGH_REPLICAS_AFTER_APPEND. Since the high watermark stands still while too few are in
sync (KIP-966), neither cluster comes to the point where it would be told: such a request runs into its timeout.
"""

from __future__ import annotations

from typing import Any

import ottla
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.plain import Record, encode_batch

from ..interop.log_steps import FIRST_MS
from ..wire import Wire
from .sides import Side

_TIMEOUT_MS = 6000
_VERSION = 12
_REQUEST_TIMED_OUT, _NOT_ENOUGH_REPLICAS = 7, 19


def produce(wire: Wire, topic: str) -> ProduceRequest:
    """Send one record that all replicas in sync are to have."""
    place = PartitionProduceData(index=0, records=encode_batch([Record(0, FIRST_MS, None, b"value")]))
    request = ProduceRequest(
        acks=-1, timeout_ms=_TIMEOUT_MS, topic_data=[TopicProduceData(name=topic, partition_data=[place])]
    )
    wire.send(request, _VERSION)
    return request


def told(wire: Wire, request: ProduceRequest) -> tuple[int, int]:
    """The answer: (error code, base offset)."""
    answer: Any = wire.answer(request, _VERSION)
    (place,) = answer.responses[0].partition_responses
    return place.error_code, place.base_offset


def accepted(wire: Wire, topic: str) -> int:
    """Produce until it is taken, for a leader hears after others of a follower that came back; the record's offset."""
    while (answer := told(wire, produce(wire, topic)))[0] == _NOT_ENOUGH_REPLICAS:
        pass
    assert answer[0] == 0
    return answer[1]


def in_sync(wire: Wire, topic: str) -> int:
    """How many replicas are in sync, as this broker knows."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    return len(wire.ask(asked, _VERSION).topics[0].partitions[0].isr_nodes)


def test_an_isr_that_shrinks_behind_the_append_ends_in_a_timeout_and_the_next_request_is_refused(
    side: Side, kafka_name: str
) -> None:
    side.create_topic(kafka_name, 1, 2, min_insync_replicas="2", retention_ms="-1")
    side.await_in_sync(kafka_name, 2)
    leader = side.leader(kafka_name, 0)
    with ottla.Admin(side.bootstrap_servers) as admin:
        (follower,) = (each for each in admin.describe(kafka_name).partitions[0].replicas if each != leader)
    address = side.bootstrap_servers.split(",")[leader - 1]
    wire, looking = Wire(address), Wire(address)
    stored, waits = 0, False
    # Where the request's timeout ends before the follower is missed, nothing is shown, and all begins again.
    while not waits:
        assert accepted(wire, kafka_name) == stored
        stored += 1
        while in_sync(looking, kafka_name) < 2:
            pass
        side.pause(follower)
        try:
            request = produce(wire, kafka_name)
            while in_sync(looking, kafka_name) > 1 and not wire.has_answer():
                pass
            waits = not wire.has_answer()
            assert told(wire, request) == (_REQUEST_TIMED_OUT, stored)
            stored += 1
            if waits:
                assert told(wire, produce(wire, kafka_name)) == (_NOT_ENOUGH_REPLICAS, -1)
        finally:
            side.resume(follower)
    # What timed out was appended, what was refused was not.
    assert accepted(wire, kafka_name) == stored
    wire.close()
    looking.close()
