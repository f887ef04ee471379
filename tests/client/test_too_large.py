"""Batches larger than the topic's max.message.bytes, over real sockets: every record that fits arrives, in order.

And records that the producer's own limits do not allow: they are refused, all others arrive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count

import pytest
from tests.read_back import stored_records

import ottla
from ottla.records.plain import Record, decode_batches

from ..markers import await_markers

LIMIT_BYTES = 1000
_numbers = count()


@pytest.fixture
def narrow_topic(kafka_cluster: ottla.Cluster) -> Iterator[str]:
    name = f"narrow-{next(_numbers)}"
    kafka_cluster.create_topic(name, partitions=2, configs={"max.message.bytes": str(LIMIT_BYTES)})
    yield name
    kafka_cluster.delete_topic(name)


def stored(cluster: ottla.Cluster, topic: str) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = {0: [], 1: []}
    with ottla.Reader(cluster.bootstrap_servers, topic) as reader:
        for fetched in reader.iter_raw():
            for header, records in decode_batches(fetched.records):
                assert header.size_bytes <= LIMIT_BYTES
                found[fetched.partition] += records
    return found


def values_and_sizes(cluster: ottla.Cluster, topic: str) -> tuple[list[bytes], list[int]]:
    values: list[bytes] = []
    sizes: list[int] = []
    with ottla.Reader(cluster.bootstrap_servers, topic) as reader:
        for fetched in reader.iter_raw():
            for header, records in decode_batches(fetched.records):
                sizes.append(header.size_bytes)
                values += [bytes(record.value or b"") for record in records]
    return values, sizes


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [True, False])
def test_records_of_batches_too_large_arrive_in_order_with_their_offsets(
    kafka_cluster: ottla.Cluster, narrow_topic: str, codec: str, idempotent: bool
) -> None:
    heard: list[ottla.Delivery] = []
    with ottla.Producer(
        kafka_cluster.bootstrap_servers,
        compression_type=codec,
        enable_idempotence=idempotent,
        max_in_flight_requests_per_connection=5 if idempotent else 1,
        linger_ms=20,
    ) as producer:
        # Hexadecimal digits of a long number: no codec makes a batch of 16 KiB fit.
        values = [b"%d %x" % (n, pow(7, 200 + n % 200)) for n in range(2000)]
        deliveries = [
            producer.send(narrow_topic, value, partition=n % 2, on_delivery=heard.append)
            for n, value in enumerate(values)
        ]
        producer.flush()
        assert producer.metrics()["batch-split-total"] > 0
        assert producer.metrics()["buffer-available-bytes"] == producer.metrics()["buffer-total-bytes"]
    found = stored(kafka_cluster, narrow_topic)
    for partition in (0, 1):
        assert [bytes(record.value) for record in found[partition]] == values[partition::2]
    assert [delivery.result(0).offset for delivery in deliveries] == [n // 2 for n in range(2000)]
    assert len(heard) == 2000


def test_a_record_too_large_for_the_topic_fails_alone(kafka_cluster: ottla.Cluster, narrow_topic: str) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers, linger_ms=20) as producer:
        values = [b"x" * (2000 if n in (3, 70) else 50) for n in range(100)]
        deliveries = [producer.send(narrow_topic, value, partition=0) for value in values]
        with pytest.raises(ottla.DeliveryError, match=r"2 records were not delivered.*MESSAGE_TOO_LARGE"):
            producer.flush()
        for n in (3, 70):
            with pytest.raises(ottla.DeliveryFailed, match=r"MESSAGE_TOO_LARGE.*max\.message\.bytes"):
                deliveries[n].result(0)
        assert [n for n, delivery in enumerate(deliveries) if delivery.exception(0) is None] == [
            n for n in range(100) if n not in (3, 70)
        ]
    assert len(stored(kafka_cluster, narrow_topic)[0]) == 98


def test_a_transaction_with_batches_too_large_is_committed_whole(
    kafka_cluster: ottla.Cluster, narrow_topic: str
) -> None:
    values = [b"%d %x" % (n, pow(7, 200 + n % 200)) for n in range(300)]
    with ottla.Producer(kafka_cluster.bootstrap_servers, linger_ms=20, transactional_id=narrow_topic) as producer:
        for part in (values[:150], values[150:]):
            with producer.transaction():
                for value in part:
                    producer.send(narrow_topic, value, partition=0)
        assert producer.metrics()["batch-split-total"] > 0
    await_markers(kafka_cluster.bootstrap_servers, narrow_topic)
    found = [bytes(record.value) for record in stored_records(kafka_cluster, narrow_topic, "read_committed")[0]]
    assert found == values


async def sent_one_by_one(servers: str, topic: str) -> list[ottla.RecordMetadata]:
    async with ottla.AsyncProducer(servers, linger_ms=20) as producer:
        deliveries = [await producer.send(topic, b"x" * 50, partition=0) for _ in range(200)]
        return [await delivery for delivery in deliveries]


def test_coroutines_hear_of_the_records_of_a_batch_too_large(kafka_cluster: ottla.Cluster, narrow_topic: str) -> None:
    told = asyncio.run(sent_one_by_one(kafka_cluster.bootstrap_servers, narrow_topic))
    assert [metadata.offset for metadata in told] == list(range(200))


def test_a_table_names_the_row_that_is_too_large(kafka_cluster: ottla.Cluster, narrow_topic: str) -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"v": ["x" * (2000 if n == 5 else 50) for n in range(300)], "p": [n % 2 for n in range(300)]})
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        result = producer.send_table(narrow_topic, table, value="v", partition="p").result(60)
    errors = result["error"].to_pylist()
    assert [n for n, error in enumerate(errors) if error] == [5]
    assert errors[5].startswith("failed: MESSAGE_TOO_LARGE")
    offsets = result["offset"].to_pylist()
    assert offsets[0::2] == list(range(150))
    assert [offset for offset in offsets[1::2] if offset is not None] == list(range(149))
    assert result["partition"].to_pylist() == [n % 2 for n in range(300)]


def test_max_request_size_bounds_a_record_whatever_batch_size_is(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers, max_request_size=2000, linger_ms=1000) as producer:
        for value in (b"a", b"b"):
            producer.send(kafka_topic, value, partition=0)
            with pytest.raises(ottla.RecordError, match=r"needs 90\d\d bytes with its batch; .* allows 2000"):
                producer.send(kafka_topic, b"x" * 9000, partition=0)
        producer.send(kafka_topic, b"x" * 1900, partition=0)
        for _ in range(100):
            producer.send(kafka_topic, b"y" * 90, partition=0)
    found, sizes = values_and_sizes(kafka_cluster, kafka_topic)
    assert found == [b"a", b"b", b"x" * 1900] + [b"y" * 90] * 100
    assert max(sizes) <= 2000


def test_max_request_size_bounds_the_rows_of_a_table_too(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    pa = pytest.importorskip("pyarrow")
    small = ["y" * 90] * 100
    with ottla.Producer(kafka_cluster.bootstrap_servers, max_request_size=2000) as producer:
        with pytest.raises(ottla.RecordError, match=r"Row 2 needs 50\d\d bytes with its batch; .* allows 2000"):
            producer.send_table(kafka_topic, pa.table({"v": ["a", "b", "x" * 5000]}), value="v")
        producer.send_table(kafka_topic, pa.table({"v": ["x" * 1900, *small]}), value="v")
    found, sizes = values_and_sizes(kafka_cluster, kafka_topic)
    assert sorted(found) == sorted([b"x" * 1900] + [b"y" * 90] * 100)
    assert max(sizes) <= 2000


def test_what_never_fits_into_buffer_memory_is_refused_by_send_and_by_send_table(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    pa = pytest.importorskip("pyarrow")
    sentence = r"needs 500\d\d bytes.*; buffer\.memory is 20000\. Send less in one record, or raise buffer_memory"
    with ottla.Producer(kafka_cluster.bootstrap_servers, buffer_memory=20_000) as producer:
        with pytest.raises(ottla.RecordError, match=sentence):
            producer.send(kafka_topic, b"x" * 50_000)
        with pytest.raises(ottla.RecordError, match=sentence):
            producer.send_table(kafka_topic, pa.table({"v": ["a", "x" * 50_000]}), value="v")
        producer.send_table(kafka_topic, pa.table({"v": ["x" * 19_000, "a"]}), value="v")
    found, _ = values_and_sizes(kafka_cluster, kafka_topic)
    assert sorted(found) == [b"a", b"x" * 19_000]
