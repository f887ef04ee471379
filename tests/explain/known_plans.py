"""Plans of which it is known whether they break a promise, and the captures of their clients.

Drawn by a seed: one to three producers of all kinds (acks=0, 1, all; idempotent or not; one or more requests in
flight), faults that show on the wire, readers in most of them. Whether a plan breaks anything is read from its logs.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.explain.delivered import judge_delivery
from ottla.faults.fault import make_fault
from ottla.simulation.chance import Chance
from ottla.simulation.plan import PAUSE, SEND, Act, Plan, ProducerPlan, ReaderPlan, TimedFault, TopicPlan
from ottla.simulation.recording import record
from ottla.simulation.run import Run
from ottla.tap.exchange import Entry

_AFTER = ("lose_ack", "drop_ack", "refuse_after_append", "redeliver")
_BEFORE = ("lose_request", "drop_request", "refuse")
_OTHERS = ("delay_ack", "delay_request", "half_open", "unplug", "move_leader", "kill")
# NOT_ENOUGH_REPLICAS, REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND, UNKNOWN_SERVER_ERROR is not retried
_ERRORS = (19, 7, 20)
_LASTS_US = 20_000_000


@dataclass(slots=True)
class Known:
    """A plan, its capture, the kinds of breaches in its logs, and the faults that fired."""

    seed: int
    plan: Plan
    entries: list[Entry]
    broken: tuple[str, ...]
    fired: tuple[str, ...]


def known(seed: int) -> Known:
    """The plan of a seed, run."""
    plan = draw_plan(seed)
    run = Run(plan)
    tap = record(run)
    chronicle = run.go()
    tap.close()
    assert not chronicle.stuck, chronicle.stuck
    broken = tuple(finding.kind for finding in judge_delivery(chronicle))
    fired = tuple(each.kind for each in chronicle.faults if each.fired)
    return Known(seed, plan, tap.entries, broken, fired)


def draw_plan(seed: int) -> Plan:
    """A plan with wire-visible faults, of which about half break a promise."""
    chance = Chance(f"known plan {seed}")
    partitions = chance.choice((1, 1, 2))
    topic = TopicPlan("orders", partitions, 3, {"min_insync_replicas": 1})
    acts_left = chance.choice((20, 60, 150))
    producers, first = [], 0
    is_safe = chance.random() < 0.4
    for number in range(chance.choice((1, 1, 2))):
        settings = _settings(chance, is_safe)
        producers.append(ProducerPlan(f"p{number}", settings, _acts(chance, partitions, first, acts_left)))
        first += acts_left
    needs_reader = any(each.settings["acks"] == 0 for each in producers)
    readers = []
    if needs_reader or chance.random() < 0.5:
        readers.append(ReaderPlan("r", "orders", "read_uncommitted", 2_000_000))
    faults = [_fault(chance, partitions) for _ in range(chance.choice((1, 1, 2, 3)))]
    return Plan(seed, 3, False, {}, [topic], producers, readers, faults)


def _settings(chance: Chance, is_safe: bool) -> dict[str, object]:
    kind = "idempotent" if is_safe else chance.choice(("all", "all", "all", "one", "none"))
    settings: dict[str, object] = {
        "acks": {"one": 1, "none": 0}.get(kind, "all"),
        "enable_idempotence": kind == "idempotent",
        "linger_ms": chance.choice((0, 0, 5)),
        "batch_size": chance.choice((1, 200, 16_384)),
        "request_timeout_ms": chance.choice((500, 2_000)),
        "retry_backoff_ms": 50,
        "max_in_flight_requests_per_connection": chance.choice((1, 1, 3, 5)),
        "delivery_timeout_ms": 60_000,
    }
    if kind == "none":
        settings["retries"] = 0
    return settings


def _acts(chance: Chance, partitions: int, first: int, count: int) -> list[Act]:
    pause_us = chance.choice((200, 3_000, 40_000))
    acts = []
    for number in range(first, first + count):
        acts.append(Act(SEND, number, "orders", chance.randrange(partitions), None, chance.choice((20, 120))))
        if chance.random() < 0.6:
            acts.append(Act(PAUSE, pause_us=pause_us))
    # Readers go on until nobody writes.
    return [*acts, Act(PAUSE, pause_us=9_000_000)]


def _fault(chance: Chance, partitions: int) -> TimedFault:
    kind = chance.choice((*_AFTER, *_AFTER, *_BEFORE, *_BEFORE, *_OTHERS))
    at_us, lasts_us = chance.choice((0, 20_000, 200_000)), _LASTS_US
    if kind == "move_leader":
        return TimedFault(make_fault(kind, topic="orders", partition=chance.randrange(partitions)), at_us, 0)
    if kind in ("half_open", "unplug", "kill"):
        fault = make_fault(kind, broker_id=chance.randrange(3))
        return TimedFault(fault, at_us, chance.choice((300_000, 3_000_000)))
    fields: dict[str, object] = {"nth": chance.randint(1, 8)} if chance.random() < 0.8 else {"every": 7, "times": 3}
    if kind.startswith("delay"):
        fields["delay_ms"] = chance.choice((50, 700, 3_000))
    if kind == "refuse":
        fields["error"] = chance.choice(_ERRORS[:2])
    if kind == "refuse_after_append":
        fields["error"] = chance.choice(_ERRORS[1:])
    if chance.random() < 0.5:
        fields["topic"] = "orders"
    return TimedFault(make_fault(kind, **fields), at_us, lasts_us)
