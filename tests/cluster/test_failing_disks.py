"""A disk that is full: the producer is told, the log says so, what was stored stays, and it goes on with new room.

The size of a file the brokers' process may write is limited from outside, which fails its writes as a full disk does.
"""

from __future__ import annotations

import logging
import resource
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.cluster.cluster import Cluster
from ottla.errors import KafkaError, UserMistake
from ottla.records.plain import decode_batches

_KAFKA_STORAGE_ERROR = 56
_VALUE = b"x" * 100_000

pytestmark = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits another process: Linux only")


def _limit_files(cluster: Cluster, size: int) -> None:
    resource.prlimit(cluster.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1) as cluster:
        yield cluster


Produce = Callable[[str], tuple[int, int]]


@pytest.fixture
def produce(cluster: Cluster, connect: Any, make: Any) -> Produce:
    """Produces one record of 100 kB; (error code, base offset)."""
    wire = connect(cluster)

    def produce(topic: str) -> tuple[int, int]:
        answer = wire.call(make.produce(topic, _VALUE), 9).responses[0].partition_responses[0]
        return answer.error_code, answer.base_offset

    return produce


def test_a_full_disk_is_told_and_overcome(
    cluster: Cluster, produce: Produce, connect: Any, make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic("flights")
    cluster.create_topic("weather")
    assert [produce("flights") for _ in range(3)] == [(0, 0), (0, 1), (0, 2)]
    _limit_files(cluster, 350_000)
    assert [produce("flights")[0] for _ in range(5)] == [_KAFKA_STORAGE_ERROR] * 5
    assert [produce("weather") for _ in range(3)] == [(0, 0), (0, 1), (0, 2)], "the other log has room"
    _limit_files(cluster, resource.RLIM_INFINITY)
    assert produce("flights") == (0, 3)
    fetched = connect(cluster).call(make.fetch("flights"), 12).responses[0].partitions[0]
    stored = [row for _, rows in decode_batches(bytes(fetched.records)) for row in rows]
    assert [(row.offset, row.value) for row in stored] == [(offset, _VALUE) for offset in range(4)]
    # What the brokers log comes on the way by which they answer commands, in order.
    cluster.brokers()
    said = [record for record in caplog.records if "cannot append" in record.message]
    assert len(said) == 1, "one line, however often producers try again"
    assert said[0].levelno == logging.ERROR
    assert "flights-0/00000000000000000000.log: File too large" in said[0].message


def test_a_topic_that_cannot_be_stored_is_refused(cluster: Cluster) -> None:
    _limit_files(cluster, 0)
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        cluster.create_topic("flights")
    _limit_files(cluster, resource.RLIM_INFINITY)
    cluster.create_topic("flights")


def test_what_was_acked_before_the_disk_was_full_is_there_after_a_restart(
    tmp_path: Any, connect: Any, make: Any
) -> None:
    with Cluster(brokers=1, data_dir=tmp_path) as cluster:
        cluster.create_topic("flights")
        wire = connect(cluster)
        _limit_files(cluster, 250_000)
        codes = [
            wire.call(make.produce("flights", _VALUE), 9).responses[0].partition_responses[0].error_code
            for _ in range(4)
        ]
        assert codes == [0, 0, _KAFKA_STORAGE_ERROR, _KAFKA_STORAGE_ERROR]
        wire.close()
    with Cluster(brokers=1, data_dir=tmp_path) as cluster:
        fetched = connect(cluster).call(make.fetch("flights"), 12).responses[0].partitions[0]
        assert fetched.high_watermark == 2
        assert len(list(decode_batches(bytes(fetched.records)))) == 2


def test_a_start_on_a_full_disk_says_what_to_do_and_works_once_there_is_room(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.kill()
    _limit_files(cluster, 10)
    with pytest.raises(UserMistake, match=r"^data_dir '.*' cannot be used \(file too large\): name a folder on a disk"):
        cluster.start()
    assert not any("Traceback" in line or "the command" in line for line in caplog.messages)
    _limit_files(cluster, resource.RLIM_INFINITY)
    cluster.start()
    cluster.create_topic("later")
    assert cluster.brokers() == {1: "running"}
