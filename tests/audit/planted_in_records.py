"""Anomalies of records and reads: lost, doubled, out of order, altered, misplaced, told or given wrongly."""

from __future__ import annotations

from dataclasses import replace

from ottla.audit import findings as kinds
from ottla.ledger.schema import FAILED, UNKNOWN

from .model import seen
from .planting import Planted, Run, place_of


def lose(run: Run) -> Planted | None:
    record = run.pick(run.sent("p", "q"))
    if record is None:
        return None
    run.change(place_of(record), record.offset, None)
    return Planted(kinds.LOST, (record.number,), (record.offset,))


def store_twice(run: Run) -> Planted | None:
    record = run.pick(run.sent("p"))
    if record is None:
        return None
    again = run.add(place_of(record), record)
    return Planted(kinds.DUPLICATED, (record.number,), (record.offset, again))


def break_a_promise(run: Run) -> Planted | None:
    return None if store_twice(run) is None else Planted(kinds.BROKEN_PROMISE)


def swap(run: Run) -> Planted | None:
    """Two records of one batch stand in the other order."""
    found = [(a, b) for a, b in zip(run.sent("p"), run.sent("p")[1:], strict=False) if place_of(a) == place_of(b)]
    found = [(a, b) for a, b in found if b.offset == a.offset + 1]
    if not found:
        return None
    first, second = run.chance.choice(found)
    run.change(place_of(first), first.offset, seen(second.number, first.offset))
    run.change(place_of(first), second.offset, seen(first.number, second.offset))
    first.offset, second.offset = second.offset, first.offset
    return Planted(kinds.REORDERED, (first.number,), (second.offset, first.offset))


def alter(run: Run) -> Planted | None:
    record = run.pick(run.sent("p", "q", "x", "y"))
    if record is None:
        return None
    field = run.chance.choice(("key_crc", "value_crc", "headers_crc"))
    run.change(place_of(record), record.offset, replace(seen(record.number, record.offset), **{field: 1}))
    return Planted(kinds.ALTERED, (record.number,), (record.offset,))


def put_in_a_foreign_record(run: Run) -> Planted | None:
    record = run.pick(run.sent("r", "q", outcome=UNKNOWN)) or run.pick(run.sent("p"))
    if record is None:
        return None
    number = run.chance.choice((-1, 999_999))
    offset = run.add(place_of(record), replace(record, number=number))
    return Planted(kinds.ALTERED, (number,), (offset,))


def store_what_failed(run: Run) -> Planted | None:
    record = run.pick(run.sent("p", "q", outcome=FAILED))
    if record is None or not run.logs(place_of(record))[0].batches:
        return None
    return Planted(kinds.FAILED_BUT_STORED, (record.number,), (run.add(place_of(record), record),))


def tell_a_wrong_offset(run: Run) -> Planted | None:
    found = run.sent("p")
    record = run.pick(found)
    others = [
        each for each in found if record is not None and place_of(each) == place_of(record) and each is not record
    ]
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
    run.c.sent.append(replace(record, offset=run.add(place_of(record), record)))
    offset = run.add(place_of(record), record)
    return Planted(kinds.REPEATED, (record.number,), (offset,))


def change_after_it_was_read(run: Run) -> Planted | None:
    record = run.pick(run.sent("p", "q"))
    read = next((r for r in run.reads(place_of(record)) if not r.is_final), None) if record is not None else None
    if record is None or read is None:
        return None
    for at, each in enumerate(read.records):
        if each.offset == record.offset:
            other = run.pick(
                [each for each in run.sent("p", "q", "r", kept=False) if place_of(each) == place_of(record)]
            )
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
    others = [log for log in run.replicas if record is not None and (log.topic, log.partition) != place_of(record)]
    others = [log for log in others if log.batches]
    if record is None or not others:
        return None
    other = run.chance.choice(others)
    run.change(place_of(record), record.offset, None)
    offset = run.add((other.topic, other.partition), record)
    return Planted(kinds.MISPLACED, (record.number,), (offset,))


def lose_one_of_two(run: Run) -> Planted | None:
    """A record that was handed over twice and acknowledged twice is there once."""
    record = run.pick(run.sent("p"))
    if record is None:
        return None
    offset = run.add(place_of(record), record)
    run.c.sent.append(replace(record, offset=offset))
    run.change(place_of(record), offset, None)
    return Planted(kinds.LOST, (record.number,), (offset,))


def store_the_failed_one_of_two(run: Run) -> Planted | None:
    record = run.pick(run.sent("p"))
    if record is None:
        return None
    run.c.sent.append(replace(record, offset=-1, outcome=FAILED, error="it was never sent"))
    run.add(place_of(record), record)
    return Planted(kinds.FAILED_BUT_STORED, (record.number,))
