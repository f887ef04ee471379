"""Kept waiting: the outcome of a record came later than its broker's time explains.

Promise: if nothing goes wrong, a record waits for its broker and for linger.ms, not for its producer. A broker that
handles the requests of a connection one after the other, each within S, can take a full batch of each partition per
request. So if the records before a record fill n batches, its outcome comes within

    linger.ms + (n + requests in flight + 2) x S + the time on the network

of `send`. As long as full batches can carry the rate, this does not grow with time. Beyond that the number of records
before it grows, and this bound with it. (A producer that sends small batches to a busy broker wastes its requests: its
records wait longer and longer.)

S is the longest time the broker took for a request of this producer, its wait for replicas included. A fault, a refused
or unanswered request, or a change of the partition's leader or in-sync replicas interrupts this: the bound holds until
then, and again some time after it is over. Records that wait at that moment count as one request each.

Not judged: records in transactions, which also wait for coordinators, records with acks=0, which nobody answers, and
partitions on brokers that answered nothing. Not observable: runs in which nobody saw the requests.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.audit.chronicles.case import Case, Place
from ottla.audit.chronicles.chronicle import ProducerPromise, ProduceSeen, SentRecord
from ottla.audit.findings import EVIDENCE_MAX, KEPT_WAITING, Finding, Findings

# The time on the network, a new connection and its handshake included.
WAY_US = 50_000
# How long after its end a fault may still have effects: sessions, elections, retries.
RECOVERY_US = 15_000_000
_NEVER_US = 1 << 62

Stretch = tuple[int, int]


@dataclass(slots=True)
class _Broker:
    """How a broker answered one producer in a stretch of the run; `way_us`: a request's longest time on the network."""

    longest_us: int
    way_us: int
    first_answered_us: int


def check_waiting(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Records whose outcome came later than their broker's time and linger.ms explain."""
    found = Findings(KEPT_WAITING, evidence_max)
    if case.chronicle.produced is None:
        found.not_seen("how long brokers took for each request")
    of_producers: dict[str, list[ProduceSeen]] = {}
    for request in case.chronicle.produced or ():
        of_producers.setdefault(request.producer, []).append(request)
    for producer, requests in of_producers.items():
        promise = case.producers.get(producer)
        if promise is None or not promise.acks or promise.transactional_id is not None or promise.linger_ms < 0:
            continue
        for place, records in _by_instance(case, producer).items():
            _check_partition(case, promise, (place[0], place[1]), records, requests, found)
    return found.finding()


def _by_instance(case: Case, producer: str) -> dict[tuple[str, int, int], list[SentRecord]]:
    sent: dict[tuple[str, int, int], list[SentRecord]] = {}
    for record in case.chronicle.sent:
        if record.producer == producer and record.partition >= 0:
            sent.setdefault((record.topic, record.partition, record.instance), []).append(record)
    return sent


def _check_partition(
    case: Case,
    promise: ProducerPromise,
    place: Place,
    records: list[SentRecord],
    requests: list[ProduceSeen],
    found: Findings,
) -> None:
    for begin_us, end_us in _calm(case, place, requests):
        from_us = max(begin_us, records[0].sent_us)
        leader = next((role.leader for role in reversed(case.roles.get(place, ())) if role.at_us <= from_us), -1)
        broker = _broker_in(requests, leader, from_us, end_us)
        if broker is not None:
            _check_stretch(promise, place, records, broker, begin_us, end_us, found)


def _calm(case: Case, place: Place, requests: list[ProduceSeen]) -> list[Stretch]:
    """The stretches of the run without faults, or their effects, in this partition."""
    chronicle = case.chronicle
    disturbances = [(role.at_us, role.at_us + RECOVERY_US) for role in case.roles.get(place, ())[1:]]
    if chronicle.first_fault_us >= 0:
        disturbances.append(
            (chronicle.first_fault_us, max(chronicle.first_fault_us, chronicle.healed_us) + RECOVERY_US)
        )
    disturbances += [
        (each.sent_us, max(each.sent_us, each.answered_us) + RECOVERY_US)
        for each in requests
        if each.answered_us < 0 or each.is_refused
    ]
    calm, begin_us = [], 0
    for disturbed_us, over_us in sorted(disturbances):
        if disturbed_us > begin_us:
            calm.append((begin_us, disturbed_us))
        begin_us = max(begin_us, over_us)
    return [*calm, (begin_us, _NEVER_US)]


def _broker_in(requests: list[ProduceSeen], broker_id: int, begin_us: int, end_us: int) -> _Broker | None:
    """What the broker did in this stretch; None if it answered nothing."""
    longest_us, way_us, first_us, free_us = 0, 0, -1, 0
    for each in requests:
        if each.broker_id != broker_id or each.answered_us < 0:
            continue
        if begin_us <= each.sent_us and each.answered_us < end_us:
            longest_us = max(longest_us, each.answered_us - max(each.came_us, free_us))
            way_us = max(way_us, each.came_us - each.sent_us)
            first_us = each.answered_us if first_us < 0 else first_us
        free_us = max(free_us, each.answered_us)
    return None if first_us < 0 else _Broker(longest_us, way_us, first_us)


def _check_stretch(
    promise: ProducerPromise,
    place: Place,
    records: list[SentRecord],
    broker: _Broker,
    begin_us: int,
    end_us: int,
    found: Findings,
) -> None:
    batch_records, in_flight = promise.batch_records, promise.max_in_flight
    # If few requests may be in flight, the broker is idle while the next one is on the network.
    service_us = broker.longest_us + 2 * broker.way_us // in_flight
    allowed_us = promise.linger_ms * 1000 + (in_flight + 2) * service_us + WAY_US
    # From the first answer on the producer is connected and knows the leader. Records sent before are in full batches;
    # only after a fault may batches have one record each.
    now_us = broker.first_answered_us
    ahead = sum(each.sent_us < now_us and not 0 <= each.told_us < now_us for each in records)
    # How long the broker is busy with what was sent, times `batch_records`.
    load = ahead * service_us * (batch_records if begin_us else 1)
    for record in records:
        if record.told_us < broker.first_answered_us or record.sent_us >= end_us:
            continue
        sent_us = max(record.sent_us, broker.first_answered_us)
        if record.sent_us == sent_us:
            load = max(0, load - (sent_us - now_us) * batch_records) + service_us
            now_us = sent_us
        limit_us = allowed_us + load // batch_records
        waited_us = min(record.told_us, end_us) - sent_us
        if waited_us > limit_us:
            found.add(
                f"record {record.number} of {record.producer} was told of ({record.outcome}) {waited_us} us after it "
                f"could be sent; {limit_us} us were enough, as its broker took no more than {broker.longest_us} us for "
                "a request",
                place=place,
                number=record.number,
                at_us=sent_us + waited_us,
            )
