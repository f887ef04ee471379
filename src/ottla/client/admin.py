"""`Admin`: topics, settings, offsets, records to delete and the cluster, asked for synchronously.

Each call asks one or a few requests on an I/O thread of its own and waits for the answers; what can be tried again
(a leader that moves, a controller that changes) is tried again until `default.api.timeout.ms`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from ottla.client.admin_driver import LEADER_PATIENCE_MS, AdminDriver
from ottla.client.authorized_operations import read_operations
from ottla.client.channel import SocketBuffers
from ottla.client.driver import addresses_of
from ottla.client.lifetime import OfOneProcess
from ottla.connection.request import ANY_NODE, CONTROLLER, Answer
from ottla.connection.setting import shown
from ottla.errors import KafkaError, OttlaError, Unreachable, UserMistake
from ottla.foreign_names import OF_ADMIN, no_attribute, servers_come_first
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.reader.position import EARLIEST, LATEST
from ottla.reader.settings import ReaderSettings

if TYPE_CHECKING:
    from ottla.client.log_dirs import LogDirDescription
    from ottla.client.reader_settings_keywords import ReaderSettingsKeywords
    from ottla.client.transaction_admin import ListedTransaction, TransactionAdmin, TransactionDescription
    from ottla.producer.transaction_states import TransactionIdentity


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

    `authorized_operations` are what this user may do, by Kafka's names ("WRITE"); None where brokers were not asked or
    do not tell.
    """

    name: str
    topic_id: bytes
    partitions: tuple[PartitionDescription, ...]
    authorized_operations: frozenset[str] | None = None


@dataclass(slots=True, frozen=True)
class ConfigDescription:
    """One setting: its value as text (None where it is secret), who set it, and whether it can be changed at all.

    `source` is "topic", "broker" or "brokers" (changed while they run), "file" (set when they were started) or
    "default".
    """

    name: str
    value: str | None
    source: str
    read_only: bool


@dataclass(slots=True, frozen=True)
class BrokerDescription:
    """One broker and where it listens."""

    broker_id: int
    host: str
    port: int
    rack: str | None


@dataclass(slots=True, frozen=True)
class ClusterDescription:
    """The cluster: its id, the broker that passes for the controller, all brokers."""

    cluster_id: str | None
    controller_id: int
    brokers: tuple[BrokerDescription, ...]


class Admin(OfOneProcess):
    """Makes, changes, deletes and describes topics, changes settings, and tells offsets; `with` closes it.

    Settings are keywords, Kafka's names with underscores; `help("ottla.client.reader_settings_keywords")` tells of
    every one. Every call raises KafkaError for what a broker refuses, Unreachable or NotKafka when no broker answers
    within `default.api.timeout.ms`.
    """

    @servers_come_first
    def __init__(self, bootstrap_servers: str | Sequence[str], **settings: Unpack[ReaderSettingsKeywords]) -> None:
        # One table for all that read: who plans a read by Admin and does it by Reader passes the same settings.
        self._settings = ReaderSettings({"bootstrap_servers": bootstrap_servers, **settings})
        self._driver = driver = AdminDriver(
            self._settings, Random(), SocketBuffers.of(self._settings.connection, settings)
        )
        self._transactions: TransactionAdmin | None = None
        driver.start()
        self._closing = weakref.finalize(self, driver.close)
        self._closing.atexit = False

    # ---- topics -------------------------------------------------------------------------------------------------

    def create_topics(
        self,
        topics: str | Iterable[str] | Mapping[str, int],
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, Any] | None = None,
    ) -> None:
        """Make topics and return when they can be used.

        `topics`: a name, several names, or {name: number of partitions}. `partitions`: the number for each of them, by
        default 1. Without `replication_factor` the brokers' default is used. UserMistake if numbers are given in both
        ways, and for what is neither a name nor a number.

        Topics can be used when every live broker knows them; a broker that does not answer within two seconds is not
        waited for.
        """
        counts = _partition_counts(topics, partitions)
        settings = [
            CreatableTopicConfig(name=name, value=None if value is None else _config_text(value))
            for name, value in (configs or {}).items()
        ]

        def ask(left: list[str]) -> Any:
            return CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=name,
                        num_partitions=counts[name],
                        replication_factor=-1 if replication_factor is None else replication_factor,
                        configs=settings,
                    )
                    for name in left
                ],
                timeout_ms=self._settings.connection.request_timeout_ms,
            )

        self._for_each_topic(list(counts), ask, lambda response: response.topics)
        self._wait_until_known(counts)

    def delete_topics(self, topics: str | Iterable[str]) -> None:
        """Delete topics with all their records."""
        names = _names("delete_topics", topics)

        def ask(left: list[str]) -> Any:
            return DeleteTopicsRequest(
                topics=[DeleteTopicState(name=name) for name in left],
                timeout_ms=self._settings.connection.request_timeout_ms,
            )

        self._for_each_topic(names, ask, lambda response: response.responses)

    def list_topics(self) -> list[str]:
        """The names of all topics, sorted, without the cluster's internal ones."""
        response = self._ask(MetadataRequest(topics=None, allow_auto_topic_creation=False))
        return sorted(topic.name for topic in response.topics if not topic.is_internal)

    def describe(self, topic: str, *, include_authorized_operations: bool = False) -> TopicDescription:
        """The topic's id and partitions; KafkaError where there is no such topic.

        What this user may do is told by brokers from Kafka 2.3 on.
        """
        found = self._topic_metadata(topic, include_authorized_operations)
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
        response = self._ask(MetadataRequest(topics=[], allow_auto_topic_creation=False))
        return ClusterDescription(
            response.cluster_id,
            response.controller_id,
            tuple(
                BrokerDescription(broker.node_id, broker.host, broker.port, broker.rack)
                for broker in sorted(response.brokers, key=lambda broker: broker.node_id)
            ),
        )

    def describe_log_dirs(self, broker_ids: Iterable[int] | None = None) -> dict[int, tuple[LogDirDescription, ...]]:
        """{broker id: its folders of logs}, with the size of every log in them, in bytes as stored (compressed).

        Of these brokers, or of all there are. KafkaError (CLUSTER_AUTHORIZATION_FAILED) for a user without DESCRIBE on
        the cluster.
        """
        # Imported here: most do not ask for it.
        from ottla.client.log_dirs import describe_log_dirs

        ids = [broker.broker_id for broker in self.cluster().brokers] if broker_ids is None else list(broker_ids)
        found: dict[int, tuple[LogDirDescription, ...]] = {}

        def attempt() -> OttlaError | None:
            left = {broker_id: None for broker_id in ids if broker_id not in found}
            told, trouble = describe_log_dirs(self._driver, left, self._settings.connection.request_timeout_ms)
            found.update(told)
            return trouble

        self._driver.until_well(attempt)
        return dict(sorted(found.items()))

    # ---- partitions and settings --------------------------------------------------------------------------------

    def create_partitions(self, topic: str, count: int) -> None:
        """Give a topic more partitions, `count` in all; keys may belong to other partitions from then on."""

        def ask(left: list[str]) -> Any:
            return CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=name, count=count, assignments=None) for name in left],
                timeout_ms=self._settings.connection.request_timeout_ms,
            )

        self._for_each_topic([topic], ask, lambda response: response.results)
        self._wait_until_known({topic: count})

    def describe_configs(
        self, *, topic: str | None = None, broker_id: int | None = None
    ) -> dict[str, ConfigDescription]:
        """Settings by name: of a topic, of a broker, or (neither given) those changed for all brokers."""
        resource_type, name, where = _resource(topic, broker_id)
        resource = DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=None)
        request = DescribeConfigsRequest(resources=[resource])
        found = self._about_resource(request, where, lambda response: response.results, resource, topic, broker_id)
        return {
            each.name: ConfigDescription(
                each.name, each.value, _CONFIG_SOURCES.get(each.config_source, "other"), each.read_only
            )
            for each in found.configs
        }

    def alter_configs(
        self, configs: Mapping[str, Any], *, topic: str | None = None, broker_id: int | None = None
    ) -> None:
        """Change settings of a topic, of a broker, or (neither given) of all brokers; None: the default again."""
        resource_type, name, where = _resource(topic, broker_id)
        changes = [
            AlterableConfig(name=key, config_operation=_DELETE, value=None)
            if value is None
            else AlterableConfig(name=key, config_operation=_SET, value=_config_text(value))
            for key, value in configs.items()
        ]
        resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=changes)
        request = IncrementalAlterConfigsRequest(resources=[resource])
        self._about_resource(request, where, lambda response: response.responses, resource, topic, broker_id)

    def _about_resource(
        self,
        request: Any,
        where: int,
        results: Callable[[Any], Iterable[Any]],
        resource: Any,
        topic: str | None,
        broker_id: int | None,
    ) -> Any:
        """Ask, again and again if need be, and return the answer's part about this resource; raises KafkaError."""
        asked = (resource.resource_type, resource.resource_name)
        found: list[Any] = []

        def attempt() -> OttlaError | None:
            answer = self._driver.ask(request, where)
            found[:] = [each for each in results(answer.message) if (each.resource_type, each.resource_name) == asked]
            if not found:
                return _left_out(_resource_text(topic, broker_id) or f"topic {topic!r}", answer)
            if not found[0].error_code:
                return None
            detail = found[0].error_message or _resource_text(topic, broker_id)
            error = kafka_error(found[0].error_code, detail, topic=topic, broker_id=_broker_of(answer))
            if found[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                # Most often the name is misspelt; waiting for it would look like a hang.
                raise error
            return error

        self._driver.until_well(attempt)
        return found[0]

    # ---- offsets ------------------------------------------------------------------------------------------------

    def begin_offsets(self, topic: str) -> dict[int, int]:
        """{partition: offset of its first record}."""
        return self._offsets(topic, EARLIEST)

    def end_offsets(self, topic: str) -> dict[int, int]:
        """{partition: offset its next record will have}; with isolation_level="read_committed" the last stable one."""
        return self._offsets(topic, LATEST)

    def delete_records(self, topic: str, offsets: Mapping[int, int]) -> dict[int, int]:
        """Delete the records before these offsets, {partition: offset}; -1 deletes all that consumers could read.

        Returns {partition: offset of its first record} once all living replicas have followed. KafkaError:
        OFFSET_OUT_OF_RANGE where an offset lies behind the last record, POLICY_VIOLATION for topics that are compacted.
        """
        deleted: dict[int, int] = {}
        refused: list[KafkaError] = []
        left = dict(offsets)

        def attempt() -> OttlaError | None:
            trouble: OttlaError | None = None
            places = {place.partition_index: place.leader_id for place in self._topic_metadata(topic).partitions}
            by_leader: dict[int, list[DeleteRecordsPartition]] = {}
            for partition, offset in list(left.items()):
                leader_id = places.get(partition)
                if leader_id is None:
                    code, detail = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the topic has {len(places)} partitions"
                    refused.append(kafka_error(code, detail, topic=topic, partition=partition))
                    del left[partition]
                elif leader_id < 0:
                    trouble = kafka_error(ErrorCode.LEADER_NOT_AVAILABLE, topic=topic, partition=partition)
                else:
                    asked = DeleteRecordsPartition(partition_index=partition, offset=offset)
                    by_leader.setdefault(leader_id, []).append(asked)
            for leader_id, partitions in by_leader.items():
                request = DeleteRecordsRequest(
                    topics=[DeleteRecordsTopic(name=topic, partitions=partitions)],
                    timeout_ms=self._settings.connection.request_timeout_ms,
                )
                answer = self._driver.ask_leader(request, leader_id, self._settings.connection.request_timeout_ms)
                if isinstance(answer, Unreachable):
                    trouble = answer
                    continue
                parts = _parts(answer, topic)
                for asked in partitions:
                    told = parts.get(asked.partition_index)
                    if told is None:
                        trouble = _left_out(f"{topic}-{asked.partition_index}", answer)
                        continue
                    error = told.error_code and kafka_error(
                        told.error_code, topic=topic, partition=told.partition_index, broker_id=leader_id
                    )
                    if error and error.retriable:
                        trouble = error
                        continue
                    if error:
                        refused.append(error)
                    else:
                        deleted[told.partition_index] = told.low_watermark
                    del left[told.partition_index]
            return trouble

        if left:
            self._driver.until_well(attempt)
        if refused:
            raise refused[0]
        return dict(sorted(deleted.items()))

    def _offsets(self, topic: str, timestamp: int) -> dict[int, int]:
        found: dict[int, int] = {}

        def attempt() -> OttlaError | None:
            trouble: OttlaError | None = None
            by_leader: dict[int, list[Any]] = {}
            for place in self._topic_metadata(topic).partitions:
                if place.partition_index in found:
                    continue
                if place.leader_id < 0:
                    trouble = kafka_error(ErrorCode.LEADER_NOT_AVAILABLE, topic=topic, partition=place.partition_index)
                    continue
                by_leader.setdefault(place.leader_id, []).append(
                    ListOffsetsPartition(
                        partition_index=place.partition_index,
                        current_leader_epoch=place.leader_epoch,
                        timestamp=timestamp,
                    )
                )
            for leader_id, partitions in by_leader.items():
                request = ListOffsetsRequest(
                    replica_id=-1,
                    isolation_level=1 if self._settings.read_committed else 0,
                    topics=[ListOffsetsTopic(name=topic, partitions=partitions)],
                )
                answer = self._driver.ask_leader(request, leader_id, LEADER_PATIENCE_MS)
                if isinstance(answer, Unreachable):
                    trouble = answer
                    continue
                parts = _parts(answer, topic)
                for asked in partitions:
                    told = parts.get(asked.partition_index)
                    if told is None:
                        trouble = _left_out(f"{topic}-{asked.partition_index}", answer)
                    elif told.error_code:
                        trouble = kafka_error(
                            told.error_code, topic=topic, partition=told.partition_index, broker_id=leader_id
                        )
                    else:
                        found[told.partition_index] = told.offset
            return trouble

        self._driver.until_well(attempt)
        return dict(sorted(found.items()))

    # ---- transactions -------------------------------------------------------------------------------------------

    def list_transactions(self, prefix: str = "", states: Iterable[str] = ()) -> list[ListedTransaction]:
        """The transactional ids that begin with `prefix`, of all coordinators, sorted by id, each with its state.

        With `states` ("Ongoing", "Empty", ...) only those in one of them: the brokers leave the others out.
        Asked of every broker; a broker that is gone or still loading is waited for until others coordinate what it did.
        """
        return transactions_of(self).listed(prefix, _names("list_transactions", states))

    def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """What coordinators know of these transactional ids; ids that nobody has used are left out."""
        return transactions_of(self).describe(_names("describe_transactions", transactional_ids))

    def fence_producers(
        self, transactional_ids: Iterable[str], *, transaction_timeout_ms: int = 60_000
    ) -> dict[str, TransactionIdentity]:
        """Fence all producers of these transactional ids, and return the identity that follows theirs, by id.

        What they left open is aborted, a commit that was asked for is completed first. `Producer.init_transactions`
        takes the identity, whose transactions may then last `transaction_timeout_ms`. Raises KafkaError.
        """
        ids = _names("fence_producers", transactional_ids)
        return transactions_of(self).fence(ids, transaction_timeout_ms)

    # ---- asking -------------------------------------------------------------------------------------------------

    def _ask(self, message: Any, where: int = ANY_NODE) -> Any:
        return self._driver.ask(message, where).message

    def _topic_metadata(self, topic: str, include_authorized_operations: bool = False) -> Any:
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
                return _left_out(f"topic {topic!r}", answer)
            if found[0].error_code:
                # Retriable errors, too: the caller decides whether to wait.
                raise kafka_error(found[0].error_code, topic=topic, broker_id=_broker_of(answer))
            return None

        self._driver.until_well(attempt)
        return found[0]

    def _for_each_topic(
        self, names: Sequence[str], ask: Callable[[list[str]], Any], results: Callable[[Any], Iterable[Any]]
    ) -> None:
        """Ask the controller until each topic is done; what cannot be tried again is raised once all are answered."""
        left = list(dict.fromkeys(names))
        refused: list[KafkaError] = []

        def attempt() -> OttlaError | None:
            trouble: OttlaError | None = None
            answer = self._driver.ask(ask(list(left)), CONTROLLER)
            told = {result.name: result for result in results(answer.message)}
            for name in list(left):
                result = told.get(name)
                if result is None:
                    trouble = _left_out(f"topic {name!r}", answer)
                    continue
                if result.error_code:
                    said = getattr(result, "error_message", None) or ""
                    error = kafka_error(result.error_code, said, topic=result.name, broker_id=_broker_of(answer))
                    if result.error_code in _BUSY:
                        trouble = error
                        continue
                    refused.append(error)
                left.remove(name)
            return trouble

        if left:
            self._driver.until_well(attempt)
        if refused:
            raise refused[0]

    def _wait_until_known(self, counts: Mapping[str, int]) -> None:
        """Wait until all brokers that live and answer know so many partitions of each topic, and their leaders.

        What the controller has made, brokers hear of a moment later. Who lives is told by those that have heard of it:
        one that is cut off from the controller never does, nor that it was given up.
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

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, OF_ADMIN)

    def __repr__(self) -> str:
        return f"<Admin for {addresses_of(self._settings.connection)}, {self._driver.state}>"

    def close(self) -> None:
        """Close the connections and end the I/O thread."""
        self._driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


# Nothing has been done yet, and asking again may find somebody who can.
_BUSY = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE)
# A broker that does not answer in so long does not tell anybody else that there is no such topic either.
_KNOWN_MS = 2_000
_NOT_YET = "it is made, but cannot be used yet"
_TOPIC, _BROKER = 2, 4
_SET, _DELETE = 0, 1
# Kafka's ConfigSource
_CONFIG_SOURCES = {1: "topic", 2: "broker", 3: "brokers", 4: "file", 5: "default"}


def transactions_of(admin: Admin) -> TransactionAdmin:
    """What this admin client asks about transactions; more than its own calls, for the rest of ottla."""
    if admin._transactions is None:
        # Imported here: most have nothing to do with transactions.
        from ottla.client.transaction_admin import TransactionAdmin

        admin._transactions = TransactionAdmin(admin._driver, admin._settings)
    return admin._transactions


def _resource(topic: str | None, broker_id: int | None) -> tuple[int, str, int]:
    """Type and name of what is configured, and the node to ask: a broker answers for itself."""
    if topic is not None and broker_id is not None:
        raise OttlaError("settings are a topic's or a broker's: give one of topic and broker_id")
    if topic is not None:
        return _TOPIC, topic, ANY_NODE
    if broker_id is not None:
        return _BROKER, str(broker_id), broker_id
    return _BROKER, "", ANY_NODE


def _resource_text(topic: str | None, broker_id: int | None) -> str:
    """Whose settings they are, where an error does not say it by itself."""
    if topic is not None:
        return ""
    return "settings of all brokers" if broker_id is None else "its settings"


def _names(call: str, given: str | Iterable[str]) -> list[str]:
    """The names that a call was given, each once; UserMistake for a mapping and for what is no name."""
    if isinstance(given, Mapping):
        raise UserMistake(f"{call} takes a name or a list of names, not {{name: ...}}: give list(...) of it.")
    names = [given] if isinstance(given, str) else list(given)
    for name in names:
        if not isinstance(name, str):
            raise UserMistake(f"{call} was given {shown(name, is_private=False)} as a name: names are str.")
    return list(dict.fromkeys(names))


def _partition_counts(topics: str | Iterable[str] | Mapping[str, int], partitions: int | None) -> dict[str, int]:
    """Topic -> number of partitions; UserMistake as in `create_topics`."""
    if not isinstance(topics, Mapping):
        return dict.fromkeys(_names("create_topics", topics), 1 if partitions is None else partitions)
    if partitions is not None:
        raise UserMistake("create_topics was given partitions twice: give {name: partitions} or partitions=, not both.")
    names = _names("create_topics", list(topics))
    for name in names:
        if not isinstance(topics[name], int) or isinstance(topics[name], bool):
            told = shown(topics[name], is_private=False)
            raise UserMistake(f"create_topics was given {told} for the partitions of {name!r}: give a whole number.")
    return dict(topics)


def _parts(answer: Answer, topic: str) -> dict[int, Any]:
    """The answer's parts about one topic, by partition."""
    return {
        part.partition_index: part for told in answer.message.topics if told.name == topic for part in told.partitions
    }


def _left_out(what: str, answer: Answer) -> Unreachable:
    """The error for an answer without `what`, which was asked for."""
    return Unreachable(f"the broker's answer leaves out {what}", broker_id=_broker_of(answer))


def _lack(answer: Answer, counts: Mapping[str, int]) -> OttlaError | None:
    """An error for the first of these topics that the broker does not fully know yet; None if it knows all."""
    told = {topic.name: topic for topic in answer.message.topics}
    for name, count in counts.items():
        topic = told.get(name)
        if topic is None:
            return _left_out(f"topic {name!r}", answer)
        code = topic.error_code or next((place.error_code for place in topic.partitions if place.error_code), 0)
        if not code and len(topic.partitions) < count:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if code:
            return kafka_error(code, _NOT_YET, topic=name, broker_id=_broker_of(answer))
    return None


def _broker_of(answer: Answer) -> int | None:
    """Who answered; None for a bootstrap address of which no more is known."""
    return answer.node_id if answer.node_id is not None and answer.node_id >= 0 else None


def _config_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | str):
        return str(value)
    raise OttlaError(f"a topic setting is text, a number or true/false, not {type(value).__name__}")
