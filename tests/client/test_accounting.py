"""Every record handed to `send` ends exactly once, and flush, close and the end of the process account for all."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable

import pytest
from tests.client.in_time import UNHURRIED
from tests.read_back import stored

import ottla
from ottla.protocol.error_codes import ErrorCode


def run(script: str, cluster: ottla.Cluster, topic: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, cluster.bootstrap_servers, topic],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("idempotent", [True, False])
def test_what_flush_and_close_count_is_what_every_delivery_says(
    kafka_cluster: ottla.Cluster, kafka_topic: str, idempotent: bool
) -> None:
    faults = kafka_cluster.faults
    heard: list[ottla.Delivery] = []
    deliveries: list[ottla.Delivery] = []
    producer = ottla.Producer(
        kafka_cluster.bootstrap_servers,
        linger_ms=0,
        batch_size=200,
        retries=2,
        retry_backoff_ms=1,
        enable_idempotence=idempotent,
    )

    def send_hundred(end: Callable[[float], object]) -> tuple[int, int]:
        for n in range(len(deliveries), len(deliveries) + 100):
            deliveries.append(producer.send(kafka_topic, b"%d" % n, b"%d" % (n % 5), on_delivery=heard.append))
        counted = (0, 0)
        try:
            end(60)
        except ottla.DeliveryError as error:
            counted = (error.failed, error.unknown)
        assert len(heard) == len(deliveries)
        assert all(delivery.done() for delivery in deliveries)
        return counted

    with (
        faults.lose_ack(topic=kafka_topic, every=3),
        faults.lose_request(topic=kafka_topic, every=4),
        faults.refuse(topic=kafka_topic, every=7, error=ErrorCode.INVALID_RECORD),
    ):
        counts = [send_hundred(producer.flush) for _ in range(4)]
    # What the mixed faults come to depends on how the records fell into requests; these two outcomes do not.
    with faults.refuse(topic=kafka_topic, error=ErrorCode.INVALID_RECORD):
        counts.append(send_hundred(producer.flush))
        assert counts[-1] == (100, 0)
    with faults.lose_ack(topic=kafka_topic):
        counts.append(send_hundred(producer.close))
        assert counts[-1] == (0, 100)
    failed, unknown = (sum(counted) for counted in zip(*counts, strict=True))
    assert Counter(map(id, heard)) == Counter(map(id, deliveries))
    there = Counter(stored(kafka_cluster, kafka_topic))
    told: Counter[type] = Counter()
    for n, delivery in enumerate(deliveries):
        error = delivery.exception(0)
        told[type(error)] += 1
        copies = there[b"%d" % n]
        assert copies <= 1 or not idempotent
        assert copies > 0 or error is not None
        assert copies == 0 or not isinstance(error, ottla.DeliveryFailed)
    assert (told[ottla.DeliveryFailed], told[ottla.DeliveryUnknown]) == (failed, unknown)
    assert told[ottla.DeliveryFailed] + told[ottla.DeliveryUnknown] + told[type(None)] == 600


def test_close_without_time_settles_every_record_at_once(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    producer = ottla.Producer(kafka_cluster.bootstrap_servers, linger_ms=60_000, delivery_timeout_ms=120_000)
    deliveries = [producer.send(kafka_topic, b"%d" % n) for n in range(100)]
    with pytest.raises(ottla.DeliveryError) as caught:
        producer.close(timeout=0)
    assert caught.value.failed + caught.value.unknown == 100
    assert all(delivery.done() for delivery in deliveries)
    there = Counter(stored(kafka_cluster, kafka_topic))
    assert not any(
        there[b"%d" % n]
        for n, delivery in enumerate(deliveries)
        if isinstance(delivery.exception(0), ottla.DeliveryFailed)
    )


def test_threads_that_send_while_another_closes_learn_of_every_record(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    producer = ottla.Producer(kafka_cluster.bootstrap_servers, linger_ms=1)
    producer.partitions_for(kafka_topic)
    taken: list[list[ottla.Delivery]] = [[], [], []]
    going = threading.Barrier(4)

    def send(mine: list[ottla.Delivery]) -> None:
        going.wait()
        try:
            while True:
                mine.append(producer.send(kafka_topic, b"x" * 50))
        except ottla.ClosedError:
            return

    threads = [threading.Thread(target=send, args=(mine,)) for mine in taken]
    for thread in threads:
        thread.start()
    going.wait()
    while sum(map(len, taken)) < 1000:
        pass
    producer.close(60)
    for thread in threads:
        thread.join(60)
    deliveries = [delivery for mine in taken for delivery in mine]
    assert all(delivery.exception(0) is None for delivery in deliveries)
    assert len(stored(kafka_cluster, kafka_topic)) == len(deliveries)


ENDS = {
    "the script is over": "",
    "sys.exit": "sys.exit(3)",
    "an exception": "raise LookupError('mine')",
    "Ctrl+C": "import os, signal; os.kill(os.getpid(), signal.SIGINT); signal.pause()",
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_however_a_process_ends_every_record_is_stored_and_every_callback_runs(
    kafka_cluster: ottla.Cluster, kafka_topic: str, end: str
) -> None:
    # Registered before ottla is there, so that it is the last to run.
    done = run(
        f"""
import atexit, sys
heard = []
atexit.register(lambda: print(len(heard)))
import ottla
producer = ottla.Producer(sys.argv[1], linger_ms=60_000, delivery_timeout_ms=120_000)
for n in range(1000):
    producer.send(sys.argv[2], b"%d" % n, on_delivery=heard.append)
{end}
""",
        kafka_cluster,
        kafka_topic,
    )
    assert "records were lost" not in done.stderr
    assert done.stdout == "1000\n"
    assert Counter(stored(kafka_cluster, kafka_topic)) == Counter(b"%d" % n for n in range(1000))


def test_what_could_not_be_delivered_at_the_end_of_a_process_is_counted_in_the_log(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    faults = kafka_cluster.faults
    with (
        faults.refuse(topic=kafka_topic, partition=0, error=ErrorCode.INVALID_RECORD),
        faults.lose_ack(topic=kafka_topic, partition=1),
    ):
        done = run(
            """
import sys, ottla
producer = ottla.Producer(sys.argv[1], linger_ms=60_000, delivery_timeout_ms=120_000, retries=1)
for n in range(10):
    producer.send(sys.argv[2], b"%d" % n, partition=n % 3 % 2)
producer.send(sys.argv[2], b"fine", partition=2)
""",
            kafka_cluster,
            kafka_topic,
        )
    assert done.returncode == 0
    assert "records were lost at the end of the process: " in done.stderr
    assert "7 records were not delivered and 3 records are unknown (perhaps stored); the first cause: " in done.stderr
    assert "call flush() or close() before" in done.stderr
    there = Counter(stored(kafka_cluster, kafka_topic))
    assert there[b"fine"] == 1
    assert sum(there.values()) == 4


def test_records_of_a_silent_broker_are_accounted_for_at_the_end_of_a_process(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    with kafka_cluster.faults.drop_request(topic=kafka_topic):
        done = run(
            """
import sys, ottla
producer = ottla.Producer(sys.argv[1], linger_ms=0, request_timeout_ms=200, delivery_timeout_ms=600)
for n in range(10):
    producer.send(sys.argv[2], b"%d" % n, partition=0)
""",
            kafka_cluster,
            kafka_topic,
        )
    assert done.returncode == 0
    assert "delivery.timeout.ms=600 passed" in done.stderr
    told = done.stderr.partition("records were lost at the end of the process: ")[2]
    counts = [int(word) for word in told.partition(";")[0].split() if word.isdigit()]
    assert sum(counts) == 10
    assert len(stored(kafka_cluster, kafka_topic)) == 0


def test_a_thread_that_goes_on_sending_at_the_end_of_a_process_does_not_hold_it_up(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    done = run(
        UNHURRIED
        + """
import sys, threading, ottla
producer = ottla.Producer(sys.argv[1], linger_ms=1)
sent = []
def send():
    try:
        while True:
            sent.append(producer.send(sys.argv[2], b"x"))
    except ottla.ClosedError:
        pass
threading.Thread(target=send, daemon=True).start()
while len(sent) < 1000:
    pass
""",
        kafka_cluster,
        kafka_topic,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(stored(kafka_cluster, kafka_topic)) >= 1000


def test_two_producers_left_open_are_both_accounted_for(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    done = run(
        UNHURRIED
        + """
import sys, ottla
settings = {"linger_ms": 60_000, "delivery_timeout_ms": 120_000}
producers = [ottla.Producer(sys.argv[1], acks=acks, **settings) for acks in (0, "all")]
for n in range(200):
    producers[n % 2].send(sys.argv[2], b"%d" % n)
""",
        kafka_cluster,
        kafka_topic,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert Counter(stored(kafka_cluster, kafka_topic)) == Counter(b"%d" % n for n in range(200))
