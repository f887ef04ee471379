"""The code of docs/partitioners.md and docs/serializers-and-interceptors.md runs, and does what the pages say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import ottla
from ottla.records.plain import Record, decode_batches

DOCS = Path(__file__).parents[2] / "docs"


def blocks_of(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL)


def stored_by(block: str, page: str, topic: str) -> tuple[list[tuple[int, Record]], dict[str, object]]:
    """(partition, record) of what the block sends to a topic of four partitions, and the names it leaves behind."""
    scene: dict[str, object] = {}
    with ottla.Cluster(brokers=1) as cluster:
        cluster.create_topic(topic, partitions=4)
        exec(compile(block.replace("localhost:9092", cluster.bootstrap_servers), page, "exec"), scene)
        with ottla.Reader(cluster.bootstrap_servers, topic) as reader:
            found = [
                (fetched.partition, record)
                for fetched in reader.iter_raw()
                for _, records in decode_batches(fetched.records)
                for record in records
            ]
    return found, scene


def test_the_partitioner_of_the_page_places_by_country() -> None:
    (block,) = blocks_of("partitioners.md")
    ((partition, record),), scene = stored_by(block, "partitioners.md", "bookings")
    assert (partition, record.key, record.value) == (1, b"ch-8001", b"seat 12A")
    keys = ottla.KeyColumn([b"de-1", b"fr-1", None, b"at-9"])
    placed = scene["by_country"](keys, ottla.ClusterView("bookings", (1, 1, 1, 1)))  # type: ignore[operator]
    assert placed.to_pylist() == [2, 3, 3, 0]


def test_the_serializers_of_the_page_make_json_and_a_long() -> None:
    block, _, _ = blocks_of("serializers-and-interceptors.md")
    ((_, record),), _ = stored_by(block, "serializers-and-interceptors.md", "orders")
    assert record.key == (17).to_bytes(8, "big")
    assert json.loads(record.value or b"") == {"item": "tea", "count": 2}


def test_the_interceptor_of_the_page_stamps_records_and_hears_of_acks(capfd: pytest.CaptureFixture[str]) -> None:
    *_, block = blocks_of("serializers-and-interceptors.md")
    ((_, record),), _ = stored_by(block, "serializers-and-interceptors.md", "orders")
    assert list(record.headers) == [("sent-by", b"billing")]
    assert "1 records of orders: acked" in capfd.readouterr().out
