"""The producer against a real cluster."""

from __future__ import annotations

import asyncio
import logging
import math
import pydoc
import re
import socket
import threading
from types import NoneType
from typing import Any, get_args

import pyarrow as pa
import pytest
from tests.client.in_time import ahead, logged, wait_until
from tests.read_back import stored_count, stored_records

import ottla
from ottla.addresses import addresses_of
from ottla.client.producer import Producer
from ottla.client.producer_base import Headers
from ottla.client.reader import Reader
from ottla.client.transaction_handle import EndingDriver
from ottla.producer.settings_table import PRODUCER_SETTINGS
from ottla.protocol.error_codes import ErrorCode
from ottla.records.delivery import Delivery
from ottla.records.plain import decode_batches


def test_a_wrong_keyword_is_a_config_error_that_names_the_nearest() -> None:
    with pytest.raises(ottla.ConfigError) as caught:
        Producer("localhost:9092", lingr_ms=5)  # type: ignore[call-arg]
    assert str(caught.value) == "lingr_ms is not a setting this client knows; did you mean linger_ms?"
    with pytest.raises(ottla.ConfigError, match=r"did you mean isolation_level\?"):
        Reader("localhost:9092", "flights", isolaton_level="read_committed")  # type: ignore[call-arg]
    with pytest.raises(ottla.ConfigError, match=r"did you mean request_timeout_ms\?"):
        ottla.Admin("localhost:9092", request_timout_ms=5)  # type: ignore[call-arg]


def test_help_says_where_the_settings_are_told_of() -> None:
    shown = pydoc.plain(pydoc.render_doc(ottla.Producer))
    named = re.search(r'help\("([\w.]+)"\)', shown)
    assert named is not None
    told = pydoc.plain(pydoc.render_doc(named[1]))
    assert [row.keyword for row in PRODUCER_SETTINGS[1:] if f"{row.keyword}: {row.doc[:20]}" not in told] == []


def test_idempotence_that_had_to_yield_is_logged_and_shown(
    kafka_cluster: ottla.Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    address = kafka_cluster.bootstrap_servers
    with caplog.at_level(logging.INFO, "ottla.producer"), Producer(address, acks=1) as producer:
        assert repr(producer).endswith(", acks=1, idempotence off because of acks=1>")
        assert producer.metrics()["ottla-idempotence-enabled"] == 0
    assert logged(caplog, "ottla.producer") == ["enable.idempotence is on by default and off here because of acks=1"]
    with Producer(address) as producer:
        assert repr(producer).endswith(", acks=all, idempotence on>")
        assert producer.metrics()["ottla-idempotence-enabled"] == 1


def test_settings_that_can_hardly_be_meant_are_warned_of(
    kafka_cluster: ottla.Cluster, kafka_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Producer(kafka_cluster.bootstrap_servers, buffer_memory=2_000, batch_size=5_000) as producer:
        told = [producer.send(kafka_topic, b"x" * 500, partition=0) for _ in range(20)]
        assert [delivery.result(30).offset for delivery in told] == list(range(20))
    with ottla.Admin(kafka_cluster.bootstrap_servers, retry_backoff_ms=5_000):
        pass
    [of_producer], [of_admin] = logged(caplog, "ottla.producer"), logged(caplog, "ottla.client")
    assert of_producer.startswith("buffer.memory=2000 is below batch.size=5000: ")
    assert of_admin.startswith("retry.backoff.ms=5000 is above retry.backoff.max.ms=1000; ")
    assert {record.levelname for record in caplog.records if record.getMessage() in (of_producer, of_admin)} == {
        "WARNING"
    }


def test_every_number_may_be_as_large_as_it_goes(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    """Java's users say "never" by the largest long, for times above all."""
    largest = {
        row.name: row.highest
        for row in PRODUCER_SETTINGS
        if row.kind is int and row.name.endswith(".ms") and row.name not in ("linger.ms", "transaction.timeout.ms")
    }
    with Producer.from_config({"bootstrap.servers": kafka_cluster.bootstrap_servers, **largest}) as producer:
        assert producer.send(kafka_topic, b"one", partition=0).result(30).offset == 0
        # The thread has slept without anything to wake it in between, or is about to.
        assert producer.send(kafka_topic, b"two", partition=0).result(30).offset == 1
    with Producer(kafka_cluster.bootstrap_servers, linger_ms=2**63 - 1, delivery_timeout_ms=2**31 - 1) as producer:
        delivery = producer.send(kafka_topic, b"three", partition=0)
        producer.flush()
        assert delivery.result().offset == 2


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_with_a_batch_size_of_zero_every_record_goes_alone(
    kafka_cluster: ottla.Cluster, kafka_topic: str, codec: str
) -> None:
    with Producer(kafka_cluster.bootstrap_servers, batch_size=0, linger_ms=1000, compression_type=codec) as producer:
        for number in range(30):
            producer.send(kafka_topic, b"%d" % number)
            producer.send(kafka_topic, b"%d" % number, b"key")
        producer.send_table(kafka_topic, pa.table({"value": [b"row"] * 30}), value="value")
    with Reader(kafka_cluster.bootstrap_servers, kafka_topic) as reader:
        counts = [header.record_count for raw in reader.iter_raw() for header, _ in decode_batches(raw.records)]
    assert counts == [1] * 90


def test_a_record_larger_than_a_batch_goes_alone_among_others(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    sizes = [10, 10, 50_000, 10, 10]
    with Producer(kafka_cluster.bootstrap_servers, batch_size=1_000, linger_ms=60_000) as producer:
        for size in sizes:
            producer.send(kafka_topic, b"x" * size, partition=0)
    with Reader(kafka_cluster.bootstrap_servers, kafka_topic) as reader:
        stored_batches = [records for raw in reader.iter_raw() for _, records in decode_batches(raw.records)]
    batches = [[len(record.value or b"") for record in records] for records in stored_batches]
    assert batches == [[10, 10], [50_000], [10, 10]]


def test_canonical_names_take_the_place_of_bootstrap_addresses(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    ports = [address.rpartition(":")[2] for address in kafka_cluster.bootstrap_servers.split(",")]
    given = ",".join(f"127.0.0.1:{port}" for port in ports)
    # Whatever this machine calls its loopback address.
    name = socket.getnameinfo(("127.0.0.1", 0), 0)[0]
    settings = {"bootstrap.servers": given, "client.dns.lookup": "resolve_canonical_bootstrap_servers_only"}
    with Producer.from_config(settings) as producer:
        assert f"<Producer for {','.join(f'{name}:{port}' for port in ports)}: " in repr(producer)
        assert producer.send(kafka_topic, b"found").result(30).offset == 0
    with Reader(given, kafka_topic, client_dns_lookup="resolve_canonical_bootstrap_servers_only") as reader:
        assert sum(batch.num_rows for batch in reader) == 1
    ending = EndingDriver.of({key.replace(".", "_"): value for key, value in settings.items()})
    ending.close()
    assert addresses_of(ending._settings.connection.bootstrap_servers) == ",".join(f"{name}:{port}" for port in ports)


def test_a_record_is_stored_as_it_was_sent(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with Producer(kafka_cluster.bootstrap_servers) as producer:
        told = producer.send(
            kafka_topic, b"value", b"key", headers=[("h", b"1"), ("n", None)], partition=1, timestamp_ms=1234
        ).result(30)
    assert (told.topic, told.partition, told.offset, told.timestamp_ms) == (kafka_topic, 1, 0, 1234)
    [record] = stored_records(kafka_cluster, kafka_topic)[1]
    assert (record.offset, record.timestamp_ms, bytes(record.key), bytes(record.value)) == (0, 1234, b"key", b"value")
    assert [(name, None if value is None else bytes(value)) for name, value in record.headers] == [
        ("h", b"1"),
        ("n", None),
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_record_arrives_once_and_in_order(kafka_cluster: ottla.Cluster, kafka_topic: str, codec: str) -> None:
    with Producer.from_config(
        {"bootstrap.servers": kafka_cluster.bootstrap_servers, "compression.type": codec, "linger.ms": 1}
    ) as producer:
        for number in range(5000):
            producer.send(kafka_topic, b"%d" % number, b"%d" % (number % 7))
    found = stored_records(kafka_cluster, kafka_topic)
    values = [[int(record.value) for record in records] for records in found.values()]
    assert sorted(value for part in values for value in part) == list(range(5000))
    assert all(part == sorted(part) for part in values)


def test_flush_returns_when_everything_is_settled(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with Producer(kafka_cluster.bootstrap_servers, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        deliveries = [producer.send(kafka_topic, b"x") for _ in range(100)]
        producer.flush()
        assert all(delivery.done() for delivery in deliveries)
        producer.flush()


def test_flush_that_runs_out_of_time_can_be_repeated(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with Producer(kafka_cluster.bootstrap_servers) as producer:
        producer.partitions_for(kafka_topic)
        with kafka_cluster.faults.unplug(kafka_cluster.leader(kafka_topic, 0)):
            delivery = producer.send(kafka_topic, b"x", partition=0)
            with pytest.raises(TimeoutError, match="flush again"):
                producer.flush(0.01)
        producer.flush()
        assert delivery.result(0).offset == 0


def test_concurrent_flushes_and_sends_lose_nothing(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    wrong: list[str] = []

    def send_and_flush(producer: Producer) -> None:
        for _ in range(40):
            deliveries = [producer.send(kafka_topic, b"x") for _ in range(20)]
            producer.flush(60)
            if not all(delivery.done() for delivery in deliveries):
                wrong.append("flush returned too early")

    with Producer(kafka_cluster.bootstrap_servers, compression_type="zstd", linger_ms=1000) as producer:
        threads = [threading.Thread(target=send_and_flush, args=(producer,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert stored_count(kafka_cluster, kafka_topic) == 3200


def test_no_wake_up_is_lost_however_send_and_sleep_interleave(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    def send_one_by_one(producer: Producer) -> None:
        for _ in range(300):
            producer.send(kafka_topic, b"x").result(60)

    with Producer(kafka_cluster.bootstrap_servers, linger_ms=0) as producer:
        threads = [threading.Thread(target=send_one_by_one, args=(producer,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert stored_count(kafka_cluster, kafka_topic) == 900


def test_a_full_buffer_makes_send_wait_and_nothing_is_lost(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with Producer(kafka_cluster.bootstrap_servers, buffer_memory=65_536, linger_ms=10_000) as producer:
        for _ in range(4000):
            producer.send(kafka_topic, b"x" * 100)
        assert producer.metrics()["buffer-total-bytes"] == 65_536
    assert stored_count(kafka_cluster, kafka_topic) == 4000


def test_header_values_of_every_type_that_is_declared_are_sent(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    [pair] = get_args(Headers)
    _, values = get_args(pair)
    made: dict[type, Any] = {
        bytes: b"v",
        bytearray: bytearray(b"v"),
        memoryview: memoryview(b"v"),
        str: "v",
        NoneType: None,
    }
    assert set(get_args(values)) == made.keys()
    headers: Headers = [(kind.__name__, value) for kind, value in made.items()]
    with Producer(kafka_cluster.bootstrap_servers) as producer:
        producer.send(kafka_topic, b"x", headers=headers, partition=0)
    [[record]] = stored_records(kafka_cluster, kafka_topic).values()
    assert record.headers == tuple((kind.__name__, None if kind is NoneType else b"v") for kind in made)


def test_a_buffer_that_stays_full_is_buffer_full(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    clock = ottla.Clock()
    with Producer(kafka_cluster.bootstrap_servers, buffer_memory=20_000, clock=clock) as producer:
        producer.partitions_for(kafka_topic)
        with kafka_cluster.faults.unplug(kafka_cluster.leader(kafka_topic, 0)):
            producer.send(kafka_topic, b"x" * 15_000, partition=0)
            full = r"buffer\.memory .20000 bytes. stayed full for max\.block\.ms"
            with ahead(clock, 60), pytest.raises(ottla.BufferFull, match=full):
                producer.send(kafka_topic, b"x" * 15_000, partition=0)


def test_acks_0_is_settled_without_an_offset(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with Producer(kafka_cluster.bootstrap_servers, acks=0) as producer:
        assert producer.send(kafka_topic, b"x").result(30).offset == -1
        for _ in range(3000):
            producer.send(kafka_topic, b"x" * 1000)
    assert stored_count(kafka_cluster, kafka_topic) == 3001


def test_a_lost_ack_is_retried_and_stored_once(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with (
        Producer(kafka_cluster.bootstrap_servers, linger_ms=0) as producer,
        kafka_cluster.faults.lose_ack(topic=kafka_topic, nth=2) as fault,
    ):
        offsets = [producer.send(kafka_topic, b"%d" % n, partition=0).result(30).offset for n in range(5)]
        assert fault.fired == 1
    assert offsets == [0, 1, 2, 3, 4]
    assert [bytes(record.value) for record in stored_records(kafka_cluster, kafka_topic)[0]] == [
        b"0",
        b"1",
        b"2",
        b"3",
        b"4",
    ]


def test_what_failed_and_was_not_looked_at_is_raised_once(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with Producer(kafka_cluster.bootstrap_servers, linger_ms=50) as producer:
        with kafka_cluster.faults.refuse(topic=kafka_topic, error=ErrorCode.INVALID_RECORD):
            for _ in range(3):
                producer.send(kafka_topic, b"x", partition=0)
            looked_at = producer.send(kafka_topic, b"x", partition=0)
            with pytest.raises(ottla.DeliveryFailed, match="INVALID_RECORD"):
                looked_at.result(30)
            with pytest.raises(ottla.DeliveryError, match="3 records were not delivered") as caught:
                producer.flush()
            assert (caught.value.failed, caught.value.unknown) == (3, 0)
            assert isinstance(caught.value.first, ottla.KafkaError)
        producer.flush()


def test_an_unknown_outcome_is_reported_as_unknown(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    producer = Producer(kafka_cluster.bootstrap_servers, acks=1, retries=0)
    with kafka_cluster.faults.lose_ack(topic=kafka_topic):
        delivery = producer.send(kafka_topic, b"x")
        with pytest.raises(ottla.DeliveryError, match="1 record is unknown") as caught:
            producer.close()
        assert (caught.value.failed, caught.value.unknown) == (0, 1)
        assert isinstance(delivery.exception(), ottla.DeliveryUnknown)


def test_a_topic_that_does_not_exist_is_named(kafka_cluster: ottla.Cluster) -> None:
    clock = ottla.Clock()
    with (
        Producer(kafka_cluster.bootstrap_servers, clock=clock) as producer,
        kafka_cluster.faults.hold(api="Metadata", nth=2) as asked_again,
        ahead(clock, 60, asked_again.await_fired),
        pytest.raises(ottla.KafkaError, match="topic 'no-such-topic' could not be used within") as caught,
    ):
        producer.send("no-such-topic", b"x")
    assert caught.value.name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert "create it first, or check its name" in str(caught.value)


@pytest.mark.parametrize("kind", ["Producer", "AsyncProducer"])
def test_waiting_for_a_topic_that_does_not_exist_is_logged_once(
    kafka_cluster: ottla.Cluster, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    clock = ottla.Clock()

    async def send() -> None:
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers, client_id="orders", clock=clock) as producer:
            await producer.send("no-such-topic", b"x")

    def send_one() -> None:
        if kind == "AsyncProducer":
            asyncio.run(send())
        with Producer(kafka_cluster.bootstrap_servers, client_id="orders", clock=clock) as producer:
            producer.send("no-such-topic", b"x")

    with (
        kafka_cluster.faults.hold(api="Metadata", nth=6) as asked_again,
        ahead(clock, 60, asked_again.await_fired),
        caplog.at_level(logging.WARNING, "ottla.producer"),
        pytest.raises(ottla.KafkaError, match="could not be used within"),
    ):
        send_one()
    # The request that is held back times out, which `ottla.client` logs.
    assert logged(caplog, "ottla.producer") == [
        "orders: waiting for topic 'no-such-topic', up to max.block.ms: UNKNOWN_TOPIC_OR_PARTITION: the broker does "
        "not know this topic or partition (topic 'no-such-topic'); create it, or check its name"
    ]


def test_a_topic_name_that_cannot_be_is_refused_at_once(kafka_cluster: ottla.Cluster) -> None:
    with (
        Producer(kafka_cluster.bootstrap_servers) as producer,
        pytest.raises(ottla.KafkaError, match="INVALID_TOPIC_EXCEPTION"),
    ):
        producer.send("no spaces allowed", b"x")


@pytest.mark.parametrize(
    ("value", "key", "sentence"),
    [
        ({"origin": "JFK"}, None, "A record's value is bytes, str or None, not dict"),
        (7, None, "A record's value is bytes, str or None, not int"),
        (b"x", 1.5, "A record's key is bytes, str or None, not float"),
    ],
)
def test_what_is_not_bytes_is_refused_with_a_sentence(
    kafka_cluster: ottla.Cluster, kafka_topic: str, value: object, key: object, sentence: str
) -> None:
    with Producer(kafka_cluster.bootstrap_servers) as producer, pytest.raises(ottla.RecordError, match=sentence):
        producer.send(kafka_topic, value, key)  # type: ignore[arg-type]


def test_a_closed_producer_says_so(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    producer = Producer(kafka_cluster.bootstrap_servers)
    producer.send(kafka_topic, b"x")
    producer.close()
    producer.close()
    with pytest.raises(ottla.ClosedError, match="this producer is closed; make a new one"):
        producer.send(kafka_topic, b"x")
    with pytest.raises(ottla.ClosedError):
        producer.partitions_for(kafka_topic)
    producer.flush()


def test_flush_waits_for_the_callbacks_of_what_it_waited_for(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    is_called, go_on, outcomes = threading.Event(), threading.Event(), []

    def hold(_: Delivery) -> None:
        is_called.set()
        go_on.wait(60)

    def flush() -> None:
        try:
            outcomes.append(producer.flush(60))
        except TimeoutError as error:
            outcomes.append(error)

    clock = ottla.Clock()
    with Producer(kafka_cluster.bootstrap_servers, linger_ms=100_000, clock=clock) as producer:
        producer.send(kafka_topic, b"x", on_delivery=hold)
        flushing = threading.Thread(target=flush)
        # What is flushed is acknowledged at once, and its callback lasts longer than the flush may.
        flushing.start()
        assert is_called.wait(60)
        clock.await_calls()
        clock.advance(60)
        flushing.join(60)
        go_on.set()
        assert isinstance(outcomes[0], TimeoutError)
        producer.flush(60)


@pytest.mark.parametrize("timeout", [math.nan, -1, -0.1, -math.inf, "5", True, b"5", [5], -(10**400)])
def test_what_is_no_time_to_wait_is_refused_before_anything_is_done(
    kafka_cluster: ottla.Cluster, kafka_topic: str, timeout: Any
) -> None:
    with Producer(kafka_cluster.bootstrap_servers, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        delivery = producer.send(kafka_topic, b"x")
        table = producer.send_table(kafka_topic, pa.table({"value": [b"y"]}), value="value")
        waits = (producer.close, producer.flush, producer.client_instance_id, table.wait, table.result, table.failures)
        # On the way, and with an outcome: whether a timeout is refused must not hang on how fast the broker was.
        for _ in range(2):
            for wait in (*waits, delivery.result, delivery.exception):
                with pytest.raises(
                    ValueError, match=r"^timeout=.{1,60} is no time to wait; give seconds from 0 on, or None"
                ):
                    wait(timeout)
            producer.send(kafka_topic, b"z")
            producer.flush(60)
            assert delivery.done()


@pytest.mark.parametrize("config", ["text", None, 5, [("bootstrap.servers", "one:9092")]])
def test_what_is_no_dict_of_settings_is_refused(config: Any) -> None:
    with pytest.raises(
        ottla.ConfigError, match=r"from_config takes a dict of settings, .*, not (str|NoneType|int|list)"
    ):
        Producer.from_config(config)


@pytest.mark.parametrize("timeout", [None, math.inf, 1e300, 10**400, 30])
def test_a_wait_may_be_as_long_as_one_likes(kafka_cluster: ottla.Cluster, kafka_topic: str, timeout: Any) -> None:
    producer = Producer(kafka_cluster.bootstrap_servers, linger_ms=50)
    assert producer.send(kafka_topic, b"x").result(timeout).offset >= 0
    producer.send(kafka_topic, b"y")
    producer.flush(timeout)
    delivery = producer.send(kafka_topic, b"z")
    producer.close(timeout)
    assert delivery.exception() is None


def test_close_with_a_timeout_gives_up_what_is_left(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    producer = Producer(kafka_cluster.bootstrap_servers)
    producer.partitions_for(kafka_topic)
    with kafka_cluster.faults.drop_ack(topic=kafka_topic) as fault:
        delivery = producer.send(kafka_topic, b"x")
        wait_until(lambda: fault.fired > 0)
        with pytest.raises(ottla.DeliveryError, match="1 record is unknown"):
            producer.close(timeout=0.3)
    with pytest.raises(ottla.DeliveryUnknown):
        delivery.result(0)


def test_the_error_that_ends_a_with_block_is_the_one_raised(
    kafka_cluster: ottla.Cluster, kafka_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    def work() -> None:
        with Producer(kafka_cluster.bootstrap_servers) as producer:
            producer.send(kafka_topic, b"x")
            raise LookupError("mine")

    with (
        caplog.at_level(logging.ERROR, "ottla.producer"),
        kafka_cluster.faults.refuse(topic=kafka_topic, error=ErrorCode.INVALID_RECORD),
        pytest.raises(LookupError, match="mine"),
    ):
        work()
    assert "1 record was not delivered" in caplog.text


def test_callbacks_run_and_what_they_raise_harms_nobody(
    kafka_cluster: ottla.Cluster, kafka_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[int] = []

    def remember(delivery: ottla.Delivery) -> None:
        told.append(delivery.result(0).offset)
        raise RuntimeError("a careless callback")

    with Producer(kafka_cluster.bootstrap_servers) as producer:
        producer.send(kafka_topic, b"x", partition=0, on_delivery=remember)
        producer.flush()
        assert producer.send(kafka_topic, b"y", partition=0).result(30).offset == 1
    assert told == [0]
    assert "a careless callback" in caplog.text


def test_waiting_inside_a_callback_is_refused_instead_of_hanging(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    said: list[str] = []

    with Producer(kafka_cluster.bootstrap_servers, linger_ms=20) as producer:

        def wait_for_itself(_: ottla.Delivery) -> None:
            for wait in (producer.flush, producer.close, producer.send(kafka_topic, b"again").result):
                try:
                    wait()
                except ottla.OttlaError as error:
                    said.append(str(error))

        producer.send(kafka_topic, b"x", on_delivery=wait_for_itself)
        producer.flush()
    assert [line.split(" inside a delivery callback")[0] for line in said] == [
        "flushing",
        "closing",
        "waiting for a delivery",
    ]


def test_an_exception_in_the_io_thread_settles_every_delivery(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    producer = Producer(kafka_cluster.bootstrap_servers, linger_ms=60_000)
    producer.partitions_for(kafka_topic)
    waiting = producer.send(kafka_topic, b"never taken", partition=1)
    stored = producer.send(
        kafka_topic,
        b"x" * 10_000,
        partition=0,
        on_delivery=lambda _: producer._driver.loop.post("no event that anybody knows"),
    )
    for _ in range(2):
        producer.send(kafka_topic, b"x" * 10_000, partition=0)
    with pytest.raises(ottla.DeliveryError, match="I/O thread stopped because of an internal error") as caught:
        waiting.result(30)
    assert isinstance(caught.value, ottla.DeliveryFailed | ottla.DeliveryUnknown)
    assert stored.result(30).offset == 0
    with pytest.raises(ottla.OttlaError, match="make a new one"):
        producer.send(kafka_topic, b"x")
    with pytest.raises(ottla.DeliveryError):
        producer.close(30)


def test_partitions_for_counts_from_0(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with Producer(kafka_cluster.bootstrap_servers) as producer:
        assert producer.partitions_for(kafka_topic) == [0, 1, 2]
