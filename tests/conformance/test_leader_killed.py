"""A leader is killed under load and comes back: one wave of records by every way of sending, judged afterwards.

The broker that leads partition 0 of all topics is killed while four producers send; every topic needs two replicas in
sync. What was sent while it was away, to a topic that needs all three, must be refused and say so.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import ottla
from ottla.errors import DeliveryFailed, DeliveryUnknown

from ..papers import Papers
from .sides import Side
from .ways_in import settings_for

_RECORDS = 12_000
_KILLED_AT = 4_000
_CHUNK = 500
_TOPICS = ("killed-idempotent", "killed-at-least-once", "killed-table", "killed-secure")


class Wave(NamedTuple):
    """What the producers were told; `chunks` are the outcomes of `send_table`, `refused` the strict topic's error.

    `secure` came in by TLS and SASL, with idempotence; nobody knows what became of the `doubtful` values.
    """

    idempotent: list[Any]
    secure: list[Any]
    at_least_once: list[Any]
    chunks: list[pa.Table]
    refused: BaseException | None
    doubtful: list[bytes]
    accepted: list[Any]


@pytest.fixture(scope="module")
def wave(side: Side, papers: Papers) -> Wave:
    """Send, kill, send on, start again, wait until all replicas are in sync."""
    for topic in _TOPICS:
        side.create_topic(topic, 3, 3, min_insync_replicas="2")
    side.create_topic("killed-strict", 1, 3, min_insync_replicas="3")
    victim = side.leader("killed-idempotent", 0)
    idempotent, secure, at_least_once, tables = [], [], [], []
    by_sasl = settings_for(papers, "SASL_SSL", "SCRAM-SHA-512")
    killing = threading.Thread(target=side.kill, args=(victim,))
    with (
        ottla.Producer(side.bootstrap_servers, batch_size=1000, linger_ms=1) as one_copy,
        ottla.Producer(
            side.bootstrap_servers_of("SASL_SSL"), batch_size=1000, linger_ms=1, **by_sasl
        ) as one_secure_copy,
        ottla.Producer(
            side.bootstrap_servers,
            batch_size=1000,
            linger_ms=1,
            enable_idempotence=False,
            max_in_flight_requests_per_connection=1,
        ) as any_copies,
        ottla.Producer(side.bootstrap_servers, batch_size=1000) as of_tables,
    ):
        for number in range(_RECORDS):
            if number == _KILLED_AT:
                killing.start()
            if number % _CHUNK == 0:
                rows = range(number, number + _CHUNK)
                table = pa.table({"value": [b"%d" % row for row in rows], "partition": [row % 3 for row in rows]})
                tables.append(of_tables.send_table("killed-table", table, value="value", partition="partition"))
            idempotent.append(one_copy.send("killed-idempotent", b"%d" % number, partition=number % 3))
            secure.append(one_secure_copy.send("killed-secure", b"%d" % number, partition=number % 3))
            at_least_once.append(any_copies.send("killed-at-least-once", b"%d" % number, partition=number % 3))
        killing.join()
        refused, doubtful, accepted = _send_to_strict_topic(side)
    side.start(victim)
    for topic in (*_TOPICS, "killed-strict"):
        side.await_in_sync(topic, 3)
    return Wave(idempotent, secure, at_least_once, [one.result(60) for one in tables], refused, doubtful, accepted)


def _send_to_strict_topic(side: Side) -> tuple[BaseException | None, list[bytes], list[Any]]:
    """With acks=all, two of three replicas are too few; with acks=1 nobody asks.

    The leader may hear later than others that a replica is gone. Until then it appends, and cannot acknowledge: such a
    record is in doubt, and another one is sent.
    """
    side.await_in_sync("killed-strict", 2)
    doubtful: list[bytes] = []
    while True:
        value = b"refused %d" % len(doubtful)
        with ottla.Producer(side.bootstrap_servers, retries=3, linger_ms=0) as producer:
            refused = producer.send("killed-strict", value).exception(60)
        if not isinstance(refused, DeliveryUnknown) or len(doubtful) == 10:
            break
        doubtful.append(value)
    with ottla.Producer(side.bootstrap_servers, acks=1, linger_ms=0) as producer:
        accepted = [producer.send("killed-strict", b"accepted %d" % number) for number in range(3)]
    return refused, doubtful, accepted


def in_order(partition: int) -> list[bytes]:
    """What one partition holds."""
    return [b"%d" % number for number in range(partition, _RECORDS, 3)]


@pytest.mark.parametrize("way", ["idempotent", "secure"])
def test_with_idempotence_every_record_is_there_once_in_order_where_its_delivery_says(
    side: Side, wave: Wave, reading: Any, way: str
) -> None:
    assert reading.values(side, f"killed-{way}") == {partition: in_order(partition) for partition in range(3)}
    for number, delivery in enumerate(getattr(wave, way)):
        where = delivery.result(0)
        assert (where.partition, where.offset) == (number % 3, number // 3)


def test_without_idempotence_every_acked_record_is_there_and_first_copies_are_in_order(
    side: Side, wave: Wave, reading: Any
) -> None:
    assert all(delivery.exception(0) is None for delivery in wave.at_least_once)
    for partition, found in reading.values(side, "killed-at-least-once").items():
        assert list(dict.fromkeys(found)) == in_order(partition)


def test_every_row_of_a_table_is_there_once_in_order_where_its_outcome_says(
    side: Side, wave: Wave, reading: Any
) -> None:
    told = pa.concat_tables(wave.chunks)
    assert told.column("error").null_count == _RECORDS
    assert told.column("partition").to_pylist() == [number % 3 for number in range(_RECORDS)]
    assert told.column("offset").to_pylist() == [number // 3 for number in range(_RECORDS)]
    assert reading.values(side, "killed-table") == {partition: in_order(partition) for partition in range(3)}


def test_too_few_replicas_are_an_error_that_says_so(side: Side, wave: Wave, reading: Any) -> None:
    assert isinstance(wave.refused, DeliveryFailed)
    assert "NOT_ENOUGH_REPLICAS" in str(wave.refused)
    first = wave.accepted[0].result(0).offset
    assert [delivery.result(0).offset for delivery in wave.accepted] == [first, first + 1, first + 2]
    side.await_readable("killed-strict", first + 3)
    stored = reading.values(side, "killed-strict")[0]
    assert stored[first:] == [b"accepted %d" % number for number in range(3)]
    # What was told failed is not there; what is in doubt may be.
    assert set(stored[:first]) <= set(wave.doubtful)


def test_all_others_read_what_the_killed_leader_left(side: Side, wave: Wave, foreign: Any) -> None:
    expected = {partition: in_order(partition) for partition in range(3)}
    assert foreign.confluent(side, "killed-idempotent", _RECORDS) == expected
    assert foreign.kcat(side, "killed-idempotent") == expected
    assert foreign.java(side, "killed-idempotent", _RECORDS) == expected
