"""What a cluster tells of its logs: what is synced, what is in the page cache, and the window that knows duplicates."""

from __future__ import annotations

from typing import Any

import pytest

import ottla
from ottla.cluster.page_cache import resident_bytes

_PATIENCE_S = 60


def test_a_log_says_what_is_synced_what_is_in_memory_and_which_batches_it_remembers() -> None:
    settings = {"os.flush.interval.ms": 3_600_000}
    with ottla.Cluster(1, settings=settings) as cluster:
        cluster.create_topic("orders")
        with ottla.Producer(cluster.bootstrap_servers) as producer:
            for number in range(7):
                producer.send("orders", f"{number}".encode()).result(_PATIENCE_S)
        [found] = cluster.logs("orders")
        assert (found["broker"], found["partition"]) == (1, 0)
        assert (found["log_start_offset"], found["log_end_offset"]) == (0, 7)
        # Nobody has synced a file that was written to a moment ago.
        assert found["synced_offset"] < 7
        [file] = found["files"]
        assert file["synced_bytes"] < file["bytes"]
        assert file["resident_bytes"] in (file["bytes"], None)
        [seen] = found["producers"]
        assert seen["batches"] == [[number, number, number] for number in range(2, 7)]
        assert (seen["last_sequence"], seen["transaction_offset"]) == (6, None)


def test_what_is_flushed_with_each_record_is_synced() -> None:
    with ottla.Cluster(1) as cluster:
        cluster.create_topic("safe", configs={"flush.messages": "1"})
        with ottla.Producer(cluster.bootstrap_servers) as producer:
            producer.send("safe", b"value").result(_PATIENCE_S)
        [found] = cluster.logs("safe")
        assert found["synced_offset"] == found["log_end_offset"] == 1


def test_a_topic_that_is_not_there_is_an_error() -> None:
    with ottla.Cluster(1) as cluster, pytest.raises(ottla.KafkaError, match="no partition 0 of topic 'nowhere'"):
        cluster.logs("nowhere")


def test_a_file_that_is_not_there_has_no_pages(tmp_path: Any) -> None:
    assert resident_bytes(str(tmp_path / "missing")) is None
    (tmp_path / "empty").touch()
    assert resident_bytes(str(tmp_path / "empty")) == 0
    (tmp_path / "small").write_bytes(b"x" * 10_000)
    assert resident_bytes(str(tmp_path / "small")) in (10_000, None)
