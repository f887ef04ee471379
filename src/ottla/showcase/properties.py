"""Which of the properties a run of the main job keeps: the simulation's checkers over what was seen.

Each topic has a witness and a chronicle of its own (`evidence`), for a record has the same number in all of them. What
was sent comes from the ledger, of the topic that Spark has made from the input and the exactly-once ledger: nothing
here is taken from the topic that is judged. The runs with a guarantee less are the controls of the exactly-once one.

Spark's audit is independent of this, and over all records; its findings count here, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.audit import findings as kinds
from ottla.audit.chronicles.case import UNCOMMITTED
from ottla.audit.chronicles.chronicle import ControlSeen, ProducerPromise, SentRecord, TopicPromise, TransactionSeen
from ottla.audit.chronicles.claims import read_promise
from ottla.audit.chronicles.judgement import judge
from ottla.audit.ledgers.verdict import Verdict
from ottla.audit.promises import PROMISES, Promise
from ottla.audit.properties import PropertyVerdict, judge_properties
from ottla.evidence.sent import sent_rows
from ottla.evidence.times import RunClock
from ottla.evidence.witness import NOT_SEEN
from ottla.ledger import schema
from ottla.ledger.checksum import headers_crc, record_crc
from ottla.showcase.settings import COMMON_SETTINGS

if TYPE_CHECKING:
    from ottla.evidence.witness import TopicWitness
    from ottla.showcase.kafka import RunKafka
    from ottla.showcase.result import Result
    from ottla.showcase.workload import Records

NOT_JUDGED = NOT_SEEN | {
    kinds.TORN: "which records Spark's tasks put into which transaction (the audit counts all records)",
    kinds.ZOMBIE: "a replaced producer that asks for a commit (this run has none)",
    kinds.GROUP_OFFSET: "offsets in transactions (the streaming job keeps its offsets in Spark's checkpoint)",
}
"""Kinds of anomaly for which a run has no facts, and why."""

_TASKS = "Spark's tasks"


def witness_of(kafka: RunKafka, topic: str, partitions: int, promise: Promise) -> TopicWitness:
    """The witness of a topic that a producer with this guarantee is about to write to."""
    producer = read_promise(promise.guarantee, {**COMMON_SETTINGS, **promise.settings})
    witness = kafka.witness(TopicPromise(topic, partitions, kafka.replicas), producer, RunClock())
    # Which broker has led from the beginning is known only from a look before the first record.
    witness.look()
    return witness


def streaming_witness(kafka: RunKafka, topic: str, partitions: int) -> TopicWitness:
    """The witness of the topic that Spark is about to write to.

    Its log keeps what an aborted attempt of a task has written, beside what the next one did, so copies in it break no
    promise. That readers with read_committed see no copies is for the audit.
    """
    promise = ProducerPromise(_TASKS, acks=-1, idempotent=False, transactional_id="ottla-run")
    return kafka.witness(TopicPromise(topic, partitions, kafka.replicas), promise, RunClock())


def note_streamed(
    witness: TopicWitness, commit_asked_us: int, source: str, ledger: Path, records: Records, result_as: Result
) -> None:
    """The same of the topic Spark has made of `source`: what should stand there for each number that does.

    That no number is missing is for the audit. No commit was asked for before `commit_asked_us`.
    """
    job = TransactionSeen(0, _TASKS, 0, commit_asked=True, commit_asked_us=commit_asked_us)
    witness.chronicle.transactions.append(job)
    reads = [read for read in witness.chronicle.reads if read.is_final and read.isolation_level == UNCOMMITTED]
    numbers = {record.number for read in reads for record in read.records if record.number >= 0}
    span = range(min(numbers, default=0), min(max(numbers, default=-1) + 1, records.count))
    for row, sent in sent_rows(ledger, records.made, span, "value"):
        if row[schema.SEQUENCE] not in numbers:
            continue
        partition, offset = row[schema.PARTITION], row[schema.OFFSET]
        value = result_as.value(source, partition, offset, sent["value"])
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
                # The record's number is the only header that is sent on.
                headers_crc=headers_crc(()),
            )
        )


def note_controls(witness: TopicWitness, verdicts: Sequence[Verdict]) -> None:
    """Of the exactly-once topic: what was found in the runs that lack a guarantee, under the same faults."""
    witness.chronicle.controls = [
        ControlSeen(
            PROMISES[verdict.guarantee].lacks,
            PROMISES[verdict.guarantee].shows,
            {finding.kind: finding.count for finding in verdict.audit.findings},
        )
        for verdict in verdicts
        if PROMISES[verdict.guarantee].lacks
    ]


def judge_run(witnesses: Iterable[TopicWitness], verdicts: Iterable[Verdict]) -> tuple[PropertyVerdict, ...]:
    """All properties, by the checkers over every chronicle and by what Spark's audit has found."""
    found = [finding for witness in witnesses for finding in judge(witness.chronicle)]
    for verdict in verdicts:
        found += verdict.found
    return judge_properties(found, NOT_JUDGED)
