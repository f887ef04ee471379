"""The controller's part of CreatePartitions: topics get more partitions, never fewer.

New partitions have as many replicas as those there are; they are spread over the brokers as those of new topics, or
held by the brokers that the request names. Records stay where they are: a key may belong to another partition from now
on.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.controller.state import ControllerState
from ottla.broker.controller.topics import PARTITIONS_MAX, Topics
from ottla.broker.events import ClusterImage, TopicImage
from ottla.broker.refused import Refused, not_written
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


class Partitions:
    """Adds partitions to topics; `publish` is given each new image."""

    def __init__(self, state: ControllerState, topics: Topics, publish: Callable[[ClusterImage], None]) -> None:
        self._state = state
        self._topics = topics
        self._publish = publish

    def create(self, message: CreatePartitionsRequest) -> CreatePartitionsResponse:
        """Add partitions; each topic succeeds or fails by itself."""
        made = self._state.partitions_made
        seen: dict[str, int] = {}
        for asked in message.topics:
            seen[asked.name] = seen.get(asked.name, 0) + 1
        results = [CreatePartitionsTopicResult(name=name, error_message=None) for name in seen]
        askings = {asked.name: asked for asked in message.topics}
        grown: dict[str, TopicImage] = {}
        for result in results:
            try:
                if seen[result.name] > 1:
                    raise Refused(ErrorCode.INVALID_REQUEST, f"topic {result.name!r} is asked for more than once")
                topic = self._grown(askings[result.name], made)
                made += len(topic.partitions) - len(self._state.image.topics[result.name].partitions)
                grown[result.name] = topic
            except Refused as refusal:
                result.error_code, result.error_message = refusal.error_code, str(refusal)
        if grown and not message.validate_only:
            try:
                self._publish(self._state.change(grown, partitions_made=made))
            except OSError as error:
                failed = not_written(error)
                for result in results:
                    if not result.error_code:
                        result.error_code, result.error_message = failed.error_code, str(failed)
        return CreatePartitionsResponse(results=results)

    def _grown(self, asked: CreatePartitionsTopic, made: int) -> TopicImage:
        topic = self._state.image.topics.get(asked.name)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {asked.name!r}")
        present = len(topic.partitions)
        added = asked.count - present
        if added <= 0:
            detail = f"topic {asked.name!r} has {present} partitions: give more than that, not {asked.count}"
            raise Refused(ErrorCode.INVALID_PARTITIONS, detail)
        if asked.count > PARTITIONS_MAX:
            detail = f"{asked.count} partitions; a topic may have {PARTITIONS_MAX}"
            raise Refused(ErrorCode.INVALID_PARTITIONS, detail)
        together = made - self._state.partitions_made + added
        if together > PARTITIONS_MAX:
            raise Refused(ErrorCode.POLICY_VIOLATION, f"{together} partitions; {PARTITIONS_MAX} are allowed at a time")
        factor = len(topic.partitions[0].replicas)
        if asked.assignments is None:
            holders = self._topics.spread(added, factor, made)
        else:
            holders = [tuple(each.broker_ids) for each in asked.assignments]
            if len(holders) != added:
                detail = f"{added} partitions are to be added, but {len(holders)} are assigned to brokers"
                raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail)
            for index, each in enumerate(holders, start=present):
                self._topics.check_holders(index, each, factor)
        new = tuple(self._topics.new_partition(each) for each in holders)
        return topic.but(partitions=(*topic.partitions, *new))
