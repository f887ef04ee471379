"""Which faults are consistent with what a capture shows: the likeliest first, each with a sentence that says why.

A request without an answer may have been lost before the broker had it or after, by a connection that was cut or by one
that fell silent; where its records were found says which. What cannot be told apart is listed as alternatives. Requests
that were behind it on a connection that ended were lost with it, and need no fault of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from ottla.audit.findings import LOST
from ottla.explain.breaches import Breach
from ottla.explain.placement import Placement
from ottla.explain.sighting import Attempt, Sending, Sighting
from ottla.faults.fault import Fault, make_fault
from ottla.protocol.error_codes import ErrorCode
from ottla.tap.exchange import Outcome

# If a connection ends later than this after its request, it is taken for silent; if earlier, for cut.
_SILENT_US = 400_000
# An answer counts as late if it took so many times longer than usual, and at least so long.
_LATE_TIMES, _LATE_US = 20, 100_000
_DELAY_MAX_MS = 60_000
# Errors of a broker that does not lead the partition any more, or does not know yet that it does.
_LED_ELSEWHERE = (
    "NOT_LEADER_OR_FOLLOWER",
    "LEADER_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "UNKNOWN_TOPIC_ID",
)


@dataclass(slots=True)
class Suspect:
    """What was seen of one request, and the faults that are consistent with it; `faults` holds one at least."""

    words: str
    attempt: Attempt
    faults: tuple[Fault, ...]

    @property
    def at_us(self) -> int:
        """When the request was seen."""
        return self.attempt.sent_us


def find_suspects(seen: Sighting, placements: list[Placement], breaches: list[Breach]) -> list[Suspect]:
    """All suspects of a capture, in the order of the requests."""
    sendings = {
        each.number: sending for part in placements for sending in part.seen.sendings for each in sending.attempts
    }
    found = [*_silent(seen, sendings), *_refused(seen), *_late(seen), *_delivered_again(placements)]
    found += [_not_there(each) for each in breaches if each.kind == LOST]
    kept: dict[int, Suspect] = {}
    for each in found:
        kept.setdefault(each.attempt.number, each)
    return sorted(kept.values(), key=lambda each: each.attempt.number)


def fault_of(attempt: Attempt, kind: str, nth: int | None = None, **fields: object) -> Fault:
    """A fault for this request alone: the n-th Produce of its partition."""
    topic, partition = attempt.place
    return make_fault(kind, topic=topic, partition=partition, nth=nth or attempt.nth, **fields)


def _silent(seen: Sighting, sendings: dict[int, Sending]) -> list[Suspect]:
    """The first request without an answer on each connection; those after it were lost with it."""
    found: list[Suspect] = []
    taken: set[int] = set()
    for attempt in [] if seen.is_one_way else seen.attempts:
        connection = attempt.exchange.connection
        if not attempt.is_silent or connection in taken:
            continue
        if attempt.sent_us <= seen.answers_unseen_us.get(connection, -1):
            continue  # its answer may be among what was not captured
        taken.add(connection)
        sending = sendings[attempt.number]
        again = next((each for each in sending.attempts if each.number > attempt.number), None)
        if again is None and attempt.exchange.end_us == seen.ended_us:
            continue  # in flight when the capture ended
        found.append(_suspect_of_silence(seen, attempt, again))
    return found


def _suspect_of_silence(seen: Sighting, attempt: Attempt, again: Attempt | None) -> Suspect:
    waited_us = (attempt.settled_us or attempt.sent_us) - attempt.sent_us
    is_silent = waited_us >= _SILENT_US
    after, before = ("drop_ack", "drop_request") if is_silent else ("lose_ack", "lose_request")
    kinds = (before, after) if attempt.is_absent else (after, before)
    faults = [fault_of(attempt, kind) for kind in kinds]
    again_at = None if again is None else again.stands_at
    if attempt.stands_at is not None and again_at is not None and attempt.stands_at > again_at:
        late_ms = min(max(1, waited_us // 1000 + 100), _DELAY_MAX_MS)
        faults.insert(0, fault_of(attempt, "delay_request", delay_ms=late_ms))
    if is_silent:
        late_ms = min(waited_us // 1000 + 500, _DELAY_MAX_MS)
        faults.append(fault_of(attempt, "delay_ack", delay_ms=late_ms))
        faults.append(make_fault("half_open", broker_id=_broker(seen, attempt)))
    if again is not None and again.exchange.broker != attempt.exchange.broker:
        faults += [
            make_fault("move_leader", topic=attempt.place[0], partition=attempt.place[1]),
            make_fault("kill", broker_id=_broker(seen, attempt)),
        ]
    stored = (
        f"it stands at offset {attempt.stands_at} all the same"
        if attempt.stands_at is not None
        else "it is not stored"
        if attempt.is_absent
        else "whether it was stored is unseen"
    )
    ended = f"its connection ended after {waited_us / 1e6:,.3f} s"
    return Suspect(f"no answer came, and {ended}; {stored}", attempt, tuple(faults))


def _broker(seen: Sighting, attempt: Attempt) -> int:
    return seen.brokers.index(attempt.exchange.broker)


def _refused(seen: Sighting) -> list[Suspect]:
    found = []
    for attempt in seen.attempts:
        name = attempt.error
        if name is None or not attempt.is_answered:
            continue
        topic, partition = attempt.place
        if name in _LED_ELSEWHERE:
            moved = make_fault("move_leader", topic=topic, partition=partition)
            if attempt.stands_at is None:
                found.append(Suspect(f"{name}: another broker leads", attempt, (moved,)))
            else:
                refused = fault_of(attempt, "refuse_after_append", error=int(getattr(ErrorCode, name)))
                words = f"answered with {name}, and it stands at offset {attempt.stands_at} all the same"
                found.append(Suspect(words, attempt, (refused, moved)))
            continue
        code = getattr(ErrorCode, name, 0)
        fields = {"error": int(code)} if code else {}
        is_stored = attempt.stands_at is not None or name == "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
        kinds = ("refuse_after_append", "refuse") if is_stored else ("refuse", "refuse_after_append")
        where = f", and it stands at offset {attempt.stands_at} all the same" if attempt.stands_at is not None else ""
        faults = tuple(fault_of(attempt, kind, **fields) for kind in kinds)
        found.append(Suspect(f"answered with {name}{where}", attempt, faults))
    return found


def _late(seen: Sighting) -> list[Suspect]:
    answered = [each for each in seen.attempts if each.exchange.latency_us is not None]
    if not answered:
        return []
    usual_us = median(each.exchange.latency_us or 0 for each in answered)
    least_us = max(_LATE_US, _LATE_TIMES * usual_us)
    found = []
    # A broker answers in the order of the requests: those after a late one wait for its answer, and are not suspects.
    waits_until: dict[int, int] = {}
    for attempt in answered:
        latency_us = attempt.exchange.latency_us or 0
        connection, until_us = attempt.exchange.connection, attempt.sent_us + latency_us
        if latency_us >= least_us and attempt.sent_us > waits_until.get(connection, 0) and attempt.error is None:
            delay_ms = min(max(1, latency_us // 1000), _DELAY_MAX_MS)
            faults = tuple(fault_of(attempt, kind, delay_ms=delay_ms) for kind in ("delay_ack", "delay_request"))
            found.append(Suspect(f"the answer came after {latency_us / 1e6:,.3f} s", attempt, faults))
        waits_until[connection] = max(until_us, waits_until.get(connection, 0))
    return found


def _delivered_again(placements: list[Placement]) -> list[Suspect]:
    """Batches that are stored more often than they were sent: something between client and log has repeated them."""
    found = []
    for placement in placements:
        for sending in placement.seen.sendings:
            copies = placement.new_copies(sending)
            if len(copies) > len(sending.attempts):
                attempt = sending.attempts[-1]
                count = len(sending.attempts)
                times = "once" if count == 1 else f"{count} times"
                words = f"sent {times}, and it stands at {len(copies)} offsets"
                found.append(Suspect(words, attempt, (fault_of(attempt, "redeliver", delay_ms=1),)))
    return found


def _not_there(breach: Breach) -> Suspect:
    attempt = breach.attempts[0]
    topic, partition = attempt.place
    if attempt.exchange.outcome is Outcome.NOT_DUE:
        kinds = ("lose_request", "drop_request")
        return Suspect(
            "acks=0: no answer was due, and it is not stored", attempt, tuple(fault_of(attempt, each) for each in kinds)
        )
    faults = (
        make_fault("unclean_election", topic=topic, partition=partition),
        make_fault("move_leader", topic=topic, partition=partition),
    )
    return Suspect("acknowledged, and other records stand at its offset", attempt, faults)
