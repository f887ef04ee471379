"""`diagnosis()` of producers whose brokers, faults and callers bring about what it tells; and what the log says."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from math import isnan
from typing import Any

import pytest
from tests.client.in_time import Calling, wait_until
from tests.cluster.test_quotas import limit

import ottla
from ottla.client.diagnosis_log import DiagnosisLog
from ottla.cluster.cluster import Cluster
from ottla.producer.diagnosis import Diagnosis, Finding, Limit


@pytest.fixture(scope="module")
def cluster() -> Any:
    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    cluster.create_topic(name, partitions=6, replication_factor=1)
    return name


def limits_of(diagnosis: Diagnosis) -> list[Limit]:
    return [finding.limit for finding in diagnosis.findings]


def limits(producer: ottla.Producer | ottla.AsyncProducer) -> list[Limit]:
    return limits_of(producer.diagnosis())


def send_until(producer: ottla.Producer, topic: str, is_right: Callable[[list[Limit]], bool]) -> Diagnosis:
    """Send as fast as it goes until a diagnosis finds the right limits; return it."""
    for number in range(3_000_000):
        producer.send(topic, b"v" * 100, b"%d" % number)
        if number % 1000 == 999 and is_right(limits_of(found := producer.diagnosis())):
            return found
    raise AssertionError(f"it did not come to that: {producer.diagnosis()}")


def wait_for_each_until(
    producer: ottla.Producer,
    topic: str,
    is_right: Callable[[list[Limit]], bool],
    wait: Callable[[ottla.Delivery], object],
) -> Diagnosis:
    """Send thirty records, waiting for each, and more until a diagnosis finds the right limits; return it."""
    for number in range(500):
        wait(producer.send(topic, b"v", partition=number % 6))
        if number >= 30 and is_right(limits_of(found := producer.diagnosis())):
            return found
    raise AssertionError(f"it did not come to that: {producer.diagnosis()}")


def result(delivery: ottla.Delivery) -> object:
    return delivery.result(30)


def test_of_a_producer_that_has_just_begun_nothing_is_said(cluster: Cluster, topic: str) -> None:
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        assert not producer.diagnosis().is_certain
        producer.send(topic, b"v").result(30)
        found = producer.diagnosis()
    assert not found.is_certain
    assert str(found) == "Too little was sent lately to tell: 1 Produce request, and 10 are needed."


def test_an_idle_producer_is_not_diagnosed_by_what_it_did_long_ago(cluster: Cluster, topic: str) -> None:
    clock = ottla.Clock()
    with ottla.Producer(cluster.bootstrap_servers, clock=clock) as producer:
        for _ in range(20):
            producer.send(topic, b"v").result(30)
        assert producer.diagnosis().is_certain
        clock.advance(300)
        found = producer.diagnosis()
    assert not found.is_certain
    assert "0 Produce requests" in str(found)


def test_a_paced_producer_is_told_that_nothing_limits_it(cluster: Cluster, topic: str) -> None:
    clock = ottla.Clock()
    with ottla.Producer(cluster.bootstrap_servers, clock=clock, linger_ms=0) as producer:
        for _ in range(20):
            producer.send(topic, b"v").result(30)
            clock.advance(1)
        found = producer.diagnosis()
    assert found.is_certain
    assert not found
    assert str(found).startswith("Nothing in the producer limits it")


def test_a_burst_after_a_quiet_time_is_no_limit(cluster: Cluster, topic: str) -> None:
    """Its batches are full and wait for each other, and are gone in a moment."""
    clock = ottla.Clock()
    with ottla.Producer(cluster.bootstrap_servers, clock=clock, linger_ms=0) as producer:
        for _ in range(5):
            producer.send(topic, b"v").result(30)
            clock.advance(5)
        clock.stop()
        clock.advance(10)
        for number in range(20_000):
            producer.send(topic, b"v" * 100, b"%d" % number)
        producer.flush(60)
        found = producer.diagnosis()
        clock.go_on()
    assert found.is_certain
    assert not found, found


def test_without_acks_a_paced_producer_has_no_latency_and_no_limit(cluster: Cluster, topic: str) -> None:
    clock = ottla.Clock()
    with ottla.Producer(cluster.bootstrap_servers, clock=clock, linger_ms=0, acks=0) as producer:
        for _ in range(20):
            producer.send(topic, b"v").result(30)
            clock.advance(1)
        found = producer.diagnosis()
        assert isnan(producer.metrics()["request-latency-avg"])
    assert found.is_certain
    assert not found


def test_an_application_that_is_busy_with_other_things_is_the_limit_itself(cluster: Cluster, topic: str) -> None:
    """By its clock, a millisecond passes between two records, and no time while brokers answer."""
    clock = ottla.Clock()
    with ottla.Producer(cluster.bootstrap_servers, clock=clock, linger_ms=5) as producer:
        producer.partitions_for(topic)
        clock.stop()
        sent: list[ottla.Delivery] = []
        for number in range(400):
            digest = hashlib.sha256(b"%d" % number).digest()
            sent.append(producer.send(topic, digest, digest))
            clock.advance(0.001)
            # The records whose linger time is over.
            wait_until(lambda: all(delivery.done() for delivery in sent[-10:-6]))
        found = producer.diagnosis()
        clock.go_on()
    assert found.is_certain
    assert not found, found
    assert "it sends what the application gives it" in str(found)


def test_waiting_for_each_record_is_told_with_what_a_record_takes(cluster: Cluster, topic: str) -> None:
    with (
        cluster.faults.delay_ack(topic=topic, delay_ms=20),
        ottla.Producer(cluster.bootstrap_servers, linger_ms=0) as producer,
    ):
        (finding,) = wait_for_each_until(producer, topic, lambda found: found == [Limit.ONE_BY_ONE], result).findings
    assert finding.evidence["request-latency-avg"] >= 20
    assert finding.setting is None


def test_a_coroutine_that_awaits_each_record_is_told_so_too(cluster: Cluster, topic: str) -> None:
    async def work() -> None:
        async with ottla.AsyncProducer(cluster.bootstrap_servers, linger_ms=0) as producer:
            for number in range(500):
                await (await producer.send(topic, b"v"))
                if number >= 30 and limits(producer) == [Limit.ONE_BY_ONE]:
                    return
            raise AssertionError(f"it did not come to that: {producer.diagnosis()}")

    with cluster.faults.delay_ack(topic=topic, delay_ms=20):
        asyncio.run(work())


def test_many_coroutines_that_await_a_record_each_hold_up_nobody(cluster: Cluster, topic: str) -> None:
    async def work() -> Diagnosis:
        async with ottla.AsyncProducer(cluster.bootstrap_servers, linger_ms=0) as producer:

            async def one() -> None:
                for _ in range(20):
                    await (await producer.send(topic, b"v"))

            await asyncio.gather(*[one() for _ in range(50)])
            return producer.diagnosis()

    with cluster.faults.delay_ack(topic=topic, delay_ms=20):
        found = asyncio.run(work())
    assert found.is_certain
    assert not found


def test_many_threads_that_wait_for_a_record_each_hold_up_nobody(cluster: Cluster, topic: str) -> None:
    with (
        cluster.faults.delay_ack(topic=topic, delay_ms=20),
        ottla.Producer(cluster.bootstrap_servers, linger_ms=0) as producer,
    ):
        calls = [Calling(lambda: [producer.send(topic, b"v").result(30) for _ in range(20)]) for _ in range(10)]
        assert [call.ended() for call in calls] == [None] * 10
        found = producer.diagnosis()
    assert found.is_certain
    assert not found, found


def test_a_flush_behind_every_record_is_told(cluster: Cluster, topic: str) -> None:
    with (
        cluster.faults.delay_ack(topic=topic, delay_ms=20),
        ottla.Producer(cluster.bootstrap_servers) as producer,
    ):
        wait_for_each_until(producer, topic, lambda found: found == [Limit.MANY_FLUSHES], lambda _: producer.flush(30))


def test_transactions_of_one_record_are_told_and_long_ones_are_not(cluster: Cluster, topic: str) -> None:
    def send(records: int, transactions: int) -> Diagnosis:
        with ottla.Producer(cluster.bootstrap_servers, transactional_id=f"{topic}-{records}") as producer:
            for _ in range(transactions):
                with producer.transaction():
                    for _ in range(records):
                        producer.send(topic, b"v" * 100)
            return producer.diagnosis()

    with cluster.faults.delay_ack(api="EndTxn", delay_ms=20):
        assert [finding.limit for finding in send(1, 20).findings] == [Limit.SHORT_TRANSACTIONS]
        assert Limit.SHORT_TRANSACTIONS not in [finding.limit for finding in send(20_000, 2).findings]


def test_one_slow_leader_of_three_is_named(cluster: Cluster, topic: str) -> None:
    slow = cluster.leader(topic, 1)
    with ottla.Producer(cluster.bootstrap_servers, linger_ms=0) as producer:
        with cluster.faults.delay_ack(topic=topic, broker_id=slow, delay_ms=60):
            found = wait_for_each_until(producer, topic, lambda found: Limit.SLOW_BROKER in found, result)
        finding = next(each for each in found.findings if each.limit is Limit.SLOW_BROKER)
    assert f"Broker {slow} answers slowly" in finding.sentence
    assert finding.evidence[f"request-latency-avg of broker {slow}"] >= 60


def test_three_leaders_that_are_all_slow_are_no_slow_broker(cluster: Cluster, topic: str) -> None:
    with (
        cluster.faults.delay_ack(topic=topic, delay_ms=50),
        ottla.Producer(cluster.bootstrap_servers, linger_ms=0) as producer,
    ):
        wait_for_each_until(producer, topic, lambda found: found == [Limit.ONE_BY_ONE], result)


def test_records_that_are_sent_again_are_told_with_the_reason(cluster: Cluster, topic: str) -> None:
    with ottla.Producer(cluster.bootstrap_servers, linger_ms=0, retry_backoff_ms=1) as producer:
        with cluster.faults.refuse(topic=topic, every=3):
            for _ in range(20):
                producer.send(topic, b"v").result(30)
        finding = next(each for each in producer.diagnosis().findings if each.limit is Limit.RETRIES)
    assert "The last reason: NOT_ENOUGH_REPLICAS from broker" in finding.sentence


def test_far_brokers_with_one_request_in_flight_want_more(cluster: Cluster, topic: str) -> None:
    settings: Any = {"max_in_flight_requests_per_connection": 1, "buffer_memory": 2_000_000}
    limited = [Limit.FEW_IN_FLIGHT, Limit.FULL_BUFFER]
    with (
        ottla.Producer(cluster.bootstrap_servers, **settings) as producer,
        cluster.faults.delay_ack(topic=topic, delay_ms=50),
    ):
        found = send_until(producer, topic, lambda found: found == limited)
    assert found.findings[0].setting == "max.in.flight.requests.per.connection"


def test_brokers_that_answer_late_while_batches_fill_are_told(cluster: Cluster, topic: str) -> None:
    with (
        cluster.faults.delay_ack(topic=topic, delay_ms=50),
        ottla.Producer(cluster.bootstrap_servers) as producer,
    ):
        found = send_until(producer, topic, lambda found: Limit.SLOW_ANSWERS in found)
    finding = next(each for each in found.findings if each.limit is Limit.SLOW_ANSWERS)
    assert finding.evidence["request-latency-avg"] >= 50
    assert finding.evidence["requests in flight"] >= 2.5


@pytest.mark.parametrize(("passed_s", "is_found"), [(0.0, True), (500.0, False)])
def test_without_acks_a_broker_that_reads_nothing_has_the_sender_behind(
    cluster: Cluster, topic: str, passed_s: float, is_found: bool
) -> None:
    """30 MB are more than sockets hold. A call waits for more than a millisecond, and for less than 50 s.

    A microsecond passes for every sixteen records: so long have batches waited in the queue.
    """
    clock = ottla.Clock(stopped=True)

    def send() -> None:
        for number in range(30_000):
            if number % 16 == 0:
                clock.advance(1e-6)
            producer.send(topic, b"v" * 1000, partition=0)

    settings: Any = {"acks": 0, "linger_ms": 0, "buffer_memory": 2_000_000, "max_block_ms": 60_000, "clock": clock}
    with ottla.Producer(cluster.bootstrap_servers, **settings) as producer:
        wait_until(producer.send(topic, b"first", partition=0).done)
        leader = cluster.leader(topic, 0)
        cluster.pause(leader)
        try:
            sending = Calling(send)
            wait_until(lambda: producer.metrics()["waiting-threads"] == 1)
        finally:
            cluster.resume(leader)
        assert sending.ended() is None
        wait_until(lambda: producer.metrics()["buffer-available-bytes"] == 2_000_000)
        clock.advance(passed_s)
        found = producer.diagnosis()
        clock.go_on()
    assert (Limit.SLOW_SENDER in [finding.limit for finding in found.findings]) == is_found, found


@pytest.mark.parametrize(
    "settings",
    [{}, {"max_in_flight_requests_per_connection": 1}, {"buffer_memory": 20_000}, {"buffer_memory": 200_000}],
)
def test_what_is_small_or_slow_limits_nobody_who_sends_little(
    cluster: Cluster, topic: str, settings: dict[str, Any]
) -> None:
    """A batch that is as good as full every second, while brokers answer late."""
    clock = ottla.Clock()
    with (
        cluster.faults.delay_ack(topic=topic, delay_ms=20),
        ottla.Producer(cluster.bootstrap_servers, linger_ms=0, clock=clock, **settings) as producer,
    ):
        producer.partitions_for(topic)
        clock.stop()
        for number in range(20):
            sent = producer.send(topic, b"v" * 12_000, partition=number % 6)
            wait_until(sent.done)
            clock.advance(1)
        found = producer.diagnosis()
        clock.go_on()
    assert found.is_certain
    assert not found, found


def test_one_record_in_two_hundred_that_is_sent_again_is_not_told(cluster: Cluster, topic: str) -> None:
    with ottla.Producer(cluster.bootstrap_servers, linger_ms=0, retry_backoff_ms=1) as producer:
        with cluster.faults.refuse(topic=topic, nth=3):
            for _ in range(200):
                producer.send(topic, b"v").result(30)
        found = limits(producer)
        assert producer.metrics()["record-retry-total"] >= 1
    assert Limit.RETRIES not in found


def test_a_buffer_of_the_size_of_a_batch_is_told(cluster: Cluster, topic: str) -> None:
    with (
        ottla.Producer(cluster.bootstrap_servers, buffer_memory=20_000) as producer,
        cluster.faults.delay_ack(topic=topic, delay_ms=20),
    ):
        (finding,) = send_until(producer, topic, lambda found: found == [Limit.SMALL_BUFFER]).findings
    assert finding.setting == "buffer.memory"
    assert isinstance(finding.value, int)
    assert finding.value > 6 * 16_384


def test_a_call_that_waits_behind_a_silent_broker_is_told(cluster: Cluster, topic: str) -> None:
    settings: Any = {"buffer_memory": 500_000, "max_block_ms": 60_000}
    with ottla.Producer(cluster.bootstrap_servers, **settings) as producer:
        producer.send(topic, b"first", partition=0).result(30)
        leader = cluster.leader(topic, 0)
        cluster.pause(leader)
        try:
            sending = Calling(lambda: [producer.send(topic, b"v" * 1000, partition=0) for _ in range(1000)])
            wait_until(lambda: limits(producer) == [Limit.FULL_BUFFER])
        finally:
            cluster.resume(leader)
        assert sending.ended() is None


@pytest.mark.parametrize(("apart_s", "found"), [(0.001, [Limit.SMALL_BATCHES]), (1.0, [])])
def test_batches_of_one_record_want_a_longer_linger_where_many_records_come(
    cluster: Cluster, topic: str, apart_s: float, found: list[Limit]
) -> None:
    """A record for each partition every millisecond, or every second; nobody waits for one of them."""
    clock = ottla.Clock()
    with ottla.Producer(cluster.bootstrap_servers, linger_ms=0, clock=clock) as producer:
        producer.partitions_for(topic)
        clock.stop()
        for _ in range(40):
            sent = [producer.send(topic, b"v", partition=partition) for partition in range(6)]
            wait_until(lambda sent=sent: all(delivery.done() for delivery in sent))  # type: ignore[misc]
            clock.advance(apart_s)
        diagnosis = producer.diagnosis()
        clock.go_on()
    assert diagnosis.is_certain
    assert [finding.limit for finding in diagnosis.findings] == found
    assert [finding.setting for finding in diagnosis.findings] == ["linger.ms"] * len(found)


@pytest.mark.parametrize(("passed_s", "found"), [(0.002, [Limit.COMPRESSION]), (50.0, [])])
def test_compression_is_held_against_the_time_that_passes(
    cluster: Cluster, topic: str, passed_s: float, found: list[Limit]
) -> None:
    """Twenty times 20 KB at level 19 take more than a millisecond of any processor, and less than 25 s."""
    clock = ottla.Clock(stopped=True)
    settings: Any = {"compression_type": "zstd", "compression_zstd_level": 19, "linger_ms": 0, "clock": clock}
    with ottla.Producer(cluster.bootstrap_servers, **settings) as producer:
        text = b"".join(b"%d, " % (number * number) for number in range(5_000))
        for number in range(20):
            sent = producer.send(topic, text[number * 100 : 20_000 + number * 100])
            wait_until(sent.done)
        clock.advance(passed_s)
        diagnosis = producer.diagnosis()
        clock.go_on()
    assert diagnosis.is_certain
    assert [finding.limit for finding in diagnosis.findings] == found
    assert [finding.value for finding in diagnosis.findings] == [1] * len(found)


def test_a_quota_is_told(own_kafka_cluster: ottla.Cluster) -> None:
    cluster = own_kafka_cluster
    cluster.create_topic("orders", partitions=1)
    limit(cluster.bootstrap_servers, "busy", producer_byte_rate=300_000)
    found = {}
    for client_id in ("busy", "calm"):
        with ottla.Producer(cluster.bootstrap_servers, client_id=client_id, linger_ms=0) as producer:
            # 3,000,000 bytes are allowed in ten seconds; what is beyond them is paused for.
            for _ in range(20):
                producer.send("orders", bytes(160_000)).result(60)
            found[client_id] = limits(producer)
    assert Limit.QUOTA in found["busy"]
    assert Limit.QUOTA not in found["calm"]


# ---- the log ----------------------------------------------------------------------------------------------------


def test_the_log_says_a_finding_once_when_it_appears_and_once_when_it_is_gone(
    cluster: Cluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.producer")
    clock = ottla.Clock()
    settings: Any = {"client_id": "orders", "retry_backoff_ms": 1, "linger_ms": 0, "clock": clock}

    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.getMessage().startswith("orders: ")]

    with ottla.Producer(cluster.bootstrap_servers, **settings) as producer:

        def pass_samples(count: int) -> None:
            """Twelve records in each; they are not waited for one by one, and seconds lie between them."""
            for _ in range(count):
                for _ in range(12):
                    producer.send(topic, b"v").result(30)
                    clock.advance(3)

        pass_samples(2)
        assert told() == []
        with cluster.faults.refuse(topic=topic, every=3):
            pass_samples(4)
        (appeared,) = told()
        assert "of the records sent had to be sent again" in appeared
        pass_samples(6)
        assert told() == [appeared, "orders: no longer: records are sent again"]


def test_an_idle_producer_and_one_that_has_just_begun_log_nothing(
    cluster: Cluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.producer")
    clock = ottla.Clock()
    with ottla.Producer(cluster.bootstrap_servers, client_id="idle", clock=clock) as producer:
        with cluster.faults.refuse(topic=topic, nth=1):
            producer.send(topic, b"v").result(30)
        for _ in range(5):
            clock.advance(60)
            producer.partitions_for(topic)
        producer.send(topic, b"v").result(30)
    assert [record.getMessage() for record in caplog.records if "idle: " in record.getMessage()] == []


def test_a_diagnosis_that_fails_costs_no_record(
    cluster: Cluster, topic: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(log: DiagnosisLog, diagnosis: Diagnosis) -> None:
        raise ZeroDivisionError("figures that nobody has thought of")

    monkeypatch.setattr(DiagnosisLog, "look", fail)
    caplog.set_level(logging.INFO, "ottla.producer")
    clock = ottla.Clock()
    with ottla.Producer(cluster.bootstrap_servers, client_id="orders", clock=clock) as producer:
        for _ in range(3):
            producer.send(topic, b"v").result(30)
            clock.advance(40)
        assert producer.send(topic, b"v").result(30).offset >= 0
    assert "the figures of orders could not be diagnosed" in caplog.text


def test_a_finding_that_comes_and_goes_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.producer")
    finding = Finding(Limit.QUOTA, "A quota holds it back.", {}, None, None, 1.0)
    there, away = Diagnosis((finding,), "", is_certain=True), Diagnosis((), "", is_certain=True)
    unsure = Diagnosis((), "", is_certain=False)
    log = DiagnosisLog("orders")
    for diagnosis in (there, away, there, unsure, unsure, unsure, away, there):
        log.look(diagnosis)
    assert caplog.messages == ["orders: A quota holds it back."]
    for diagnosis in (away, unsure, away, away, there):
        log.look(diagnosis)
    assert caplog.messages[1:] == ["orders: no longer: held back by a quota", "orders: A quota holds it back."]
