"""The controller: which topics there are, who leads and who holds their partitions; publishes it as `ClusterImage`.

One controller serves a cluster. Brokers pass administrative requests on to it (`ControllerRequest` in,
`ControllerResponse` out); every change goes out as `ImagePublished` before the answer does, so a driver that
carries out outputs in order has told every broker of a topic before the client hears that it exists. The first
outputs hold the image as it was found in storage.

The first replica of a partition leads it. Consecutive partitions are led by consecutive brokers, beginning where the
partitions made before ended; the other replicas are the brokers that follow. Elections and changes of the replicas
in sync do not happen yet, so every replica counts as in sync.

Everything known is one small file, replaced whole: `controller.json`. Invariants: nothing is published or answered
that is not stored; image versions and leader epochs only grow (a restart begins a new epoch everywhere); a producer
id is given once, also across restarts, since ids are set aside in blocks before the first of a block is given.
"""

from __future__ import annotations

import json
from binascii import b2a_base64
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from ottla.broker.apis.delete_topics import topics_asked
from ottla.broker.apis.init_producer_id import refused
from ottla.broker.events import (
    BrokerAddress,
    ClusterImage,
    ControllerRequest,
    ControllerResponse,
    ImagePublished,
    PartitionImage,
    TopicImage,
)
from ottla.broker.settings import BrokerSettings
from ottla.broker.storage import Storage
from ottla.broker.topic_names import topic_name_fault
from ottla.broker.topic_settings import topic_config_fault
from ottla.errors import UserMistake
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

STATE_FILE = "controller.json"
PARTITIONS_MAX = 10_000
PRODUCER_ID_BLOCK = 1000
_DEFAULT = -1
_REPLICAS_WHERE_NOT_SAID = 3
_CONFIG_OF_TOPIC = 1  # Kafka's ConfigSource for a setting given with the topic


class _Refused(Exception):
    """Why a topic is not created: Kafka's error code and a sentence."""

    def __init__(self, error_code: int, detail: str) -> None:
        super().__init__(detail)
        self.error_code = error_code


class ControllerCore:
    """The controller of a cluster of these brokers; `storage` is its own folder.

    `cluster_id` names the cluster (default: drawn from `rng` and kept). Raises UserMistake where the folder belongs
    to a cluster with brokers that are missing now, or is damaged; OSError where it cannot be written.
    """

    def __init__(
        self,
        brokers: Sequence[BrokerAddress],
        storage: Storage,
        settings: BrokerSettings,
        rng: Random,
        *,
        cluster_id: str | None = None,
    ) -> None:
        self.brokers = tuple(sorted(brokers, key=lambda address: address.broker_id))
        self.storage = storage
        self.settings = settings
        self.rng = rng
        self._outputs: list[Any] = []
        self._next_producer_id = 0
        self._producer_ids_end = 0
        self._partitions_made = 0
        self.image = self._load(cluster_id)
        self._store(self.image)
        self._outputs.append(ImagePublished(self.image))

    def receive(self, event: Any, now_us: int) -> None:
        """Take a ControllerRequest."""
        if not isinstance(event, ControllerRequest):
            raise TypeError(f"the controller knows no event {type(event).__name__}")
        handlers: dict[type[Any], Callable[[Any], Any]] = {
            CreateTopicsRequest: self._create_topics,
            DeleteTopicsRequest: self._delete_topics,
            InitProducerIdRequest: self._init_producer_id,
        }
        handler = handlers.get(type(event.message))
        if handler is None:
            raise TypeError(f"the controller answers no {type(event.message).__name__}")
        answer = handler(event.message)
        self._outputs.append(ControllerResponse(event.broker_id, event.token, answer))

    def outputs(self) -> list[Any]:
        """ImagePublished (for every broker) and ControllerResponse, in order; each is handed out once."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def deadline_us(self) -> int | None:
        """Always None: the controller waits for nothing."""
        return None

    def tick(self, now_us: int) -> None:
        """Nothing is ever due."""

    # Topics.

    def _create_topics(self, message: CreateTopicsRequest) -> CreateTopicsResponse:
        topics = dict(self.image.topics)
        made = self._partitions_made
        results: list[CreatableTopicResult] = []
        seen: dict[str, int] = {}
        for asked in message.topics:
            seen[asked.name] = seen.get(asked.name, 0) + 1
        for asked in message.topics:
            try:
                if seen[asked.name] > 1:
                    raise _Refused(ErrorCode.INVALID_REQUEST, f"topic {asked.name!r} is asked for more than once")
                topic = self._new_topic(asked, topics, made)
            except _Refused as refusal:
                result = CreatableTopicResult(
                    name=asked.name, error_code=refusal.error_code, error_message=str(refusal)
                )
                results.append(result)
                continue
            topics[asked.name] = topic
            made += len(topic.partitions)
            results.append(_created(topic))
        if len(topics) == len(self.image.topics) or message.validate_only:
            return CreateTopicsResponse(topics=results)
        before, self._partitions_made = self._partitions_made, made
        try:
            self._publish(topics)
        except OSError as error:
            self._partitions_made = before
            results = [result if result.error_code else _not_stored(result.name, error) for result in results]
        return CreateTopicsResponse(topics=results)

    def _new_topic(self, asked: CreatableTopic, topics: dict[str, TopicImage], made: int) -> TopicImage:
        fault = topic_name_fault(asked.name)
        if fault is not None:
            raise _Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
        if asked.name in topics:
            raise _Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {asked.name!r} exists already")
        configs = [(config.name, config.value) for config in asked.configs]
        wrong = topic_config_fault(configs)
        if wrong is not None:
            raise _Refused(ErrorCode.INVALID_CONFIG, wrong)
        replicas = self._given_replicas(asked) if asked.assignments else self._spread_replicas(asked, made)
        return TopicImage(
            name=asked.name,
            topic_id=self._new_topic_id(),
            partitions=tuple(PartitionImage(holders[0], 0, holders, holders) for holders in replicas),
            configs=tuple((name, value or "") for name, value in configs),
        )

    def _spread_replicas(self, asked: CreatableTopic, made: int) -> list[tuple[int, ...]]:
        count, factor, brokers = asked.num_partitions, asked.replication_factor, self.brokers
        if count == _DEFAULT:
            count = self.settings.num_partitions
        if factor == _DEFAULT:
            factor = self.settings.default_replication_factor or min(_REPLICAS_WHERE_NOT_SAID, len(brokers))
        if not 1 <= count <= PARTITIONS_MAX:
            raise _Refused(
                ErrorCode.INVALID_PARTITIONS, f"{count} partitions; 1 to {PARTITIONS_MAX} are allowed, or -1"
            )
        if not 1 <= factor <= len(brokers):
            detail = f"replication factor {factor}; this cluster has {len(brokers)} brokers"
            raise _Refused(ErrorCode.INVALID_REPLICATION_FACTOR, detail)
        return [
            tuple(brokers[(made + index + offset) % len(brokers)].broker_id for offset in range(factor))
            for index in range(count)
        ]

    def _given_replicas(self, asked: CreatableTopic) -> list[tuple[int, ...]]:
        if asked.num_partitions != _DEFAULT or asked.replication_factor != _DEFAULT:
            detail = "with replicas assigned by hand, partitions and replication factor must be -1"
            raise _Refused(ErrorCode.INVALID_REQUEST, detail)
        known = {address.broker_id: None for address in self.brokers}
        given = {each.partition_index: tuple(each.broker_ids) for each in asked.assignments}
        if sorted(given) != list(range(len(asked.assignments))):
            detail = "assigned partitions must be numbered from 0 without gaps"
            raise _Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail)
        for index in range(len(given)):
            holders = given[index]
            unknown = [broker_id for broker_id in holders if broker_id not in known]
            if unknown or not holders or len(dict.fromkeys(holders)) != len(holders):
                detail = f"partition {index} cannot be held by {list(holders)}; brokers are {list(known)}"
                raise _Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail)
            if len(holders) != len(given[0]):
                detail = "all partitions of a topic must have equally many replicas"
                raise _Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail)
        return [given[index] for index in range(len(given))]

    def _delete_topics(self, message: DeleteTopicsRequest) -> DeleteTopicsResponse:
        topics = dict(self.image.topics)
        names = {topic.topic_id: topic.name for topic in topics.values()}
        results = []
        for name, topic_id in topics_asked(message):
            found = topics.pop(name if name is not None else names.get(topic_id, ""), None)
            if found is not None:
                results.append(DeletableTopicResult(name=found.name, topic_id=found.topic_id))
            else:
                by_name = name is not None
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if by_name else ErrorCode.UNKNOWN_TOPIC_ID
                detail = f"there is no topic {name!r}" if by_name else "no topic has this id"
                results.append(
                    DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=detail)
                )
        if len(topics) != len(self.image.topics):
            try:
                self._publish(topics)
            except OSError as error:
                for result in results:
                    result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                    result.error_message = f"the controller cannot write: {error.strerror}"
        return DeleteTopicsResponse(responses=results)

    # Producer ids.

    def _init_producer_id(self, message: InitProducerIdRequest) -> InitProducerIdResponse:
        if self._next_producer_id == self._producer_ids_end:
            self._producer_ids_end += PRODUCER_ID_BLOCK
            try:
                self._store(self.image)
            except OSError:
                self._producer_ids_end -= PRODUCER_ID_BLOCK
                return refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        producer_id = self._next_producer_id
        self._next_producer_id += 1
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)

    # What is known, stored and published.

    def _publish(self, topics: dict[str, TopicImage]) -> None:
        image = self.image
        changed = ClusterImage(image.version + 1, image.cluster_id, image.controller_id, image.brokers, topics)
        self._store(changed)
        self.image = changed
        self._outputs.append(ImagePublished(changed))

    def _store(self, image: ClusterImage) -> None:
        topics = {
            topic.name: {
                "topic_id": topic.topic_id.hex(),
                "configs": [list(config) for config in topic.configs],
                "partitions": [
                    {"leader": each.leader, "leader_epoch": each.leader_epoch, "replicas": each.replicas}
                    for each in topic.partitions
                ],
            }
            for topic in image.topics.values()
        }
        state = {
            "version": image.version,
            "cluster_id": image.cluster_id,
            "producer_ids_end": self._producer_ids_end,
            "partitions_made": self._partitions_made,
            "topics": topics,
        }
        self.storage.write_file(STATE_FILE, json.dumps(state, indent=1).encode())

    def _load(self, cluster_id: str | None) -> ClusterImage:
        content = self.storage.read_file(STATE_FILE)
        controller_id = self.brokers[0].broker_id
        if content is None:
            name = cluster_id if cluster_id is not None else self._new_cluster_id()
            return ClusterImage(1, name, controller_id, self.brokers, {})
        try:
            state = json.loads(content)
            topics = {name: _read_topic(name, fields) for name, fields in state["topics"].items()}
            self._next_producer_id = self._producer_ids_end = int(state["producer_ids_end"])
            self._partitions_made = int(state["partitions_made"])
            version, stored_id = int(state["version"]), str(state["cluster_id"])
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise UserMistake(
                f"{STATE_FILE} of the cluster is damaged ({error!r}): restore it, or name another folder."
            ) from error
        known = {address.broker_id: None for address in self.brokers}
        for topic in topics.values():
            missing = [b for each in topic.partitions for b in each.replicas if b not in known]
            if missing:
                raise UserMistake(
                    f"topic {topic.name!r} has replicas on broker {missing[0]}, but the cluster has brokers "
                    f"{', '.join(map(str, known))} only: start it with as many brokers as it was made with."
                )
        return ClusterImage(version + 1, cluster_id or stored_id, controller_id, self.brokers, topics)

    def _new_topic_id(self) -> bytes:
        """A random (version 4) uuid."""
        raw = bytearray(self.rng.getrandbits(128).to_bytes(16, "big"))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        return bytes(raw)

    def _new_cluster_id(self) -> str:
        """22 characters, as Kafka's are."""
        text = b2a_base64(self._new_topic_id(), newline=False).rstrip(b"=")
        return text.translate(bytes.maketrans(b"+/", b"-_")).decode()


def _read_topic(name: str, fields: dict[str, Any]) -> TopicImage:
    """A stored topic; its partitions begin a new leader epoch, since their leaders have started anew."""
    partitions = []
    for each in fields["partitions"]:
        replicas = tuple(int(broker_id) for broker_id in each["replicas"])
        partitions.append(PartitionImage(replicas[0], int(each["leader_epoch"]) + 1, replicas, replicas))
    configs = tuple((str(key), str(value)) for key, value in fields["configs"])
    return TopicImage(name, bytes.fromhex(fields["topic_id"]), tuple(partitions), configs)


def _created(topic: TopicImage) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=[
            CreatableTopicConfigs(name=name, value=value, config_source=_CONFIG_OF_TOPIC)
            for name, value in topic.configs
        ],
    )


def _not_stored(name: str, error: OSError) -> CreatableTopicResult:
    detail = f"the controller cannot write: {error.strerror}"
    return CreatableTopicResult(name=name, error_code=ErrorCode.KAFKA_STORAGE_ERROR, error_message=detail)
