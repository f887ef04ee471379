"""Requests about topics and the cluster: Metadata, CreateTopics, DeleteTopics, CreatePartitions.

The controller makes, changes and deletes topics. It is asked again about topics that its answer leaves out. Brokers get
a new topic from the controller a moment later; `_wait_until_known` waits for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.client.admin_driver import AdminDriver, left_out
from ottla.client.authorized_operations import read_operations
from ottla.connection.request import ANY_NODE, CONTROLLER, Answer
from ottla.errors import KafkaError, OttlaError, Unreachable
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

# Errors after which the controller is asked again. After REQUEST_TIMED_OUT the topic may already be made.
_BUSY = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE)
# A broker that does not answer for so long is not waited for: it cannot answer clients that a topic is unknown either.
_KNOWN_MS = 2_000
_NOT_YET = "it is made, but cannot be used yet"
_NO_DEFAULT = (
    "Give replication_factor: without it, brokers use default.replication.factor, and brokers before Kafka 2.4 refuse"
)


@dataclass(slots=True, frozen=True)
class PartitionDescription:
    """One partition: `leader` is None where there is none for now; replicas and isr are broker ids."""

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(slots=True, frozen=True)
class TopicDescription:
    """One topic: `topic_id` has 16 bytes (zeros where the cluster has none), partitions by number.

    `authorized_operations` are what this user may do, by Kafka's names ("WRITE"); None where brokers were not asked, or
    are older than Kafka 2.3.
    """

    name: str
    topic_id: bytes
    partitions: tuple[PartitionDescription, ...]
    authorized_operations: frozenset[str] | None = None


@dataclass(slots=True, frozen=True)
class BrokerDescription:
    """One broker and where it listens."""

    broker_id: int
    host: str
    port: int
    rack: str | None


@dataclass(slots=True, frozen=True)
class ClusterDescription:
    """The cluster: its id, the id that brokers return as the controller's, all brokers."""

    cluster_id: str | None
    controller_id: int
    brokers: tuple[BrokerDescription, ...]


class TopicAdmin:
    """The calls of `Admin` about topics and the cluster; `request_timeout_ms` is how long the controller may take."""

    def __init__(self, driver: AdminDriver, request_timeout_ms: int) -> None:
        self._driver = driver
        self._request_timeout_ms = request_timeout_ms

    def create(
        self, counts: Mapping[str, int], replication_factor: int | None, configs: Sequence[CreatableTopicConfig]
    ) -> None:
        """Make topics, {name: number of partitions}; see `Admin.create_topics`."""

        def request(left: list[str]) -> Any:
            return CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=name,
                        num_partitions=counts[name],
                        replication_factor=-1 if replication_factor is None else replication_factor,
                        configs=list(configs),
                    )
                    for name in left
                ],
                timeout_ms=self._request_timeout_ms,
            )

        more = {ErrorCode.INVALID_REPLICATION_FACTOR: _NO_DEFAULT} if replication_factor is None else {}
        self._at_controller(list(counts), request, lambda response: response.topics, more)
        self._wait_until_known(counts)

    def create_partitions(self, topic: str, count: int) -> None:
        """See `Admin.create_partitions`."""

        def request(left: list[str]) -> Any:
            return CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=name, count=count, assignments=None) for name in left],
                timeout_ms=self._request_timeout_ms,
            )

        self._at_controller([topic], request, lambda response: response.results)
        self._wait_until_known({topic: count})

    def delete(self, names: Sequence[str]) -> None:
        """Delete topics with all their records."""

        def request(left: list[str]) -> Any:
            return DeleteTopicsRequest(topic_names=left, timeout_ms=self._request_timeout_ms)

        self._at_controller(names, request, lambda response: response.responses)

    def listed(self) -> list[str]:
        """The names of all topics, sorted, without the cluster's internal ones."""
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        response = self._driver.ask(request, ANY_NODE).message
        # A topic that a broker does not know by its id has no name.
        return sorted(topic.name for topic in response.topics if topic.name is not None and not topic.is_internal)

    def describe(self, topic: str, *, include_authorized_operations: bool) -> TopicDescription:
        """See `Admin.describe`."""
        found = self.metadata(topic, include_authorized_operations=include_authorized_operations)
        return TopicDescription(
            found.name,
            found.topic_id,
            tuple(
                PartitionDescription(
                    place.partition_index,
                    place.leader_id if place.leader_id >= 0 else None,
                    place.leader_epoch,
                    tuple(place.replica_nodes),
                    tuple(place.isr_nodes),
                )
                for place in sorted(found.partitions, key=lambda place: place.partition_index)
            ),
            read_operations(found.topic_authorized_operations),
        )

    def cluster(self) -> ClusterDescription:
        """The cluster's id, controller and brokers."""
        response = self._driver.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False), ANY_NODE).message
        return ClusterDescription(
            response.cluster_id,
            response.controller_id,
            tuple(
                BrokerDescription(broker.node_id, broker.host, broker.port, broker.rack)
                for broker in sorted(response.brokers, key=lambda broker: broker.node_id)
            ),
        )

    def metadata(self, topic: str, *, include_authorized_operations: bool = False) -> Any:
        """A Metadata answer's part about this topic; KafkaError for every error code in it, also a retriable one."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic)],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=include_authorized_operations,
        )
        found: list[Any] = []

        def attempt() -> OttlaError | None:
            answer = self._driver.ask(request, ANY_NODE)
            found[:] = [each for each in answer.message.topics if each.name == topic]
            if not found:
                return left_out(f"topic {topic!r}", answer)
            if found[0].error_code:
                # Retriable errors, too: the caller decides whether to wait.
                raise kafka_error(found[0].error_code, topic=topic, broker_id=answer.broker_id)
            return None

        self._driver.until_well(attempt)
        return found[0]

    def _at_controller(
        self,
        names: Sequence[str],
        request: Callable[[list[str]], Any],
        results: Callable[[Any], Iterable[Any]],
        more: Mapping[int, str] | None = None,
    ) -> None:
        """Ask until each topic has a result; raise the first error that is not `_BUSY` after that.

        `more` is {error code: what is added to that error}.
        """
        left = list(dict.fromkeys(names))
        refused: list[KafkaError] = []

        def attempt() -> OttlaError | None:
            last_error: OttlaError | None = None
            answer = self._driver.ask(request(list(left)), CONTROLLER)
            told = {result.name: result for result in results(answer.message)}
            for name in list(left):
                result = told.get(name)
                if result is None:
                    last_error = left_out(f"topic {name!r}", answer)
                    continue
                if result.error_code:
                    said = getattr(result, "error_message", None) or ""
                    if more and result.error_code in more:
                        said = f"{said.rstrip('.')}. {more[result.error_code]}" if said else more[result.error_code]
                    error = kafka_error(result.error_code, said, topic=result.name, broker_id=answer.broker_id)
                    if result.error_code in _BUSY:
                        last_error = error
                        continue
                    refused.append(error)
                left.remove(name)
            return last_error

        if left:
            self._driver.until_well(attempt)
        if refused:
            raise refused[0]

    def _wait_until_known(self, counts: Mapping[str, int]) -> None:
        """Wait until all live brokers that answer know that many partitions of each topic, and their leaders.

        Brokers get a new topic from the controller a moment later. A broker without the topic is waited for only if all
        brokers with it list it as live: one that is cut off from the controller never gets the topic, and does not know
        that it is fenced.
        """
        topics = [MetadataRequestTopic(name=name) for name in counts]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)

        def attempt() -> OttlaError | None:
            broker_ids = [broker.broker_id for broker in self.cluster().brokers]
            late: dict[int, OttlaError] = {}
            alive: list[set[int]] = []
            answers = self._driver.ask_all([(request, broker_id) for broker_id in broker_ids], _KNOWN_MS)
            for broker_id, answer in zip(broker_ids, answers, strict=True):
                if answer is None or answer.message is None:
                    continue
                lack = _lack(answer, counts)
                if lack is None:
                    alive.append({broker.node_id for broker in answer.message.brokers})
                else:
                    late[broker_id] = lack
            if not alive:
                return next(iter(late.values()), Unreachable(f"{_NOT_YET}: no broker answers within {_KNOWN_MS} ms"))
            return next((lack for broker_id, lack in late.items() if broker_id in set.intersection(*alive)), None)

        self._driver.until_well(attempt)


def _lack(answer: Answer, counts: Mapping[str, int]) -> OttlaError | None:
    """An error for the first of these topics that the broker does not fully know yet; None if it knows all."""
    told = {topic.name: topic for topic in answer.message.topics}
    for name, count in counts.items():
        topic = told.get(name)
        if topic is None:
            return left_out(f"topic {name!r}", answer)
        code = topic.error_code or next((place.error_code for place in topic.partitions if place.error_code), 0)
        if not code and len(topic.partitions) < count:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if code:
            return kafka_error(code, _NOT_YET, topic=name, broker_id=answer.broker_id)
    return None
