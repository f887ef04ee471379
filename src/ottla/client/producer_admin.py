"""The producers that partitions know (KIP-664): epochs, sequences, open transactions; and how to end hanging ones.

A transaction hangs if it is open in a partition and no coordinator has it: then its marker will never be written, and
`read_committed` readers get no further than its first record. So leaders and coordinators are both asked. A transaction
counts as hanging only if its last record is older than any transaction may last. It is ended by a marker that is sent
to the partition's leader, as `kafka-transactions.sh abort` does; a user needs ALTER on the cluster for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.client.admin_driver import AdminDriver, left_out, unanswered
from ottla.client.partition_offsets import Place
from ottla.errors import OttlaError, Unreachable
from ottla.protocol.error_codes import kafka_error
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

_REACH_MS, _ANSWER_MS = 1_000, 10_000


@dataclass(slots=True, frozen=True)
class PartitionProducer:
    """One producer as a partition's leader knows it.

    `transaction_offset` is where its open transaction begins here, None while there is none. `last_timestamp_ms` is the
    time of its last record, since 1970; `coordinator_epoch` is that of its last marker, -1 before the first.
    """

    topic: str
    partition: int
    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_offset: int | None


def describe_producers(
    driver: AdminDriver, leaders: Mapping[Place, int]
) -> tuple[list[PartitionProducer], dict[Place, str]]:
    """The producers that `leaders`, {(topic, partition): broker id}, know; and {partition without an answer: why}."""
    by_leader: dict[int, dict[str, list[int]]] = {}
    for (topic, partition), leader in leaders.items():
        by_leader.setdefault(leader, {}).setdefault(topic, []).append(partition)
    asked = [
        (
            DescribeProducersRequest(
                topics=[TopicRequest(name=name, partition_indexes=each) for name, each in topics.items()]
            ),
            leader,
        )
        for leader, topics in by_leader.items()
    ]
    found: list[PartitionProducer] = []
    untold: dict[Place, str] = {}
    for (request, leader), answer in zip(asked, driver.ask_all(asked, _ANSWER_MS, reach_ms=_REACH_MS), strict=True):
        places = [(topic.name, each) for topic in request.topics for each in topic.partition_indexes]
        if answer is None or answer.message is None:
            untold.update(dict.fromkeys(places, str(unanswered("DescribeProducers", answer, leader))))
            continue
        parts = {
            (topic.name, part.partition_index): part for topic in answer.message.topics for part in topic.partitions
        }
        for name, partition in places:
            part = parts.get((name, partition))
            if part is None:
                untold[name, partition] = str(left_out(f"{name}-{partition}", answer))
                continue
            if part.error_code:
                untold[name, partition] = str(kafka_error(part.error_code, topic=name, partition=partition))
            found += [_described(name, partition, each) for each in part.active_producers]
    return found, untold


def hanging(
    producers: Iterable[PartitionProducer], known: Mapping[int, Iterable[Place]], now_ms: int, longest_ms: int
) -> list[PartitionProducer]:
    """Those whose open transaction no coordinator has; `known` is {producer id: its transaction's partitions}.

    A transaction with a record from the last `longest_ms` is not among them: it may have begun after `known` was read.
    """
    places = {producer_id: set(each) for producer_id, each in known.items()}
    return [
        each
        for each in producers
        if each.transaction_offset is not None
        and now_ms - each.last_timestamp_ms > longest_ms
        and (each.topic, each.partition) not in places.get(each.producer_id, ())
    ]


def abort_hanging(driver: AdminDriver, leader: int, producer: PartitionProducer) -> None:
    """Write the marker that aborts this producer's transaction in this partition; KafkaError, Unreachable."""
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=producer.topic, partition_indexes=[producer.partition])],
        # Where no coordinator has written a marker yet, Kafka's own tool sends 0.
        coordinator_epoch=max(producer.coordinator_epoch, 0),
    )
    answer = driver.ask(WriteTxnMarkersRequest(markers=[marker]), leader, timeout_ms=_ANSWER_MS)
    code: int | None = None
    for told in answer.message.markers:
        for topic in told.topics:
            for part in topic.partitions:
                code = part.error_code
    error: OttlaError | None = None
    if code is None:
        error = Unreachable("the broker's answer leaves the marker out", broker_id=leader)
    elif code:
        error = kafka_error(code, "WriteTxnMarkers", topic=producer.topic, partition=producer.partition)
    if error is not None:
        raise error


def _described(topic: str, partition: int, told: Any) -> PartitionProducer:
    begun = told.current_txn_start_offset
    return PartitionProducer(
        topic,
        partition,
        told.producer_id,
        told.producer_epoch,
        told.last_sequence,
        told.last_timestamp,
        told.coordinator_epoch,
        begun if begun >= 0 else None,
    )
