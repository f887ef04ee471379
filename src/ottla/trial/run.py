"""Runs a scenario: side by side, each on a cluster of its own, the same records and the same faults; then the audit.

    cluster -> topic -> hand over, faults begin and end by count -> all told -> healed -> read -> audit -> verdict

Everything is bounded: records by the scenario, waiting by `delivery_timeout_ms`, healing by `_PATIENCE_S`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any

from ottla.audit.chronicles.case import UNCOMMITTED
from ottla.audit.chronicles.chronicle import ReadSeen
from ottla.audit.history import PartitionHistory, Stored
from ottla.audit.ledgers.partition import add_audits, audit_partition
from ottla.audit.ledgers.verdict import judge
from ottla.cluster.cluster import Cluster
from ottla.errors import OttlaError
from ottla.evidence.decoded import DecodedBatches
from ottla.evidence.reads import Place, read_round
from ottla.evidence.times import RunClock
from ottla.ledger.schema import NO_PARTITION, SEQUENCE_HEADER, pack_sequence
from ottla.trial.ledger import SideLedger
from ottla.trial.outcome import FaultOutcome, SideOutcome, TrialOutcome
from ottla.trial.scenario import ROLES, Scenario, Side, TimedFault
from ottla.trial.sender import ClientEnded, Opening, OwnSender, Sender, SendingOrder

if TYPE_CHECKING:
    from ottla.client.reader import End
    from ottla.cluster.faults import Fault
    from ottla.faults import fault as kinds

TOPIC = "trial"
_KEYS = 20
# Patient with a busy machine, and short enough that a lost answer is asked for again soon.
_PRODUCER = {"request_timeout_ms": 1_500, "retry_backoff_ms": 20, "delivery_timeout_ms": 30_000}
# Several batches of a few records each, so that a fault strikes one in the middle.
_PRODUCER |= {"linger_ms": 0, "batch_size": 2_000}
_IN_FLIGHT = "max_in_flight_requests_per_connection"
_PATIENCE_S = 30.0
_SEED = 4711


Stepping = Callable[..., AbstractContextManager[Any]]
"""`stepping(words, total, unit)` shows one step of the work; it is told `advance()` for each record."""


def run_scenario(scenario: Scenario, stepping: Stepping, open_sender: Opening = OwnSender) -> TrialOutcome:
    """All sides, one after the other, each sent by a client that `open_sender` starts."""
    sides = []
    for side in scenario.sides:
        with stepping(side.name, scenario.records, "records") as step:
            sides.append(_run_side(scenario, side, step.advance, open_sender))
    return TrialOutcome(scenario, tuple(sides))


def _run_side(scenario: Scenario, side: Side, advance: Callable[[], None], open_sender: Opening) -> SideOutcome:
    with Cluster(scenario.brokers, settings=dict(scenario.settings) or None) as cluster:
        cluster.create_topic(TOPIC, partitions=scenario.partitions, configs=dict(side.topic) or None)
        faults = _Faults(cluster, scenario.faults)
        ledger = SideLedger()
        sender = open_sender(_order(cluster, side), ledger)
        _send(sender, scenario, ledger, faults, advance)
        faults.heal()
        for partition in range(scenario.partitions):
            cluster.await_leader(TOPIC, partition, timeout=_PATIENCE_S)
            cluster.await_isr(TOPIC, partition, timeout=_PATIENCE_S)
        histories = _read(cluster, scenario, side, ledger)
    audit = add_audits(audit_partition(history) for history in histories)
    verdict = judge(side.claims, audit, shows=side.shows, max_in_flight=int(side.producer.get(_IN_FLIGHT, 5)))
    return SideOutcome(
        side,
        verdict,
        faults.outcomes(),
        client=sender.client,
        without=sender.without,
        troubles=sender.troubles,
        impossible=sender.impossible,
    )


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
        is_about_produce = fault.strikes_requests and getattr(fault, "api", None) in (None, "Produce")
        return fault.but(topic=TOPIC) if is_about_produce and not names_topic else fault

    def _end(self, index: int) -> None:
        if index not in self._ended:
            self._ended[index] = None
            self._begun[index].heal()

    def outcomes(self) -> tuple[FaultOutcome, ...]:
        """How often each was there: 0 for one that never began."""
        return tuple(
            FaultOutcome(planned.fault, self._begun[index].fired if index in self._begun else 0)
            for index, planned in enumerate(self._planned)
        )


# ---- sending --------------------------------------------------------------------------------------------------------


def _send(
    sender: Sender,
    scenario: Scenario,
    ledger: SideLedger,
    faults: _Faults,
    advance: Callable[[], None],
) -> None:
    """Hand over all records, for as long as the client takes them; then all that is ever told is in the ledger."""
    try:
        if sender.takes_records:
            # A client that has ended says in its troubles why.
            with suppress(ClientEnded):
                _hand_over_all(sender, scenario, ledger, faults, advance)
    finally:
        sender.close()


def _hand_over_all(
    sender: Sender,
    scenario: Scenario,
    ledger: SideLedger,
    faults: _Faults,
    advance: Callable[[], None],
) -> None:
    for number, (key, value) in enumerate(_records(scenario)):
        faults.pass_record(number)
        ledger.hand_over(key, value)
        header = (SEQUENCE_HEADER, pack_sequence(number))
        sender.hand_over(number, number % scenario.partitions, key, value, [header])
        if scenario.flush_every and (number + 1) % scenario.flush_every == 0:
            sender.flush()
        advance()
    faults.pass_record(scenario.records)
    sender.flush()


def _order(cluster: Cluster, side: Side) -> SendingOrder:
    settings = {**_PRODUCER, **side.producer}
    return SendingOrder(
        bootstrap_servers=cluster.bootstrap_servers,
        topic=TOPIC,
        settings={_dotted(name): value for name, value in settings.items()},
        required=frozenset(map(_dotted, side.producer)),
        side=side.name,
    )


def _dotted(name: str) -> str:
    return name.replace("_", ".")


def _records(scenario: Scenario) -> Iterator[tuple[bytes, bytes]]:
    chance = random.Random(_SEED)
    for number in range(scenario.records):
        text = b"%d:" % number
        yield b"key-%d" % (number % _KEYS), text + chance.randbytes(max(0, scenario.value_bytes - len(text)))


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
