"""acks=all where the replicas in sync become too few while the request waits: what the producer is told.

There is an error for that, NOT_ENOUGH_REPLICAS_AFTER_APPEND. Since the high watermark stands still while too few are in
sync (KIP-966), neither cluster comes to the point where it would be told: such a request runs into its timeout.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import ottla
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.plain import Record, encode_batch

from ..interop.log_steps import FIRST_MS
from ..wire import Wire
from .sides import Side

_TIMEOUT_MS = 6000
_PATIENCE_S = 60
_VERSION = 12
_NOT_LEADER, _REQUEST_TIMED_OUT, _NOT_ENOUGH_REPLICAS = 6, 7, 19
# On a busy machine, one round may not be enough.
_ROUNDS = 10


def produce(wire: Wire, topic: str, timeout_ms: int = _TIMEOUT_MS) -> ProduceRequest:
    """Send one record that all replicas in sync are to have."""
    place = PartitionProduceData(index=0, records=encode_batch([Record(0, FIRST_MS, None, b"value")]))
    request = ProduceRequest(
        acks=-1, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=[place])]
    )
    wire.send(request, _VERSION)
    return request


def told(wire: Wire, request: ProduceRequest) -> tuple[int, int]:
    """The answer: (error code, base offset)."""
    answer: Any = wire.answer(request, _VERSION)
    (place,) = answer.responses[0].partition_responses
    return place.error_code, place.base_offset


def accepted(wire: Wire, topic: str) -> int | None:
    """Produce until a record is accepted; return its offset, or None if this broker no longer leads the partition.

    The leader may learn later than other brokers that a follower has come back.
    """
    give_up_s = time.monotonic() + _PATIENCE_S
    while (answer := told(wire, produce(wire, topic, _PATIENCE_S * 500)))[0] == _NOT_ENOUGH_REPLICAS:
        assert time.monotonic() < give_up_s
    if answer[0] == _NOT_LEADER:
        return None
    assert answer[0] == 0
    return answer[1]


def in_sync(wire: Wire, topic: str) -> int:
    """How many replicas are in sync, as this broker knows."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    return len(wire.ask(asked, _VERSION).topics[0].partitions[0].isr_nodes)


def leader_and_follower(side: Side, topic: str) -> tuple[int, int]:
    """The brokers that have the two replicas, once both are in sync."""
    give_up_s = time.monotonic() + _PATIENCE_S
    with ottla.Admin(side.bootstrap_servers) as admin:
        while True:
            (place,) = admin.describe(topic).partitions
            if place.leader is not None and len(place.isr) == 2:
                (follower,) = (each for each in place.replicas if each != place.leader)
                return place.leader, follower
            assert time.monotonic() < give_up_s, f"{topic} has not two replicas in sync: {place}"


@contextlib.contextmanager
def paused(side: Side, broker_id: int) -> Iterator[None]:
    """Freeze a broker for the length of a `with`."""
    side.pause(broker_id)
    try:
        yield
    finally:
        side.resume(broker_id)


def is_shown(side: Side, topic: str) -> bool:
    """Freeze the follower after an append, and check the answers; False if something else happened in between.

    That may be: the timeout ends before the follower leaves the ISR. It leaves the ISR before the append, as it was
    still behind from the last round. It leaves the ISR just before the timeout, and the leader's metadata shows that
    before the leader applies it. Or the machine stalls, the leader is fenced, too, and another broker leads.
    """
    leader, follower = leader_and_follower(side, topic)
    address = side.bootstrap_servers.split(",")[leader - 1]
    with contextlib.closing(Wire(address)) as wire, contextlib.closing(Wire(address)) as looking:
        first = accepted(wire, topic)
        if first is None:
            return False
        while in_sync(looking, topic) < 2:
            pass
        with paused(side, follower):
            request = produce(wire, topic)
            while in_sync(looking, topic) > 1 and not wire.has_answer():
                pass
            waits = not wire.has_answer()
            answers = [told(wire, request)]
            if waits and answers[0][0] == _REQUEST_TIMED_OUT:
                answers.append(told(wire, produce(wire, topic)))
        if any(code == _NOT_LEADER for code, _ in answers):
            return False
        # A record whose request timed out was appended; one that was refused was not.
        following = first + 1
        for answer in answers:
            assert answer in ((_REQUEST_TIMED_OUT, following), (_NOT_ENOUGH_REPLICAS, -1))
            following += answer[0] == _REQUEST_TIMED_OUT
        last = accepted(wire, topic)
        assert last in (following, None)
        is_as_said = [code for code, _ in answers] == [_REQUEST_TIMED_OUT, _NOT_ENOUGH_REPLICAS]
        return is_as_said and last is not None


def test_an_isr_that_shrinks_behind_the_append_ends_in_a_timeout_and_the_next_request_is_refused(
    side: Side, kafka_name: str
) -> None:
    side.create_topic(kafka_name, 1, 2, min_insync_replicas="2", retention_ms="-1")
    assert any(is_shown(side, kafka_name) for _ in range(_ROUNDS))
