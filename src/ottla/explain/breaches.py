"""Which promise a capture shows to be broken: a batch stored more than once, lost, or out of order.

Everything is compared with exactly-once in order, whatever the producer's settings claim; a breach says both. Only what
is certain is a breach. What a capture cannot show may still be broken: `Sighting.unseen` says what that is.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.audit.findings import DUPLICATED, LOST, REORDERED
from ottla.audit.promises import claimed
from ottla.explain.placement import Filled, Placement
from ottla.explain.sighting import Attempt, Place, Sending
from ottla.tap.exchange import Exchange, Outcome

# For this long, a request without an answer may still arrive at the broker.
_SETTLED_US = 4_000_000
# A follower that does not fetch holds the high watermark back for less than this: replica.lag.time.max.ms is 30 s, and
# is checked every 15 s.
_HELD_BACK_US = 60_000_000


@dataclass(slots=True)
class Breach:
    """One thing that exactly-once forbids; at `offsets` is the evidence."""

    kind: str
    place: Place
    records: int
    offsets: tuple[int, ...]
    words: str
    attempts: tuple[Attempt, ...]
    claims: str

    @property
    def is_claimed(self) -> bool:
        """Whether the producer's own settings promise that this does not happen."""
        attempt = self.attempts[0]
        promise = claimed(acks=_acks(attempt.exchange), idempotent=attempt.is_idempotent)
        return self.kind in promise.never


def find_breaches(placement: Placement) -> list[Breach]:
    """All breaches of one partition, in the order of their kinds."""
    if not placement.seen.is_known or placement.begins_again:
        return []
    if not placement.seen.is_timed:
        return _copies(placement)
    return [*_duplicates(placement), *_losses(placement), *_reordered(placement)]


def _acks(exchange: Exchange) -> int:
    return -1 if exchange.acks is None else exchange.acks


def _breach(
    kind: str, placement: Placement, sending: Sending, offsets: tuple[int, ...], words: str, *more: Attempt
) -> Breach:
    first = sending.first
    attempts = tuple(dict.fromkeys((*sending.attempts, *more)))
    claims = claimed(acks=_acks(first.exchange), idempotent=first.is_idempotent).guarantee
    return Breach(kind, placement.seen.place, first.batch.record_count, offsets, words, attempts, claims)


# ---- stored more than once ------------------------------------------------------------------------------------------


def _copies(placement: Placement) -> list[Breach]:
    """Batches that were fetched at several offsets, and sent fewer times than that."""
    found = []
    by_digest: dict[str | None, list[Sending]] = {}
    for sending in placement.seen.sendings:
        by_digest.setdefault(sending.first.batch.sha256, []).append(sending)
    for digest in placement.copies:
        senders = by_digest.get(digest, [])
        offsets = placement.new_copies(senders[0]) if senders else []
        if len(offsets) > len(senders):
            sending = max(senders, key=lambda each: len(each.attempts))
            count = len(sending.attempts)
            times = "once" if count == 1 else "twice" if count == 2 else f"{count} times"
            records = sending.first.batch.record_count
            same = "record stands" if records == 1 else f"{records:,} records stand"
            sent = "it was" if records == 1 else "they were"
            words = f"the same {same} at offsets {_listed(offsets)}; {sent} sent {times}"
            found.append(_breach(DUPLICATED, placement, sending, tuple(offsets), words))
    return found


def _duplicates(placement: Placement) -> list[Breach]:
    found = _copies(placement)
    digests = {each.attempts[0].batch.sha256 for each in found}
    told = {id(each) for each in placement.seen.sendings if each.first.batch.sha256 in digests}
    for sending in placement.seen.sendings:
        if sending.again is not None and id(sending) not in told and _stands_besides(placement, sending):
            told.add(id(sending))
            offset, other = sending.first.stands_at, sending.again.acked
            assert offset is not None
            assert other is not None
            assert other.offset is not None
            which = "it was" if sending.first.batch.record_count == 1 else "the first of them was"
            words = (
                f"{_verb(sending, 'stands', 'stand')} at offset {offset}, and {which} sent again in another batch, "
                f"acknowledged at offset {other.offset}"
            )
            found.append(_breach(DUPLICATED, placement, sending, (offset, other.offset), words, other))
    of_attempt = {each.number: sending for sending in placement.seen.sendings for each in sending.attempts}
    for filled in placement.filled:
        for sending in _copied_by_all(filled, of_attempt):
            if id(sending) in told:
                continue
            told.add(id(sending))
            acked = sending.acked_again
            told_at = () if acked is None or acked.offset is None else (acked.offset,)
            words = _words_of_copy(filled, sending, acked)
            found.append(_breach(DUPLICATED, placement, sending, (filled.begin, *told_at), words))
    return found


def _words_of_copy(filled: Filled, sending: Sending, acked: Attempt | None) -> str:
    records = sending.first.batch.record_count
    is_one = filled.end == filled.begin + 1
    where = f"offset {filled.begin} holds" if is_one else f"offsets {filled.begin} to {filled.end - 1} hold"
    more = " among others" if filled.end > filled.begin + records else ""
    again = "sent more than once" if acked is None else f"sent again and acknowledged at offset {acked.offset}"
    which = "it was" if records == 1 else "they were"
    return f"{where}{more} {_records(sending)} whose answer did not come, or was an error; {which} {again}"


def _stands_besides(placement: Placement, sending: Sending) -> bool:
    """Whether it is stored although it was sent again in another batch, which is stored elsewhere."""
    other = None if sending.again is None else sending.again.acked
    at = sending.first.stands_at
    return sending.acked is None and at is not None and other is not None and other.offset not in (None, at)


def _copied_by_all(filled: Filled, of_attempt: dict[int, Sending]) -> list[Sending]:
    """The sendings of a gap that are stored a second time elsewhere; none if a selection is possible without such one.

    If every selection has such a sending, but not the same one, that of the first selection is returned.
    """
    chosen: list[list[Sending]] = []
    for selection in filled.selections:
        sendings = [of_attempt[each.number] for each in selection]
        copied = [each for each in sendings if each.acked_again is not None or sendings.count(each) > 1]
        if not copied:
            return []
        chosen.append(copied)
    if not chosen:
        return []
    common = [each for each in chosen[0] if all(each in copied for copied in chosen)]
    return list(dict.fromkeys(common)) or chosen[0][:1]


# ---- lost -----------------------------------------------------------------------------------------------------------


def _losses(placement: Placement) -> list[Breach]:
    found = []
    for lost, after in placement.overwritten:
        sending = lost.sending
        acked = None if sending is None else sending.acked
        if sending is None or acked is None or acked.offset != lost.begin or _stands_now(placement, sending):
            continue
        words = (
            f"{_verb(sending, 'was', 'were')} acknowledged at offset {lost.begin}, where something else stands "
            f"{(after.known_us - lost.known_us) / 1e6:,.3f} s later"
        )
        found.append(_breach(LOST, placement, sending, (lost.begin,), words))
    found += _cut_off(placement)
    return [*found, *_never_stored(placement)]


def _stands_now(placement: Placement, sending: Sending) -> bool:
    digest = sending.first.batch.sha256
    return any(each.sending is sending or (digest is not None and each.digest == digest) for each in placement.ranges)


def _cut_off(placement: Placement) -> list[Breach]:
    """Acknowledged beyond an end that was told long afterwards, by a broker that took records: followers know less."""
    leaders = {each.exchange.broker for each in placement.seen.attempts if each.is_acked}
    ends = [each for each in placement.seen.ends if each.broker in leaders]
    if not ends:
        return []
    asked_us, _, end, _ = max(ends)
    found = []
    for each in placement.ranges:
        sending = each.sending
        acked = None if sending is None else sending.acked
        if sending is None or acked is None or acked.offset != each.begin or each.begin < end:
            continue
        if asked_us > each.known_us + _HELD_BACK_US:
            words = (
                f"{_verb(sending, 'was', 'were')} acknowledged at offset {each.begin}, and the partition ends at {end}"
            )
            found.append(_breach(LOST, placement, sending, (each.begin, end), words))
    return found


def _never_stored(placement: Placement) -> list[Breach]:
    """Batches that were sent without asking for an answer (acks=0), and that no later Fetch has shown."""
    unasked = [each for each in placement.seen.sendings if each.first.exchange.outcome is Outcome.NOT_DUE]
    if not unasked or not placement.is_comparable or placement.is_compacted:
        return []
    read_us = _read_whole_at(placement)
    if read_us is None:
        return []
    found = []
    counts: dict[str, int] = {}
    begun_us = _end_known_at(placement)
    last_us = max((each.sending.first.sent_us for each in placement.ranges if each.sending is not None), default=0)
    for sending in unasked:
        digest, sent_us = sending.first.batch.sha256, sending.first.sent_us
        # If a batch that was sent after it was read, the high watermark has passed both: then a short wait is enough.
        is_settled = sent_us + (_SETTLED_US if sent_us < last_us else _HELD_BACK_US) <= read_us
        if digest is None or sent_us < begun_us or not is_settled:
            continue
        counts[digest] = counts.get(digest, 0) + 1
        if counts[digest] > len(placement.copies.get(digest, ())):
            words = f"{_verb(sending, 'was', 'were')} sent with acks=0, and no Fetch of the whole partition shows "
            words += "it" if sending.first.batch.record_count == 1 else "them"
            found.append(_breach(LOST, placement, sending, (), words))
    return found


def _end_known_at(placement: Placement) -> int:
    """From when on every stored batch has the first known offset or a later one; readers may not have begun at 0."""
    if placement.begin == 0:
        return 0
    ends = [each.seen_us for each in placement.seen.ends if each.offset >= placement.begin]
    told = [each.known_us for each in placement.ranges]
    return min((*ends, *told))


def _read_whole_at(placement: Placement) -> int | None:
    """When the last Fetch of a complete read was sent, from the first known offset to the end; None without one."""
    read_to, read_us = placement.begin, None
    ends = [each.offset for each in placement.seen.ends]
    for fetch in sorted(placement.seen.fetched, key=lambda each: each.begin):
        if fetch.begin > read_to:
            return None
        read_to = max(read_to, fetch.end)
    if not ends or read_to < max(ends):
        return None
    for each in placement.seen.ends:
        if each.offset == read_to:
            read_us = max(read_us or 0, each.asked_us)
    return read_us


# ---- out of order ---------------------------------------------------------------------------------------------------


def _reordered(placement: Placement) -> list[Breach]:
    """Sendings whose first copy has a higher offset than one that the same producer sent later."""
    if not placement.is_whole:
        return []
    first_copy = _first_copies(placement)
    found = []
    producers = _producers(placement)
    # From the last sending to the first: a sending is late if one that was sent later has a lower offset.
    order = [each for each in placement.seen.sendings if id(each) in first_copy]
    lowest: dict[int, tuple[int, Sending]] = {}
    for sending in reversed(order):
        producer = producers[sending.first.exchange.connection]
        stands_at = first_copy[id(sending)]
        after = lowest.get(producer)
        if after is not None and after[0] < stands_at:
            words = (
                f"{_verb(sending, 'stands', 'stand')} at offset {stands_at}, behind what was sent later and stands at "
                f"offset {after[0]}"
            )
            found.append(_breach(REORDERED, placement, sending, (after[0], stands_at), words, after[1].first))
        if after is None or stands_at < after[0]:
            lowest[producer] = stands_at, sending
    return found[::-1]


def _first_copies(placement: Placement) -> dict[int, int]:
    """The offset of each sending's first copy, by the sending's `id`; left out if an earlier copy is possible."""
    is_read = _read_whole_at(placement) is not None
    equals: dict[str, int] = {}
    for sending in placement.seen.sendings:
        digest = sending.first.batch.sha256 or ""
        equals[digest] = equals.get(digest, 0) + 1
    found = {}
    for sending in placement.seen.sendings:
        digest = sending.first.batch.sha256 or ""
        copies = placement.copies.get(digest, [])
        if (equals[digest] > 1 and len(copies) > 1) or len(placement.new_copies(sending)) < len(copies):
            continue  # it is not known which copy belongs to which attempt
        known = [*copies, *(each.stands_at for each in sending.attempts if each.stands_at is not None)]
        # If the whole partition was read, all copies are known. Otherwise it must be known where each attempt is.
        unknown = [each for each in sending.attempts if each.stands_at is None and not each.is_absent]
        is_open = not is_read and bool(unknown)
        is_doubtful = is_open or any(each.number in placement.doubtful for each in sending.attempts)
        if known and not is_doubtful and sending.first.sent_us >= placement.seen.first_us(sending):
            found[id(sending)] = min(known)
    return found


def _producers(placement: Placement) -> dict[int, int]:
    """Connection -> a number of its producer: connections with the same batch or the same producer id are of one."""
    parent: dict[int, int] = {}

    def root(connection: int) -> int:
        while parent.setdefault(connection, connection) != connection:
            connection = parent[connection]
        return connection

    ids: dict[int, int] = {}
    for sending in placement.seen.sendings:
        connections = [each.exchange.connection for each in sending.attempts]
        if sending.first.is_idempotent:
            connections.append(ids.setdefault(sending.first.batch.producer_id, connections[0]))
        for connection in connections:
            parent[root(connection)] = root(connections[0])
    return {connection: root(connection) for connection in list(parent)}


def _records(sending: Sending) -> str:
    count = sending.first.batch.record_count
    return f"{count:,} record{'' if count == 1 else 's'}"


def _verb(sending: Sending, one: str, many: str) -> str:
    """How many records, and the verb for so many."""
    return f"{_records(sending)} {one if sending.first.batch.record_count == 1 else many}"


def _listed(offsets: list[int]) -> str:
    return ", ".join(map(str, offsets[:-1])) + f" and {offsets[-1]}"
