"""Runs a scenario: one side after the other, each where it is alone, the same records and faults; then the audit.

    cluster -> topic -> hand over, faults begin and end by count -> all settled -> healed -> read -> audit -> verdict

Everything is bounded: records by the scenario, waiting by `delivery_timeout_ms`, healing by the cluster (`settle`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.audit.chronicles.chronicle import ReadSeen
from ottla.audit.history import PartitionHistory, Stored
from ottla.audit.ledgers.partition import add_audits, audit_partition
from ottla.audit.ledgers.torn import check_torn
from ottla.audit.ledgers.verdict import judge
from ottla.client.admin import Admin
from ottla.errors import OttlaError
from ottla.evidence.decoded import DecodedBatches
from ottla.evidence.reads import Place, read_round
from ottla.evidence.times import RunClock
from ottla.protocol.error_codes import ErrorCode, error_name
from ottla.trial.application import Application
from ottla.trial.fault_schedule import FaultSchedule
from ottla.trial.group_application import GroupApplication
from ottla.trial.ledger import SideLedger
from ottla.trial.listener import why_no_listener
from ottla.trial.other_client import order, send_all, why_impossible
from ottla.trial.outcome import SideOutcome, TrialOutcome
from ottla.trial.scenario import AGAIN, FIRST_PARTITION, SENDFILE, Scenario, Side
from ottla.trial.sender import Opening
from ottla.trial.side_cluster import EmbeddedSide, SideCluster

if TYPE_CHECKING:
    from ottla.client.reader import End
    from ottla.foreign.kafka import ForeignKafka

_IN_FLIGHT = "max_in_flight_requests_per_connection"
EVIDENCE_MAX = 100
"""Pieces of evidence kept for each kind of anomaly: a report shows them all."""


Stepping = Callable[..., AbstractContextManager[Any]]
"""`stepping(words, total, unit)` shows one step of the work; it is told `advance()` for each record."""


def run_scenario(
    scenario: Scenario,
    stepping: Stepping,
    open_sender: Opening | None = None,
    *,
    is_recorded: bool = False,
    kafka: ForeignKafka | None = None,
) -> TrialOutcome:
    """All sides, one after the other, sent by the client that `open_sender` starts; None: by ottla's own producer.

    `is_recorded`: with what the brokers saw of each, for a report. `kafka`: where the topics are made; None: on
    embedded clusters.
    """

    def cluster_for(side: Side) -> SideCluster:
        if kafka is not None:
            from ottla.trial.foreign_side import ForeignSide

            return ForeignSide(kafka, scenario, side)
        return EmbeddedSide(scenario, side, is_recorded=is_recorded)

    sides = []
    for side in scenario.sides:
        with stepping(side.name, scenario.records, "records") as step:
            if open_sender is None:
                sides.append(_run_side(scenario, side, _own_client(step.advance), cluster_for(side)))
                continue
            # Every client has names of its own for errors.
            side_told = replace(side, errors=None, attempts=None)
            impossible = why_impossible(scenario, side)
            if impossible is None:
                client = _other_client(open_sender, step.advance)
                sides.append(_run_side(scenario, side_told, client, cluster_for(side)))
            else:
                sides.append(_not_tried(side_told, impossible))
    return TrialOutcome(scenario, tuple(sides), "" if kafka is None else kafka.bootstrap_servers)


class _Sent(NamedTuple):
    """What was reported of the records of a side, and by which client: fields of `SideOutcome`."""

    ledger: SideLedger
    who: dict[str, Any]


_Client = Callable[[SideCluster, Scenario, Side, FaultSchedule], _Sent]


def _own_client(advance: Callable[[], None]) -> _Client:
    def send(cluster: SideCluster, scenario: Scenario, side: Side, faults: FaultSchedule) -> _Sent:
        application: Application | GroupApplication
        if side.group:
            # `why_not` lets no group go to another Kafka.
            assert isinstance(cluster, EmbeddedSide)
            application = GroupApplication(cluster, scenario, side, faults, advance)
        else:
            application = Application(cluster, scenario, side, faults, advance)
        application.run()
        return _Sent(application.ledger, {"client": f"ottla {_version()}"})

    return send


def _other_client(open_sender: Opening, advance: Callable[[], None]) -> _Client:
    def send(cluster: SideCluster, scenario: Scenario, side: Side, faults: FaultSchedule) -> _Sent:
        ledger = SideLedger()
        sender = open_sender(order(cluster, side), ledger)
        send_all(sender, scenario, side, ledger, faults, advance)
        told = {name: getattr(sender, name) for name in ("client", "without", "problems", "impossible")}
        return _Sent(ledger, told)

    return send


def _version() -> str:
    try:
        return version("ottla")
    except PackageNotFoundError:  # a source tree that was never installed
        return "(not installed)"


def _run_side(scenario: Scenario, side: Side, client: _Client, opened: SideCluster) -> SideOutcome:
    began_s = time.monotonic()
    missing = why_no_listener(side)
    if missing is not None:
        return _not_tried(side, missing)
    with opened as cluster:
        faults = FaultSchedule(cluster, side.faults_of(scenario))
        ledger, who = client(cluster, scenario, side, faults)
        faults.heal()
        unsettled = cluster.settle(faults.late_s)
        recorded = cluster.recorded(ledger.flushes)
        histories = _read(cluster, scenario, side, ledger)
        counts = _counts(cluster, side, histories, ledger)
    audit = add_audits((audit_partition(history, EVIDENCE_MAX) for history in histories), EVIDENCE_MAX)
    if side.transaction_records:
        torn = check_torn(ledger.transactions, histories)
        audit = replace(audit, findings=(*audit.findings, torn))
    verdict = judge(side.claims, audit, shows=side.shows, max_in_flight=int(side.producer.get(_IN_FLIGHT, 5)))
    return SideOutcome(
        side,
        verdict,
        faults.outcomes(),
        ledger.errors,
        ledger.attempts,
        recorded,
        time.monotonic() - began_s,
        counts=counts,
        **_with_problems(who, ledger, unsettled),
    )


def _not_tried(side: Side, why: str) -> SideOutcome:
    return SideOutcome(side, judge(side.claims, add_audits([]), shows=side.shows), (), impossible=why)


def _with_problems(who: dict[str, Any], ledger: SideLedger, unsettled: str | None) -> dict[str, Any]:
    """The client, and what is not complete: a record's partition is unknown, or records came too late to be read."""
    problems = [*who.get("problems", ())]
    if ledger.without_partition:
        problems.append(f"for {ledger.without_partition:,} records it is not known to which partition they were sent")
    if unsettled is not None:
        problems.append(unsettled)
    return who | {"problems": tuple(problems)}


def _counts(
    cluster: SideCluster, side: Side, histories: Sequence[PartitionHistory], ledger: SideLedger
) -> dict[str, int]:
    """What the side is about, beside its records."""
    found = {FIRST_PARTITION: len(histories[0].stored.offset), AGAIN: ledger.again}
    if SENDFILE in (*side.least, *side.most):
        assert isinstance(cluster, EmbeddedSide)
        found[SENDFILE] = cluster.sendfile_bytes()
    return found


# ---- reading --------------------------------------------------------------------------------------------------------


def _read(cluster: SideCluster, scenario: Scenario, side: Side, ledger: SideLedger) -> list[PartitionHistory]:
    """The audit of what was told and what is stored, partition by partition."""
    topic = cluster.topic
    spans: dict[Place, tuple[int, End]] = {(topic, index): (0, "latest") for index in range(scenario.partitions)}
    rounds = read_round(
        cluster.read_from,
        "trial",
        side.isolation_level,
        spans,
        DecodedBatches(),
        RunClock(),
        settings=cluster.reader_settings,
    )
    answered = str(side.producer.get("acks", "all")) != "0"
    histories = []
    for read in rounds:
        if read.error is not None:
            if error_name(ErrorCode.OFFSET_OUT_OF_RANGE) in read.error:
                _check_nothing_deleted(cluster)
            raise OttlaError(f"{topic}-{read.partition} could not be read to its end: {read.error}")
        histories.append(
            PartitionHistory(
                topic,
                read.partition,
                ledger.sent_to(read.partition),
                _stored(read),
                read.start,
                read.end,
                is_transactional=bool(side.transaction_records),
                is_answered=answered,
            )
        )
    return histories


def _check_nothing_deleted(cluster: SideCluster) -> None:
    """OttlaError where a partition does not begin at its first record any more."""
    with Admin(cluster.read_from, **cluster.reader_settings) as admin:
        for partition, offset in admin.begin_offsets(cluster.topic).items():
            if offset:
                raise OttlaError(
                    f"somebody, or the topic's retention, has deleted the oldest records of "
                    f"{cluster.topic}-{partition} at {cluster.read_from} while the trial ran: it begins at offset "
                    f"{offset} now, and nothing can be said of what was stored before; run it again"
                )


def _stored(read: ReadSeen) -> Stored:
    return Stored(
        [record.offset for record in read.records],
        [record.number for record in read.records],
        [record.key_crc for record in read.records],
        [record.value_crc for record in read.records],
        [record.timestamp_ms for record in read.records],
    )
