"""Transactions and producers as JSON, and how a transaction is ended from here."""

from __future__ import annotations

import time
from typing import Any

from ottla.client.partition_offsets import Place
from ottla.client.producer_admin import PartitionProducer, abort_hanging, describe_producers, hanging
from ottla.console.kafka import Kafka
from ottla.console.shown import exact
from ottla.errors import OttlaError, UserMistake
from ottla.protocol.error_codes import ErrorCode, kafka_error

# What `transaction.max.timeout.ms` is by default in Kafka.
DEFAULT_LONGEST_MS = 900_000
_DESCRIBED_AT_ONCE = 1_000
# Coordinators also say of an ended transaction when it began.
_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


def transactions(kafka: Kafka) -> dict[str, Any]:
    """All transactional ids with what their coordinators know; those that are open first, the oldest on top."""
    with kafka.of_transactions:
        listed = kafka.transactions.listed("")
        described = {}
        for begin in range(0, len(listed), _DESCRIBED_AT_ONCE):
            ids = [each.transactional_id for each in listed[begin : begin + _DESCRIBED_AT_ONCE]]
            described.update(kafka.transactions.describe(ids))
    rows = [
        {
            "transactional_id": each.transactional_id,
            "state": each.state,
            "producer_id": each.producer_id,
            "epoch": each.producer_epoch,
            "timeout_ms": each.timeout_ms,
            "started_ms": each.started_ms if each.state in _OPEN else None,
            "coordinator": each.coordinator_id,
            "partitions": [f"{topic}-{partition}" for topic, partition in each.partitions],
        }
        for each in described.values()
    ]
    rows.sort(key=lambda each: (each["started_ms"] is None, each["started_ms"] or 0, each["transactional_id"]))
    return {"now_ms": int(time.time() * 1000), "transactions": rows}


def end_transaction(kafka: Kafka, transactional_id: str) -> dict[str, Any]:
    """Fence the producer of this id: what it has open is aborted, what it asked to commit is completed first."""
    if not transactional_id:
        raise UserMistake("transactional_id is missing: whose transaction is to end")
    with kafka.of_transactions:
        # Fencing would make an id that does not exist.
        if transactional_id not in kafka.transactions.describe([transactional_id]):
            raise kafka_error(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"transactional id {transactional_id!r}")
        identity = kafka.transactions.fence([transactional_id], 60_000)[transactional_id]
    return {"transactional_id": transactional_id, "producer_id": identity.producer_id, "epoch": identity.producer_epoch}


def producers(kafka: Kafka, topic: str | None) -> dict[str, Any]:
    """What the leaders of a topic's partitions, or of all, remember of producers, and whose transactions hang."""
    leaders = kafka.leaders(topic)
    longest_ms, is_known = _longest_ms(kafka)
    found, untold = describe_producers(kafka.driver, leaders)
    lost, error = _hanging(kafka, found, longest_ms)
    return {
        "now_ms": int(time.time() * 1000),
        "longest_ms": longest_ms,
        "longest_is_known": is_known,
        "untold": sorted(set(untold.values())),
        "hanging_untold": error,
        "producers": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "producer_id": each.producer_id,
                "epoch": each.epoch,
                "last_sequence": each.last_sequence,
                "last_timestamp_ms": exact(each.last_timestamp_ms),
                "transaction_offset": each.transaction_offset,
                "hangs": each in lost,
            }
            for each in found
        ],
    }


def abort(kafka: Kafka, topic: str, partition: int, producer_id: int, transaction_offset: int) -> dict[str, Any]:
    """Abort a transaction that hangs; UserMistake where it does not (any more)."""
    leaders: dict[Place, int] = {}
    for place, leader in kafka.leaders(topic).items():
        if place == (topic, partition):
            leaders[place] = leader
    found, untold = describe_producers(kafka.driver, leaders)
    if untold:
        raise OttlaError(next(iter(untold.values())))
    longest_ms, _ = _longest_ms(kafka)
    lost, error = _hanging(kafka, found, longest_ms)
    if error is not None:
        raise OttlaError(error)
    wanted = [each for each in lost if (each.producer_id, each.transaction_offset) == (producer_id, transaction_offset)]
    if not wanted:
        raise UserMistake(
            f"the transaction of producer {producer_id} in {topic}-{partition} does not hang (any more): it has ended, "
            "or its coordinator knows of it and will end it."
        )
    abort_hanging(kafka.driver, leaders[topic, partition], wanted[0])
    return {"topic": topic, "partition": partition, "producer_id": producer_id, "aborted": True}


def _hanging(
    kafka: Kafka, found: list[PartitionProducer], longest_ms: int
) -> tuple[list[PartitionProducer], str | None]:
    """Those whose transactions hang, or why that is not known."""
    if all(each.transaction_offset is None for each in found):
        return [], None
    try:
        with kafka.of_transactions:
            # No state is left out: what is being ended is known to its coordinator, too.
            listed = kafka.transactions.listed("")
            described = kafka.transactions.describe(each.transactional_id for each in listed)
    except OttlaError as error:
        return [], str(error)
    known: dict[int, list[Place]] = {}
    for each in described.values():
        known.setdefault(each.producer_id, []).extend(each.partitions)
    return hanging(found, known, int(time.time() * 1000), longest_ms), None


def _longest_ms(kafka: Kafka) -> tuple[int, bool]:
    """`transaction.max.timeout.ms` of the brokers, and whether a broker has said it."""
    try:
        brokers = kafka.metadata().brokers
        told = kafka.admin.describe_configs(broker_id=brokers[0].node_id).get("transaction.max.timeout.ms")
        return int(told.value or ""), True  # type: ignore[union-attr]
    except (OttlaError, ValueError, AttributeError, IndexError):
        return DEFAULT_LONGEST_MS, False
