"""A consumer group by itself: whatever its members do in whatever order, a partition has one owner at a time.

Clients come, go, fall silent, lose answers, take their time to give partitions up; topics come, grow and go; the
coordinator dies before or after it has written down what it decided. In the end all is assigned.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.events import ClusterImage, PartitionImage, TopicImage
from ottla.broker.groups.assignors import Partitions, TopicPartition
from ottla.broker.groups.consumer_group import ConsumerGroup, ConsumerGroupState
from ottla.broker.groups.consumer_member import MemberState
from ottla.broker.groups.consumer_records import part_of_key, take_record, unsaved_pairs
from ottla.broker.refused import Refused
from ottla.broker.settings import BrokerSettings
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, RequestTopicPartitions

SETTINGS = BrokerSettings(group_consumer_session_timeout_ms=1000)
TOPICS = ("apples", "books", "cars")
_PARTITION = PartitionImage(1, 0, (1,), (1,))


@dataclass
class Member:
    """A client: `told` is the assignment it has heard of last, `owned` what it has made of it so far.

    It takes what it is given at once, and gives up what it must later. (Who says after an answer that it does not own
    what it was given is taken at its word, by Apache Kafka as well: another may get it.)
    """

    number: int
    topics: list[str]
    regex: str
    is_static: bool
    start: int = 0
    epoch: int | None = None
    told: Partitions = field(default_factory=dict)
    owned: Partitions = field(default_factory=dict)
    must_say_all: bool = True

    @property
    def member_id(self) -> str:
        return f"member-{self.number}-{self.start}"

    @property
    def instance_id(self) -> str | None:
        return f"instance-{self.number}" if self.is_static else None

    def request(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        topics: dict[bytes, list[int]] = {}
        for topic_id, index in self.owned:
            topics.setdefault(topic_id, []).append(index)
        owned = [RequestTopicPartitions(topic_id=each, partitions=indexes) for each, indexes in topics.items()]
        full = self.must_say_all or epoch == 0
        return ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            instance_id=self.instance_id,
            member_epoch=epoch,
            rebalance_timeout_ms=600 if full else -1,
            subscribed_topic_names=self.topics if full else None,
            subscribed_topic_regex=self.regex if full else None,
            topic_partitions=owned,
        )

    def forget(self) -> None:
        self.epoch, self.told, self.owned, self.must_say_all = None, {}, {}, True


class GroupLife:
    """One group, its clients, its topics, and what is stored of it."""

    def __init__(self) -> None:
        self.now_us = 0
        self.version = 0
        self.counts: dict[str, int] = {"apples": 3}
        self.starts: dict[str, int] = {}
        self.stored: dict[bytes, bytes] = {}
        self.members = [Member(n, ["apples"], "", n % 2 == 1) for n in range(4)]
        self.group = self.new_group()

    def new_group(self) -> ConsumerGroup:
        return ConsumerGroup("g", SETTINGS, lambda: "made")

    @property
    def image(self) -> ClusterImage:
        topics = {
            name: TopicImage(name, f"{name}-{self.starts.get(name, 0)}".encode().ljust(16), (_PARTITION,) * count)
            for name, count in self.counts.items()
        }
        return ClusterImage(self.version, "c", 0, (), topics)

    def write(self) -> None:
        """Into a log that is compacted at once."""
        for key, value in unsaved_pairs(self.group):
            self.stored.pop(key, None)
            if value is not None:
                self.stored[key] = value
        self.group.unsaved.clear()

    def restart(self) -> None:
        """Another coordinator reads what is stored."""
        self.group = self.new_group()
        for key, value in self.stored.items():
            found = part_of_key(key)
            assert found is not None
            take_record(self.group, found[1], found[2], value)
        self.group.restore(self.now_us)

    def heartbeat(self, member: Member, *, fate: str = "told") -> None:
        """One heartbeat, whose answer is told or lost, or whose coordinator dies before it has written anything."""
        epoch = member.epoch or 0
        if epoch == 0:
            member.forget()
            if not member.is_static:
                member.start += 1
        try:
            answer = self.group.heartbeat(member.request(epoch), "client", self.image, self.now_us)
        except Refused:
            # Fenced or unknown: it gives up everything and joins again. Who waits for its own session does the same.
            member.forget()
            self.write()
            return
        if fate == "died":
            member.must_say_all = True
            self.restart()
            return
        self.write()
        if fate == "lost":
            member.must_say_all = True
            return
        member.must_say_all = False
        member.epoch = answer.member_epoch
        if answer.assignment is not None:
            member.told = {
                (each.topic_id, index): None for each in answer.assignment.topic_partitions for index in each.partitions
            }
            member.owned.update(member.told)

    def leave(self, member: Member, epoch: int) -> None:
        member.owned = {}
        if member.epoch is not None:
            with suppress(Refused):
                self.group.heartbeat(member.request(epoch), "client", self.image, self.now_us)
        member.forget()
        member.start += 1
        self.write()

    def act(self, what: str, number: int, amount: int) -> None:
        member = self.members[number]
        name = TOPICS[amount % len(TOPICS)]
        if what in ("told", "lost", "died"):
            self.heartbeat(member, fate=what)
        elif what == "apply":
            member.owned = dict(member.told)
        elif what == "leave":
            self.leave(member, -1)
        elif what == "leave for a while":
            self.leave(member, -2 if member.is_static else -1)
        elif what == "time":
            self.pass_time(amount * 100_000)
        elif what == "subscribe":
            member.topics, member.regex = [[name], [*TOPICS], [], ["apples", name]][amount % 4], ["", ".*s"][amount % 2]
            member.must_say_all = True
        elif what == "topic":
            self.version += 1
            if amount % 3 == 2:
                self.counts.pop(name, None)
                self.starts[name] = self.starts.get(name, 0) + 1
            else:
                self.counts[name] = self.counts.get(name, 0) + amount % 3 + 1
        else:
            self.write()
            self.restart()

    def pass_time(self, us: int) -> None:
        end_us = self.now_us + us
        while (due_us := self.group.deadline_us()) is not None and due_us <= end_us:
            self.now_us = max(self.now_us, due_us)
            self.group.time_passed(self.now_us)
        self.now_us = end_us
        self.write()

    def check(self) -> None:
        """No partition has two owners: as the group has it, and among clients that are in it."""
        held: dict[TopicPartition, str] = {}
        for member in self.group.members.values():
            for place in [*member.assigned, *member.revoking]:
                assert held.setdefault(place, member.member_id) == member.member_id
                assert self.group._owners.get(place) == member.member_id
        used: dict[TopicPartition, str] = {}
        for client in self.members:
            if client.member_id in self.group.members and client.epoch is not None:
                for place in client.owned:
                    assert used.setdefault(place, client.member_id) == client.member_id
                    assert held.get(place) == client.member_id
        assert self.group.assignment_epoch <= self.group.epoch

    def end(self) -> None:
        """All clients stay, and heartbeat until nothing changes."""
        for _ in range(40):
            for client in self.members:
                self.heartbeat(client)
                client.owned = dict(client.told)
                self.check()
            self.pass_time(50_000)
        assert self.group.state is ConsumerGroupState.STABLE
        image = self.image
        wanted: dict[str, None] = {}
        for client in self.members:
            wanted.update(dict.fromkeys(name for name in client.topics if name in image.topics))
            wanted.update(dict.fromkeys(image.topics if client.regex else ()))
        everything = sorted((image.topics[n].topic_id, index) for n in wanted for index in range(self.counts[n]))
        assert sorted(place for client in self.members for place in client.owned) == everything
        if len({(tuple(client.topics), client.regex) for client in self.members}) == 1:
            shares = [len(client.owned) for client in self.members]
            assert max(shares) - min(shares) <= 1


ACTS = ("told", "lost", "died", "apply", "leave", "leave for a while", "time", "subscribe", "topic", "restart")
# What happens most in a group's life comes up most.
DRAWN = st.sampled_from([*ACTS, *("told", "apply") * 5])


@given(st.lists(st.tuples(DRAWN, st.integers(0, 3), st.integers(0, 11)), min_size=25, max_size=70))
def test_a_partition_has_one_owner_and_in_the_end_all_are_assigned(acts: list[tuple[str, int, int]]) -> None:
    life = GroupLife()
    for act in acts:
        life.act(*act)
        life.check()
    life.end()


def test_all_that_is_stored_of_a_group_is_read_back() -> None:
    life = GroupLife()
    for client in life.members:
        life.heartbeat(client)
        client.owned = dict(client.told)
    life.heartbeat(life.members[0])
    life.act("leave for a while", 1, 0)
    before = picture(life.group)
    states = {each["state"] for each in before[1].values()}
    assert {MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS} <= states
    life.restart()
    assert picture(life.group) == before


def picture(group: ConsumerGroup) -> Any:
    """All that a later coordinator is to know of a group."""
    times = ("session_deadline_us", "rebalance_deadline_us")
    members = {
        member_id: {name: getattr(member, name) for name in member.__slots__ if name not in times}
        for member_id, member in group.members.items()
    }
    return (group.epoch, group.assignment_epoch, group.metadata_hash), members
