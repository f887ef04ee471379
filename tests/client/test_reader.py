"""Reading back what was stored: raw, as Arrow, between offsets, by name and by assignment."""

from __future__ import annotations

import gc
import threading
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest

import ottla
from ottla.client.producer import Producer
from ottla.client.reader import Reader
from ottla.client.tables import read_table
from ottla.reader.events import Fetched
from ottla.records.batch_header import CorruptBatch


@pytest.fixture
def numbered(kafka_cluster: ottla.Cluster, kafka_topic: str) -> str:
    """A topic with the numbers 0 to 299, number n in partition n % 3 at offset n // 3, timestamp 1000 + n."""
    with Producer(kafka_cluster.bootstrap_servers, batch_size=300) as producer:
        for number in range(300):
            producer.send(
                kafka_topic,
                b"%d" % number,
                b"key" if number % 2 else None,
                partition=number % 3,
                timestamp_ms=1000 + number,
                headers=[("n", b"%d" % number)],
            )
    return kafka_topic


def test_a_table_has_every_record_with_all_that_belongs_to_it(kafka_cluster: ottla.Cluster, numbered: str) -> None:
    table = read_table(kafka_cluster.bootstrap_servers, numbered)
    assert table.column_names == ["partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers"]
    assert table.num_rows == 300
    for row in table.to_pylist():
        number = int(row["value"])
        assert row == {
            "partition": number % 3,
            "offset": number // 3,
            "timestamp": datetime.fromtimestamp((1000 + number) / 1000, UTC),
            "timestamp_type": 0,
            "key": b"key" if number % 2 else None,
            "value": b"%d" % number,
            "headers": [{"key": "n", "value": b"%d" % number}],
        }
    places = list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))
    assert places == sorted(places)


def test_a_reader_says_what_it_reads_and_how_far_it_is(kafka_cluster: ottla.Cluster, numbered: str) -> None:
    at = kafka_cluster.bootstrap_servers
    with Reader(at, numbered) as reader:
        assert repr(reader).startswith(f"<Reader of {numbered} at {at}, open: ")
        for _ in reader.iter_raw():
            pass
        assert repr(reader) == f"<Reader of {numbered} at {at}, open: 3 partitions located, 0 left to read>"
    assert repr(reader) == f"<Reader of {numbered} at {at}, closed: 3 partitions located, 0 left to read>"
    with Reader("localhost:1", ["a", "b"]) as several:
        assert repr(several) == "<Reader of 2 topics at localhost:1, open: 0 partitions located, 2 left to read>"


def test_several_topics_have_a_topic_column(kafka_cluster: ottla.Cluster, numbered: str) -> None:
    kafka_cluster.create_topic("reader-second", partitions=1)
    with Producer(kafka_cluster.bootstrap_servers) as producer:
        producer.send("reader-second", b"x")
    table = read_table(kafka_cluster.bootstrap_servers, [numbered, "reader-second"])
    assert table.column_names[0] == "topic"
    assert table["topic"].value_counts().to_pylist() == [
        {"values": "reader-second", "counts": 1},
        {"values": numbered, "counts": 300},
    ]
    kafka_cluster.delete_topic("reader-second")


def test_batches_have_the_readers_schema_and_one_partition_each(kafka_cluster: ottla.Cluster, numbered: str) -> None:
    with Reader(kafka_cluster.bootstrap_servers, numbered, max_partition_fetch_bytes=500) as reader:
        batches = list(reader)
    assert len(batches) > 3
    assert all(batch.schema == reader.schema for batch in batches)
    assert all(len(set(batch["partition"].to_pylist())) == 1 for batch in batches)
    assert sorted(int(value) for batch in batches for value in batch["value"].to_pylist()) == list(range(300))


@pytest.mark.parametrize(
    ("start", "end", "offsets"),
    [
        (10, 20, range(10, 20)),
        ("earliest", 5, range(5)),
        (95, "latest", range(95, 100)),
        ("latest", "latest", range(0)),
        (datetime.fromtimestamp(1.29, UTC), "latest", None),
    ],
)
def test_a_read_keeps_to_its_offsets(
    kafka_cluster: ottla.Cluster, numbered: str, start: Any, end: Any, offsets: range | None
) -> None:
    table = read_table(kafka_cluster.bootstrap_servers, numbered, start=start, end=end)
    if offsets is None:
        assert sorted(int(value) for value in table["value"].to_pylist()) == list(range(290, 300))
    else:
        assert table["offset"].to_pylist() == list(chain(offsets, offsets, offsets))


def test_assignments_read_their_partitions_only(kafka_cluster: ottla.Cluster, numbered: str) -> None:
    assignments = {(numbered, 2): (0, 3), (numbered, 0): (98, "latest")}
    with Reader(kafka_cluster.bootstrap_servers, assignments=assignments) as reader:
        table = pa.Table.from_batches(list(reader), schema=reader.schema)
        assert reader.positions() == {(numbered, 2): (0, 3), (numbered, 0): (98, 100)}
    places = zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True)
    assert sorted(places) == [(0, 98), (0, 99), (2, 0), (2, 1), (2, 2)]


def test_a_buffer_is_decoded_in_pieces_with_the_columns_that_are_wanted(
    kafka_cluster: ottla.Cluster, numbered: str
) -> None:
    with Reader(kafka_cluster.bootstrap_servers, assignments={(numbered, 1): (5, 95)}) as reader:
        assert reader.reached(numbered, 1) is None
        pieces = [
            piece
            for fetched in reader.iter_raw(patience_s=60)
            for piece in reader.decode_pieces(fetched, ["value", "offset"], rows_enough=10)
        ]
        assert reader.reached(numbered, 1) == 95
    read = pa.Table.from_batches(pieces)
    assert read.column_names == ["value", "offset"]
    assert read["offset"].to_pylist() == list(range(5, 95))
    assert read["value"].to_pylist() == [b"%d" % (3 * offset + 1) for offset in range(5, 95)]
    # A batch holds less than twenty of them.
    assert len(pieces) > 4


def test_patience_ends_where_nothing_comes(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with (
        Reader(kafka_cluster.bootstrap_servers, kafka_topic, end=None) as reader,
        pytest.raises(ottla.Unreachable, match=r"nothing more came within 0\.05 s"),
    ):
        next(reader.iter_raw(patience_s=0.05))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_what_was_compressed_reads_the_same(kafka_cluster: ottla.Cluster, kafka_topic: str, codec: str) -> None:
    with Producer(kafka_cluster.bootstrap_servers, compression_type=codec) as producer:
        for number in range(1000):
            producer.send(kafka_topic, b"the same words again and again %d" % number, partition=0)
    table = read_table(kafka_cluster.bootstrap_servers, kafka_topic)
    assert table["value"].to_pylist() == [b"the same words again and again %d" % number for number in range(1000)]


def test_an_empty_topic_is_an_empty_table(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    table = read_table(kafka_cluster.bootstrap_servers, kafka_topic, isolation_level="read_committed")
    assert table.num_rows == 0
    assert table.schema.field("value").type == pa.binary()


def test_reading_on_for_ever_gets_what_is_sent_later(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with (
        Producer(kafka_cluster.bootstrap_servers, linger_ms=0) as producer,
        Reader(kafka_cluster.bootstrap_servers, kafka_topic, end=None) as reader,
    ):
        batches = iter(reader)
        for number in range(5):
            producer.send(kafka_topic, b"%d" % number)
            assert next(batches)["value"].to_pylist() == [b"%d" % number]


def test_close_from_another_thread_ends_a_waiting_reader(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    reader = Reader(kafka_cluster.bootstrap_servers, kafka_topic, end=None)
    closer = threading.Timer(0.05, reader.close)
    closer.start()
    with pytest.raises(ottla.ClosedError, match="this reader is closed"):
        list(reader.iter_raw())
    closer.join()
    reader.close()


def test_a_closed_reader_lets_go_of_what_it_had_fetched_ahead(kafka_cluster: ottla.Cluster, numbered: str) -> None:
    def held() -> int:
        return sum(type(each) is Fetched and each.topic == numbered for each in gc.get_objects())

    gc.disable()
    try:
        with Reader(kafka_cluster.bootstrap_servers, numbered) as reader:
            assert next(reader.iter_raw()).topic == numbered
            while not held():
                pass
        assert held() == 0
    finally:
        gc.enable()
    with pytest.raises(ottla.ClosedError, match="this reader is closed"):
        next(reader.iter_raw())


def test_a_topic_that_does_not_exist_is_named(kafka_cluster: ottla.Cluster) -> None:
    with pytest.raises(ottla.KafkaError, match="'no-such-topic': the topic does not exist") as caught:
        read_table(kafka_cluster.bootstrap_servers, "no-such-topic")
    assert caught.value.name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert caught.value.topic == "no-such-topic"


def test_an_offset_that_is_not_there_is_named(kafka_cluster: ottla.Cluster, numbered: str) -> None:
    with pytest.raises(ottla.KafkaError, match="offset 5000 cannot be read") as caught:
        read_table(kafka_cluster.bootstrap_servers, numbered, start=5000, end=6000)
    error = caught.value
    assert error.topic == numbered
    assert error.broker_id == kafka_cluster.leader(numbered, error.partition)
    assert f"{numbered}-{error.partition}, broker {error.broker_id}" in str(error)


def test_a_batch_that_cannot_be_decoded_says_where_it_was_read() -> None:
    with (
        Reader("localhost:9092", assignments={("flights", 3): ("earliest", None)}) as reader,
        pytest.raises(CorruptBatch, match=r"^flights-3: ") as caught,
    ):
        reader.decode(Fetched("flights", 3, 0, memoryview(bytes(100)), 0, 0, ()))
    assert (caught.value.topic, caught.value.partition) == ("flights", 3)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "either topic .* or assignments"),
        ({"topic": "a", "assignments": {}}, "either topic .* or assignments"),
        ({"topic": "a", "start": "begin"}, "start='begin' cannot be used; allowed are"),
        ({"topic": "a", "start": -5}, "start=-5 cannot be used"),
        ({"topic": "a", "start": datetime(2013, 1, 1)}, "has no time zone"),
        ({"topic": "a", "end": "earliest"}, "end='earliest' cannot be used; allowed are"),
        ({"topic": [7]}, "neither a name nor a list of names"),
        ({"topic": "a", "fetch_max_byte": 7}, r"did you mean fetch_max_bytes"),
    ],
)
def test_what_a_reader_cannot_use_is_a_config_error(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ottla.ConfigError, match=sentence):
        Reader("localhost:9092", **arguments)


@pytest.mark.parametrize("name", ["key_deserializer", "value_deserializer"])
def test_a_table_refuses_a_deserializer_because_it_keeps_bytes(name: str) -> None:
    with pytest.raises(ottla.ConfigError, match=f"{name} has no effect here: a table has keys and values as bytes"):
        read_table("localhost:9092", "flights", **{name: "string"})  # type: ignore[arg-type]


def test_a_table_without_an_end_is_refused() -> None:
    with pytest.raises(ottla.ConfigError, match="would read for ever"):
        read_table("localhost:9092", "flights", end=None)


@pytest.mark.parametrize("codec", ["lz4", "zstd", "gzip", "snappy"])
def test_what_may_come_out_of_a_compressed_batch_is_a_setting(
    kafka_cluster: ottla.Cluster, kafka_topic: str, codec: str
) -> None:
    address = kafka_cluster.bootstrap_servers
    with ottla.Producer(address, compression_type=codec) as producer:
        producer.send(kafka_topic, bytes(900_000), partition=0)
    said = (
        r"-0: a compressed batch, at offset 0 or .* than the 800000 bytes that decompressed\.batch\.max\.bytes allows"
    )
    with (
        ottla.Reader(address, kafka_topic, decompressed_batch_max_bytes=800_000) as reader,
        pytest.raises(ottla.OttlaError, match=said),
    ):
        list(reader)
    with ottla.Reader(address, kafka_topic, decompressed_batch_max_bytes=1_000_000) as reader:
        assert sum(batch.num_rows for batch in reader) == 1


def test_a_topic_that_is_made_anew_while_it_is_read_is_told(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    servers, records = kafka_cluster.bootstrap_servers, 10

    def fill(word: bytes) -> bytes:
        with Producer(servers) as producer:
            for _ in range(records):
                producer.send(kafka_topic, word * 1000, partition=0).result()
        with ottla.Admin(servers) as admin:
            return admin.describe(kafka_topic).topic_id

    whole = {(kafka_topic, 0): (0, records)}
    sizes = {"prefetch_max_bytes": 1, "max_partition_fetch_bytes": 2500}
    with Reader(servers, assignments=whole, topic_ids={kafka_topic: fill(b"old")}, **sizes) as reader:
        begun = next(reader.iter_raw())
        # Nothing more was fetched so far, so that no answer tells the reader of this.
        kafka_cluster.delete_topic(kafka_topic)
        kafka_cluster.create_topic(kafka_topic, partitions=3)
        fill(b"new")
        found = [begun]
        with pytest.raises(ottla.KafkaError, match="deleted and made anew") as told:
            found.extend(reader.iter_raw())
    assert told.value.name == "INCONSISTENT_TOPIC_ID"
    assert not any(b"new" in each.records for each in found)
