"""Which of the sixteen groups of guarantees a run of the main job keeps: the simulation's checkers over what was seen.

Each topic has a witness and a chronicle of its own (`witness`), for a record has the same number in all of them. What
was sent comes from the ledger, of the topic that Spark has made from the input and the exactly-once ledger: nothing
here is taken from the topic that is judged. The runs with a guarantee less are the controls of the exactly-once one.

Spark's audit stays what it is, independent and over all records; what it found counts here, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from ottla.audit import findings as kinds
from ottla.audit.case import UNCOMMITTED
from ottla.audit.chronicle import (
    ControlSeen,
    FaultSeen,
    ProducerPromise,
    SentRecord,
    TopicPromise,
    TransactionSeen,
)
from ottla.audit.findings import Anomaly, Finding
from ottla.audit.groups import GroupVerdict, judge_groups
from ottla.audit.judgement import judge
from ottla.audit.verdict import Verdict
from ottla.ledger import schema
from ottla.ledger.checksum import record_crc
from ottla.trial.guarantees import COMMON_SETTINGS, Guarantee
from ottla.trial.witness import Clock, Telling, Witness

if TYPE_CHECKING:
    from ottla.cluster.cluster import Cluster
    from ottla.trial.workload import Records

NOT_JUDGED = {
    kinds.UNDER_REPLICATED: "who held a record, and had synced it, when it was acknowledged: only the simulation sees "
    "that moment (ottla simulate)",
    kinds.TORN: "which records Spark's tasks put into which transaction; the audit counts them all",
    kinds.ZOMBIE: "a replaced producer that asks for a commit: there is none in this run",
    kinds.GROUP_OFFSET: "offsets in transactions: the streaming job keeps its own in Spark's checkpoint",
    kinds.KEPT_WAITING: "how long brokers took for each request: only the simulation sees that (ottla simulate)",
    kinds.UNREPEATABLE: "threads and sockets take turns as they like, and no seed repeats them (ottla simulate does)",
}
"""Kinds of anomaly for which a run has no facts, and why."""

_TASKS = "Spark's tasks"
_LEDGER_COLUMNS = [
    schema.SEQUENCE,
    schema.PARTITION,
    schema.KEY_CRC,
    schema.VALUE_CRC,
    schema.OUTCOME,
    schema.OFFSET,
    schema.ERROR,
]


def witness_of(cluster: Cluster, topic: str, partitions: int, replicas: int, guarantee: Guarantee) -> Witness:
    """The witness of a topic that a producer with this guarantee is about to write to."""
    settings: dict[str, Any] = COMMON_SETTINGS | guarantee.settings
    promise = ProducerPromise(
        guarantee.name,
        acks=-1 if settings["acks"] == "all" else settings["acks"],
        idempotent=settings["enable_idempotence"],
        delivery_timeout_ms=settings["delivery_timeout_ms"],
        max_in_flight=settings["max_in_flight_requests_per_connection"],
    )
    witness = Witness(cluster, TopicPromise(topic, partitions, replicas), promise, Clock())
    # Who has led from the beginning can be told only by who looked before the first record.
    witness.look()
    return witness


def streaming_witness(cluster: Cluster, topic: str, partitions: int, replicas: int) -> Witness:
    """The witness of the topic that Spark is about to write to.

    Its log keeps what an aborted attempt of a task has written beside what the next one did, so that copies in it break
    no promise: that there are none for read_committed is the audit's business.
    """
    promise = ProducerPromise(_TASKS, acks=-1, idempotent=False, transactional_id="ottla-run")
    return Witness(cluster, TopicPromise(topic, partitions, replicas), promise, Clock())


def note_sent(witness: Witness, ledger: Path, records: Records, telling: Telling) -> None:
    """Write down, of the part that is judged record by record, what was sent and what the producer was told."""
    (producer,) = witness.chronicle.producers
    ordinals = dict.fromkeys(witness.top, 0)
    for row, given in _sent(ledger, records, range(max(witness.top.values(), default=-1) + 1), "key", "partition"):
        place = witness.promise.topic, row[schema.PARTITION]
        if row[schema.SEQUENCE] > witness.top.get(place, -1):
            continue
        sent_us, told_us = telling.times(place[1], ordinals[place])
        ordinals[place] += 1
        witness.chronicle.sent.append(
            SentRecord(
                number=row[schema.SEQUENCE],
                producer=producer.producer,
                instance=0,
                topic=place[0],
                partition=place[1],
                key_crc=row[schema.KEY_CRC],
                value_crc=row[schema.VALUE_CRC],
                outcome=row[schema.OUTCOME],
                offset=row[schema.OFFSET],
                error=row[schema.ERROR],
                sent_us=sent_us,
                told_us=told_us,
                **_placed(given),
            )
        )


def note_streamed(witness: Witness, commit_asked_us: int, source: str, ledger: Path, records: Records) -> None:
    """The same of the topic Spark has made of `source`: what should stand there for each number that does.

    That no number is missing is the audit's business. Nobody asked for any commit before `commit_asked_us`.
    """
    job = TransactionSeen(0, _TASKS, 0, commit_asked=True, commit_asked_us=commit_asked_us)
    witness.chronicle.transactions.append(job)
    reads = [read for read in witness.chronicle.reads if read.is_final and read.isolation_level == UNCOMMITTED]
    numbers = {record.number for read in reads for record in read.records if record.number >= 0}
    span = range(min(numbers, default=0), min(max(numbers, default=-1) + 1, records.count))
    for row, sent in _sent(ledger, records, span, "value"):
        if row[schema.SEQUENCE] not in numbers:
            continue
        partition, offset = row[schema.PARTITION], row[schema.OFFSET]
        # What `streaming_job.RESULT` says, in SQL there.
        value = b'{"from":"%s-%d@%d","record":%s}' % (source.encode(), partition, offset, sent["value"] or b"null")
        witness.chronicle.sent.append(
            SentRecord(
                number=row[schema.SEQUENCE],
                producer=_TASKS,
                instance=0,
                topic=witness.promise.topic,
                partition=partition,
                key_crc=row[schema.KEY_CRC],
                value_crc=record_crc(value),
                outcome=schema.ACKED,
                offset=schema.NO_OFFSET,
                transaction=0,
                told_us=witness.clock.now_us,
                chosen_partition=partition,
            )
        )


def note_faults(witness: Witness, fired: Mapping[str, int]) -> None:
    """Write down how often each kind of fault struck; in the main job each has to."""
    of = witness.chronicle.producers[0].producer
    witness.chronicle.faults += [FaultSeen(kind, times, f"of {of}", must_fire=True) for kind, times in fired.items()]


def note_controls(witness: Witness, verdicts: Sequence[Verdict]) -> None:
    """Of the exactly-once topic: what was found in the runs that lack a guarantee, under the same faults."""
    lacking = {schema.AT_LEAST_ONCE: "idempotence", schema.AT_MOST_ONCE: "acknowledgements and retries"}
    shows = {schema.AT_LEAST_ONCE: (kinds.DUPLICATED,), schema.AT_MOST_ONCE: (kinds.LOST,)}
    witness.chronicle.controls = [
        ControlSeen(
            lacking[verdict.guarantee],
            shows[verdict.guarantee],
            {finding.kind: finding.count for finding in verdict.audit.findings},
        )
        for verdict in verdicts
        if verdict.guarantee in lacking
    ]


def judge_run(witnesses: Iterable[Witness], verdicts: Iterable[Verdict]) -> tuple[GroupVerdict, ...]:
    """All sixteen groups, by the checkers over every chronicle and by what Spark's audit has found."""
    found = [finding for witness in witnesses for finding in judge(witness.chronicle)]
    for verdict in verdicts:
        found += _breaches(verdict)
    return judge_groups(found, NOT_JUDGED)


def looked_at(witnesses: Sequence[Witness]) -> str:
    """In words, how much of the topics was judged record by record."""
    reads = [read for witness in witnesses for read in witness.chronicle.reads if read.is_final]
    records = sum(len(read.records) for read in reads if read.isolation_level == UNCOMMITTED)
    logs = [replica for witness in witnesses for replica in witness.chronicle.replicas or ()]
    batches = sum(len(replica.batches) for replica in logs)
    looks = sum(len(witness.chronicle.watermarks or ()) for witness in witnesses)
    return (
        f"{records:,} records one by one, {batches:,} batches in the {len(logs)} logs of all replicas, {looks:,} marks "
        "of replicas; besides, Spark's audit of all records"
    )


def _breaches(verdict: Verdict) -> list[Finding]:
    """What Spark's audit found, as far as the guarantee forbids it; the rest was meant to show."""
    broken = dict.fromkeys(finding.kind for finding in verdict.breaches)
    found = [each if each.kind in broken else Finding(each.kind, 0) for each in verdict.audit.findings]
    detail = f"{verdict.guarantee}: {verdict.seen}"
    evidence = (Anomaly(kinds.BROKEN_PROMISE, "", -1, -1, (), detail),) if broken else ()
    return [*found, Finding(kinds.BROKEN_PROMISE, len(broken), evidence)]


def _sent(
    ledger: Path, records: Records, numbers: range, *columns: str
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The ledger's row of each record of these numbers, beside what was handed over; the rest of both is left alone."""
    number = pc.field(schema.SEQUENCE)
    within = (number >= numbers.start) & (number < numbers.stop)
    rows = pq.read_table(ledger, columns=_LEDGER_COLUMNS, filters=within).sort_by(schema.SEQUENCE)
    given = records.table.select(columns).slice(numbers.start, len(numbers))
    return zip(rows.to_pylist(), given.to_pylist(), strict=True)


def _placed(asked: Mapping[str, Any]) -> dict[str, Any]:
    """By what the partition of a record was chosen: its sender's word, or else its key."""
    if asked["partition"] is not None:
        return {"chosen_partition": asked["partition"]}
    return {"hashed_key": None if asked["key"] is None else asked["key"].encode()}
