"""What an exchange, a remark and bytes look like as text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ottla.tap.exchange import Batch, Exchange, Outcome, PartitionPart, Remark, RemarkKind, Way
from ottla.tap.lines import clock, connection_line, exchange_line, hex_lines, remark_line
from ottla.tap.selection import Selection, has_failed

WHERE: dict[str, Any] = {"connection": 3, "client": "10.0.0.1:40000", "broker": "kafka:9092"}
TIME_US = 1_795_526_662_468_158
BATCH = Batch(
    base_offset=0,
    record_count=3,
    size_bytes=1234,
    producer_id=7,
    producer_epoch=0,
    base_sequence=40,
    codec="zstd",
    crc=1,
    is_intact=True,
)


def exchange(**fields: Any) -> Exchange:
    given = {
        "outcome": Outcome.ANSWERED,
        "request_us": TIME_US,
        "response_us": TIME_US + 1_234_567,
        "api_key": 0,
        "api": "Produce",
        "version": 9,
        "correlation_id": 5,
    }
    return Exchange(**WHERE, **{**given, **fields})


def words(**fields: Any) -> str:
    """What stands behind the columns."""
    return exchange_line(exchange(**fields)).partition("Produce v9")[2].strip()


def part(**fields: Any) -> PartitionPart:
    return PartitionPart(**{"topic": "orders", "partition": 0, **fields})


def test_an_ordinary_line_fits_120_columns() -> None:
    line = exchange_line(exchange(acks=-1, partitions=(part(record_bytes=1234, batches=(BATCH,), offset=1200),)))
    assert line == (
        "13:24:22.468158    3 1,234.567ms Produce v9         "
        "acks all orders-0 3 records 1,234 B producer 7/0 seq 40 offset 1200"
    )
    assert len(line) <= 120


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"acks": 1}, "acks 1"),
        ({"transactional_id": "pay", "producer_id": 4, "committed": False}, "txn pay producer 4/- abort"),
        ({"group_id": "g", "error": "NOT_COORDINATOR"}, "group g NOT_COORDINATOR"),
        ({"unread": "requests of this version are not decoded"}, "(requests of this version are not decoded)"),
        ({"outcome": Outcome.UNANSWERED, "response_us": None}, "NO ANSWER"),
        ({"partitions": (part(topic=None, topic_id="AAEC"),)}, "topic id AAEC-0"),
        ({"partitions": (part(partition=None),)}, "orders"),
        ({"partitions": (part(record_bytes=9, unread_bytes=9),)}, "orders-0 0 records 9 B (9 B of no whole batch)"),
        ({"partitions": (part(record_bytes=0),)}, "orders-0"),
    ],
)
def test_words(fields: dict[str, Any], expected: str) -> None:
    assert words(**fields) == expected


def test_partitions_with_errors_come_first_and_the_rest_is_counted() -> None:
    parts = [part(partition=number) for number in range(20)] + [part(partition=20, error="NOT_LEADER_OR_FOLLOWER")]
    shown = words(partitions=tuple(parts))
    assert shown.startswith("orders-20 NOT_LEADER_OR_FOLLOWER; orders-0; ")
    assert shown.endswith("; orders-6; and 13 more")


def test_a_wrong_checksum_is_shown_and_is_a_failure() -> None:
    damaged = exchange(partitions=(part(record_bytes=1234, batches=(replace(BATCH, is_intact=False),)),))
    assert exchange_line(damaged).endswith("seq 40 CRC WRONG")
    assert has_failed(damaged)


def test_an_answer_whose_request_was_not_seen() -> None:
    line = exchange_line(
        Exchange(**WHERE, outcome=Outcome.UNASKED, response_us=TIME_US, response_bytes=12, correlation_id=5)
    )
    assert line == (
        "13:24:22.468158    3          - ?                  answer 5 of 12 bytes, whose request was not seen"
    )


def test_a_remark_and_a_connection() -> None:
    remark = Remark(
        **WHERE, time_us=TIME_US, kind=RemarkKind.LOST, way=Way.TO_CLIENT, size_bytes=5, what="5 bytes lost"
    )
    assert remark_line(remark) == "13:24:22.468158    3          - (5 bytes lost, from the broker)"
    assert connection_line(exchange(client_id="a\tb")) == (
        r"13:24:22.468158    3          - connection from 10.0.0.1:40000 (a\tb) to kafka:9092"
    )


def test_times_beyond_the_calendar_are_shown_as_numbers() -> None:
    assert clock(1 << 63) == str(1 << 63)


def test_bytes() -> None:
    assert list(hex_lines("request", bytes(range(60, 78)))) == [
        "    request, 18 bytes:",
        "    0x000000  3c3d 3e3f 4041 4243 4445 4647 4849 4a4b  <=>?@ABCDEFGHIJK",
        "    0x000010  4c4d                                     LM",
    ]


@pytest.mark.parametrize(
    ("selection", "wanted"),
    [
        (Selection(), True),
        (Selection(apis=frozenset({"Fetch"})), False),
        (Selection(slower_than_us=1_234_566), True),
        (Selection(slower_than_us=1_234_567), False),
        (Selection(topic="orders", partition=1), False),
        (Selection(topic="AAEC"), True),
        (Selection(errors=True), False),
    ],
)
def test_selections(selection: Selection, wanted: bool) -> None:
    given = exchange(partitions=(part(), part(topic="other", topic_id="AAEC", partition=1)))
    assert selection.wants(given) is wanted


def test_what_was_never_answered_is_slow() -> None:
    assert Selection(slower_than_us=10).wants(exchange(outcome=Outcome.UNANSWERED, response_us=None))
    assert not Selection(slower_than_us=10).wants(exchange(outcome=Outcome.NOT_DUE, response_us=None))
