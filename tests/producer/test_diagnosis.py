"""What is said of figures: each finding with the figures that bring it about, and without them."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.producer.diagnosis import REQUESTS_MIN, Diagnosis, Limit, NodeSeen, Observed, diagnose
from ottla.producer.settings import ProducerSettings


def said(settings: dict[str, Any] | None = None, **seen: Any) -> Diagnosis:
    """The diagnosis of a producer that sends full batches as fast as brokers take them, but for `seen`."""
    figures: dict[str, Any] = {
        "seconds": 10.0,
        "requests": 1_000,
        "batches": 6_000,
        "records": 960_000,
        "bytes": 6_000 * 16_000,
        "queue_ms_total": 6_000 * 3.0,
        "partitions": 6,
        "nodes": {1: NodeSeen(500, 500 * 2.0, 0.0), 2: NodeSeen(500, 500 * 2.1, 0.0)},
        "buffer_available": 30_000_000,
        **seen,
    }
    return diagnose(Observed(**figures), ProducerSettings({"bootstrap.servers": "one:9092", **(settings or {})}))


def limits(diagnosis: Diagnosis) -> list[Limit]:
    return [finding.limit for finding in diagnosis.findings]


def tried(diagnosis: Diagnosis) -> dict[str | None, Any]:
    return {finding.setting: finding.value for finding in diagnosis.findings}


def test_a_producer_that_keeps_up_is_limited_by_the_application() -> None:
    found = said()
    assert not found
    assert found.is_certain
    assert str(found) == (
        "Nothing in the producer limits it: it sends what the application gives it, 96,000 records/s, and send waits "
        "for room in buffer.memory for 0 % of the time."
    )


def test_of_too_few_requests_nothing_is_said() -> None:
    found = said(requests=REQUESTS_MIN - 1, flush_s=10.0, retried=9_000)
    assert not found
    assert not found.is_certain
    assert "9 Produce requests, and 10 are needed" in str(found)


def test_a_producer_that_has_sent_nothing_has_no_averages() -> None:
    found = said(seconds=0.0, requests=0, batches=0, records=0, bytes=0, queue_ms_total=0.0, partitions=0, nodes={})
    assert not found.is_certain


PACED: dict[str, Any] = {
    # Ten records a second for ten seconds.
    "requests": 100,
    "batches": 100,
    "records": 100,
    "bytes": 100 * 170,
    "queue_ms_total": 100 * 5.0,
    "nodes": {1: NodeSeen(100, 100 * 1.0, 0.0)},
}


@pytest.mark.parametrize("linger_ms", [0, 5])
@pytest.mark.parametrize("waits", [0, 100])
def test_a_paced_producer_has_small_batches_and_nothing_is_wrong(linger_ms: int, waits: int) -> None:
    found = said({"linger.ms": linger_ms}, **PACED, waits=waits, lone_waits=waits)
    assert found.is_certain
    assert limits(found) == []
    assert "10 records/s" in str(found)


def test_small_batches_of_fast_records_want_a_longer_linger() -> None:
    many = {"requests": 30_000, "batches": 40_000, "records": 80_000, "bytes": 40_000 * 311, "queue_ms_total": 1_000.0}
    found = said({"linger.ms": 0}, **many)
    assert limits(found) == [Limit.SMALL_BATCHES]
    assert tried(found) == {"linger.ms": 20}
    assert "batch-size-avg is 311 bytes" in str(found)
    assert found.findings[0].evidence["batch-size-avg"] == 311
    # 8,000 records/s in 600 partitions: in 100 ms hardly more than one comes to each.
    assert limits(said({"linger.ms": 0}, **many, partitions=600)) == []
    # Each of them is waited for: with a longer linger its caller would only wait longer.
    assert limits(said({"linger.ms": 0}, **many, waits=80_000)) == []


MANY: dict[str, Any] = {
    # 20,000 records in a second, two in each batch.
    "seconds": 1.0,
    "requests": 5_000,
    "batches": 10_000,
    "records": 20_000,
    "bytes": 10_000 * (61 + 2 * 100),
    "queue_ms_total": 1_000.0,
}


@pytest.mark.parametrize(
    ("partitions", "record_bytes", "linger_ms", "records"),
    [
        (2, 100, 5, "50"),  # ten times as large, and more, is enough
        (10, 100, 10, "20"),
        (100, 100, 100, "20"),
        (2, 2_000, 5, "8.2"),  # eight records fill it
        (250, 100, 100, "8"),
        (251, 100, None, ""),  # not four times as large, at 100 ms
    ],
)
def test_the_linger_to_try_is_the_shortest_that_is_worth_it(
    partitions: int, record_bytes: int, linger_ms: int | None, records: str
) -> None:
    size = 10_000 * (61 + 2 * record_bytes)
    found = said({"linger.ms": 0}, **{**MANY, "bytes": size}, partitions=partitions)
    assert tried(found) == ({} if linger_ms is None else {"linger.ms": linger_ms})
    assert linger_ms is None or f"lets about {records} records into a batch instead of 2." in str(found)


def test_requests_are_many_or_few_for_each_broker_that_answers() -> None:
    few = {**MANY, "requests": 700, "partitions": 2}
    one, three = {1: NodeSeen(700, 700.0, 0.0)}, {number: NodeSeen(233, 233.0, 0.0) for number in (1, 2, 3)}
    four = {number: NodeSeen(175, 175.0, 0.0) for number in (1, 2, 3, 4)}
    never_answered = {-1: NodeSeen(0, 0.0, 0.0)}
    assert limits(said({"linger.ms": 0}, **few, nodes=one)) == [Limit.SMALL_BATCHES]
    assert limits(said({"linger.ms": 0}, **few, nodes={**three, **never_answered})) == [Limit.SMALL_BATCHES]
    found = said({"linger.ms": 0}, **few, nodes=four)
    assert limits(found) == []
    assert "with so few requests that does no harm" in str(found)


@pytest.mark.parametrize(("waits", "found"), [(9_000, [Limit.SMALL_BATCHES]), (11_000, [])])
def test_records_that_are_waited_for_are_most_or_not(waits: int, found: list[Limit]) -> None:
    diagnosis = said({"linger.ms": 0}, **MANY, partitions=2, waits=waits)
    assert limits(diagnosis) == found
    assert ("because callers wait for single records" in str(diagnosis)) == (not found)
    # Full batches need no reason.
    assert "callers wait" not in str(said(waits=960_000))
    assert "does no harm" not in str(said())


def test_batches_that_are_small_because_linger_is_over_are_told_without_acks_too() -> None:
    found = said(
        {"linger.ms": 0, "acks": "0"},
        requests=40_000,
        batches=40_000,
        records=40_000,
        bytes=40_000 * 170,
        queue_ms_total=100.0,
        partitions=1,
        nodes={1: NodeSeen(0, 0.0, 0.0)},
    )
    assert limits(found) == [Limit.SMALL_BATCHES]


def test_without_acks_no_latency_is_known_and_none_is_told() -> None:
    found = said({"acks": "0"}, nodes={1: NodeSeen(0, 0.0, 0.0)})
    assert found.is_certain
    assert limits(found) == []


def test_a_quota_is_told_with_its_pauses() -> None:
    held_back = {1: NodeSeen(500, 1000.0, 6_000.0), 2: NodeSeen(500, 1000.0, 0.0)}
    found = said(nodes=held_back, queue_ms_total=6_000 * 800.0)
    assert limits(found) == [Limit.QUOTA]
    assert tried(found) == {"compression.type": "lz4"}
    assert "pauses of 6,000 ms in the last 10 s" in str(found)
    assert found.findings[0].evidence["produce-throttle-time-avg"] == 6.0
    assert tried(said({"compression.type": "zstd"}, nodes=held_back)) == {None: None}


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"compression.type": "zstd"}, {"compression.zstd.level": 1}),
        ({"compression.type": "zstd", "compression.zstd.level": 12}, {"compression.zstd.level": 1}),
        ({"compression.type": "zstd", "compression.zstd.level": 1}, {"compression.type": "lz4"}),
        ({"compression.type": "gzip"}, {"compression.type": "lz4"}),
        ({"compression.type": "snappy"}, {"compression.type": "lz4"}),
        ({"compression.type": "lz4", "compression.lz4.level": 12}, {"compression.lz4.level": 9}),
        ({"compression.type": "lz4"}, {None: None}),
    ],
)
def test_compression_that_takes_a_processor_is_told(settings: dict[str, Any], advice: dict[str | None, Any]) -> None:
    found = said(settings, compression_s=8.0)
    assert limits(found) == [Limit.COMPRESSION]
    assert tried(found) == advice
    assert f"Compression ({settings['compression.type']}) takes 80 % of a processor's time." in str(found)
    assert found.findings[0].weight == 0.8


def test_compression_is_why_batches_wait_where_it_takes_most_of_the_time() -> None:
    slow = {**FAR, "nodes": {1: NodeSeen(200, 200 * 240.0, 0.0)}}
    assert limits(said({"compression.type": "zstd"}, **slow, compression_s=9.0)) == [Limit.COMPRESSION]
    found = said({"compression.type": "zstd"}, **slow, compression_s=4.0)
    assert limits(found) == [Limit.SLOW_ANSWERS]
    found = said({"compression.type": "zstd"}, compression_s=4.0)
    assert limits(found) == []
    assert "Compression takes 40 % of a processor's time." in str(found)
    assert "Compression" not in str(said({"compression.type": "zstd"}, compression_s=0.5))


def test_retries_are_told_with_the_last_reason() -> None:
    found = said(retried=96_000, last_retry="NOT_ENOUGH_REPLICAS from broker 2")
    assert limits(found) == [Limit.RETRIES]
    assert "10 % of the records" in str(found)
    assert "The last reason: NOT_ENOUGH_REPLICAS from broker 2." in str(found)
    assert limits(said(retried=960)) == []


def test_one_slow_leader_of_three_is_told() -> None:
    nodes = {1: NodeSeen(300, 300 * 2.0, 0.0), 2: NodeSeen(50, 50 * 52.0, 0.0), 3: NodeSeen(300, 300 * 3.0, 0.0)}
    found = said(nodes=nodes)
    assert limits(found) == [Limit.SLOW_BROKER]
    assert tried(found) == {"partitioner.availability.timeout.ms": 104}
    assert "Broker 2 answers slowly: its request-latency-avg is 52 ms, that of the others 2.5 ms" in str(found)
    off = {"partitioner.adaptive.partitioning.enable": False}
    assert tried(said(off, nodes=nodes)) == {"partitioner.adaptive.partitioning.enable": "true"}
    # Its share of all the time that requests took, or of the time that callers waited.
    assert found.findings[0].weight == pytest.approx(2_600 / (600 + 2_600 + 900))
    full = said(nodes=nodes, buffer_wait_s=9.0, queue_ms_total=6_000 * 900.0)
    assert limits(full) == [Limit.SLOW_BROKER, Limit.FULL_BUFFER]
    assert full.findings[0].weight == 0.9
    # With a partitioner that does not ask which brokers are fast there is nothing to set.
    assert tried(said({"partitioner.class": "round_robin"}, nodes=nodes)) == {None: None}


def test_brokers_that_are_all_slow_are_no_slow_broker() -> None:
    nodes = {number: NodeSeen(100, 100 * 52.0, 0.0) for number in (1, 2, 3)}
    assert limits(said(nodes=nodes)) == []


def test_a_broker_is_not_called_slow_by_a_few_answers() -> None:
    assert limits(said(nodes={1: NodeSeen(500, 500 * 1.0, 0.0), 2: NodeSeen(9, 9 * 90.0, 0.0)})) == []


@pytest.mark.parametrize("slow_ms", [5.9, 4.0])
def test_a_few_milliseconds_make_no_slow_broker(slow_ms: float) -> None:
    assert limits(said(nodes={1: NodeSeen(500, 500 * 1.0, 0.0), 2: NodeSeen(500, 500 * slow_ms, 0.0)})) == []


FAR = {
    # One request at a time takes 50 ms, all the time; batches wait for half a second.
    "requests": 200,
    "batches": 200,
    "bytes": 200 * 16_000,
    "records": 32_000,
    "queue_ms_total": 200 * 500.0,
    "nodes": {1: NodeSeen(200, 200 * 50.0, 0.0)},
}


def test_far_brokers_want_more_requests_in_flight() -> None:
    found = said({"max.in.flight.requests.per.connection": 1}, **FAR)
    assert limits(found) == [Limit.FEW_IN_FLIGHT]
    assert tried(found) == {"max.in.flight.requests.per.connection": 5}
    assert "full batches wait 500 ms" in str(found)
    # Batches that wait for linger.ms alone, and no longer, have all the requests they need.
    found = said({"max.in.flight.requests.per.connection": 1}, **{**FAR, "queue_ms_total": 200 * 40.0})
    assert limits(found) == []


def test_batches_that_are_not_full_need_no_more_requests() -> None:
    small = {**FAR, "bytes": 200 * 8_000}
    assert limits(said({"max.in.flight.requests.per.connection": 1}, **small)) == []


def test_the_busiest_of_several_connections_is_the_one_that_waits() -> None:
    two = {**FAR, "nodes": {1: NodeSeen(200, 200 * 50.0, 0.0), 2: NodeSeen(20, 20 * 40.0, 0.0)}}
    found = said({"max.in.flight.requests.per.connection": 1}, **two)
    assert limits(found) == [Limit.FEW_IN_FLIGHT]
    assert found.findings[0].evidence["requests in flight"] == 1.0


def test_slow_answers_with_five_in_flight_want_larger_batches() -> None:
    slow = {**FAR, "nodes": {1: NodeSeen(200, 200 * 240.0, 0.0)}}
    found = said(None, **slow)
    assert limits(found) == [Limit.SLOW_ANSWERS]
    assert tried(found) == {"batch.size": 65_536}
    large = {**slow, "bytes": 200 * 500_000}
    assert tried(said({"batch.size": 524_288}, **large)) == {"compression.type": "lz4"}
    assert tried(said({"batch.size": 524_288, "compression.type": "zstd"}, **large)) == {None: None}


def test_tables_whose_batches_are_large_already_are_not_told_to_make_them_smaller() -> None:
    slow = {**FAR, "nodes": {1: NodeSeen(200, 200 * 240.0, 0.0)}, "bytes": 200 * 900_000}
    found = said(None, **slow)
    assert limits(found) == [Limit.SLOW_ANSWERS]
    assert tried(found) == {"compression.type": "lz4"}


def test_a_full_buffer_with_idle_connections_is_the_senders_doing() -> None:
    found = said(queue_ms_total=6_000 * 90.0, buffer_wait_s=6.0)
    assert limits(found) == [Limit.SLOW_SENDER, Limit.FULL_BUFFER]
    assert tried(found) == {"batch.size": 65_536, "compression.type": "lz4"}
    assert limits(said(queue_ms_total=6_000 * 90.0)) == []


def test_a_buffer_of_the_size_of_a_batch_is_too_small() -> None:
    found = said({"buffer.memory": 20_000}, bytes=6_000 * 3_000, buffer_wait_s=5.0, buffer_available=100)
    assert limits(found) == [Limit.SMALL_BUFFER]
    assert tried(found) == {"buffer.memory": 4 * 6 * 16_384}
    assert "send waits for room in it for 50 % of the time" in str(found)
    assert limits(said({"buffer.memory": 20_000}, buffer_wait_s=0.5)) == []


@pytest.mark.parametrize(
    ("partitions", "memory", "tried_out"),
    [(1, 32_000, 4 * 32_000), (6, 190_000, 4 * 190_000), (1, 33_000, None), (6, 200_000, None), (0, 33_000, None)],
)
def test_a_buffer_is_small_for_so_many_partitions(partitions: int, memory: int, tried_out: int | None) -> None:
    found = said({"buffer.memory": memory}, buffer_wait_s=5.0, partitions=partitions)
    assert limits(found) == [Limit.FULL_BUFFER if tried_out is None else Limit.SMALL_BUFFER]
    assert tried(found) == ({"compression.type": "lz4"} if tried_out is None else {"buffer.memory": tried_out})


def test_a_call_that_waits_for_room_now_is_told_before_its_wait_is_over() -> None:
    found = said(requests=0, batches=0, records=0, bytes=0, queue_ms_total=0.0, callers_waiting=1, buffer_available=9)
    assert limits(found) == [Limit.FULL_BUFFER]
    assert "a call of send waits for room in it now" in str(found)
    assert limits(said(callers_waiting=1, buffer_available=30_000_000)) == []


def test_what_fills_the_buffer_is_told_before_that_it_is_full() -> None:
    slow = {**FAR, "nodes": {1: NodeSeen(200, 200 * 240.0, 0.0)}}
    found = said(None, **slow, buffer_wait_s=9.9)
    assert limits(found) == [Limit.SLOW_ANSWERS, Limit.FULL_BUFFER]
    assert [finding.weight for finding in found.findings] == [0.99, 0.99]


ONE_BY_ONE: dict[str, Any] = {
    "requests": 1_600,
    "batches": 1_600,
    "records": 1_600,
    "bytes": 1_600 * 170,
    "queue_ms_total": 1_600 * 5.1,
    "nodes": {1: NodeSeen(1_600, 1_600 * 1.0, 0.0)},
    "waits": 1_600,
    "lone_waits": 1_600,
}


def test_who_waits_for_every_record_is_told_not_to() -> None:
    found = said(None, **ONE_BY_ONE)
    assert limits(found) == [Limit.ONE_BY_ONE]
    assert tried(found) == {"linger.ms": 0}
    assert "160 records/s, each 6.1 ms on its way" in str(found)
    assert tried(said({"linger.ms": 0}, **{**ONE_BY_ONE, "queue_ms_total": 0.0, "seconds": 1.7})) == {None: None}
    # As many records from fifty callers that wait for one each: none of them holds up the others.
    assert limits(said(None, **{**ONE_BY_ONE, "seconds": 0.2, "lone_waits": 40})) == []
    # A server with about one request under way on average: some come together, some come late.
    assert limits(said(None, **{**ONE_BY_ONE, "lone_waits": 700})) == []


def test_a_flush_behind_every_record_is_told() -> None:
    found = said(None, **{**ONE_BY_ONE, "waits": 0, "lone_waits": 0}, flush_s=9.0)
    assert limits(found) == [Limit.MANY_FLUSHES]
    assert "it takes 90 % of the time, and a batch has 1 record." in str(found)
    assert limits(said(flush_s=9.0)) == []  # the batches are full


def test_short_transactions_are_told() -> None:
    found = said(None, **{**ONE_BY_ONE, "waits": 0, "lone_waits": 0}, transaction_s=8.0)
    assert limits(found) == [Limit.SHORT_TRANSACTIONS]
    assert limits(said(transaction_s=8.0)) == []


def test_what_weighs_most_comes_first() -> None:
    found = said(retried=480_000, nodes={1: NodeSeen(1_000, 2_000.0, 9_000.0)})
    assert limits(found) == [Limit.QUOTA, Limit.RETRIES]
    assert str(found) == " ".join(finding.sentence for finding in found.findings)
    found = said(retried=768_000, nodes={1: NodeSeen(1_000, 2_000.0, 1_000.0)})
    assert limits(found) == [Limit.RETRIES, Limit.QUOTA]


_COUNTS = st.integers(0, 10**9)
# Clocks count microseconds.
_TIMES = st.integers(0, 10**12).map(lambda us: us / 1_000_000)
_SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "linger.ms": st.integers(0, 10**12),
        "batch.size": st.integers(0, 2**31 - 1),
        "buffer.memory": st.integers(0, 2**62),
        "max.request.size": st.integers(0, 2**31 - 1),
        "max.in.flight.requests.per.connection": st.integers(1, 5),
        "acks": st.sampled_from(["0", "1", "all"]),
        "compression.type": st.sampled_from(["none", "zstd"]),
        "partitioner.class": st.sampled_from(["default", "round_robin"]),
        "partitioner.adaptive.partitioning.enable": st.booleans(),
    },
)


@given(
    seen=st.builds(
        Observed,
        seconds=_TIMES,
        requests=_COUNTS,
        batches=_COUNTS,
        records=_COUNTS,
        bytes=_COUNTS,
        queue_ms_total=_TIMES,
        partitions=_COUNTS,
        nodes=st.dictionaries(st.integers(-1, 5), st.builds(NodeSeen, _COUNTS, _TIMES, _TIMES), max_size=4),
        retried=_COUNTS,
        compression_s=_TIMES,
        waits=_COUNTS,
        lone_waits=_COUNTS,
        buffer_wait_s=_TIMES,
        flush_s=_TIMES,
        transaction_s=_TIMES,
        callers_waiting=_COUNTS,
        buffer_available=_COUNTS,
    ),
    settings=_SETTINGS,
)
def test_whatever_the_figures_are_something_is_said_of_them(seen: Observed, settings: dict[str, Any]) -> None:
    """Figures are read while others count: they need not fit together."""
    read = ProducerSettings({"bootstrap.servers": "one:9092", **settings})
    found = diagnose(seen, read)
    assert str(found).endswith(".")
    assert found.is_certain or not found.findings
    assert all(0 <= finding.weight <= 1 for finding in found.findings)
    assert [finding.weight for finding in found.findings] == sorted((f.weight for f in found.findings), reverse=True)
    assert len({finding.limit for finding in found.findings}) == len(found.findings)
    for finding in found.findings:
        assert all(isfinite(value) for value in finding.evidence.values())
        if finding.setting is not None:
            # What is to be tried can be given, and is not what there is already.
            tried_out = ProducerSettings({"bootstrap.servers": "one:9092", **settings, finding.setting: finding.value})
            keyword = finding.setting.replace(".", "_")
            assert getattr(tried_out, keyword) != getattr(read, keyword)


def test_every_limit_has_a_test() -> None:
    text = Path(__file__).read_text()
    assert [limit for limit in Limit if f"[Limit.{limit.name}" not in text] == []
