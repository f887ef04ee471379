"""`OffsetLookup`: which partitions topics have and where these begin and end, for callers that ask again and again.

For example the planning of a stream's reads: connections stay open, leaders stay known until one fails, and several
brokers are asked at the same time. If a leader has moved, or does not answer, the leaders are looked up again until
`default.api.timeout.ms` is over. It also commits a consumer group's offsets, without being a member.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Unpack

from ottla.client.admin_driver import LEADER_PATIENCE_MS, AdminDriver, left_out, unanswered
from ottla.client.authorized_operations import check_allowed, read_operations
from ottla.client.channel import SocketBuffers
from ottla.client.group_coordinator import find_group_coordinator
from ottla.client.partition_offsets import OffsetQuestion, Place, list_offsets
from ottla.connection.request import ANY_NODE
from ottla.errors import OttlaError, Unreachable
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.reader.settings import ReaderSettings

if TYPE_CHECKING:
    from ottla.client.reader_settings_keywords import ReaderSettingsKeywords

_log = logging.getLogger("ottla.client")

# It takes a moment until all brokers know a new topic; a topic that is unknown for longer does not exist.
_MISSING_TOPIC_PATIENCE_US = 1_000_000


class OffsetLookup:
    """Partitions and offsets of topics; settings are those of `ottla.Admin`. For one thread at a time.

    Every call raises KafkaError for what a broker refuses, Unreachable or NotKafka when none answers in time.
    """

    def __init__(self, bootstrap_servers: str | Sequence[str], **settings: Unpack[ReaderSettingsKeywords]) -> None:
        self._settings = ReaderSettings({"bootstrap_servers": bootstrap_servers, **settings})
        self._driver = driver = AdminDriver(
            self._settings, Random(), SocketBuffers.of(self._settings.connection, settings)
        )
        # {topic: {partition: (leader or -1, leader epoch)}} of every topic asked for.
        self._leaders: dict[str, dict[int, tuple[int, int]]] = {}
        self.topic_ids: dict[str, bytes] = {}
        """{topic: id} of every topic that was found; 16 zeros where the cluster has no ids."""
        self._coordinators: dict[str, int] = {}
        self._closing = weakref.finalize(self, driver.close)
        self._closing.atexit = False
        driver.start()

    def topics(self) -> list[str]:
        """The names of all topics, sorted, without the cluster's internal ones; `known_partitions` knows them then."""
        response = self._driver.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), ANY_NODE).message
        self._leaders = {}
        for topic in response.topics:
            if not topic.is_internal and not topic.error_code:
                self._learn(topic)
        return sorted(self._leaders)

    def partitions(self, topics: Collection[str]) -> dict[str, tuple[int, ...]]:
        """Each topic's partitions now, in order; KafkaError (UNKNOWN_TOPIC_OR_PARTITION) where a topic is missing."""
        self._ask_leaders(topics)
        return self.known_partitions(topics)

    def known_partitions(self, topics: Iterable[str]) -> dict[str, tuple[int, ...]]:
        """The partitions of topics that were asked for before, as they were then."""
        return {topic: tuple(sorted(self._leaders[topic])) for topic in topics}

    def check_readable(self, topics: Iterable[str]) -> None:
        """Raise KafkaError (TOPIC_AUTHORIZATION_FAILED) for a topic this user may describe and not read.

        Only with brokers from Kafka 2.3 on; with older ones the error comes when it is read.
        """
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
        try:
            told = self._driver.ask(request, ANY_NODE).message.topics if request.topics else ()
        except OttlaError as error:
            _log.info("what this user may read is not known: %s", error)
            return
        for topic in told:
            check_allowed(topic.name, read_operations(topic.topic_authorized_operations), {"READ"})

    def offsets(self, wanted: Mapping[Place, int]) -> dict[Place, int]:
        """{(topic, partition): offset} for `wanted`, {(topic, partition): ms since 1970, or -2 or -1}.

        For a time: the first record's that is not older, -1 where there is none. For -2: the first record's. For -1:
        the high watermark; with isolation_level="read_committed" the last stable offset.
        """
        (found,) = self.offsets_of([wanted])
        return found

    def offsets_of(
        self, wanted: Sequence[Mapping[Place, int]], *, read_committed: bool | None = None
    ) -> list[dict[Place, int]]:
        """What `offsets` finds for each of these, all asked at the same time.

        `read_committed` is the settings' isolation level, unless it is given.
        """
        found: list[dict[Place, int]] = [{} for _ in wanted]
        if read_committed is None:
            read_committed = self._settings.read_committed

        def attempt() -> OttlaError | None:
            left = [
                {place: asked for place, asked in each.items() if place not in known}
                for each, known in zip(wanted, found, strict=True)
            ]
            unknown = {topic for each in left for topic, _ in each if topic not in self._leaders}
            if unknown:
                self._ask_leaders(sorted(unknown))
            leaders = {place: self._leader_of(*place) for each in left for place in each}
            questions = [OffsetQuestion(each, read_committed) for each in left]
            told, last_error = list_offsets(self._driver, leaders, questions, self._patience_ms)
            for known, new in zip(found, told, strict=True):
                known.update(new)
            if last_error is not None:
                # The next attempt looks up the leaders of these topics again.
                self._forget(topic for each in left for topic, _ in each)
            return last_error

        self._driver.until_well(attempt)
        return found

    def sizes(self, places: Iterable[Place]) -> dict[Place, int]:
        """How many bytes the log of each partition has on its leader's disk; one request to each leader.

        Raises KafkaError (CLUSTER_AUTHORIZATION_FAILED) for a user without DESCRIBE on the cluster.
        """
        # Imported here: most programs never call this.
        from ottla.client.log_dirs import describe_log_dirs

        left = set(places)
        found: dict[Place, int] = {}

        def attempt() -> OttlaError | None:
            self._ask_leaders(sorted({topic for topic, _ in left if topic not in self._leaders}))
            by_leader: dict[int, dict[str, list[int]]] = {}
            last_error: OttlaError | None = None
            for topic, partition in left:
                leader_id, _ = self._leader_of(topic, partition)
                if leader_id < 0:
                    last_error = kafka_error(ErrorCode.LEADER_NOT_AVAILABLE, topic=topic, partition=partition)
                else:
                    by_leader.setdefault(leader_id, {}).setdefault(topic, []).append(partition)
            told, unanswered = describe_log_dirs(self._driver, by_leader, self._patience_ms)
            for of_broker in told.values():
                for replica in (each for folder in of_broker for each in folder.replicas if not each.is_future):
                    found[replica.topic, replica.partition] = replica.size_bytes
            left.difference_update(found)
            last_error = unanswered or last_error
            if left and last_error is None:
                topic, partition = min(left)
                last_error = Unreachable(
                    f"the leader of {topic}-{partition} does not tell the size of its log",
                    topic=topic,
                    partition=partition,
                )
            if last_error is not None:
                self._forget(topic for topic, _ in left)
            return last_error

        if left:
            self._driver.until_well(attempt)
        return found

    def commit(self, group_id: str, offsets: Mapping[Place, int], timeout_ms: int) -> None:
        """Commit these offsets for the group, retrying for `timeout_ms`; KafkaError while the group has members."""
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (topic, partition), offset in sorted(offsets.items()):
            entry = topics.setdefault(topic, OffsetCommitRequestTopic(name=topic))
            entry.partitions.append(
                OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="")
            )
        request = OffsetCommitRequest(
            group_id=group_id, generation_id_or_member_epoch=-1, member_id="", topics=list(topics.values())
        )

        def attempt() -> OttlaError | None:
            node_id = self._coordinators.get(group_id)
            if node_id is None:
                node_id, error = find_group_coordinator(self._driver, group_id)
                if error is not None:
                    return error
                self._coordinators[group_id] = node_id
            error = self._ask_coordinator(request, group_id, node_id)
            if error is not None:
                del self._coordinators[group_id]
            return error

        self._driver.until_well(attempt, timeout_ms=timeout_ms)

    def close(self) -> None:
        """Close the connections and end the I/O thread."""
        self._driver.close()

    @property
    def metadata_max_age_s(self) -> float:
        """`metadata.max.age.ms` in seconds: how old what is known of partitions may be."""
        return self._settings.connection.metadata_max_age_ms / 1000

    @property
    def _patience_ms(self) -> int:
        """How long to wait for a leader's answer before other brokers are asked which one leads."""
        return min(LEADER_PATIENCE_MS, self._settings.default_api_timeout_ms)

    # ---- leaders ------------------------------------------------------------------------------------------------

    def _forget(self, topics: Iterable[str]) -> None:
        for topic in topics:
            self._leaders.pop(topic, None)

    def _leader_of(self, topic: str, partition: int) -> tuple[int, int]:
        """(leader or -1, leader epoch) of a partition; only for topics whose leaders are known."""
        leaders = self._leaders[topic]
        if partition not in leaders:
            detail = f"the topic has {len(leaders)} partitions, counted from 0"
            raise kafka_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail, topic=topic, partition=partition)
        return leaders[partition]

    def _learn(self, topic: Any) -> None:
        self.topic_ids[topic.name] = topic.topic_id
        self._leaders[topic.name] = {
            place.partition_index: (place.leader_id, place.leader_epoch) for place in topic.partitions
        }

    def _ask_leaders(self, topics: Collection[str]) -> None:
        """Look up the leaders of these topics; unknown topics are looked up again for a moment."""
        began_us = self._driver.clock.now_us()

        def attempt() -> OttlaError | None:
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=name) for name in topics], allow_auto_topic_creation=False
            )
            answer = self._driver.ask(request, ANY_NODE)
            last_error: OttlaError | None = None
            for topic in answer.message.topics:
                if not topic.error_code:
                    self._learn(topic)
                    continue
                self._leaders.pop(topic.name, None)
                missing = topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                detail = "the topic does not exist; check its name, or create it first" if missing else ""
                last_error = kafka_error(topic.error_code, detail, topic=topic.name)
                if missing and self._driver.clock.now_us() >= began_us + _MISSING_TOPIC_PATIENCE_US:
                    raise last_error
            return last_error

        if topics:
            self._driver.until_well(attempt)

    # ---- groups -------------------------------------------------------------------------------------------------

    def _ask_coordinator(self, request: OffsetCommitRequest, group_id: str, node_id: int) -> OttlaError | None:
        (answer,) = self._driver.ask_all([(request, node_id)], self._patience_ms)
        if answer is None or answer.message is None:
            return unanswered(f"OffsetCommit for group {group_id!r}", answer, node_id)
        codes = {
            (topic.name, told.partition_index): told.error_code
            for topic in answer.message.topics
            for told in topic.partitions
        }
        places = [(topic.name, asked.partition_index) for topic in request.topics for asked in topic.partitions]
        for name, partition in places:
            code = codes.get((name, partition))
            if code is None:
                return left_out(f"the offset of {name}-{partition}", answer, topic=name, partition=partition)
            if code:
                what = f"the offsets of group {group_id!r} could not be committed"
                return kafka_error(code, what, topic=name, partition=partition, broker_id=node_id)
        return None
