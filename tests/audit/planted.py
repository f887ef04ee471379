"""One anomaly planted into a sound run: what a judge has to call it, and which record and offsets it has to name.

Each function takes a run made by `Model` and spoils it in one way, as a broken broker, producer or reader would. It
returns None where this run has nothing that could be spoilt so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import NamedTuple

from ottla.audit import findings as kinds
from ottla.audit.chronicles.chronicle import (
    Chronicle,
    ControlSeen,
    FaultSeen,
    ProduceSeen,
    ReadSeen,
    RecordSeen,
    ReplicaSeen,
    SentRecord,
    TransactionSeen,
)
from ottla.ledger.schema import ACKED, FAILED, UNKNOWN

from .model import COMMITTED, Place, seen


class Planted(NamedTuple):
    """What was planted: one of the records has to be named, and all of the offsets; none where it is about none."""

    kind: str
    numbers: tuple[int, ...] = ()
    offsets: tuple[int, ...] = ()


class Run:
    """A run, and what a spoiler asks of it."""

    def __init__(self, chronicle: Chronicle, chance: Random) -> None:
        self.c = chronicle
        self.chance = chance
        self.of_instance = {each.producer: each for each in chronicle.producers}

    @property
    def replicas(self) -> list[ReplicaSeen]:
        assert self.c.replicas is not None
        return self.c.replicas

    def sent(self, *producers: str, outcome: str = ACKED, kept: bool = True) -> list[SentRecord]:
        """Their records, those that were deleted left out."""
        starts = {(each.topic, each.partition): each.log_start_offset for each in self.replicas}
        return [
            each
            for each in self.c.sent
            if each.producer in producers
            and each.outcome == outcome
            and not (kept and 0 <= each.offset < starts[each.topic, each.partition])
        ]

    def pick(self, records: list[SentRecord]) -> SentRecord | None:
        return self.chance.choice(records) if records else None

    def reads(self, place: Place, level: str | None = None) -> list[ReadSeen]:
        found = [each for each in self.c.reads if (each.topic, each.partition) == place]
        return [each for each in found if level in (None, each.isolation_level)]

    def logs(self, place: Place) -> list[ReplicaSeen]:
        return [each for each in self.replicas if (each.topic, each.partition) == place]

    def change(self, place: Place, offset: int, new: RecordSeen | None) -> None:
        """What stands at an offset, for all readers and in all logs."""
        holders = [read.records for read in self.reads(place)]
        holders += [batch.records for log in self.logs(place) for batch in log.batches]
        for records in holders:
            for at, record in enumerate(records):
                if record.offset == offset:
                    records[at : at + 1] = [] if new is None else [new]
                    break

    def add(self, place: Place, record: SentRecord) -> int:
        """One more copy of a record, stored behind all others; returns its offset."""
        offset = self.logs(place)[0].high_watermark
        for log in self.logs(place):
            batch = replace(
                log.batches[-1], base_offset=offset, last_offset=offset, producer_id=-1, producer_epoch=-1,
                base_sequence=-1, is_transactional=False, is_control=False, commits=None,
                records=[seen(record.number, offset)],
            )  # fmt: skip
            log.batches.append(batch)
            log.high_watermark = log.last_stable_offset = offset + 1
        for read in self.reads(place):
            if read.is_final:
                read.records.append(seen(record.number, offset))
                read.end = offset + 1
        return offset

    def transaction(self, verdict: str, records: int = 1) -> tuple[TransactionSeen, list[SentRecord]] | None:
        """One with so many records in one partition at least, all kept; with those."""
        found = []
        kept = self.sent("x", "y")
        for each in self.c.transactions:
            own = [record for record in kept if record.transaction == each.number]
            places = [(record.topic, record.partition) for record in own]
            most = max(places, key=places.count, default=None)
            same = [record for record in own if (record.topic, record.partition) == most]
            whole = sum(record.transaction == each.number for record in self.c.sent)
            if each.verdict == verdict and len(same) >= records and len(own) == whole:
                found.append((each, same))
        return self.chance.choice(found) if found else None


Spoil = Callable[[Run], Planted | None]


def _place(record: SentRecord) -> Place:
    return record.topic, record.partition


def lose(run: Run) -> Planted | None:
    record = run.pick(run.sent("p", "q"))
    if record is None:
        return None
    run.change(_place(record), record.offset, None)
    return Planted(kinds.LOST, (record.number,), (record.offset,))


def store_twice(run: Run) -> Planted | None:
    record = run.pick(run.sent("p"))
    if record is None:
        return None
    again = run.add(_place(record), record)
    return Planted(kinds.DUPLICATED, (record.number,), (record.offset, again))


def break_a_promise(run: Run) -> Planted | None:
    return None if store_twice(run) is None else Planted(kinds.BROKEN_PROMISE)


def swap(run: Run) -> Planted | None:
    """Two records of one batch stand in the other order."""
    found = [(a, b) for a, b in zip(run.sent("p"), run.sent("p")[1:], strict=False) if _place(a) == _place(b)]
    found = [(a, b) for a, b in found if b.offset == a.offset + 1]
    if not found:
        return None
    first, second = run.chance.choice(found)
    run.change(_place(first), first.offset, seen(second.number, first.offset))
    run.change(_place(first), second.offset, seen(first.number, second.offset))
    first.offset, second.offset = second.offset, first.offset
    return Planted(kinds.REORDERED, (first.number,), (second.offset, first.offset))


def alter(run: Run) -> Planted | None:
    record = run.pick(run.sent("p", "q", "x", "y"))
    if record is None:
        return None
    field = run.chance.choice(("key_crc", "value_crc", "headers_crc"))
    run.change(_place(record), record.offset, replace(seen(record.number, record.offset), **{field: 1}))
    return Planted(kinds.ALTERED, (record.number,), (record.offset,))


def put_in_a_foreign_record(run: Run) -> Planted | None:
    record = run.pick(run.sent("r", "q", outcome=UNKNOWN)) or run.pick(run.sent("p"))
    if record is None:
        return None
    number = run.chance.choice((-1, 999_999))
    offset = run.add(_place(record), replace(record, number=number))
    return Planted(kinds.ALTERED, (number,), (offset,))


def store_what_failed(run: Run) -> Planted | None:
    record = run.pick(run.sent("p", "q", outcome=FAILED))
    if record is None or not run.logs(_place(record))[0].batches:
        return None
    return Planted(kinds.FAILED_BUT_STORED, (record.number,), (run.add(_place(record), record),))


def tell_a_wrong_offset(run: Run) -> Planted | None:
    found = run.sent("p")
    record = run.pick(found)
    others = [each for each in found if record is not None and _place(each) == _place(record) and each is not record]
    if record is None or not others:
        return None
    record.offset = run.chance.choice(others).offset
    return Planted(kinds.WRONG_OFFSET, (record.number,), (record.offset,))


def never_tell(run: Run) -> Planted | None:
    record = run.pick(run.sent("p", "q", kept=False))
    if record is None:
        return None
    record.outcome, record.offset, record.told_us = UNKNOWN, -1, -1
    return Planted(kinds.UNSETTLED, (record.number,))


def store_more_often_than_handed_over(run: Run) -> Planted | None:
    record = run.pick(run.sent("p"))
    if record is None:
        return None
    run.c.sent.append(replace(record, offset=run.add(_place(record), record)))
    offset = run.add(_place(record), record)
    return Planted(kinds.REPEATED, (record.number,), (offset,))


def change_after_it_was_read(run: Run) -> Planted | None:
    record = run.pick(run.sent("p", "q"))
    read = next((r for r in run.reads(_place(record)) if not r.is_final), None) if record is not None else None
    if record is None or read is None:
        return None
    for at, each in enumerate(read.records):
        if each.offset == record.offset:
            other = run.pick([each for each in run.sent("p", "q", "r", kept=False) if _place(each) == _place(record)])
            if other is None or other is record:
                return None
            read.records[at] = seen(other.number, record.offset)
            return Planted(kinds.CHANGED, (other.number,), (record.offset,))
    return None


def skip(run: Run) -> Planted | None:
    read = run.chance.choice(run.c.reads)
    if not read.records:
        return None
    deleted = max((each.before_offset for each in run.c.deletions), default=0)
    kept = [at for at, each in enumerate(read.records) if each.offset >= deleted]
    if not kept:
        return None
    gone = read.records.pop(run.chance.choice(kept))
    return Planted(kinds.MISPOLLED, (), (gone.offset,))


def repeat(run: Run) -> Planted | None:
    read = run.chance.choice(run.c.reads)
    if not read.records:
        return None
    at = run.chance.randrange(len(read.records))
    read.records.insert(at, read.records[at])
    return Planted(kinds.MISPOLLED, (), (read.records[at].offset,))


def return_what_stands_nowhere(run: Run) -> Planted | None:
    markers = [(log, b.base_offset) for log in run.replicas for b in log.batches if b.is_control]
    if not markers:
        return None
    log, offset = run.chance.choice(markers)
    reads = [r for r in run.reads((log.topic, log.partition)) if r.start <= offset < r.end and r.records]
    if not reads:
        return None
    read = run.chance.choice(reads)
    read.records = sorted([*read.records, replace(read.records[0], offset=offset)], key=lambda each: each.offset)
    return Planted(kinds.MISPOLLED, (), (offset,))


def misplace(run: Run) -> Planted | None:
    record = run.pick(run.sent("p"))
    if record is None:
        return None
    record.chosen_partition = record.partition + 1
    return Planted(kinds.MISPLACED, (record.number,))


def put_into_another_partition(run: Run) -> Planted | None:
    record = run.pick(run.sent("p"))
    others = [log for log in run.replicas if record is not None and (log.topic, log.partition) != _place(record)]
    others = [log for log in others if log.batches]
    if record is None or not others:
        return None
    other = run.chance.choice(others)
    run.change(_place(record), record.offset, None)
    offset = run.add((other.topic, other.partition), record)
    return Planted(kinds.MISPLACED, (record.number,), (offset,))


def corrupt(run: Run) -> Planted | None:
    batch = _some_batch(run)
    if batch is None:
        return None
    log, at = batch
    log.batches[at] = replace(log.batches[at], crc_is_right=False)
    return Planted(kinds.CORRUPT, (), (log.batches[at].base_offset,))


def _some_batch(run: Run, *, idempotent: bool = False) -> tuple[ReplicaSeen, int] | None:
    found = [
        (log, at)
        for log in run.replicas
        for at, batch in enumerate(log.batches)
        if not (idempotent and (batch.is_control or batch.base_sequence < 1))
    ]
    return run.chance.choice(found) if found else None


def skip_a_sequence_number(run: Run) -> Planted | None:
    found = _some_batch(run, idempotent=True)
    if found is None:
        return None
    log, at = found
    if log.log_start_offset and not any(
        b.producer_id == log.batches[at].producer_id and b.producer_epoch == log.batches[at].producer_epoch
        for b in log.batches[:at]
        if not b.is_control
    ):
        return None  # the log does not show the first one
    log.bytes_crc += 1
    batch = log.batches[at] = replace(log.batches[at], base_sequence=log.batches[at].base_sequence + 1)
    return Planted(kinds.SEQUENCE, (batch.records[0].number,), (batch.base_offset,))


def refuse_what_is_stored(run: Run) -> Planted | None:
    if run.c.broker_ends:
        return None  # who leads after a restart may have forgotten
    doubtful = {_place(each) for each in run.c.sent if each.producer == "p" and each.outcome != ACKED}
    record = run.pick([each for each in run.sent("p") if _place(each) not in doubtful])
    if record is None:
        return None
    offset = record.offset
    record.outcome, record.offset = UNKNOWN, -1
    record.error = "the batch was refused: OUT_OF_ORDER_SEQUENCE_NUMBER: out of order"
    return Planted(kinds.REFUSED, (record.number,), (offset,))


def write_after_fencing(run: Run) -> Planted | None:
    """The batch of an older epoch stands behind one of a newer epoch."""
    found = []
    for log in run.replicas:
        newest: dict[int, int] = {}
        for at, batch in enumerate(log.batches):
            if batch.is_transactional and not batch.is_control and newest.get(batch.producer_id, -1) >= 1:
                found.append((log, at))
            if batch.producer_id >= 0:
                newest[batch.producer_id] = max(newest.get(batch.producer_id, -1), batch.producer_epoch)
    if not found:
        return None
    log, at = run.chance.choice(found)
    log.bytes_crc += 1
    batch = log.batches[at] = replace(log.batches[at], producer_epoch=0)
    return Planted(kinds.FENCED, (batch.records[0].number,), (batch.base_offset,))


def let_an_epoch_fall(run: Run) -> Planted | None:
    assert run.c.leaderships is not None
    roles = [each for each in run.c.leaderships if each.leader_epoch > 0]
    if not roles:
        return None
    role = run.chance.choice(roles)
    at = run.c.leaderships.index(role)
    run.c.leaderships.insert(at + 1, replace(role, leader_epoch=role.leader_epoch - 1, at_us=role.at_us + 1))
    return Planted(kinds.EPOCH)


def let_a_watermark_fall(run: Run) -> Planted | None:
    assert run.c.watermarks is not None
    marks = [each for each in run.c.watermarks if each.is_leader and each.high_watermark > 0]
    if not marks:
        return None
    mark = run.chance.choice(marks)
    low = mark.high_watermark - 1
    fallen = replace(
        mark, high_watermark=low, last_stable_offset=min(low, mark.last_stable_offset), at_us=mark.at_us,
        log_start_offset=min(low, mark.log_start_offset),
    )  # fmt: skip
    run.c.watermarks.insert(run.c.watermarks.index(mark) + 1, fallen)
    return Planted(kinds.WATERMARK, (), (low,))


def truncate(run: Run) -> Planted | None:
    assert run.c.watermarks is not None
    marks = [each for each in run.c.watermarks if each.is_leader and each.high_watermark == each.log_end_offset > 0]
    if not marks:
        return None
    mark = run.chance.choice(marks)
    end = mark.log_end_offset - 1
    follower = next(each for each in (0, 1, 2) if each != mark.broker_id)
    starts = [m.broker_start for m in run.c.watermarks if m.broker_id == follower and m.at_us <= mark.at_us]
    cut = replace(
        mark, broker_id=follower, is_leader=False, high_watermark=end, last_stable_offset=end, log_end_offset=end,
        broker_start=max(starts, default=1), log_start_offset=0, at_us=mark.at_us + 1,
    )  # fmt: skip
    run.c.watermarks.append(cut)
    run.c.watermarks.sort(key=lambda each: each.at_us)
    return Planted(kinds.TRUNCATED, (), (end,))


def diverge(run: Run) -> Planted | None:
    assert run.c.leaderships is not None
    leaders = {(each.topic, each.partition): each.leader for each in run.c.leaderships}
    logs = [log for log in run.replicas if log.batches and leaders[log.topic, log.partition] != log.broker_id]
    if not logs:
        return None
    log = run.chance.choice(logs)
    log.bytes_crc += 1
    log.batches[-1] = replace(log.batches[-1], producer_epoch=log.batches[-1].producer_epoch + 1)
    return Planted(kinds.DIVERGED)


def acknowledge_too_early(run: Run) -> Planted | None:
    assert run.c.commits is not None
    record = run.pick(run.sent("p", "x", "y"))
    if record is None:
        return None
    for at, commit in enumerate(run.c.commits):
        is_there = (commit.topic, commit.partition) == _place(record)
        if is_there and commit.first_offset <= record.offset < commit.end_offset:
            run.c.commits[at] = replace(commit, held_by=commit.held_by[:1])
            first = next(
                each for each in run.c.sent
                if _place(each) == _place(record) and each.offset == commit.first_offset
            )  # fmt: skip
            return Planted(kinds.UNDER_REPLICATED, (first.number,), (first.offset,))
    return None


def show_an_aborted_record(run: Run) -> Planted | None:
    found = run.transaction("aborted")
    if found is None:
        return None
    _, records = found
    record = run.chance.choice(records)
    (final,) = [each for each in run.reads(_place(record), COMMITTED) if each.is_final]
    final.records = sorted([*final.records, seen(record.number, record.offset)], key=lambda each: each.offset)
    return Planted(kinds.ABORTED_READ, (record.number,), (record.offset,))


def tear(run: Run) -> Planted | None:
    found = run.transaction("committed")
    if found is None:
        return None
    _, records = found
    record = run.chance.choice(records)
    for read in run.reads(_place(record), COMMITTED):
        read.records = [each for each in read.records if each.number != record.number]
    return Planted(kinds.TORN, (record.number,), (record.offset,))


def show_before_the_commit(run: Run) -> Planted | None:
    found = run.transaction("committed")
    if found is None or run.c.transaction_version < 2:
        return None  # in version 1 a late commit of the one before may have shown it
    transaction, records = found
    numbers = [record.number for record in records]
    read = next(r for r in run.reads(_place(records[0]), COMMITTED) if any(e.number in numbers for e in r.records))
    transaction.commit_asked_us = read.ended_us + 1
    own = [each.number for each in run.c.sent if each.transaction == transaction.number]
    return Planted(kinds.EARLY_READ, tuple(own))


def commit_as_a_zombie(run: Run) -> Planted | None:
    found = run.transaction("committed")
    if found is None:
        return None
    transaction, records = found
    later = [t for t in run.c.transactions if t.producer == transaction.producer and t.number > transaction.number]
    if not later or any(t.instance != transaction.instance for t in later):
        return None
    for each in later:
        each.instance += 1
    for record in run.c.sent:
        if record.transaction in [t.number for t in later]:
            record.instance += 1
    transaction.commit_asked_us = later[0].began_us + 1
    assert records
    return Planted(kinds.ZOMBIE)


def move_a_group(run: Run) -> Planted | None:
    stand = run.c.group_offsets
    assert stand is not None
    if not stand or run.c.transaction_version < 2:
        return None
    key = run.chance.choice(list(stand))
    stand[key] += 5_000
    return Planted(kinds.GROUP_OFFSET, (), (stand[key],))


def leave_open(run: Run) -> Planted | None:
    logs = [log for log in run.replicas if log.batches and log.batches[-1].is_control]
    if not logs:
        return None
    place = (logs[0].topic, logs[0].partition)
    for log in run.logs(place):
        marker = log.batches.pop()
        data = next((b for b in reversed(log.batches) if b.producer_id == marker.producer_id), None)
        if data is None or data.is_control:
            return None
        log.last_stable_offset = data.base_offset
        log.high_watermark = marker.base_offset
    for read in run.reads(place):
        read.end = min(read.end, log.high_watermark)
    return Planted(kinds.HANGING)


def get_stuck(run: Run) -> Planted | None:
    run.c.stuck.append("producer p waits")
    return Planted(kinds.STUCK)


def tell_too_late(run: Run) -> Planted | None:
    record = run.pick(run.sent("p", "q", "x", kept=False))
    if record is None:
        return None
    record.told_us = record.sent_us + 60_000_000
    return Planted(kinds.OVERDUE, (record.number,))


def do_not_fire(run: Run) -> Planted | None:
    run.c.faults.append(FaultSeen("drop_ack", 0, must_fire=True))
    return Planted(kinds.FAULTLESS)


def let_a_control_pass(run: Run) -> Planted | None:
    run.c.controls = [ControlSeen("idempotence", ("duplicated",), {})]
    return Planted(kinds.UNCONTROLLED)


def differ_the_second_time(run: Run) -> Planted | None:
    run.c.trace_hashes = ("one", "two")
    return Planted(kinds.UNREPEATABLE)


def keep_waiting(run: Run) -> Planted | None:
    """A broker answers within a millisecond, and a record hears of it after four seconds."""
    promise = run.of_instance["p"]
    assert run.c.produced is not None
    assert run.c.broker_ends is not None
    records = [each for each in run.sent("p", kept=False) if each.instance == 1]
    if not records or run.c.broker_ends:
        return None
    at = run.c.producers.index(promise)
    run.c.producers[at] = replace(promise, linger_ms=0)
    run.c.first_fault_us = -1
    leader = 0
    for record in records:
        run.c.produced.append(ProduceSeen("p", leader, record.sent_us, record.sent_us + 10, record.sent_us + 1_000))
    record = records[-1]
    record.told_us = record.sent_us + 4_000_000
    return Planted(kinds.KEPT_WAITING, (record.number,))


def _trouble_us(run: Run) -> int:
    """When the first thing went wrong."""
    assert run.c.broker_ends is not None
    return min([run.c.first_fault_us, *(each.at_us for each in run.c.broker_ends)])


def fail_without_a_cause(run: Run) -> Planted | None:
    before_us = _trouble_us(run)
    record = run.pick([each for each in run.sent("p", "q", kept=False) if each.told_us < before_us])
    if record is None:
        return None
    record.outcome, record.offset, record.error = FAILED, -1, "INVALID_TXN_STATE"
    return Planted(kinds.UNCAUSED, (record.number,))


def refuse_a_commit(run: Run) -> Planted | None:
    assert run.c.instances is not None
    died = {each.producer: each.died_us for each in run.c.instances if each.died_us >= 0 and each.instance == 1}
    before_us = _trouble_us(run)
    granted = [
        each
        for each in run.c.transactions
        if each.verdict == "committed"
        and each.instance == 1
        and each.ended_us < min(before_us, died.get(each.producer, before_us))
    ]
    if not granted:
        return None
    run.chance.choice(granted).verdict = "aborted"
    return Planted(kinds.UNCAUSED)


def lose_one_of_two(run: Run) -> Planted | None:
    """A record that was handed over twice and acknowledged twice is there once."""
    record = run.pick(run.sent("p"))
    if record is None:
        return None
    offset = run.add(_place(record), record)
    run.c.sent.append(replace(record, offset=offset))
    run.change(_place(record), offset, None)
    return Planted(kinds.LOST, (record.number,), (offset,))


def store_the_failed_one_of_two(run: Run) -> Planted | None:
    record = run.pick(run.sent("p"))
    if record is None:
        return None
    run.c.sent.append(replace(record, offset=-1, outcome=FAILED, error="it was never sent"))
    run.add(_place(record), record)
    return Planted(kinds.FAILED_BUT_STORED, (record.number,))


SPOILERS: tuple[Spoil, ...] = (
    lose,
    store_twice,
    break_a_promise,
    swap,
    alter,
    put_in_a_foreign_record,
    store_what_failed,
    tell_a_wrong_offset,
    never_tell,
    store_more_often_than_handed_over,
    change_after_it_was_read,
    skip,
    repeat,
    return_what_stands_nowhere,
    misplace,
    put_into_another_partition,
    corrupt,
    skip_a_sequence_number,
    refuse_what_is_stored,
    write_after_fencing,
    let_an_epoch_fall,
    let_a_watermark_fall,
    truncate,
    diverge,
    acknowledge_too_early,
    show_an_aborted_record,
    tear,
    show_before_the_commit,
    commit_as_a_zombie,
    move_a_group,
    leave_open,
    get_stuck,
    tell_too_late,
    do_not_fire,
    let_a_control_pass,
    differ_the_second_time,
    keep_waiting,
    fail_without_a_cause,
    refuse_a_commit,
    lose_one_of_two,
    store_the_failed_one_of_two,
)
