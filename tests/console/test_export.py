"""What an export holds, and what an import takes of it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tests.wire import Wire

import ottla
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.plain import Record, encode_batch

from .conftest import Asking
from .looking import Looked
from .test_views import AS_OLD_AS_IT_IS


def stored_as_it_is(cluster: ottla.Cluster, topic: str, records: list[Record], codec: str = "none") -> None:
    """Store a batch that ottla's producer would not write."""
    batch = encode_batch(records, codec=codec)
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    for address in cluster.bootstrap_servers.split(","):
        wire = Wire(address)
        answer = wire.ask(ProduceRequest(transactional_id=None, acks=-1, timeout_ms=5000, topic_data=[data]), 11)
        wire.close()
        [told] = answer.responses[0].partition_responses
        if told.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
            assert told.error_code == 0, told
            return
    raise AssertionError("no broker leads the partition")


@pytest.mark.parametrize("limit_bytes", [1, 1 << 20])
def test_records_of_aborted_and_open_transactions_are_marked_and_not_imported(
    asking: Asking, cluster: ottla.Cluster, kafka_name: str, monkeypatch: pytest.MonkeyPatch, limit_bytes: int
) -> None:
    # With less each batch comes by itself.
    monkeypatch.setattr("ottla.console.kafka._SEARCH_FETCH_BYTES", limit_bytes)
    for name in (kafka_name, f"{kafka_name}-copy"):
        cluster.create_topic(name)
    wanted: list[tuple[str, str | None]] = []
    with (
        ottla.Producer(cluster.bootstrap_servers, transactional_id=kafka_name) as producer,
        ottla.Producer(cluster.bootstrap_servers) as plain,
    ):
        for round_, ending in enumerate(("aborted", "committed", "aborted", "committed", "open")):
            producer.begin_transaction()
            for part in ("a", "b"):
                producer.send(kafka_name, f"{round_}{part}".encode()).result(30)
                plain.send(kafka_name, f"{round_}{part}-plain".encode()).result(30)
                mark = None if ending == "committed" else ending
                wanted += [(f"{round_}{part}", mark), (f"{round_}{part}-plain", None)]
            if ending == "committed":
                producer.commit_transaction()
            elif ending == "aborted":
                producer.abort_transaction()
        exported = asking.raw("GET", f"api/topics/{kafka_name}/export")[2]
        lines = [json.loads(line) for line in exported.splitlines()]
        assert [(line["value"], line.get("transaction")) for line in lines] == wanted
        producer.abort_transaction()
    status, told = asking.change("POST", f"api/topics/{kafka_name}-copy/import", exported)
    assert (status, told) == (200, {"stored": 14, "failed": 0, "unknown": 0, "left_out": 6, "error": None})
    copied = asking.lines(f"api/topics/{kafka_name}-copy/export")
    assert [line["value"] for line in copied] == [value for value, mark in wanted if mark is None]


def test_all_of_very_many_headers_are_exported(asking: Asking, cluster: ottla.Cluster, kafka_name: str) -> None:
    cluster.create_topic(kafka_name)
    counts = [0, 40_001, 3, 1_000, 0, 2_000]
    records = [
        # Offsets within a batch.
        Record(
            place if place < 2 else place - 2,
            5,
            None,
            b"x",
            tuple((f"ä{number}", None if number % 7 else b"\xff") for number in range(count)),
        )
        for place, count in enumerate(counts)
    ]
    stored_as_it_is(cluster, kafka_name, records[:2], "zstd")
    stored_as_it_is(cluster, kafka_name, records[2:])
    content = asking.raw("GET", f"api/topics/{kafka_name}/export")[2]
    lines = content.splitlines()
    assert len(lines) == len(records)
    for line, record in zip(lines, records, strict=True):
        headers: list[Any] = [[name, value and {"base64": "/w=="}] for name, value in record.headers]
        told = json.loads(line)
        assert told["headers"] == headers
        assert json.dumps(told, ensure_ascii=False).encode() == line
    page = asking.get(f"api/topics/{kafka_name}/records?start=oldest")
    assert [len(each["headers"]) + each["headers_more"] for each in page["records"]] == counts
    one = asking.get(f"api/topics/{kafka_name}/records/0/1")
    assert (len(one["headers"]), one["headers_more"]) == (1_000, 39_001)
    [match] = [
        line["match"]
        for line in asking.lines(f"api/topics/{kafka_name}/search?header=ä40000".replace("ä", "%C3%A4"))
        if "match" in line
    ]
    assert (match["offset"], match["headers_more"]) == (1, 39_901)


@pytest.mark.prove
def test_headers_that_are_null_empty_or_very_many_look_so_on_the_page(
    asking: Asking, cluster: ottla.Cluster, kafka_name: str, chromium: Any
) -> None:
    cluster.create_topic(kafka_name, configs={"message.timestamp.after.max.ms": str((1 << 63) - 1)})
    headers = (("none", None), ("word", b"null"), ("empty", b""), *((f"n{number}", b"x") for number in range(2_000)))
    stored_as_it_is(cluster, kafka_name, [Record(0, (1 << 60) + 1, None, b"x", headers)])
    with chromium.new_context(viewport={"width": 1280, "height": 900}) as context:
        looked = Looked(context.new_page(), asking.url)
        page = looked.go(f"topic/{kafka_name}")
        page.get_by_role("button", name="Record at offset 0").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_text("and 1,003 more headers; an export has all of them").wait_for()
        dialog.get_by_text(str((1 << 60) + 1)).wait_for()
        rows = dialog.locator("dl > div")
        shown = [rows.filter(has_text=re.compile(f"^{name}")).locator("dd") for name in ("none", "word", "empty")]
        assert [each.inner_text() for each in shown] == ["null", "null", "empty"]
        assert [each.locator(".dim").count() for each in shown] == [1, 0, 1]
        assert looked.said == []


def test_times_that_no_producer_may_send_are_exported_and_imported(
    asking: Asking, cluster: ottla.Cluster, kafka_name: str
) -> None:
    configs = {**AS_OLD_AS_IT_IS, "message.timestamp.after.max.ms": str((1 << 63) - 1)}
    for name in (kafka_name, f"{kafka_name}-copy"):
        cluster.create_topic(name, configs=configs)
    times = [-1, -86_400_000, 5, (1 << 53) - 1, 1 << 53, (1 << 62) + 1]
    for time_ms in times:
        stored_as_it_is(cluster, kafka_name, [Record(0, time_ms, None, b"x")])
    shown = [each["timestamp_ms"] for each in asking.get(f"api/topics/{kafka_name}/records?start=oldest")["records"]]
    assert shown == [*times[:4], *map(str, times[4:])]
    matches = [line["match"] for line in asking.lines(f"api/topics/{kafka_name}/search?value=x") if "match" in line]
    assert [each["timestamp_ms"] for each in matches] == shown
    assert asking.get(f"api/topics/{kafka_name}/records/0/5")["timestamp_ms"] == str(times[5])
    exported = asking.raw("GET", f"api/topics/{kafka_name}/export")[2]
    assert [json.loads(line)["timestamp_ms"] for line in exported.splitlines()] == times
    told = asking.change("POST", f"api/topics/{kafka_name}-copy/import", exported)[1]
    assert told == {"stored": 6, "failed": 0, "unknown": 0, "left_out": 0, "error": None}
    copied = [line["timestamp_ms"] for line in asking.lines(f"api/topics/{kafka_name}-copy/export")]
    assert copied[2:] == times[2:]
    assert all(time_ms > 1_700_000_000_000 for time_ms in copied[:2])
    status, told = asking.change("POST", f"api/topics/{kafka_name}/records", {"record": {"timestamp_ms": -1}})
    assert (status, "timestamp_ms of the record must be a whole number from 0 on" in told["error"]) == (400, True)
