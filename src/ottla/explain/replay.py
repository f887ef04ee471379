"""A plan of the simulation with the shape of a capture, and its result: does the same thing break there?

Each batch of the capture becomes one record, each producer one of the plan's, with acks, idempotence and as many
requests in flight as were seen. A long capture is cut down to what surrounds the suspects. The likeliest fault of each
suspect is tried first, then other selections, a few in all; runs are judged by their logs (`delivered`), not as
captures are. Deterministic: same capture, same plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from ottla.audit.findings import Finding
from ottla.broker.topic_names import topic_name_fault
from ottla.explain.breaches import Breach
from ottla.explain.delivered import judge_delivery
from ottla.explain.placement import Placement
from ottla.explain.sighting import Attempt, Place, Sending, Sighting
from ottla.explain.suspects import Suspect
from ottla.faults.fault import Fault
from ottla.simulation.outcome import Outcome, kinds_of
from ottla.simulation.plan import PAUSE, SEND, Act, Plan, ProducerPlan, TimedFault, TopicPlan
from ottla.simulation.plan_check import misfit
from ottla.simulation.run import Run, conclude
from ottla.simulation.shrink import Shrunk, shrink

_SEED = 1
_BROKERS = 3
# Of a long capture, a plan has at most so many suspects, so many batches around each of them, and so many batches.
_SUSPECTS_MAX, _AROUND, _SENDINGS_MAX = 8, 4, 80
_PAUSE_US_MAX = 500_000
_VALUE_BYTES_MAX = 1_000
_FAULTS_LAST_US = 60_000_000
_DOWN_US = 2_000_000
_TRIES_MAX = 24
_IN_FLIGHT = (1, 2, 5)
_PRODUCERS_MAX = 8


@dataclass(slots=True)
class Replay:
    """A plan and its result; `is_same`: what the capture showed to be broken breaks there, too."""

    plan: Plan
    outcome: Outcome
    is_same: bool
    runs: int


def run_held(plan: Plan) -> Outcome:
    """Run a plan and compare its producers with exactly-once; other findings come after those."""
    run = Run(plan)
    run.go()
    return conclude_held(run, None)


def conclude_held(run: Run, crashed: str | None) -> Outcome:
    """The outcome of a run that has ended, compared with exactly-once."""
    outcome = conclude(run, crashed)
    broken = judge_delivery(run.chronicle)
    kinds = [each.kind for each in broken]
    more: list[Finding] = [each for each in outcome.findings if each.kind not in kinds]
    return replace(outcome, findings=[*broken, *more])


def replay(seen: Sighting, placements: list[Placement], suspects: list[Suspect], breaches: list[Breach]) -> Replay:
    """The first plan in which the same promises break; else the one that comes nearest."""
    wanted = list(dict.fromkeys(each.kind for each in breaches))
    cast = _Cast(seen, placements, suspects, breaches)
    best: tuple[int, Plan, Outcome] | None = None
    runs = 0
    for plan in islice(cast.plans(), _TRIES_MAX):
        runs += 1
        outcome = run_held(plan)
        found = kinds_of(outcome)
        missing = sum(kind not in found for kind in wanted)
        # A plan in which other things break as well is worse, but better than one that lacks something wanted.
        strange = sum(kind not in wanted for kind in found)
        score = 100 * missing + strange
        if best is None or score < best[0]:
            best = score, plan, outcome
        if not score:
            break
    assert best is not None
    return Replay(best[1], best[2], best[0] < 100, runs)


def make_small(found: Replay, wanted: str, **how: Any) -> Shrunk:
    """The fewest parts of a replay in which `wanted` still breaks; `how` is for `shrink`."""
    first = [each for each in found.outcome.findings if each.kind == wanted]
    rest = [each for each in found.outcome.findings if each.kind != wanted]
    return shrink(found.plan, replace(found.outcome, findings=[*first, *rest]), run=run_held, **how)


class _Cast:
    """What each producer and reader does in the plans of one capture."""

    def __init__(
        self, seen: Sighting, placements: list[Placement], suspects: list[Suspect], breaches: list[Breach]
    ) -> None:
        self._seen = seen
        broken = {each.number for breach in breaches for each in breach.attempts}
        # Suspects that belong to a breach come first.
        ranked = sorted(suspects, key=lambda each: each.attempt.number not in broken)
        self.suspects = sorted(ranked[:_SUSPECTS_MAX], key=lambda each: each.attempt.number)
        self.sendings = _around(placements, self.suspects, broken)
        self._attempts = sorted(
            (each for sending in self.sendings for each in sending.attempts), key=lambda each: each.number
        )
        self._places = _renumbered(self.sendings)
        self._began_us = min((each.sent_us for each in self._attempts), default=seen.began_us)
        self._producers = _producers(self.sendings)

    def plans(self) -> Iterator[Plan]:
        """The likeliest first."""
        choices = [0] * len(self.suspects)
        for in_flight in (None, *_IN_FLIGHT):
            yield self._plan(choices, in_flight)
        # Simulated brokers answer sooner than most: several requests are in flight if they are sent at once.
        for in_flight in (None, _IN_FLIGHT[-1]):
            yield self._plan(choices, in_flight, pause_us_max=0)
        for number, suspect in enumerate(self.suspects):
            for choice in range(1, len(suspect.faults)):
                changed = [*choices]
                changed[number] = choice
                yield self._plan(changed, None)
        yield self._plan([min(1, len(each.faults) - 1) for each in self.suspects], None)

    def _plan(self, choices: list[int], in_flight: int | None, pause_us_max: int = _PAUSE_US_MAX) -> Plan:
        partitions: dict[str, int] = {}
        for topic, partition in self._places.values():
            partitions[topic] = max(partitions.get(topic, 0), partition + 1)
        plan = Plan(
            _SEED,
            _BROKERS,
            False,
            {},
            [TopicPlan(topic, count) for topic, count in partitions.items()],
            [self._producer(name, sendings, in_flight, pause_us_max) for name, sendings in self._producers.items()],
            [],
            [],
        )
        timed = [
            self._timed(suspect, suspect.faults[choice]) for suspect, choice in zip(self.suspects, choices, strict=True)
        ]
        plan.faults = [each for each in timed if misfit(plan, each) is None]
        return plan

    def _timed(self, suspect: Suspect, fault: Fault) -> TimedFault:
        attempt = suspect.attempt
        topic, partition = self._places[attempt.place]
        at_us = max(0, attempt.sent_us - self._began_us)
        if not fault.applies_to_requests:
            changed = fault.but(topic=topic, partition=partition) if hasattr(fault, "partition") else fault
            return TimedFault(changed, min(at_us, _FAULTS_LAST_US), _DOWN_US)
        nth = sum(each.place == attempt.place and each.number <= attempt.number for each in self._attempts)
        return TimedFault(fault.but(topic=topic, partition=partition, nth=nth), 0, _FAULTS_LAST_US)

    def _producer(self, name: str, sendings: list[Sending], in_flight: int | None, pause_us_max: int) -> ProducerPlan:
        first = sendings[0].first
        acks = {0: 0, 1: 1}.get(-1 if first.exchange.acks is None else first.exchange.acks, "all")
        most = min(5, _in_flight_seen(sendings))
        settings: dict[str, Any] = {
            "acks": acks,
            "enable_idempotence": first.is_idempotent and acks == "all",
            "linger_ms": 0,
            "batch_size": 1,
            "request_timeout_ms": 1_000,
            "retry_backoff_ms": 50,
            "delivery_timeout_ms": 60_000,
            "max_in_flight_requests_per_connection": in_flight or most,
        }
        acts: list[Act] = []
        before_us = self._began_us
        for sending in sendings:
            attempt = sending.first
            pause_us = min(max(0, attempt.sent_us - before_us), pause_us_max)
            before_us = max(before_us, attempt.sent_us)
            if pause_us:
                acts.append(Act(PAUSE, pause_us=pause_us))
            topic, partition = self._places[attempt.place]
            batch = attempt.batch
            value_bytes = min(batch.size_bytes // max(1, batch.record_count), _VALUE_BYTES_MAX)
            number = self.sendings.index(sending)
            acts.append(Act(SEND, number, topic, partition, None, value_bytes))
        return ProducerPlan(name, settings, acts)


def _around(placements: list[Placement], suspects: list[Suspect], broken: set[int]) -> list[Sending]:
    """The sendings with a suspect or a breach, and those to the same partition shortly before and after."""
    suspect = {each.attempt.number for each in suspects} | broken
    chosen: list[Sending] = []
    for placement in placements:
        sendings = placement.seen.sendings
        wanted: dict[int, None] = {}
        for index, sending in enumerate(sendings):
            if any(each.number in suspect for each in sending.attempts):
                begin, end = max(0, index - _AROUND), min(len(sendings), index + _AROUND + 1)
                wanted |= dict.fromkeys(range(begin, end))
        chosen += [sendings[index] for index in sorted(wanted)]
    if not chosen:
        chosen = [sending for placement in placements for sending in placement.seen.sendings]
    chosen.sort(key=lambda each: each.first.number)
    return chosen[:_SENDINGS_MAX]


def _renumbered(sendings: list[Sending]) -> dict[Place, Place]:
    """Where each partition is in the plan: topics keep names that Kafka allows, partitions are numbered from 0."""
    used = sorted({sending.first.place for sending in sendings})
    topics = list(dict.fromkeys(topic for topic, _ in used))
    named = {topic: topic if topic_name_fault(topic) is None else f"topic-{at}" for at, topic in enumerate(topics)}
    found: dict[Place, Place] = {}
    for topic in topics:
        for index, place in enumerate(each for each in used if each[0] == topic):
            found[place] = named[topic], index
    return found


def _producers(sendings: list[Sending]) -> dict[str, list[Sending]]:
    """The plan's producers with their sendings: one for each host, client id, `acks` and producer id."""
    found: dict[tuple[object, ...], list[Sending]] = {}
    for sending in sendings:
        exchange = sending.first.exchange
        who = exchange.client.rpartition(":")[0], exchange.client_id, exchange.acks, sending.first.batch.producer_id
        found.setdefault(who, []).append(sending)
    kept = list(found.values())[:_PRODUCERS_MAX]
    return {f"p{number}": each for number, each in enumerate(kept)}


def _in_flight_seen(sendings: list[Sending]) -> int:
    """The most requests that one connection had open at once."""
    moments: dict[int, list[tuple[int, int]]] = {}
    for attempt in _attempts(sendings):
        settled_us = attempt.settled_us or attempt.sent_us
        moments.setdefault(attempt.exchange.connection, []).extend([(attempt.sent_us, 1), (settled_us, -1)])
    most = 1
    for found in moments.values():
        count = 0
        for _, step in sorted(found):
            count += step
            most = max(most, count)
    return most


def _attempts(sendings: list[Sending]) -> list[Attempt]:
    return [each for sending in sendings for each in sending.attempts]
