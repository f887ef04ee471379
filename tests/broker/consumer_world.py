"""Members of consumer groups (KIP-848), played by hand."""

from __future__ import annotations

from typing import Any

from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)

from .group_world import GROUP, find_coordinator
from .world import TOPIC, World

Owned = list[tuple[str, int]]


class Consumer:
    """One member: `owned` is what it may read, by topic name and index, as the last answers told it.

    It gives up at once what it is told to, and says so with its next heartbeat, unless it is `busy`.
    """

    def __init__(
        self, world: World, name: str, *, topics: list[str] | None = None, group_id: str = GROUP, **more: Any
    ) -> None:
        self.world, self.member_id, self.group_id = world, name, group_id
        self.node = find_coordinator(world, group_id)
        self.fields = {
            "subscribed_topic_names": [TOPIC] if topics is None else topics,
            "rebalance_timeout_ms": 60_000,
            "instance_id": None,
            **more,
        }
        self.epoch = 0
        self.owned: Owned = []
        self.busy = False
        self.answer: ConsumerGroupHeartbeatResponse | None = None

    def join(self) -> int:
        """Join from the beginning, with nothing; the error code."""
        self.epoch, self.owned = 0, []
        return self.heartbeat(full=True)

    def heartbeat(self, *, full: bool = False, **more: Any) -> int:
        """Heartbeat with what is owned, and do as the answer says; the error code."""
        fields = self.fields if full else {"instance_id": self.fields["instance_id"]}
        answer = self.ask(**{"topic_partitions": self.partitions(), **fields, **more})
        self.take(answer)
        return int(answer.error_code)

    def beat(self, times: int) -> None:
        """Heartbeat so many times; none is refused."""
        for _ in range(times):
            assert self.heartbeat() == 0

    def leave(self, epoch: int = -1) -> int:
        answer = self.ask(member_epoch=epoch, instance_id=self.fields["instance_id"])
        return int(answer.error_code)

    def ask(self, **fields: Any) -> Any:
        given = {"group_id": self.group_id, "member_id": self.member_id, "member_epoch": self.epoch, **fields}
        return self.world.ask(self.node, ConsumerGroupHeartbeatRequest(**given), version=1)

    def take(self, answer: Any) -> None:
        """Do as an answer says."""
        self.answer = answer
        if answer.error_code:
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None and not self.busy:
            names = {topic.topic_id: name for name, topic in self.world.controller.image.topics.items()}
            self.owned = [
                (names[each.topic_id], index)
                for each in answer.assignment.topic_partitions
                if each.topic_id in names
                for index in each.partitions
            ]

    def partitions(self) -> list[RequestTopicPartitions]:
        topics: dict[str, list[int]] = {}
        for name, index in self.owned:
            topics.setdefault(name, []).append(index)
        image = self.world.controller.image.topics
        return [
            RequestTopicPartitions(topic_id=image[name].topic_id, partitions=indexes)
            for name, indexes in topics.items()
            if name in image
        ]

    @property
    def indexes(self) -> list[int]:
        """What it owns of TOPIC."""
        return sorted(index for name, index in self.owned if name == TOPIC)


def settle(*members: Consumer) -> None:
    """Heartbeat in turn until everybody has come to the end."""
    for _ in range(4):
        for member in members:
            assert member.heartbeat() == 0


def described(world: World, group_id: str = GROUP, *, version: int = 1, node: int | None = None) -> Any:
    """The group as ConsumerGroupDescribe tells it."""
    asked = ConsumerGroupDescribeRequest(group_ids=[group_id])
    return world.ask(node or find_coordinator(world, group_id), asked, version=version).groups[0]
