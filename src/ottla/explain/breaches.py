"""Which promise the wire shows to be broken: a batch stored more than once, lost, or out of order.

The yardstick is exactly-once in order, whatever the producer's settings claim; a breach says both. Only what is certain
is a breach. What a capture cannot show acquits nobody: `Sighting.unseen` says what that is.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.audit.findings import DUPLICATED, LOST, REORDERED
from ottla.audit.promises import claimed
from ottla.explain.placement import Filled, Placement
from ottla.explain.sighting import Attempt, Place, Sending
from ottla.tap.exchange import Exchange, Outcome

# A request without an answer may still be under way, for so long at most.
_SETTLED_US = 4_000_000
# A replica that readers fetch from may know of the end so much later (replica.lag.time.max.ms).
_REPLICA_LAG_US = 30_000_000


@dataclass(slots=True)
class Breach:
    """One thing that exactly-once forbids; `offsets` are where its evidence stands."""

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
    """All of one partition, in the order of their kinds."""
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


def _duplicates(placement: Placement) -> list[Breach]:
    found = []
    told: set[int] = set()
    by_digest: dict[str | None, list[Sending]] = {}
    for sending in placement.seen.sendings:
        by_digest.setdefault(sending.first.batch.sha256, []).append(sending)
    for digest, offsets in placement.copies.items():
        senders = by_digest.get(digest, [])
        if senders and len(offsets) > len(senders):
            sending = max(senders, key=lambda each: len(each.attempts))
            told |= {id(each) for each in senders}
            times = f"{len(sending.attempts)} times" if len(sending.attempts) > 1 else "once"
            words = f"the same {_records(sending)} stand at offsets {_listed(offsets)}; they were sent {times}"
            found.append(_breach(DUPLICATED, placement, sending, tuple(offsets), words))
    for sending in placement.seen.sendings:
        if sending.again is not None and id(sending) not in told and _stands_divided(placement, sending):
            told.add(id(sending))
            offset, other = sending.first.stands_at, sending.again.acked
            assert offset is not None
            assert other is not None
            assert other.offset is not None
            words = (
                f"{_records(sending)} stand at offset {offset}, and the first of them was sent again in a batch that "
            )
            words += f"was acknowledged at offset {other.offset}"
            found.append(_breach(DUPLICATED, placement, sending, (offset, other.offset), words, other))
    for filled in placement.filled:
        copied = _copied_by_all(filled, placement)
        for sending in copied:
            if id(sending) in told:
                continue
            told.add(id(sending))
            acked = sending.acked_again
            again = "" if acked is None else f", and they were acknowledged at offset {acked.offset}"
            last = f"to {filled.end - 1} are" if filled.end > filled.begin + 1 else "is"
            words = (
                f"offset{'s' * (filled.end > filled.begin + 1)} {filled.begin} {last} taken by {_records(sending)} "
                f"whose answer did not come, or was an error{again}"
            )
            told_at = () if acked is None or acked.offset is None else (acked.offset,)
            found.append(_breach(DUPLICATED, placement, sending, (filled.begin, *told_at), words))
    return found


def _stands_divided(placement: Placement, sending: Sending) -> bool:
    """Whether it stands although it was sent again, divided anew, and that stands elsewhere."""
    other = None if sending.again is None else sending.again.acked
    at = sending.first.stands_at
    return sending.acked is None and at is not None and other is not None and other.offset not in (None, at)


def _copied_by_all(filled: Filled, placement: Placement) -> list[Sending]:
    """Those who have a copy elsewhere, one for the gap at least, whichever selection is true."""
    of_attempt = {each.number: sending for sending in placement.seen.sendings for each in sending.attempts}
    chosen: list[list[Sending]] = []
    for selection in filled.selections:
        sendings = [of_attempt[each.number] for each in selection]
        copied = [each for each in sendings if each.acked_again is not None or sendings.count(each) > 1]
        if not copied:
            return []
        chosen.append(copied)
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
            f"{_records(sending)} were acknowledged at offset {lost.begin}, where other records stand "
            f"{(after.known_us - lost.known_us) / 1e6:,.3f} s later"
        )
        found.append(_breach(LOST, placement, sending, (lost.begin,), words))
    found += _cut_off(placement)
    return [*found, *_never_stored(placement)]


def _stands_now(placement: Placement, sending: Sending) -> bool:
    digest = sending.first.batch.sha256
    return any(each.sending is sending or (digest is not None and each.digest == digest) for each in placement.ranges)


def _cut_off(placement: Placement) -> list[Breach]:
    """Acknowledged beyond an end that was told long afterwards."""
    if not placement.seen.ends:
        return []
    asked_us, _, end = max(placement.seen.ends)
    found = []
    for each in placement.ranges:
        sending = each.sending
        acked = None if sending is None else sending.acked
        if sending is None or acked is None or acked.offset != each.begin or each.begin < end:
            continue
        if asked_us > each.known_us + _REPLICA_LAG_US:
            words = f"{_records(sending)} were acknowledged at offset {each.begin}, and the partition ends at {end}"
            found.append(_breach(LOST, placement, sending, (each.begin, end), words))
    return found


def _never_stored(placement: Placement) -> list[Breach]:
    """Sent without asking for an answer (acks=0), and in no Fetch that came long enough afterwards."""
    unasked = [each for each in placement.seen.sendings if each.first.exchange.outcome is Outcome.NOT_DUE]
    if not unasked or not placement.is_comparable or placement.is_compacted:
        return []
    read_us = _read_whole_at(placement)
    if read_us is None:
        return []
    found = []
    counts: dict[str, int] = {}
    for sending in unasked:
        digest = sending.first.batch.sha256
        if digest is None or sending.first.sent_us + _SETTLED_US > read_us:
            continue
        counts[digest] = counts.get(digest, 0) + 1
        if counts[digest] > len(placement.copies.get(digest, ())):
            words = f"{_records(sending)} were sent with acks=0, and no Fetch of the whole partition has them"
            found.append(_breach(LOST, placement, sending, (), words))
    return found


def _read_whole_at(placement: Placement) -> int | None:
    """When the last Fetch was asked that completes a read of everything since the first known offset; None for none."""
    read_to, read_us = placement.begin, None
    ends = [end for _, _, end in placement.seen.ends]
    for fetch in sorted(placement.seen.fetched, key=lambda each: each.begin):
        if fetch.begin > read_to:
            return None
        read_to = max(read_to, fetch.end)
    if not ends or read_to < max(ends):
        return None
    for asked_us, _, end in placement.seen.ends:
        if end == read_to:
            read_us = max(read_us or 0, asked_us)
    return read_us


# ---- out of order ---------------------------------------------------------------------------------------------------


def _reordered(placement: Placement) -> list[Breach]:
    """A sending whose first copy stands behind one that the same producer sent later."""
    if not placement.is_whole:
        return []
    first_copy = _first_copies(placement)
    found = []
    producers = _producers(placement)
    # What was sent first is late where something sent later stands before it.
    order = [each for each in placement.seen.sendings if id(each) in first_copy]
    lowest: dict[int, tuple[int, Sending]] = {}
    for sending in reversed(order):
        producer = producers[sending.first.exchange.connection]
        stands_at = first_copy[id(sending)]
        after = lowest.get(producer)
        if after is not None and after[0] < stands_at:
            words = (
                f"{_records(sending)} stand at offset {stands_at}, behind records at offset {after[0]} that were sent "
                f"after them"
            )
            found.append(_breach(REORDERED, placement, sending, (after[0], stands_at), words, after[1].first))
        if after is None or stands_at < after[0]:
            lowest[producer] = stands_at, sending
    return found[::-1]


def _first_copies(placement: Placement) -> dict[int, int]:
    """Of each sending the first offset, where no attempt of it can stand before that unseen."""
    doubtful = {
        each.number
        for filled in placement.filled
        if len(filled.selections) > 1
        for chosen in filled.selections
        for each in chosen
    }
    is_read = _read_whole_at(placement) is not None
    equals: dict[str, int] = {}
    for sending in placement.seen.sendings:
        digest = sending.first.batch.sha256 or ""
        equals[digest] = equals.get(digest, 0) + 1
    found = {}
    for sending in placement.seen.sendings:
        digest = sending.first.batch.sha256 or ""
        copies = placement.copies.get(digest, [])
        if equals[digest] > 1 and len(copies) > 1:
            continue  # which of the copies is whose, nobody knows
        known = [*copies, *(each.stands_at for each in sending.attempts if each.stands_at is not None)]
        # Where all was read every copy is known; else each attempt has to be.
        unknown = [each for each in sending.attempts if each.stands_at is None and not each.is_absent]
        is_open = not is_read and bool(unknown)
        is_doubtful = is_open or any(each.number in doubtful for each in sending.attempts)
        if known and not is_doubtful and sending.first.sent_us >= placement.seen.first_us(sending):
            found[id(sending)] = min(known)
    return found


def _producers(placement: Placement) -> dict[int, int]:
    """Connection -> a number of its producer: those that send the same batch, or the same producer id, are one."""
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


def _listed(offsets: list[int]) -> str:
    return ", ".join(map(str, offsets[:-1])) + f" and {offsets[-1]}"
