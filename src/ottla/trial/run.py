"""Runs a scenario: side by side, each on a cluster of its own, the same records and the same faults; then the audit.

    cluster -> topic -> hand over, faults begin and end by count -> all told -> healed -> read -> audit -> verdict

Everything is bounded: records by the scenario, waiting by `delivery_timeout_ms`, healing by `_PATIENCE_S`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any

from ottla.audit.chronicles.case import UNCOMMITTED
from ottla.audit.chronicles.chronicle import ReadSeen
from ottla.audit.history import PartitionHistory, Stored
from ottla.audit.ledgers.partition import add_audits, audit_partition
from ottla.audit.ledgers.verdict import judge
from ottla.client.producer import Producer
from ottla.cluster.cluster import Cluster
from ottla.errors import BufferFull, ConfigError, DeliveryError, DeliveryUnknown, OttlaError
from ottla.evidence.decoded import DecodedBatches
from ottla.evidence.reads import Place, read_round
from ottla.evidence.times import RunClock
from ottla.ledger.schema import NO_PARTITION, SEQUENCE_HEADER, pack_sequence
from ottla.trial.ledger import SideLedger
from ottla.trial.outcome import FaultOutcome, SideOutcome, TrialOutcome
from ottla.trial.recorded import Recorded
from ottla.trial.scenario import ROLES, Scenario, Side, TimedFault

if TYPE_CHECKING:
    from ottla.client.reader import End
    from ottla.faults import fault as kinds
    from ottla.faults.verbs import Fault

TOPIC = "trial"
_KEYS = 20
# Patient with a busy machine, and short enough that a lost answer is asked for again soon.
_PRODUCER = {"request_timeout_ms": 1_500, "retry_backoff_ms": 20, "delivery_timeout_ms": 30_000, "linger_ms": 0}
_BATCH_BYTES = 2_000
_IN_FLIGHT = "max_in_flight_requests_per_connection"
_PATIENCE_S = 30.0
_SEED = 4711
EVIDENCE_MAX = 100
"""Pieces of evidence kept for each kind of anomaly: a report shows them all."""


Stepping = Callable[..., AbstractContextManager[Any]]
"""`stepping(words, total, unit)` shows one step of the work; it is told `advance()` for each record."""


def run_scenario(scenario: Scenario, stepping: Stepping, *, is_recorded: bool = False) -> TrialOutcome:
    """All sides, one after the other; `is_recorded`: with what the brokers saw of each, for a report."""
    sides = []
    for side in scenario.sides:
        with stepping(side.name, scenario.records, "records") as step:
            sides.append(_run_side(scenario, side, step.advance, is_recorded=is_recorded))
    return TrialOutcome(scenario, tuple(sides))


def _run_side(scenario: Scenario, side: Side, advance: Callable[[], None], *, is_recorded: bool) -> SideOutcome:
    began_s = time.monotonic()
    with Cluster(scenario.brokers, settings=dict(scenario.settings) or None) as cluster:
        cluster.create_topic(TOPIC, partitions=scenario.partitions, configs=dict(side.topic) or None)
        if is_recorded:
            cluster.record(TOPIC, SEQUENCE_HEADER)
        faults = _Faults(cluster, scenario.faults)
        ledger = _send(cluster, scenario, side, faults, advance)
        faults.heal()
        for partition in range(scenario.partitions):
            cluster.await_leader(TOPIC, partition, timeout=_PATIENCE_S)
            cluster.await_isr(TOPIC, partition, timeout=_PATIENCE_S)
        recorded = Recorded.read(cluster.recorded(), ledger.flushes)
        histories = _read(cluster, scenario, side, ledger)
    audit = add_audits((audit_partition(history, EVIDENCE_MAX) for history in histories), EVIDENCE_MAX)
    verdict = judge(side.claims, audit, shows=side.shows, max_in_flight=int(side.producer.get(_IN_FLIGHT, 5)))
    return SideOutcome(side, verdict, faults.outcomes(), recorded, time.monotonic() - began_s)


class _Faults:
    """Those of a scenario on one cluster; each begins and ends when so many records were handed over."""

    def __init__(self, cluster: Cluster, planned: Sequence[TimedFault]) -> None:
        self._cluster = cluster
        self._planned = planned
        self._begun: dict[int, Fault] = {}
        self._ended: dict[int, None] = {}

    def pass_record(self, number: int) -> None:
        """So many records were handed over before this moment."""
        for index, planned in enumerate(self._planned):
            if index not in self._begun and planned.after <= number:
                self._begun[index] = self._cluster.faults.add(self._placed(planned))
            elif index in self._begun and planned.until is not None and planned.until <= number:
                self._end(index)

    def heal(self) -> None:
        """End all that are still in force."""
        for index in self._begun:
            self._end(index)

    def _placed(self, planned: TimedFault) -> kinds.Fault:
        """The fault, about the trial's topic where it names none, and about the broker that has its role now."""
        fault = planned.fault
        if planned.role:
            part = self._cluster.partition(TOPIC, 0)
            followers = [broker for broker in part["replicas"] if broker != part["leader"]]
            brokers = dict(zip(ROLES, (part["leader"], *followers), strict=False))
            fault = fault.but(broker_id=brokers[planned.role])
        names_topic = "topic" in fault.fields() and getattr(fault, "topic", None) is not None
        is_about_produce = fault.applies_to_requests and getattr(fault, "api", None) in (None, "Produce")
        return fault.but(topic=TOPIC) if is_about_produce and not names_topic else fault

    def _end(self, index: int) -> None:
        if index not in self._ended:
            self._ended[index] = None
            self._begun[index].heal()

    def outcomes(self) -> tuple[FaultOutcome, ...]:
        """Each as it was put in force, and how often it was there: 0 for one that never began."""
        return tuple(
            FaultOutcome(self._begun[index].what, self._begun[index].fired)
            if index in self._begun
            else FaultOutcome(planned.fault, 0)
            for index, planned in enumerate(self._planned)
        )


# ---- sending --------------------------------------------------------------------------------------------------------


def _send(
    cluster: Cluster,
    scenario: Scenario,
    side: Side,
    faults: _Faults,
    advance: Callable[[], None],
) -> SideLedger:
    ledger = SideLedger()
    settings: dict[str, Any] = {**_PRODUCER, "batch_size": _BATCH_BYTES, **side.producer}
    try:
        producer = Producer(cluster.bootstrap_servers, **settings)
    except TypeError as error:
        raise ConfigError(f"the producer of side {side.name!r}: {error}") from None
    deliveries: dict[int, Any] = {}
    try:
        for number, (key, value) in enumerate(_records(scenario)):
            faults.pass_record(number)
            ledger.hand_over(key, value)
            partition = number % scenario.partitions
            header = (SEQUENCE_HEADER, pack_sequence(number))
            try:
                deliveries[number] = producer.send(TOPIC, value, key, headers=[header], partition=partition)
            except BufferFull as error:
                ledger.tell_failed(number, partition, str(error))
            if scenario.flush_every and (number + 1) % scenario.flush_every == 0:
                _await_all(producer)
                ledger.note_flush()
            advance()
        faults.pass_record(scenario.records)
        _await_all(producer)
    finally:
        with suppress(OttlaError):
            producer.close()
    for number, delivery in deliveries.items():
        _note(ledger, number, delivery)
    return ledger


def _await_all(producer: Producer) -> None:
    # What was not delivered is told by its own delivery.
    with suppress(DeliveryError):
        producer.flush()


def _records(scenario: Scenario) -> Iterator[tuple[bytes, bytes]]:
    chance = random.Random(_SEED)
    for number in range(scenario.records):
        text = b"%d:" % number
        yield b"key-%d" % (number % _KEYS), text + chance.randbytes(max(0, scenario.value_bytes - len(text)))


def _note(ledger: SideLedger, number: int, delivery: Any) -> None:
    error = delivery.exception(_PATIENCE_S)
    if error is None:
        metadata = delivery.result(0)
        if metadata.offset >= 0:
            ledger.tell_acked(number, metadata.partition, metadata.offset)
        else:
            ledger.tell_unknown(number, metadata.partition, "acks=0: nobody was asked")
    elif isinstance(error, DeliveryUnknown):
        ledger.tell_unknown(number, delivery.partition, str(error))
    else:
        ledger.tell_failed(number, delivery.partition, str(error))


# ---- reading --------------------------------------------------------------------------------------------------------


def _read(cluster: Cluster, scenario: Scenario, side: Side, ledger: SideLedger) -> list[PartitionHistory]:
    """What was told beside what is there, by partition."""
    spans: dict[Place, tuple[int, End]] = {(TOPIC, index): (0, "latest") for index in range(scenario.partitions)}
    rounds = read_round(cluster.bootstrap_servers, "trial", UNCOMMITTED, spans, DecodedBatches(), RunClock())
    answered = str(side.producer.get("acks", "all")) != "0"
    histories = []
    for read in rounds:
        if read.error is not None:
            raise OttlaError(f"{TOPIC}-{read.partition} could not be read to its end: {read.error}")
        histories.append(
            PartitionHistory(
                TOPIC,
                read.partition,
                ledger.sent_to(read.partition),
                _stored(read),
                read.start,
                read.end,
                is_answered=answered,
            )
        )
    nowhere = ledger.sent_to(NO_PARTITION)
    if nowhere.sequence:
        histories.append(PartitionHistory(TOPIC, NO_PARTITION, nowhere, Stored([], [], [], [], []), 0, 0))
    return histories


def _stored(read: ReadSeen) -> Stored:
    return Stored(
        [record.offset for record in read.records],
        [record.number for record in read.records],
        [record.key_crc for record in read.records],
        [record.value_crc for record in read.records],
        [record.timestamp_ms for record in read.records],
    )
