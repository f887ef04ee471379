"""All checkers over one chronicle: what was found, one finding a kind, those that found nothing included.

The checkers of single partitions (`partition`) are asked once for every instance of every producer, since order and
sameness are promised within one, and only what its settings promise counts; the rest is tallied. The other checkers
look at the whole case. A finding with something `unseen` does not count as passed.

Of a run that was cut short only safety is judged: what must never happen, not what must have happened in the end.
"""

from __future__ import annotations

from ottla.audit import findings as kinds
from ottla.audit.chronicles.aborted_reads import check_aborted_reads
from ottla.audit.chronicles.case import UNCOMMITTED, Case, Place
from ottla.audit.chronicles.changes import check_changes
from ottla.audit.chronicles.chronicle import Chronicle, ProducerPromise, ReadSeen, SentRecord
from ottla.audit.chronicles.claims import check_claims, forbidden
from ottla.audit.chronicles.controls import check_controls
from ottla.audit.chronicles.convergence import check_convergence
from ottla.audit.chronicles.corruption import check_corruption
from ottla.audit.chronicles.deadlines import check_deadlines
from ottla.audit.chronicles.durability import TRANSACTION_LOG
from ottla.audit.chronicles.early_reads import check_early_reads
from ottla.audit.chronicles.failures import check_failures
from ottla.audit.chronicles.fencing import check_fencing
from ottla.audit.chronicles.fired_faults import check_fired_faults
from ottla.audit.chronicles.forgotten_producers import taken_with_a_gap
from ottla.audit.chronicles.group_offsets import check_group_offsets
from ottla.audit.chronicles.hanging import check_hanging
from ottla.audit.chronicles.integrity import check_integrity
from ottla.audit.chronicles.leadership import check_leadership
from ottla.audit.chronicles.liveness import check_liveness
from ottla.audit.chronicles.losses import check_losses, losses_by_producer
from ottla.audit.chronicles.placement import check_placement
from ottla.audit.chronicles.polls import check_polls
from ottla.audit.chronicles.refusals import check_refusals
from ottla.audit.chronicles.repeatability import check_repeatability
from ottla.audit.chronicles.repetitions import check_again, check_repetitions
from ottla.audit.chronicles.sequences import check_sequences
from ottla.audit.chronicles.settlement import check_settlement
from ottla.audit.chronicles.torn import check_torn
from ottla.audit.chronicles.truncation import check_truncation
from ottla.audit.chronicles.under_replication import check_under_replication
from ottla.audit.chronicles.waiting import check_waiting
from ottla.audit.chronicles.watermarks import check_watermarks
from ottla.audit.chronicles.zombies import check_zombies
from ottla.audit.duplicates import check_duplicates
from ottla.audit.findings import Finding, add_findings
from ottla.audit.history import PartitionHistory, Sent, Stored
from ottla.audit.offsets import check_offsets
from ottla.audit.order import check_order
from ottla.audit.outcomes import check_failed
from ottla.ledger.schema import NO_OFFSET, NO_PARTITION

_BY_INSTANCE = (check_duplicates, check_failed, check_offsets)

CHECKERS = (
    check_settlement,
    check_losses,
    check_repetitions,
    check_changes,
    check_polls,
    check_integrity,
    check_placement,
    check_corruption,
    check_sequences,
    check_refusals,
    check_fencing,
    check_leadership,
    check_watermarks,
    check_truncation,
    check_convergence,
    check_under_replication,
    check_aborted_reads,
    check_torn,
    check_early_reads,
    check_zombies,
    check_group_offsets,
    check_hanging,
    check_liveness,
    check_deadlines,
    check_waiting,
    check_failures,
    check_fired_faults,
    check_controls,
    check_repeatability,
)
# What they ask for comes at the end of a run.
_OF_THE_END = (check_hanging, check_liveness, check_fired_faults)


def judge(chronicle: Chronicle) -> list[Finding]:
    """Every checker's finding, those that found nothing included."""
    case = Case(chronicle)
    whole = [check(case) for check in CHECKERS if not (chronicle.is_cut_short and check in _OF_THE_END)]
    single, seen = _by_instance(case)
    for producer, count in losses_by_producer(case).items():
        seen.setdefault(producer, {})[kinds.LOST] = count
    unseen = single[0].unseen
    claims = check_claims(chronicle.producers, seen, unseen, is_redelivered=case.is_redelivered)
    return [*single, *whole, claims]


def _by_instance(case: Case) -> tuple[list[Finding], dict[str, dict[str, int]]]:
    found: dict[str, list[Finding]] = {}
    seen: dict[str, dict[str, int]] = {}
    broken = dict.fromkeys(topic for topic, _ in case.durability.breaks)
    for producer, history in histories(case):
        promise = case.producers.get(producer)
        counts = seen.setdefault(producer, {})
        may_be_late = promise is not None and (
            not promise.idempotent or (promise.transactional_id is not None and TRANSACTION_LOG in broken)
        )
        never = () if promise is None else forbidden(promise, is_redelivered=case.is_redelivered)
        found_here = [check(history) for check in _BY_INSTANCE]
        excused = taken_with_a_gap(case, (history.topic, history.partition)) if _may_overtake(promise) else {}
        in_order = check_order(
            history,
            only_where_told=may_be_late,
            may_lack_copies=_may_lack_copies(case, producer, (history.topic, history.partition)),
            excused_behind=excused,
        )
        for finding in (in_order, *found_here):
            counts[finding.kind] = counts.get(finding.kind, 0) + finding.count
            if finding.count and promise is not None and finding.kind not in never:
                tallies = (*finding.tallies, (f"not promised by {producer}", finding.count))
                finding = Finding(finding.kind, 0, (), (), tallies)
            found.setdefault(finding.kind, []).append(finding)
    for finding in check_again(case):
        found.setdefault(finding.kind, []).append(finding)
    unread = tuple(
        f"{topic}-{partition} was not read to its end"
        for topic, partition in case.sent_to
        if partition != NO_PARTITION and (UNCOMMITTED, (topic, partition)) not in case.final
    )
    order = (kinds.DUPLICATED, kinds.REORDERED, kinds.FAILED_BUT_STORED, kinds.WRONG_OFFSET)
    return [add_findings(kind, [*found.get(kind, ()), Finding(kind, 0, (), unread)]) for kind in order], seen


def _may_overtake(promise: ProducerPromise | None) -> bool:
    """Whether a request may be stored before an earlier one, if the partition forgot the producer."""
    return promise is not None and promise.idempotent and promise.max_in_flight > 1


def histories(case: Case) -> list[tuple[str, PartitionHistory]]:
    """What each instance of each producer sent to each partition, beside what of it is stored in the end.

    Without records that the application handed over more than once: it is unknown which copy belongs to which time, and
    whether there are too many is for the checker `repetitions`.
    """
    found = []
    for place, records in case.sent_to.items():
        read = case.final.get((UNCOMMITTED, place))
        if read is None or place[1] == NO_PARTITION:
            continue
        instances: dict[tuple[str, int], list[SentRecord]] = {}
        for record in records:
            if len(case.sent[record.number]) == 1:
                instances.setdefault((record.producer, record.instance), []).append(record)
        found += [(producer, _history(case, sent, read)) for (producer, _), sent in instances.items()]
    return found


def _history(case: Case, sent: list[SentRecord], read: ReadSeen) -> PartitionHistory:
    numbers = {record.number: None for record in sent}
    mine = [record for record in read.records if record.number in numbers]
    standing = {record.offset: None for record in read.records}
    return PartitionHistory(
        read.topic,
        read.partition,
        Sent(
            [record.number for record in sent],
            [record.outcome for record in sent],
            [record.key_crc for record in sent],
            [record.value_crc for record in sent],
            # The copy that was acknowledged may be gone for a reason, and another one be there.
            [NO_OFFSET if _may_be_gone(case, record, standing) else record.offset for record in sent],
        ),
        Stored(
            [record.offset for record in mine],
            [record.number for record in mine],
            [record.key_crc for record in mine],
            [record.value_crc for record in mine],
            [record.timestamp_ms for record in mine],
        ),
        read.start,
        read.end,
    )


def _may_be_gone(case: Case, record: SentRecord, standing: dict[int, None]) -> bool:
    if case.excuse(record) is not None:
        return True
    return record.offset not in standing and _may_lack_copies(case, record.producer, (record.topic, record.partition))


def _may_lack_copies(case: Case, producer: str, place: Place) -> bool:
    """Whether one copy of a record may have been cleaned up, and another one be left.

    Compaction and retention may take one copy before the other; an idempotent producer makes no second one.
    """
    promise = case.producers.get(producer)
    return promise is not None and not promise.idempotent and case.cleans_up(place)
