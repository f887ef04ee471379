"""DescribeLogDirs, versions 1 to 5: the folder of this broker's logs, and how large each log in it is.

All logs, or those of the partitions named; what this broker does not hold is left out, as by Kafka. The lag is how
many records a replica has not yet copied of those that are committed. There is one folder, and no log moves between
folders. Sizes are bytes of segment files.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.partition import Partition
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Measure the logs asked for."""
    asked = request.message.topics
    if asked is None:
        wanted = {name: list(partitions) for name, partitions in broker.topics.items()}
    else:
        wanted = {topic.topic: topic.partitions for topic in asked}
    topics = []
    for name, indexes in wanted.items():
        held = broker.topics.get(name, {})
        found = [_measured(held[index]) for index in dict.fromkeys(indexes) if index in held]
        if found:
            topics.append(DescribeLogDirsTopic(name=name, partitions=found))
    result = DescribeLogDirsResult(topics=topics)
    try:
        result.log_dir, result.total_bytes, result.usable_bytes = broker.disk_space()
    except OSError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    broker.answer(request, DescribeLogDirsResponse(results=[result]), now_us)


def _measured(partition: Partition) -> DescribeLogDirsPartition:
    log = partition.log
    if log is None:
        return DescribeLogDirsPartition(partition_index=partition.index)
    behind = 0 if partition.is_leader else max(0, partition.high_watermark - log.log_end_offset)
    return DescribeLogDirsPartition(partition_index=partition.index, partition_size=log.size_bytes, offset_lag=behind)
