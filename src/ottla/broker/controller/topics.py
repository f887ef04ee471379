"""The controller's topics: made, spread over the brokers, and deleted.

The first replica of a partition leads it. Consecutive partitions are led by consecutive living brokers, beginning
where the partitions made before ended; the other replicas are the brokers that follow, those that are not alive last.
A broker that is not alive gets a replica, but is not in sync.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.controller.configs import configs_of_created
from ottla.broker.controller.state import ControllerState
from ottla.broker.events import ClusterImage, PartitionImage, TopicImage
from ottla.broker.refused import Refused, not_written
from ottla.broker.settings import BrokerSettings
from ottla.broker.topic_ids import topics_asked
from ottla.broker.topic_names import topic_name_fault
from ottla.broker.topic_settings import topic_config_fault
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

PARTITIONS_MAX = 10_000
DEFAULT = -1
_REPLICAS_WHERE_NOT_SAID = 3


class Topics:
    """Makes and deletes topics; `static`: settings as started; `publish` is given each new image."""

    def __init__(
        self,
        state: ControllerState,
        static: BrokerSettings,
        settings: BrokerSettings,
        alive: Callable[[int], bool],
        publish: Callable[[ClusterImage], None],
    ) -> None:
        self._state = state
        self._static = static
        self._settings = settings
        self._alive = alive
        self._publish = publish

    def create(self, message: CreateTopicsRequest) -> CreateTopicsResponse:
        """Make topics; each succeeds or fails by itself."""
        fresh: dict[str, TopicImage] = {}
        made = self._state.partitions_made
        results: list[CreatableTopicResult] = []
        seen: dict[str, int] = {}
        for asked in message.topics:
            seen[asked.name] = seen.get(asked.name, 0) + 1
        for asked in message.topics:
            try:
                # Kafka's metrics write dots as underscores, so two names must not differ in nothing else.
                other = self._state.name_like(asked.name)
                if other is not None and other != asked.name:
                    detail = f"topic {asked.name!r} differs from {other!r} in nothing but dots and underscores"
                    raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, detail)
                if seen[asked.name] > 1:
                    raise Refused(ErrorCode.INVALID_REQUEST, f"topic {asked.name!r} is asked for more than once")
                topic = self._new_topic(asked, made)
            except Refused as refusal:
                results.append(_not_created(asked.name, refusal))
                continue
            fresh[asked.name] = topic
            made += len(topic.partitions)
            results.append(self._created(topic))
        if not fresh or message.validate_only:
            return CreateTopicsResponse(topics=results)
        try:
            self._publish(self._state.change(fresh, partitions_made=made))
        except OSError as error:
            failed = not_written(error)
            results = [result if result.error_code else _not_created(result.name, failed) for result in results]
        return CreateTopicsResponse(topics=results)

    def _created(self, topic: TopicImage) -> CreatableTopicResult:
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic.topic_id,
            error_message=None,
            num_partitions=len(topic.partitions),
            replication_factor=len(topic.partitions[0].replicas),
            configs=configs_of_created(topic, self._static, self._state.image.broker_configs),
        )

    def _new_topic(self, asked: CreatableTopic, made: int) -> TopicImage:
        fault = topic_name_fault(asked.name)
        if fault is not None:
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
        if asked.name in self._state.image.topics:
            raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {asked.name!r} exists already")
        configs = [(config.name, config.value) for config in asked.configs]
        wrong = topic_config_fault(configs)
        if wrong is not None:
            raise Refused(ErrorCode.INVALID_CONFIG, wrong)
        replicas = self._given_replicas(asked) if asked.assignments else self._spread_replicas(asked, made)
        return TopicImage(
            name=asked.name,
            topic_id=self._state.new_topic_id(),
            partitions=tuple(self.new_partition(holders) for holders in replicas),
            configs=tuple((name, value or "") for name, value in configs),
        )

    def new_partition(self, holders: tuple[int, ...]) -> PartitionImage:
        """A partition held by these brokers, led by the first that is alive; raises Refused where none is."""
        isr = tuple(each for each in holders if self._alive(each))
        if not isr:
            detail = f"none of the brokers {list(holders)} that are to hold a partition is alive"
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail)
        return PartitionImage(isr[0], 0, holders, isr)

    def _spread_replicas(self, asked: CreatableTopic, made: int) -> list[tuple[int, ...]]:
        count, factor, brokers = asked.num_partitions, asked.replication_factor, self._state.brokers
        if count == DEFAULT:
            count = self._settings.num_partitions
        if factor == DEFAULT:
            factor = self._settings.default_replication_factor or min(_REPLICAS_WHERE_NOT_SAID, len(brokers))
        # As many in one request, as in Apache Kafka.
        together = made - self._state.partitions_made + count
        if together > PARTITIONS_MAX:
            raise Refused(ErrorCode.POLICY_VIOLATION, f"{together} partitions; {PARTITIONS_MAX} are allowed at a time")
        if count < 1:
            raise Refused(ErrorCode.INVALID_PARTITIONS, f"{count} partitions; 1 to {PARTITIONS_MAX} are allowed, or -1")
        if not 1 <= factor <= len(brokers):
            detail = f"replication factor {factor}; this cluster has {len(brokers)} brokers"
            raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, detail)
        return self.spread(count, factor, made)

    def spread(self, count: int, factor: int, made: int) -> list[tuple[int, ...]]:
        """Who is to hold each of `count` partitions, where `made` were made before; raises Refused."""
        brokers = self._state.brokers
        alive = [address.broker_id for address in brokers if self._alive(address.broker_id)]
        if not alive:
            raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, "no broker of this cluster is alive")
        others = [address.broker_id for address in brokers if not self._alive(address.broker_id)]
        spread = []
        for index in range(made, made + count):
            first = index % len(alive)
            spread.append(tuple([*alive[first:], *alive[:first], *others][:factor]))
        return spread

    def _given_replicas(self, asked: CreatableTopic) -> list[tuple[int, ...]]:
        if asked.num_partitions != DEFAULT or asked.replication_factor != DEFAULT:
            detail = "with replicas assigned by hand, partitions and replication factor must be -1"
            raise Refused(ErrorCode.INVALID_REQUEST, detail)
        given = {each.partition_index: tuple(each.broker_ids) for each in asked.assignments}
        if sorted(given) != list(range(len(asked.assignments))):
            detail = "assigned partitions must be numbered from 0 without gaps"
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail)
        for index in range(len(given)):
            self.check_holders(index, given[index], len(given[0]))
        return [given[index] for index in range(len(given))]

    def check_holders(self, index: int, holders: tuple[int, ...], factor: int) -> None:
        """Raises Refused where these brokers cannot hold a partition together."""
        known = [address.broker_id for address in self._state.brokers]
        unknown = [broker_id for broker_id in holders if broker_id not in known]
        if unknown or not holders or len(dict.fromkeys(holders)) != len(holders):
            detail = f"partition {index} cannot be held by {list(holders)}; brokers are {known}"
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail)
        if len(holders) != factor:
            detail = "all partitions of a topic must have equally many replicas"
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail)

    def delete(self, message: DeleteTopicsRequest) -> DeleteTopicsResponse:
        """Delete topics, given by name or by id."""
        known = self._state.image.topics
        gone: dict[str, None] = {}
        results = []
        for name, topic_id in topics_asked(message):
            found = known.get(name) if name is not None else self._state.topic_with(topic_id)
            if found is not None and found.name not in gone:
                gone[found.name] = None
                results.append(DeletableTopicResult(name=found.name, topic_id=found.topic_id))
            else:
                by_name = name is not None
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if by_name else ErrorCode.UNKNOWN_TOPIC_ID
                detail = f"there is no topic {name!r}" if by_name else "no topic has this id"
                results.append(
                    DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=detail)
                )
        if gone:
            try:
                self._publish(self._state.change(gone))
            except OSError as error:
                failed = not_written(error)
                for result in results:
                    if not result.error_code:
                        result.error_code, result.error_message = failed.error_code, str(failed)
        return DeleteTopicsResponse(responses=results)


def _not_created(name: str, refusal: Refused) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=refusal.error_code, error_message=str(refusal))
