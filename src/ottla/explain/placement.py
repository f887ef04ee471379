"""Where the batches of a capture stand in their partition: by answers, by fetches, and by counting offsets.

What a broker answered and what a Fetch showed is known. Between two known batches there may be a gap: offsets of which
nothing is known. It is filled with batches that had no answer, or an error, if their numbers of records add up to the
size of the gap. If more than one selection of batches adds up, only what all selections have in common is concluded. If
there are too many selections to try, it is only concluded whether each of them has a batch that is stored elsewhere,
too. Offsets are not counted in a partition with transactions (their markers take offsets, too), or with a producer
whose requests were not captured.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, islice, pairwise
from typing import NamedTuple

from ottla.explain.sighting import Attempt, PartitionSeen, Sending
from ottla.tap.exchange import Outcome

# Bytes with a timestamp that is so much older than their request may have been sent before, too.
_FRESH_US = 60_000_000
# If more attempts than the first number may fill a gap, not all selections of them are tried; then a gap of more
# offsets than the second number is not filled.
_CANDIDATES_MAX, _SUM_MAX = 12, 1 << 16
# Then only this many of the attempts are tried.
_SAMPLED = 6


@dataclass(slots=True)
class Range:
    """A batch that is known to have the offsets from `begin` to `end` (exclusive).

    It was appended between `sent_us` and `known_us`. `digest` is that of its bytes, None if they are not known.
    """

    begin: int
    end: int
    digest: str | None
    sent_us: int
    known_us: int
    sending: Sending | None = None


@dataclass(slots=True)
class Filled:
    """A gap that attempts explain, with the selections of them that add up to its size.

    `is_sampled`: there are too many selections, and these are likely ones. Then there are none if it is not certain
    that each selection has a batch that is stored elsewhere, too.
    """

    begin: int
    end: int
    selections: list[tuple[Attempt, ...]]
    is_sampled: bool = False


@dataclass(slots=True)
class Placement:
    """What is stored in one partition.

    `ranges`: in offset order, no two at the same offsets; where batches were overwritten, the last one. `overwritten`:
    batches that were acknowledged, and at whose offsets another batch was acknowledged or fetched later.
    `is_comparable`: fetched batches have the bytes that were produced (brokers that set timestamps or compress anew
    change them). `is_whole`: everything from the first to the last known offset is explained. `has_other_writers`:
    others write there, and their requests were not captured. `possible`: numbers of the attempts that may be stored in
    a gap, `doubtful` those that may also be stored nowhere. `first_told`: the lowest offset that was acknowledged; all
    that is stored from there on was stored during the capture.
    """

    seen: PartitionSeen
    ranges: list[Range] = field(default_factory=list)
    overwritten: list[tuple[Range, Range]] = field(default_factory=list)
    copies: dict[str, list[int]] = field(default_factory=dict)
    filled: list[Filled] = field(default_factory=list)
    possible: set[int] = field(default_factory=set)
    doubtful: set[int] = field(default_factory=set)
    unexplained: list[tuple[int, int]] = field(default_factory=list)
    is_comparable: bool = True
    is_compacted: bool = False
    is_transactional: bool = False
    has_other_writers: bool = False
    first_told: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether every offset is explained."""
        return not self.unexplained and not self.is_transactional and not self.is_compacted

    @property
    def begin(self) -> int:
        """The first offset that is known."""
        return self.ranges[0].begin if self.ranges else 0

    @property
    def begins_again(self) -> bool:
        """Whether the log began again at offset 0, and the topic may have been deleted and made again."""
        return any(
            not known.begin and not before.begin and known.known_us > self.seen.sure_us
            for before, known in self.overwritten
        )

    def new_copies(self, sending: Sending) -> list[int]:
        """Where its bytes were fetched, without what may have been stored before the capture began."""
        batch = sending.first.batch
        offsets = self.copies.get(batch.sha256 or "", [])
        stamp_ms = batch.max_timestamp_ms
        if stamp_ms is not None and stamp_ms * 1000 + _FRESH_US >= sending.first.sent_us:
            return offsets
        return [each for each in offsets if self.first_told is not None and each >= self.first_told]


def place_batches(seen: PartitionSeen) -> Placement:
    """Conclude where the batches of a partition are stored; this is also noted in each attempt (`stands_at`)."""
    placement = Placement(seen)
    produced = {each.batch.sha256 for each in seen.attempts if each.batch.sha256 is not None}
    fetched = [batch for fetch in seen.fetched for batch in fetch.batches]
    placement.is_transactional = any(each.is_control or each.is_transactional for each in fetched) or any(
        each.batch.is_transactional for each in seen.attempts
    )
    placement.is_compacted = any(
        before.base_offset + before.record_count < after.base_offset
        for fetch in seen.fetched
        for before, after in pairwise(fetch.batches)
    )
    placement.is_comparable = not fetched or any(each.sha256 in produced for each in fetched)
    told = [each.offset for each in seen.attempts if each.is_acked and each.offset is not None]
    placement.first_told = min(told, default=None)
    placement.has_other_writers = placement.first_told is not None and any(
        each.base_offset >= placement.first_told and each.sha256 not in produced for each in fetched
    )
    # What was not captured may have been stored between what was.
    told_us = [each.settled_us or 0 for each in seen.attempts if each.is_acked]
    placement.has_other_writers |= min(told_us, default=0) < seen.unseen_us
    _take_ranges(placement)
    _take_copies(placement)
    if not placement.is_transactional and not placement.is_compacted:
        _fill_gaps(placement)
    _note_absent(placement)
    return placement


def _known(placement: Placement) -> list[Range]:
    """All that was acknowledged or fetched, in the order in which it became known."""
    seen = placement.seen
    found = []
    for sending in seen.sendings:
        for attempt in sending.attempts:
            if attempt.is_acked and attempt.offset is not None:
                attempt.stands_at = attempt.offset
                end = attempt.offset + attempt.batch.record_count
                digest = attempt.batch.sha256 if placement.is_comparable else None
                first_us = sending.first.sent_us
                known_us = attempt.settled_us or attempt.sent_us
                found.append(Range(attempt.offset, end, digest, first_us, known_us, sending))
    by_digest: dict[str | None, list[Sending]] = {}
    for sending in seen.sendings:
        by_digest.setdefault(sending.first.batch.sha256, []).append(sending)
    for fetch in seen.fetched:
        for batch in fetch.batches:
            # Bytes that were not sent may be a batch that the broker compressed anew, or one that was damaged.
            senders = by_digest.get(batch.sha256) if placement.is_comparable and batch.sha256 is not None else None
            sender = senders[0] if senders else None
            digest = batch.sha256 if senders else None
            end = batch.base_offset + batch.record_count
            sent_us = fetch.asked_us if sender is None else sender.first.sent_us
            found.append(Range(batch.base_offset, end, digest, sent_us, fetch.seen_us, sender))
    return sorted(found, key=lambda each: each.known_us)


def _take_ranges(placement: Placement) -> None:
    """The last batch that is known at each offset; another batch that was known there before is overwritten."""
    standing: dict[int, Range] = {}
    begins: list[int] = []
    for known in _known(placement):
        before = standing.get(known.begin)
        if before is not None and _same(before, known):
            before.digest = before.digest or known.digest
            before.sending = before.sending or known.sending
            continue
        overlapping = _overlapping(standing, begins, known)
        if overlapping and known.sending is None:
            continue  # bytes that nobody sent: what compaction has left of a batch, perhaps
        for each in overlapping:
            del standing[each.begin]
            begins.remove(each.begin)
            placement.overwritten.append((each, known))
        standing[known.begin] = known
        insort(begins, known.begin)
    placement.ranges = [standing[begin] for begin in begins]


def _overlapping(standing: dict[int, Range], begins: list[int], known: Range) -> list[Range]:
    """Those at the same offsets; `begins` are the first ones of all, sorted."""
    first = max(0, bisect_left(begins, known.begin) - 1)
    near = (standing[begin] for begin in begins[first : bisect_left(begins, known.end)])
    return [each for each in near if each.begin < known.end and known.begin < each.end]


def _same(one: Range, other: Range) -> bool:
    if (one.begin, one.end) != (other.begin, other.end):
        return False
    return one.digest is None or other.digest is None or one.digest == other.digest


def _take_copies(placement: Placement) -> None:
    for each in placement.ranges:
        if each.digest is not None:
            placement.copies.setdefault(each.digest, []).append(each.begin)
    equals = Counter(each.first.batch.sha256 for each in placement.seen.sendings)
    for sending in placement.seen.sendings:
        digest = sending.first.batch.sha256
        offsets = placement.copies.get(digest or "", []) if equals[digest] == 1 else []
        silent = [each for each in sending.attempts if each.stands_at is None]
        left = [offset for offset in offsets if all(each.stands_at != offset for each in sending.attempts)]
        if len(offsets) and len(silent) == 1 and len(left) == 1:
            silent[0].stands_at = left[0]


class _Gap(NamedTuple):
    """Offsets of which nothing is known; `behind`: the sending whose batch has the next higher offset."""

    begin: int
    end: int
    known_us: int
    behind: Sending | None


def _gaps(placement: Placement) -> list[_Gap]:
    """The gaps between two known batches, and the one before the highest high watermark that was told."""
    ranges = placement.ranges
    found = [
        _Gap(before.end, after.begin, after.known_us, after.sending)
        for before, after in pairwise(ranges)
        if before.end < after.begin
    ]
    if ranges and placement.seen.ends:
        end = max(placement.seen.ends, key=lambda each: (each.offset, -each.seen_us))
        if end.offset > ranges[-1].end:
            found.append(_Gap(ranges[-1].end, end.offset, end.seen_us, None))
    return found


def _fill_gaps(placement: Placement) -> None:
    sending_of = {each.number: sending for sending in placement.seen.sendings for each in sending.attempts}
    # An idempotent batch is stored only once: if the broker told its offset, it is not in a gap as well.
    open_ones = [
        each
        for each in placement.seen.attempts
        if each.stands_at is None
        and not each.is_acked
        and not (each.is_idempotent and sending_of[each.number].acked is not None)
    ]
    open_ones.sort(key=lambda each: each.sent_us)
    alone = [each for each in open_ones if sending_of[each.number].acked_again is None]
    sampled_us = 0
    for gap in _gaps(placement):
        filled = _fill(gap, open_ones, alone, sending_of)
        if filled is None:
            placement.unexplained.append((gap.begin, gap.end))
            continue
        placement.filled.append(filled)
        numbers = {each.number for chosen in filled.selections for each in chosen}
        placement.possible |= numbers
        if filled.is_sampled:
            sampled_us = max(sampled_us, gap.known_us)
        elif len(filled.selections) > 1:
            placement.doubtful |= numbers
        elif not placement.has_other_writers:
            offset = gap.begin
            for each in sorted(filled.selections[0], key=lambda each: each.number):
                each.stands_at = offset
                offset += each.batch.record_count
            open_ones = [each for each in open_ones if each.stands_at is None]
            alone = [each for each in alone if each.stands_at is None]
    sampled = {each.number for each in open_ones if each.sent_us <= sampled_us}
    placement.possible |= sampled
    placement.doubtful |= sampled
    if placement.unexplained or placement.has_other_writers:
        placement.unexplained += [(each.begin, each.end) for each in placement.filled]
        placement.filled.clear()


def _fill(gap: _Gap, open_ones: list[Attempt], alone: list[Attempt], sending_of: dict[int, Sending]) -> Filled | None:
    """The attempts that may be stored in a gap; None if no selection adds up.

    `open_ones` may be stored anywhere, `alone` are those of them that are stored nowhere else; both are in the order of
    their times.
    """
    count = gap.end - gap.begin
    near = list(islice(_fitting(open_ones, gap), _CANDIDATES_MAX + 1))
    if len(near) <= _CANDIDATES_MAX or len(open_ones) <= count:
        candidates = _likeliest(list(_fitting(open_ones, gap)), gap, sending_of)
        if sum(map(_size, candidates)) == count:
            return Filled(gap.begin, gap.end, [tuple(candidates)])
        if len(candidates) <= _CANDIDATES_MAX:
            selections = _adding_up(candidates, count)
            return Filled(gap.begin, gap.end, selections) if selections else None
    if count > _SUM_MAX or not _can_add_up(_fitting(open_ones, gap), count):
        return None
    is_copied = not _can_add_up(_fitting(alone, gap), count)
    likely = _adding_up(_likeliest(near[:_SAMPLED], gap, sending_of), count) if is_copied else []
    return Filled(gap.begin, gap.end, likely, is_sampled=True)


def _fitting(attempts: list[Attempt], gap: _Gap) -> Iterator[Attempt]:
    """The attempts that may be stored in a gap; those that were sent last come first."""
    sent_before = bisect_right(attempts, gap.known_us, key=lambda each: each.sent_us)
    count = gap.end - gap.begin
    return (each for each in islice(reversed(attempts), len(attempts) - sent_before, None) if _size(each) <= count)


def _likeliest(attempts: list[Attempt], gap: _Gap, sending_of: dict[int, Sending]) -> list[Attempt]:
    """The same attempts; first those of the sending that is stored just behind the gap."""
    return sorted(attempts, key=lambda each: sending_of[each.number] is not gap.behind)


def _size(attempt: Attempt) -> int:
    """How many offsets it takes."""
    return attempt.batch.record_count


def _adding_up(candidates: list[Attempt], count: int) -> list[tuple[Attempt, ...]]:
    """All selections of these with so many records."""
    return [
        chosen
        for size in range(1, len(candidates) + 1)
        for chosen in combinations(candidates, size)
        if sum(map(_size, chosen)) == count
    ]


def _can_add_up(candidates: Iterable[Attempt], count: int) -> bool:
    """Whether some of these have so many records; the bits of `sums` are the numbers that can be had."""
    sums, mask = 1, (1 << count + 1) - 1
    for each in candidates:
        sums |= sums << _size(each) & mask
        if sums >> count & 1:
            return True
    return False


def _note_absent(placement: Placement) -> None:
    """An attempt is stored nowhere if other batches have all offsets where it could stand."""
    if not placement.is_whole or not placement.ranges:
        return
    last_us = max(each.known_us for each in placement.ranges)
    for attempt in placement.seen.attempts:
        if attempt.stands_at is not None or attempt.is_acked or attempt.number in placement.possible:
            continue
        is_below = placement.begin == 0 or any(each.known_us <= attempt.sent_us for each in placement.ranges)
        is_due = attempt.exchange.outcome is not Outcome.NOT_DUE
        attempt.is_absent = is_below and last_us > attempt.sent_us and is_due
