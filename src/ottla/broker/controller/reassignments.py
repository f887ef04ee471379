"""The controller's part of AlterPartitionReassignments (KIP-455): replicas are moved to the brokers that are named.

`moves` decides for one partition. This file checks requests, and makes one new image for all that a request changes. A
move goes on when its new replicas are in sync, which their leader proposes (`leadership`). It is stored with the rest
of the image, so it outlives this controller.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.controller import moves
from ottla.broker.controller.leadership import Leadership
from ottla.broker.controller.state import ControllerState
from ottla.broker.controller.topics import Topics
from ottla.broker.events import ClusterImage, PartitionImage, TopicImage
from ottla.broker.refused import Refused, not_written
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


class Reassignments:
    """Moves replicas; `alive` takes a broker id, `publish` is given each new image."""

    def __init__(
        self,
        state: ControllerState,
        topics: Topics,
        leadership: Leadership,
        alive: Callable[[int], bool],
        publish: Callable[[ClusterImage], None],
    ) -> None:
        self._state = state
        self._topics = topics
        self._leadership = leadership
        self._alive = alive
        self._publish = publish

    def alter(self, message: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
        """Begin to move replicas, or stop; each partition succeeds or fails by itself."""
        may_resize = message.allow_replication_factor_change
        changes: dict[str, dict[int, PartitionImage]] = {}
        answers = []
        for asked in message.topics:
            results = []
            for each in asked.partitions:
                result = ReassignablePartitionResponse(partition_index=each.partition_index, error_message=None)
                results.append(result)
                try:
                    topic, before = self._find(asked.name, each.partition_index)
                    # If a partition is named twice, the second change starts from the first.
                    before = changes.get(asked.name, {}).get(each.partition_index, before)
                    after = self._after(topic, before, each, may_resize=may_resize)
                except Refused as refusal:
                    result.error_code, result.error_message = refusal.error_code, str(refusal)
                    continue
                if after is not before:
                    changes.setdefault(asked.name, {})[each.partition_index] = after
            answers.append(ReassignableTopicResponse(name=asked.name, partitions=results))
        response = AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=may_resize, error_message=None, responses=answers
        )
        if changes:
            try:
                self._publish(self._state.change_partitions(changes))
            except OSError as error:
                failed = not_written(error)
                response.error_code, response.error_message = failed.error_code, str(failed)
                response.responses = []
        return response

    def _find(self, name: str, index: int) -> tuple[TopicImage, PartitionImage]:
        topic = self._state.image.topics.get(name)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        if not 0 <= index < len(topic.partitions):
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} has no partition {index}")
        return topic, topic.partitions[index]

    def _after(
        self, topic: TopicImage, before: PartitionImage, asked: ReassignablePartition, *, may_resize: bool
    ) -> PartitionImage:
        index = asked.partition_index
        if asked.replicas is None:
            if not before.is_moving:
                raise Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"no replica of {topic.name}-{index} is moving")
            after = moves.cancelled(before, self._alive, unclean=self._leadership.may_be_unclean(topic))
            if after is None:
                detail = (
                    f"the move of {topic.name}-{index} cannot be stopped: none of the replicas it had before is in "
                    "sync, and unclean elections are not allowed"
                )
                raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail)
            return after
        target = tuple(asked.replicas)
        self._topics.check_holders(index, target, len(target))
        size = len(moves.target_of(before))
        if len(target) != size and not may_resize:
            detail = f"{topic.name}-{index} has {size} replicas, and {len(target)} are asked for"
            raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, detail)
        return moves.moved(before, target, self._alive)
