"""Draws the moves of replicas of a plan: which partitions, to which brokers, and when.

With few records a move takes milliseconds, and no fault would happen meanwhile. So most moves begin close to a fault of
a broker, and most of those move a replica to that broker: the move lasts until the broker runs again. Some moves are
redirected or stopped meanwhile.
"""

from __future__ import annotations

from ottla.broker.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.simulation.chance import Chance
from ottla.simulation.plan import MovePlan, Plan, TimedFault
from ottla.simulation.plan_check import partitions_of
from ottla.simulation.timetable import Timetable

_COUNTS = (1, 2, 4, 8)
_REPLICAS = (1, 2, 2, 3, 3, 4)
# The share of moves of internal topics, which the brokers make when they need them.
_INTERNAL_SHARE = 0.25
_BESIDE_A_FAULT_SHARE = 0.75
_TO_ITS_BROKER_SHARE = 0.7
# When such a move begins, relative to the beginning of the fault.
_BESIDE_US = (-20_000, -1_000, 1_000, 20_000, 200_000)
_FOLLOWED_SHARE = 0.4
_FOLLOWED_US = (1_000, 50_000, 500_000, 2_000_000)
_STOPPED_SHARE = 0.6
# Faults are over by then.
_LATEST_US = 30_000_000


def draw_moves(chance: Chance, plan: Plan) -> list[MovePlan]:
    """Some moves for a plan in which all else is there, in the order of time."""
    own = [(topic.name, index) for topic in plan.topics for index in range(topic.partitions)]
    partitions = partitions_of(plan)
    internal = [(topic, index) for topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC) for index in range(partitions[topic])]
    faults = [each for each in plan.faults if isinstance(each.fault.victim, int) and each.fault.victim >= 0]
    end_us = min(Timetable(plan).end_us, _LATEST_US)
    moves: list[MovePlan] = []
    for _ in range(chance.choice(_COUNTS)):
        topic, partition = chance.choice(internal if chance.random() < _INTERNAL_SHARE else own)
        replicas = _some_brokers(chance, plan)
        at_us = chance.randrange(end_us + 1)
        if faults and chance.random() < _BESIDE_A_FAULT_SHARE:
            at_us = _begin_beside(chance, chance.choice(faults), replicas)
        moves.append(MovePlan(topic, partition, replicas, at_us))
        while chance.random() < _FOLLOWED_SHARE:
            at_us += chance.choice(_FOLLOWED_US)
            stops = chance.random() < _STOPPED_SHARE
            moves.append(MovePlan(topic, partition, None if stops else _some_brokers(chance, plan), at_us))
    return sorted(moves, key=lambda each: each.at_us)


def _some_brokers(chance: Chance, plan: Plan) -> list[int]:
    return chance.sample(range(plan.brokers), min(chance.choice(_REPLICAS), plan.brokers))


def _begin_beside(chance: Chance, fault: TimedFault, replicas: list[int]) -> int:
    """When the move begins; often the fault's broker is put into `replicas`."""
    victim = fault.fault.victim
    assert isinstance(victim, int)
    if victim not in replicas and chance.random() < _TO_ITS_BROKER_SHARE:
        replicas[chance.randrange(len(replicas))] = victim
    beside_us: int = chance.choice(_BESIDE_US)
    return max(0, fault.at_us + beside_us)
