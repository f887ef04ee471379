"""What a capture shows of each partition: every attempt to store a batch, every fetch, and what could not be seen.

An *attempt* is one batch in one Produce request. Attempts of the same bytes are the same *sending* where one follows a
failure of the one before it (a retry), and further sendings where they do not: an application may send equal records.
Some clients divide their records anew when they send them again (librdkafka without idempotence), or number them anew
in another epoch: such a batch begins with the first record of the one that failed, which its timestamp shows.
Nothing is concluded here; `placement` says where batches stand, and `breaches` what that breaks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.explain.relayed import relayed_connections
from ottla.explain.topics import UNKNOWN, CapturedTopics
from ottla.tap.exchange import Batch, Entry, Exchange, Outcome, PartitionPart, Remark, RemarkKind, Way

Place = tuple[str, int]
# Packets of several interfaces are in a capture in the order of their times, give or take this.
_DISORDER_US = 1_000
# A batch that was sent before the capture began may be sent again for so long after its beginning.
_SENT_AGAIN_WITHIN_US = 60_000_000
NO_PRODUCER = -1
# If a timestamp is further from its request, an application has set it, or a clock is wrong.
_STAMPED_WITHIN_MS = 600_000
_LOSSES = (RemarkKind.LOST, RemarkKind.BEGINNING_UNSEEN)


@dataclass(slots=True, eq=False)
class Attempt:
    """One batch in one Produce request; times in microseconds since 1970.

    `number` counts attempts of the capture in the order of their requests, `nth` those at this partition, both from 1.
    `offset`: the one that the broker told. `stands_at`: the one that was concluded; `is_absent`: whether it was
    concluded that the batch is stored nowhere.
    """

    exchange: Exchange
    place: Place
    batch: Batch
    offset: int | None
    error: str | None
    number: int = 0
    nth: int = 0
    stands_at: int | None = None
    is_absent: bool = False

    @property
    def sent_us(self) -> int:
        """When the request was seen."""
        return self.exchange.request_us or 0

    @property
    def settled_us(self) -> int | None:
        """When its sender knew: the answer came, or the connection ended."""
        return self.exchange.response_us if self.is_answered else self.exchange.end_us

    @property
    def is_answered(self) -> bool:
        """Whether an answer came."""
        return self.exchange.outcome is Outcome.ANSWERED

    @property
    def is_acked(self) -> bool:
        """Whether the broker said that it is stored."""
        return self.is_answered and self.error is None

    @property
    def is_silent(self) -> bool:
        """Whether an answer was due and did not come."""
        return self.exchange.outcome is Outcome.UNANSWERED

    @property
    def is_idempotent(self) -> bool:
        """Whether the broker can recognise it (KIP-98)."""
        return self.batch.producer_id != NO_PRODUCER

    @property
    def identity(self) -> tuple[object, ...]:
        """The same for the same batch sent again."""
        batch = self.batch
        if self.is_idempotent:
            return batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.record_count
        return batch.sha256 or batch.crc, batch.record_count


@dataclass(slots=True, eq=False)
class Sending:
    """A batch that a producer sends, with all its attempts; `again`: what has its first record, made anew."""

    attempts: list[Attempt]
    again: Sending | None = None

    @property
    def first(self) -> Attempt:
        """The first attempt."""
        return self.attempts[0]

    @property
    def acked(self) -> Attempt | None:
        """The attempt that was acknowledged with an offset, if one was."""
        return next((each for each in self.attempts if each.is_acked and each.offset is not None), None)

    @property
    def acked_again(self) -> Attempt | None:
        """The same of the batch that has its first record, where it was made anew."""
        return self.acked or (None if self.again is None else self.again.acked)


@dataclass(slots=True)
class Fetched:
    """What one Fetch answer showed of a partition: its batches from `begin` on, up to `end` (exclusive)."""

    asked_us: int
    seen_us: int
    begin: int
    end: int
    batches: tuple[Batch, ...]


class End(NamedTuple):
    """A high watermark: when it was asked for and told, and by which broker."""

    asked_us: int
    seen_us: int
    offset: int
    broker: str


@dataclass(slots=True)
class PartitionSeen:
    """One partition of one topic; `ends`: every high watermark that was told.

    `begun_us`: host of a client -> from when on no attempt of a sending came before the first one that was seen.
    `is_known`: whether all is about one topic, and not perhaps about several of the same name. `sure_us`: until when
    that was told; afterwards the topic may have been deleted and made again. `is_timed`: whether times can be compared.
    `unseen_us`: when a request of any client was last not captured, or could not be read.
    """

    place: Place
    is_known: bool = True
    sure_us: int = 0
    is_timed: bool = True
    unseen_us: int = 0
    attempts: list[Attempt] = field(default_factory=list)
    sendings: list[Sending] = field(default_factory=list)
    fetched: list[Fetched] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    begun_us: dict[str, int] = field(default_factory=dict)

    def first_us(self, sending: Sending) -> int:
        """If the sending began before this time, an earlier attempt of it may be unseen."""
        return self.begun_us.get(_host(sending.first.exchange), 0)


@dataclass(slots=True)
class Sighting:
    """All that a capture shows; `unseen` says in clauses what it cannot show.

    `answers_unseen_us`: connection -> when bytes from its broker were last not captured.
    """

    partitions: dict[tuple[str, int, str | None], PartitionSeen] = field(default_factory=dict)
    exchanges: list[Exchange] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    answers_unseen_us: dict[int, int] = field(default_factory=dict)
    began_us: int = 0
    ended_us: int = 0

    @property
    def attempts(self) -> list[Attempt]:
        """All attempts, in the order of their requests."""
        found = [each for seen in self.partitions.values() for each in seen.attempts]
        return sorted(found, key=lambda each: each.number)

    @property
    def is_one_way(self) -> bool:
        """Whether no answer at all was captured: most likely only one direction of the connections was."""
        return not any(each.outcome is Outcome.ANSWERED for each in self.exchanges)

    @property
    def brokers(self) -> list[str]:
        """The addresses of all brokers, in the order of the first request to each."""
        return list(dict.fromkeys(each.broker for each in self.exchanges))


def look(entries: Iterable[Entry]) -> Sighting:
    """What these entries show."""
    seen = Sighting()
    remarks: list[Remark] = []
    last_us, is_timed = 0, True
    for entry in entries:
        if isinstance(entry, Remark):
            remarks.append(entry)
            continue
        seen.exchanges.append(entry)
        # Exchanges come in the order in which they were complete, unless a clock was set back.
        complete_us = _complete_us(entry)
        is_timed &= complete_us is None or complete_us >= max(last_us, entry.request_us or 0) - _DISORDER_US
        last_us = max(last_us, complete_us or 0)
    if relayed := relayed_connections(seen.exchanges):
        seen.exchanges = [each for each in seen.exchanges if each.connection not in relayed]
    times = [each.time_us for each in seen.exchanges]
    ends = [each.response_us or each.end_us or each.time_us for each in seen.exchanges]
    seen.began_us, seen.ended_us = min(times, default=0), max(ends, default=0)
    topics = CapturedTopics(seen.exchanges)
    # Requests behind bytes that were not captured are seen at the same time, and in the order of their answers.
    for exchange in sorted(seen.exchanges, key=lambda each: (each.time_us, each.connection, each.correlation_id)):
        if exchange.api in ("Produce", "Fetch"):
            for part in exchange.partitions:
                _take(seen, exchange, part, topics)
    begun_us = _begun_us(seen)
    unseen_us = _requests_unseen_us(seen, remarks)
    for remark in remarks:
        if remark.kind in _LOSSES and remark.way is Way.TO_CLIENT:
            seen.answers_unseen_us[remark.connection] = remark.time_us
    for number, attempt in enumerate(_in_order(seen), 1):
        attempt.number = number
    for partition in seen.partitions.values():
        for nth, attempt in enumerate(partition.attempts, 1):
            attempt.nth = nth
        partition.sendings = _sendings(partition.attempts)
        partition.begun_us = begun_us
        partition.is_timed = is_timed
        partition.unseen_us = unseen_us
        _find_made_anew(partition.sendings)
    seen.unseen = _unseen(seen, remarks)
    if relayed:
        behind = f"what {_counted(len(relayed), 'connection')} of a proxy carried on"
        seen.unseen.append(f"{behind}: it was taken from the connections of its clients")
    return seen


def _complete_us(exchange: Exchange) -> int | None:
    """When it was complete; None in a capture of an older version, which does not tell."""
    if exchange.outcome is Outcome.UNANSWERED:
        return exchange.end_us
    return exchange.request_us if exchange.outcome is Outcome.NOT_DUE else exchange.response_us


def _requests_unseen_us(seen: Sighting, remarks: list[Remark]) -> int:
    """When a client last sent something that was not captured, or is under TLS; 0 for never."""
    found = [each.time_us for each in remarks if each.kind in _LOSSES and each.way is Way.TO_BROKER]
    found += [seen.ended_us for each in remarks if each.kind is RemarkKind.TLS]
    for exchange in seen.exchanges:
        is_unread = exchange.unread is not None and exchange.api == "Produce"
        if exchange.outcome is Outcome.UNASKED or is_unread:
            found.append(exchange.time_us)
    return max(found, default=0)


def _host(exchange: Exchange) -> str:
    return exchange.client.rpartition(":")[0]


def _begun_us(seen: Sighting) -> dict[str, int]:
    """`begun_us` of all partitions: 0 for a client whose first request (ApiVersions) was seen.

    For any other client it is so long after its first request that was seen that nothing sent before is sent again.
    """
    found: dict[str, int] = {}
    for exchange in sorted(seen.exchanges, key=lambda each: each.time_us):
        is_beginning = exchange.api == "ApiVersions"
        found.setdefault(_host(exchange), 0 if is_beginning else exchange.time_us + _SENT_AGAIN_WITHIN_US)
    return found


def _in_order(seen: Sighting) -> list[Attempt]:
    found = [each for partition in seen.partitions.values() for each in partition.attempts]
    return sorted(found, key=lambda each: each.sent_us)


def _take(seen: Sighting, exchange: Exchange, part: PartitionPart, topics: CapturedTopics) -> None:
    topic = topics.of(exchange, part)
    if topic is None or part.partition is None:
        return
    place = topic.name, part.partition
    partition = seen.partitions.get((*place, topic.which))
    if partition is None:
        partition = seen.partitions[*place, topic.which] = PartitionSeen(place, topic.which != UNKNOWN)
    if topic.is_certain:
        partition.sure_us = exchange.time_us
    asked_us, seen_us = exchange.time_us, exchange.response_us or exchange.time_us
    if exchange.api == "Produce":
        for batch in part.batches:
            partition.attempts.append(Attempt(exchange, place, batch, part.offset, part.error or exchange.error))
        return
    if part.error is not None:
        return
    if exchange.api == "Fetch" and part.high_watermark is not None:
        partition.ends.append(End(asked_us, seen_us, part.high_watermark, exchange.broker))
    if exchange.api == "Fetch" and part.batches:
        first, last = part.batches[0], part.batches[-1]
        begin = first.base_offset if part.offset is None else min(first.base_offset, part.offset)
        end = last.base_offset + last.record_count
        partition.fetched.append(Fetched(asked_us, seen_us, begin, end, part.batches))


def _sendings(attempts: list[Attempt]) -> list[Sending]:
    """Attempts of the same batch, divided into sendings: a retry follows a failure."""
    found: list[Sending] = []
    known: dict[tuple[object, ...], list[Sending]] = {}
    for attempt in attempts:
        same = known.setdefault(attempt.identity, [])
        before = next((each for each in same if attempt.is_idempotent or _has_failed(each, attempt.sent_us)), None)
        if before is not None:
            before.attempts.append(attempt)
        else:
            same.append(Sending([attempt]))
            found.append(same[-1])
    return found


def _has_failed(sending: Sending, now_us: int) -> bool:
    last = sending.attempts[-1]
    if last.is_acked or last.exchange.outcome is Outcome.NOT_DUE:
        return False
    settled_us = last.settled_us
    # Captures of older versions do not say when a connection ended.
    return settled_us is None or settled_us <= now_us


def _find_made_anew(sendings: list[Sending]) -> None:
    """The batch with the first record of one that failed: the same client sends it later, with the same timestamp.

    What is new is not older than the last record of the one that failed, or than what was sent behind that; so where
    all its records are of one millisecond, and nothing newer was sent before, nothing is concluded. Nor is it where an
    application may have set the timestamps. An idempotent batch stays the same until its producer has another epoch.
    """
    failed: dict[tuple[object, ...], list[Sending]] = {}
    newest_ms: dict[tuple[object, ...], int] = {}
    for sending in sendings:
        first = sending.first
        batch, stamp = first.batch, first.batch.base_timestamp_ms
        if stamp is None or abs(first.sent_us // 1000 - stamp) > _STAMPED_WITHIN_MS:
            continue
        who = batch.producer_id, _host(first.exchange), first.exchange.client_id
        before = [
            each
            for each in failed.get((*who, stamp), ())
            if _has_failed(each, first.sent_us) and each.again is None and _is_made_anew(each, sending, newest_ms[who])
        ]
        if len(before) == 1:
            before[0].again = sending
        failed.setdefault((*who, stamp), []).append(sending)
        newest_ms[who] = max(newest_ms.get(who, 0), stamp)


def _is_made_anew(failed: Sending, sending: Sending, newest_ms: int) -> bool:
    """Whether a batch with the same first timestamp can only be about the same records; see above."""
    old, new = failed.first.batch, sending.first.batch
    stamp = old.base_timestamp_ms or 0
    if failed.first.is_idempotent and old.producer_epoch >= new.producer_epoch:
        return False
    return (old.max_timestamp_ms or 0) > stamp or newest_ms > stamp


def _unseen(seen: Sighting, remarks: list[Remark]) -> list[str]:
    found = ["disks, clocks, and what brokers say to each other"]
    kinds = [each.kind for each in remarks]
    tls = {each.connection for each in remarks if each.kind is RemarkKind.TLS}
    if tls:
        found.append(f"what is inside of {_counted(len(tls), 'connection')} under TLS")
    if RemarkKind.LOST in kinds or any(each.missing_bytes for each in seen.exchanges):
        found.append("bytes that were not captured")
    if RemarkKind.BEGINNING_UNSEEN in kinds or any(each.outcome is Outcome.UNASKED for each in seen.exchanges):
        found.append("requests that were in flight when the capture began")
    if any(not each.is_timed for each in seen.partitions.values()):
        found.append(
            "what was before and what behind: the clock was set back during the capture, so times prove nothing"
        )
    if seen.is_one_way:
        found.append("what brokers answered: no answer was captured, only what clients sent")
    elif _in_flight_at_end(seen):
        found.append("what became of requests that were in flight when the capture ended")
    unread = [each for each in seen.exchanges if each.api == "Produce" and each.unread is not None]
    if unread:
        found.append(f"{_counted(len(unread), 'Produce request')} that could not be decoded")
    if unknown := sorted({each.place[0] for each in seen.partitions.values() if not each.is_known}):
        found.append(f"which topic some requests for {', '.join(unknown)} meant: there were several of that name")
    produced = [each for each in seen.partitions.values() if each.attempts]
    unfetched = [f"{each.place[0]}-{each.place[1]}" for each in produced if not each.fetched]
    unasked = any(a.exchange.outcome is Outcome.NOT_DUE for each in produced if not each.fetched for a in each.attempts)
    if unasked:
        found.append("whether requests with acks=0 were stored: nobody answers them, and no Fetch was captured")
    if unfetched:
        few = ", ".join(unfetched[:3]) + (f" and {len(unfetched) - 3} more" if len(unfetched) > 3 else "")
        found.append(
            f"what is stored in {few}: no Fetch of it was captured, so offsets alone are "
            "counted there, as if nobody else wrote to it"
        )
    return found


def _in_flight_at_end(seen: Sighting) -> bool:
    return any(each.outcome is Outcome.UNANSWERED and each.end_us == seen.ended_us for each in seen.exchanges)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
