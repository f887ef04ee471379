"""What a record may hold, and in which batches it is stored."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest

import ottla

from .sides import Side

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")  # by their numbers in a batch's attributes
# Retention takes what is older than a week from both sides, in whichever test runs when they look.
_WHEN_MS = int(time.time() * 1000) - 86_400_000


def test_keys_headers_tombstones_and_timestamps_are_stored_as_given(side: Side, topic: str, reading: Any) -> None:
    given = [
        (b"key", b"value", (), _WHEN_MS),
        (None, b"no key", (("name", b"content"),), _WHEN_MS + 5),
        (b"", b"", (("twice", b"1"), ("twice", b"2")), _WHEN_MS - 5),
        (b"tombstone", None, (("null", None), ("empty", b"")), _WHEN_MS + 1),
        (None, None, (("äöü", "€".encode()),), 0),
        (bytes(range(256)), bytes(range(256)) * 4, (), _WHEN_MS),
    ]
    with ottla.Producer(side.bootstrap_servers) as producer:
        sent = [
            producer.send(topic, value, key, headers=list(headers), timestamp_ms=when, partition=1)
            for key, value, headers, when in given
        ]
    assert [delivery.result(0).timestamp_ms for delivery in sent] == [when for *_, when in given]
    stored = [(one.key, one.value, one.headers, one.timestamp_ms) for one in reading.records(side, topic)]
    assert stored == given


def test_text_is_sent_as_utf_8(side: Side, topic: str, reading: Any) -> None:
    with ottla.Producer(side.bootstrap_servers) as producer:
        producer.send(topic, "wörld 🜁", "kéy")
    ((_, _, _, key, value, _),) = reading.records(side, topic)
    assert (key.decode(), value.decode()) == ("kéy", "wörld 🜁")


def test_where_the_log_keeps_its_own_time_the_delivery_tells_the_brokers(
    side: Side, kafka_name: str, reading: Any
) -> None:
    side.create_topic(kafka_name, 1, 3, message_timestamp_type="LogAppendTime")
    with ottla.Producer(side.bootstrap_servers) as producer:
        delivery = producer.send(kafka_name, b"value", timestamp_ms=_WHEN_MS)
    assert delivery.result(0).timestamp_ms > _WHEN_MS + 10**7
    assert [one.timestamp_ms for one in reading.records(side, kafka_name)] == [delivery.result(0).timestamp_ms]


@pytest.mark.parametrize(
    ("codec", "settings"),
    [
        ("none", {}),
        ("gzip", {"compression_gzip_level": 1}),
        ("gzip", {"compression_gzip_level": 9}),
        ("snappy", {}),
        ("lz4", {"compression_lz4_level": 1}),
        ("lz4", {"compression_lz4_level": 17}),
        ("zstd", {"compression_zstd_level": 1}),
        ("zstd", {"compression_zstd_level": 19}),
    ],
    ids=str,
)
def test_every_codec_and_level_is_stored_and_read(
    side: Side, topic: str, codec: str, settings: dict[str, int], reading: Any
) -> None:
    values = [b"value %d " % number * 20 for number in range(1000)]
    with ottla.Producer(side.bootstrap_servers, compression_type=codec, linger_ms=20, **settings) as producer:
        for value in values:
            producer.send(topic, value, partition=2)
        table = pa.table({"value": values, "partition": [2] * len(values)})
        producer.send_table(topic, table, value="value", partition="partition")
    assert [one.value for one in reading.records(side, topic)] == values * 2
    assert {number for _, number in reading.batches(side, topic)} == {_CODECS.index(codec)}


def test_with_a_batch_size_of_zero_every_record_goes_alone(side: Side, topic: str, reading: Any) -> None:
    with ottla.Producer(side.bootstrap_servers, batch_size=0) as producer:
        sent = [producer.send(topic, b"%d" % number, partition=0) for number in range(200)]
    assert [delivery.result(0).offset for delivery in sent] == list(range(200))
    assert [records for records, _ in reading.batches(side, topic)] == [1] * 200


def test_a_record_larger_than_the_batch_size_goes_alone_and_in_its_turn(side: Side, topic: str, reading: Any) -> None:
    large = bytes(900_000)
    with ottla.Producer(side.bootstrap_servers, batch_size=16_384, linger_ms=50) as producer:
        for value in (b"before", b"just before", large, b"after"):
            producer.send(topic, value, partition=0)
    assert [one.value for one in reading.records(side, topic)] == [b"before", b"just before", large, b"after"]
    assert 1 in [records for records, _ in reading.batches(side, topic)]


def test_a_table_becomes_records_with_keys_headers_partitions_and_times(side: Side, topic: str, reading: Any) -> None:
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.table(
        {
            "name": ["a", None, "c"],
            "text": pa.array([b"one", b"two", None], pa.binary()),
            "more": pa.array([[{"key": "h", "value": b"1"}], [], None], headers),
            "place": [2, 0, 2],
            "at": pa.array([_WHEN_MS, _WHEN_MS + 1, _WHEN_MS + 2], pa.int64()),
        }
    )
    with ottla.Producer(side.bootstrap_servers) as producer:
        told = producer.send_table(
            topic, table, key="name", value="text", headers="more", partition="place", timestamp_ms="at"
        ).result(120)
    assert told.select(["partition", "offset", "error"]).to_pylist() == [
        {"partition": 2, "offset": 0, "error": None},
        {"partition": 0, "offset": 0, "error": None},
        {"partition": 2, "offset": 1, "error": None},
    ]
    assert [tuple(one) for one in reading.records(side, topic)] == [
        (0, 0, _WHEN_MS + 1, None, b"two", ()),
        (2, 0, _WHEN_MS, b"a", b"one", (("h", b"1"),)),
        (2, 1, _WHEN_MS + 2, b"c", None, ()),
    ]
