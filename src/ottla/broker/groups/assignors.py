"""Which member is to own which partition: Kafka's server-side assignors `uniform` and `range` (KIP-848).

An assignor gets what each member subscribes to and what it was to own until now, and returns what it is to own.
`uniform` gives members as even numbers of partitions as their subscriptions allow, and moves few partitions for that.
`range` gives each subscriber of a topic one run of neighbouring partitions, the first member the first run, and keeps
nothing on purpose; topics with the same number of partitions and the same subscribers are cut alike.

Invariants: every partition of a topic with a subscriber goes to one member, which subscribes to it. The same arguments
give the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

# (topic id, partition index)
TopicPartition = tuple[bytes, int]
# A dictionary without values is a set that keeps its order.
Partitions = dict[TopicPartition, None]


class Candidate(NamedTuple):
    """A member, the ids of the topics it subscribes to, and what it was to own until now."""

    member_id: str
    topic_ids: Sequence[bytes]
    owned: Partitions


# (members, topic id -> its number of partitions) -> what each member is to own.
Assignor = Callable[[Sequence[Candidate], Mapping[bytes, int]], dict[str, Partitions]]


def assign_ranges(members: Sequence[Candidate], counts: Mapping[bytes, int]) -> dict[str, Partitions]:
    """Give each member a run of every topic's partitions."""
    assigned: dict[str, Partitions] = {member.member_id: {} for member in members}
    for topic_id, subscribers in _subscribers(members).items():
        share, more = divmod(counts[topic_id], len(subscribers))
        start = 0
        for position, member_id in enumerate(subscribers):
            end = start + share + (position < more)
            assigned[member_id].update(((topic_id, index), None) for index in range(start, end))
            start = end
    return assigned


def assign_uniformly(members: Sequence[Candidate], counts: Mapping[bytes, int]) -> dict[str, Partitions]:
    """Keep what members own, give what is left to those with the fewest, and move some until all have as many."""
    subscribers = _subscribers(members)
    assigned: dict[str, Partitions] = {}
    taken: Partitions = {}
    for member in members:
        wanted = dict.fromkeys(member.topic_ids)
        kept = {
            place: None
            for place in member.owned
            if place[0] in wanted and place[1] < counts[place[0]] and place not in taken
        }
        taken.update(kept)
        assigned[member.member_id] = kept
    for topic_id, able in subscribers.items():
        for index in range(counts[topic_id]):
            place = topic_id, index
            if place not in taken:
                assigned[min(able, key=lambda member_id: len(assigned[member_id]))][place] = None
    while _move_one(assigned, subscribers):
        pass
    return assigned


def _subscribers(members: Sequence[Candidate]) -> dict[bytes, list[str]]:
    """Topic id -> the members that subscribe to it."""
    found: dict[bytes, list[str]] = {}
    for member in members:
        for topic_id in member.topic_ids:
            found.setdefault(topic_id, []).append(member.member_id)
    return found


def _move_one(assigned: dict[str, Partitions], subscribers: Mapping[bytes, list[str]]) -> bool:
    """Make the loads of two members more alike by one partition, on the way through others if need be.

    False where no member can have fewer without another one having more. The squares of the loads add up to less
    after each move, so moving comes to an end.
    """
    lowest = min(map(len, assigned.values()), default=0)
    for giver in sorted(assigned, key=lambda member_id: -len(assigned[member_id])):
        load = len(assigned[giver])
        if load < lowest + 2:
            return False
        # The members that the giver's partitions can reach: member -> (member that passes a partition on to it, the
        # partition).
        reached: dict[str, tuple[str, TopicPartition] | None] = {giver: None}
        line = [giver]
        lowest_reached = load
        for passer in line:
            if lowest_reached == lowest:
                break
            topics = {place[0]: place for place in assigned[passer]}
            for topic_id, place in topics.items():
                for taker in subscribers[topic_id]:
                    if taker not in reached:
                        reached[taker] = passer, place
                        line.append(taker)
                        lowest_reached = min(lowest_reached, len(assigned[taker]))
        receiver = min(line, key=lambda member_id: len(assigned[member_id]))
        if len(assigned[receiver]) + 1 < load:
            while (step := reached[receiver]) is not None:
                passer, place = step
                del assigned[passer][place]
                assigned[receiver][place] = None
                receiver = passer
            return True
    return False


# By the names that clients know; the first is the one used where no member asks for one.
ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
