"""Looks up offsets and deletes records, at the leaders of a topic's partitions: ListOffsets, DeleteRecords.

Each attempt looks up the leaders again, until there is an answer for every partition.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.admin_driver import LEADER_PATIENCE_MS, AdminDriver, left_out, unanswered
from ottla.client.partition_offsets import OffsetQuestion, list_offsets
from ottla.client.topic_admin import TopicAdmin
from ottla.errors import KafkaError, OttlaError
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.reader.settings import ReaderSettings


class PartitionAdmin:
    """The calls of `Admin` about partitions."""

    def __init__(self, driver: AdminDriver, topics: TopicAdmin, settings: ReaderSettings) -> None:
        self._driver = driver
        self._topics = topics
        self._read_committed = settings.read_committed
        self._timeout_ms = min(settings.connection.request_timeout_ms, settings.default_api_timeout_ms)
        self._patience_ms = min(LEADER_PATIENCE_MS, settings.default_api_timeout_ms)

    def offsets(self, topic: str, timestamp: int) -> dict[int, int]:
        """{partition: offset} for a time, or for the beginning or the end, of all partitions."""
        found: dict[int, int] = {}

        def attempt() -> OttlaError | None:
            leaders = {
                (topic, place.partition_index): (place.leader_id, place.leader_epoch)
                for place in self._topics.metadata(topic).partitions
                if place.partition_index not in found
            }
            question = OffsetQuestion(dict.fromkeys(leaders, timestamp), self._read_committed)
            (told,), last_error = list_offsets(self._driver, leaders, [question], self._patience_ms)
            found.update((partition, offset) for (_, partition), offset in told.items())
            return last_error

        self._driver.until_well(attempt)
        return dict(sorted(found.items()))

    def delete_records(self, topic: str, offsets: Mapping[int, int]) -> dict[int, int]:
        """See `Admin.delete_records`."""
        deleted: dict[int, int] = {}
        refused: list[KafkaError] = []
        left = dict(offsets)

        def attempt() -> OttlaError | None:
            last_error: OttlaError | None = None
            leaders = {place.partition_index: place.leader_id for place in self._topics.metadata(topic).partitions}
            by_leader: dict[int, list[DeleteRecordsPartition]] = {}
            for partition, offset in list(left.items()):
                leader_id = leaders.get(partition)
                if leader_id is None:
                    code, detail = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the topic has {len(leaders)} partitions"
                    refused.append(kafka_error(code, detail, topic=topic, partition=partition))
                    del left[partition]
                elif leader_id < 0:
                    last_error = kafka_error(ErrorCode.LEADER_NOT_AVAILABLE, topic=topic, partition=partition)
                else:
                    asked = DeleteRecordsPartition(partition_index=partition, offset=offset)
                    by_leader.setdefault(leader_id, []).append(asked)
            questions = [
                (
                    DeleteRecordsRequest(
                        topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=self._timeout_ms
                    ),
                    leader_id,
                )
                for leader_id, partitions in by_leader.items()
            ]
            answers = self._driver.ask_all(
                questions, self._timeout_ms, reach_ms=min(self._timeout_ms, self._patience_ms)
            )
            for (leader_id, partitions), answer in zip(by_leader.items(), answers, strict=True):
                if answer is None or answer.message is None:
                    last_error = unanswered("DeleteRecords", answer, leader_id)
                    continue
                parts = {
                    part.partition_index: part
                    for told in answer.message.topics
                    if told.name == topic
                    for part in told.partitions
                }
                for partition in (asked.partition_index for asked in partitions):
                    told = parts.get(partition)
                    if told is None:
                        last_error = left_out(f"{topic}-{partition}", answer, topic=topic, partition=partition)
                        continue
                    if not told.error_code:
                        deleted[partition] = told.low_watermark
                    else:
                        error = kafka_error(told.error_code, topic=topic, partition=partition, broker_id=leader_id)
                        if error.retriable:
                            last_error = error
                            continue
                        refused.append(error)
                    del left[partition]
            return last_error

        if left:
            self._driver.until_well(attempt)
        if refused:
            raise refused[0]
        return dict(sorted(deleted.items()))
