"""How large the logs of partitions are on the disks of brokers (DescribeLogDirs).

A broker describes only its own logs, so each broker is asked, all at the same time. A user needs DESCRIBE on the
cluster. Without it, brokers before Kafka 3.2 answer without an error and without any folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.client.admin_driver import AdminDriver, unanswered
from ottla.connection.request import Answer
from ottla.errors import OttlaError
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest

_RIGHT = "this user needs DESCRIBE on the cluster to see the sizes of logs"


@dataclass(slots=True, frozen=True)
class ReplicaSize:
    """One partition's log on one broker: its size in bytes as stored (compressed).

    `offset_lag`: by how many offsets the log is behind. `is_future` is true of a copy that the broker makes while it
    moves the log to another of its folders.
    """

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(slots=True, frozen=True)
class LogDirDescription:
    """A folder of logs on one broker. `error` is Kafka's name of what is wrong with it, None where nothing is.

    `total_bytes` and `usable_bytes` are those of its disk; None from brokers before Kafka 3.3.
    """

    path: str
    replicas: tuple[ReplicaSize, ...]
    total_bytes: int | None
    usable_bytes: int | None
    error: str | None


Wanted = Mapping[int, Mapping[str, Iterable[int]] | None]
"""{broker id: {topic: partitions}}, or None for all that the broker keeps."""


def describe_log_dirs(
    driver: AdminDriver, wanted: Wanted, timeout_ms: int
) -> tuple[dict[int, tuple[LogDirDescription, ...]], OttlaError | None]:
    """What these brokers answered, each asked once, and the last reason why one of them did not.

    Raises KafkaError where a broker refuses.
    """
    questions = [(_question(topics), broker_id) for broker_id, topics in wanted.items()]
    told: dict[int, tuple[LogDirDescription, ...]] = {}
    last_error: OttlaError | None = None
    for (_, broker_id), answer in zip(questions, driver.ask_all(questions, timeout_ms), strict=True):
        error = _refusal(answer, broker_id)
        if error is None and answer is not None:
            told[broker_id] = tuple(_described(each) for each in answer.message.results)
        elif error is not None and not error.retriable:
            raise error
        else:
            last_error = error
    return told, last_error


def _question(topics: Mapping[str, Iterable[int]] | None) -> DescribeLogDirsRequest:
    if topics is None:
        return DescribeLogDirsRequest(topics=None)
    return DescribeLogDirsRequest(
        topics=[DescribableLogDirTopic(topic=name, partitions=sorted(each)) for name, each in topics.items()]
    )


def _refusal(answer: Answer | None, broker_id: int) -> OttlaError | None:
    if answer is None or answer.message is None:
        return unanswered("DescribeLogDirs", answer, broker_id)
    # Without DESCRIBE, older brokers leave out all folders; every broker has one at least.
    code = answer.message.error_code
    if not code and not answer.message.results:
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if not code:
        return None
    detail = _RIGHT if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED else "DescribeLogDirs"
    return kafka_error(code, detail, broker_id=broker_id)


def _described(told: Any) -> LogDirDescription:
    return LogDirDescription(
        told.log_dir,
        tuple(
            ReplicaSize(topic.name, each.partition_index, each.partition_size, each.offset_lag, each.is_future_key)
            for topic in told.topics
            for each in topic.partitions
        ),
        told.total_bytes if told.total_bytes >= 0 else None,
        told.usable_bytes if told.usable_bytes >= 0 else None,
        kafka_error(told.error_code).name if told.error_code else None,
    )
