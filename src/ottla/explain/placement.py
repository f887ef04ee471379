"""Where the batches of a capture stand in their partition: by answers, by fetches, and by counting offsets.

What a broker answered and what a Fetch showed is known. Between two known batches there may be offsets that nobody
told of: batches whose answer never came, or was an error, fill them where their numbers of records add up. Where more
than one selection of them adds up, only what all of them have in common is concluded. A partition is not counted in
which transactions are (their markers take offsets, too), or to which somebody writes whose requests were not captured.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from itertools import combinations, pairwise

from ottla.explain.sighting import Attempt, PartitionSeen, Sending
from ottla.tap.exchange import Outcome

# So many attempts may fill a gap; of more, all selections are not tried.
_CANDIDATES_MAX = 12


@dataclass(slots=True)
class Range:
    """A batch that is known to stand from `begin` to `end` (exclusive).

    It was appended between `sent_us` and `known_us`. `digest`: of its bytes, None where nobody told.
    """

    begin: int
    end: int
    digest: str | None
    sent_us: int
    known_us: int
    sending: Sending | None = None


@dataclass(slots=True)
class Filled:
    """A gap that attempts explain: each selection of them that adds up."""

    begin: int
    end: int
    selections: list[tuple[Attempt, ...]]


@dataclass(slots=True)
class Placement:
    """What stands in one partition.

    `ranges`: in offset order, no two at the same offsets; of what was overwritten the last. `overwritten`: what was
    acknowledged, and another batch was told or fetched at its offsets later. `is_comparable`: fetched batches have the
    bytes that were produced (brokers that set timestamps or compress anew change them). `is_whole`: everything from the
    first to the last known offset is explained. `has_strangers`: others write there whose requests were not captured.
    """

    seen: PartitionSeen
    ranges: list[Range] = field(default_factory=list)
    overwritten: list[tuple[Range, Range]] = field(default_factory=list)
    copies: dict[str, list[int]] = field(default_factory=dict)
    filled: list[Filled] = field(default_factory=list)
    unexplained: list[tuple[int, int]] = field(default_factory=list)
    is_comparable: bool = True
    is_compacted: bool = False
    is_transactional: bool = False
    has_strangers: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether there is no offset that nobody can explain."""
        return not self.unexplained and not self.is_transactional and not self.is_compacted

    @property
    def begin(self) -> int:
        """The first offset that is known."""
        return self.ranges[0].begin if self.ranges else 0


def place_batches(seen: PartitionSeen) -> Placement:
    """Where they stand; notes in each attempt where it does."""
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
    placement.has_strangers = bool(told) and any(
        each.base_offset >= min(told) and each.sha256 not in produced for each in fetched
    )
    _take_ranges(placement)
    _take_copies(placement)
    if not placement.is_transactional and not placement.is_compacted:
        _fill_gaps(placement)
    _note_absent(placement)
    return placement


def _known(placement: Placement) -> list[Range]:
    """All that was told or fetched, in the order in which it was known."""
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
            digest = batch.sha256 if placement.is_comparable else None
            senders = by_digest.get(batch.sha256) if digest is not None else None
            sender = senders[0] if senders else None
            end = batch.base_offset + batch.record_count
            sent_us = fetch.asked_us if sender is None else sender.first.sent_us
            found.append(Range(batch.base_offset, end, digest, sent_us, fetch.seen_us, sender))
    return sorted(found, key=lambda each: each.known_us)


def _take_ranges(placement: Placement) -> None:
    """The last that is known of each offset; what was told before and is another is overwritten."""
    standing: dict[int, Range] = {}
    begins: list[int] = []
    for known in _known(placement):
        before = standing.get(known.begin)
        if before is not None and _same(before, known):
            before.digest = before.digest or known.digest
            before.sending = before.sending or known.sending
            continue
        for each in _overlapping(standing, begins, known):
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
    for sending in placement.seen.sendings:
        offsets = placement.copies.get(sending.first.batch.sha256 or "", [])
        silent = [each for each in sending.attempts if each.stands_at is None]
        left = [offset for offset in offsets if all(each.stands_at != offset for each in sending.attempts)]
        if len(offsets) and len(silent) == 1 and len(left) == 1:
            silent[0].stands_at = left[0]


def _fill_gaps(placement: Placement) -> None:
    """Between two known batches, and up to the highest watermark that was told."""
    ranges = placement.ranges
    if not ranges:
        return
    gaps = [(before.end, after.begin, after.known_us) for before, after in pairwise(ranges) if before.end < after.begin]
    if ends := placement.seen.ends:
        _, known_us, end = max(ends, key=lambda each: (each[2], -each[1]))
        if end > ranges[-1].end:
            gaps.append((ranges[-1].end, end, known_us))
    acked = {id(each) for each in placement.seen.sendings if each.acked is not None}
    # An idempotent batch of which the broker told where it stands is there only once.
    open_ones = [
        attempt
        for sending in placement.seen.sendings
        for attempt in sending.attempts
        if attempt.stands_at is None and not attempt.is_acked and not (attempt.is_idempotent and id(sending) in acked)
    ]
    for begin, end, known_us in gaps:
        candidates = [each for each in open_ones if each.stands_at is None and each.sent_us <= known_us]
        selections = _adding_up(candidates, end - begin)
        if not selections:
            placement.unexplained.append((begin, end))
            continue
        placement.filled.append(Filled(begin, end, selections))
        if len(selections) == 1 and not placement.has_strangers:
            offset = begin
            for each in selections[0]:
                each.stands_at = offset
                offset += each.batch.record_count
    if placement.unexplained or placement.has_strangers:
        placement.unexplained += [(each.begin, each.end) for each in placement.filled]
        placement.filled.clear()


def _adding_up(candidates: list[Attempt], count: int) -> list[tuple[Attempt, ...]]:
    """All selections of these with so many records; none where there are too many to try."""
    fitting = [each for each in candidates if each.batch.record_count <= count]
    if sum(each.batch.record_count for each in fitting) == count:
        return [tuple(fitting)]
    if len(fitting) > _CANDIDATES_MAX:
        return []
    return [
        chosen
        for size in range(1, len(fitting) + 1)
        for chosen in combinations(fitting, size)
        if sum(each.batch.record_count for each in chosen) == count
    ]


def _note_absent(placement: Placement) -> None:
    """An attempt is stored nowhere if all offsets where it could stand are others'."""
    if not placement.is_whole or not placement.ranges:
        return
    doubtful = {each.number for filled in placement.filled for chosen in filled.selections for each in chosen}
    last_us = max(each.known_us for each in placement.ranges)
    for attempt in placement.seen.attempts:
        if attempt.stands_at is not None or attempt.is_acked or attempt.number in doubtful:
            continue
        is_below = placement.begin == 0 or any(each.known_us <= attempt.sent_us for each in placement.ranges)
        is_due = attempt.exchange.outcome is not Outcome.NOT_DUE
        attempt.is_absent = is_below and last_us > attempt.sent_us and is_due
