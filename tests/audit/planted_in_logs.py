"""Anomalies of batches and replicas: what a broken broker writes, refuses, forgets or acknowledges too early."""

from __future__ import annotations

from dataclasses import replace

from ottla.audit import findings as kinds
from ottla.ledger.schema import ACKED, UNKNOWN

from .planting import Planted, Run, place_of, some_batch


def corrupt(run: Run) -> Planted | None:
    batch = some_batch(run)
    if batch is None:
        return None
    log, at = batch
    log.batches[at] = replace(log.batches[at], crc_is_right=False)
    return Planted(kinds.CORRUPT, (), (log.batches[at].base_offset,))


def skip_a_sequence_number(run: Run) -> Planted | None:
    found = some_batch(run, idempotent=True)
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
    doubtful = {place_of(each) for each in run.c.sent if each.producer == "p" and each.outcome != ACKED}
    record = run.pick([each for each in run.sent("p") if place_of(each) not in doubtful])
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
        is_there = (commit.topic, commit.partition) == place_of(record)
        if is_there and commit.first_offset <= record.offset < commit.end_offset:
            run.c.commits[at] = replace(commit, held_by=commit.held_by[:1])
            first = next(
                each for each in run.c.sent
                if place_of(each) == place_of(record) and each.offset == commit.first_offset
            )  # fmt: skip
            return Planted(kinds.UNDER_REPLICATED, (first.number,), (first.offset,))
    return None
