"""One anomaly planted into a sound run: what a judge has to call it, and which record and offsets it has to name.

Each function takes a run made by `Model` and spoils it in one way, as a broken broker, producer or reader would. It
returns None where this run has nothing that could be spoilt so. Those that spoil records and logs have files of their
own (`planted_in_records.py`, `planted_in_logs.py`); here are transactions, times and faults, and the list of all.
"""

from __future__ import annotations

from dataclasses import replace

from ottla.audit import findings as kinds
from ottla.audit.chronicles.chronicle import ControlSeen, FaultSeen, ProduceSeen
from ottla.ledger.schema import FAILED

from .model import COMMITTED, seen
from .planted_in_logs import (
    acknowledge_too_early,
    corrupt,
    diverge,
    let_a_watermark_fall,
    let_an_epoch_fall,
    refuse_what_is_stored,
    skip_a_sequence_number,
    truncate,
    write_after_fencing,
)
from .planted_in_records import (
    alter,
    break_a_promise,
    change_after_it_was_read,
    lose,
    lose_one_of_two,
    misplace,
    never_tell,
    put_in_a_foreign_record,
    put_into_another_partition,
    repeat,
    return_what_stands_nowhere,
    skip,
    store_more_often_than_handed_over,
    store_the_failed_one_of_two,
    store_twice,
    store_what_failed,
    swap,
    tell_a_wrong_offset,
)
from .planting import Planted, Run, Spoil, place_of


def show_an_aborted_record(run: Run) -> Planted | None:
    found = run.transaction("aborted")
    if found is None:
        return None
    _, records = found
    record = run.chance.choice(records)
    (final,) = [each for each in run.reads(place_of(record), COMMITTED) if each.is_final]
    final.records = sorted([*final.records, seen(record.number, record.offset)], key=lambda each: each.offset)
    return Planted(kinds.ABORTED_READ, (record.number,), (record.offset,))


def tear(run: Run) -> Planted | None:
    found = run.transaction("committed")
    if found is None:
        return None
    _, records = found
    record = run.chance.choice(records)
    for read in run.reads(place_of(record), COMMITTED):
        read.records = [each for each in read.records if each.number != record.number]
    return Planted(kinds.TORN, (record.number,), (record.offset,))


def show_before_the_commit(run: Run) -> Planted | None:
    found = run.transaction("committed")
    if found is None or run.c.transaction_version < 2:
        return None  # in version 1 a late commit of the one before may have shown it
    transaction, records = found
    numbers = [record.number for record in records]
    read = next(r for r in run.reads(place_of(records[0]), COMMITTED) if any(e.number in numbers for e in r.records))
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


def _disturbed_us(run: Run) -> int:
    """When the first thing went wrong."""
    assert run.c.broker_ends is not None
    return min([run.c.first_fault_us, *(each.at_us for each in run.c.broker_ends)])


def fail_without_a_cause(run: Run) -> Planted | None:
    before_us = _disturbed_us(run)
    record = run.pick([each for each in run.sent("p", "q", kept=False) if each.told_us < before_us])
    if record is None:
        return None
    record.outcome, record.offset, record.error = FAILED, -1, "INVALID_TXN_STATE"
    return Planted(kinds.UNCAUSED, (record.number,))


def refuse_a_commit(run: Run) -> Planted | None:
    assert run.c.instances is not None
    died = {each.producer: each.died_us for each in run.c.instances if each.died_us >= 0 and each.instance == 1}
    before_us = _disturbed_us(run)
    granted = [
        each
        for each in run.c.transactions
        if each.outcome == "committed"
        and each.instance == 1
        and each.ended_us < min(before_us, died.get(each.producer, before_us))
    ]
    if not granted:
        return None
    run.chance.choice(granted).outcome = "aborted"
    return Planted(kinds.UNCAUSED)


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
