"""A leader is killed under load and comes back: one wave of records by every way in and of sending, judged afterwards.

The broker that leads partition 0 of all topics is killed while all producers send; every topic needs two replicas in
sync. What was sent while it was away, to a topic that needs all three, must be refused and say so.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import ottla
from ottla.errors import DeliveryFailed, DeliveryUnknown

from ..papers import Papers
from .sides import Side
from .ways_in import renewing_early, settings_for

_RECORDS = 12_000
_KILLED_AT = 4_000
_CHUNK = 500
# More than delivery.timeout.ms.
_PATIENCE_S = 150
# Ways in, each with the mechanism by which an idempotent producer comes in; sessions of SHORT are renewed all the time.
_WAYS = {
    "PLAINTEXT": "",
    "SSL": "",
    "MUTUAL": "",
    "SASL_PLAINTEXT": "PLAIN",
    "SASL_SSL": "SCRAM-SHA-512",
    "SHORT": "OAUTHBEARER",
}
# Those by which tables come in.
_WAYS_OF_TABLES = ("PLAINTEXT", "SASL_SSL")
_TOPICS = (
    "killed-at-least-once",
    *(f"killed-{way}" for way in _WAYS),
    *(f"killed-table-{way}" for way in _WAYS_OF_TABLES),
)


class Wave(NamedTuple):
    """What the producers were told; `chunks` are the outcomes of `send_table`, `refused` the strict topic's error.

    `idempotent` and `chunks` go by ways in. Nobody knows what became of the `doubtful` values.
    """

    idempotent: dict[str, list[Any]]
    at_least_once: list[Any]
    chunks: dict[str, list[pa.Table]]
    refused: BaseException | None
    doubtful: list[bytes]
    accepted: list[Any]


@pytest.fixture(scope="module")
def wave(side: Side, papers: Papers) -> Wave:
    """Send, kill, send on, start again, wait until all replicas are in sync."""
    for topic in _TOPICS:
        side.create_topic(topic, 3, 3, min_insync_replicas="2")
    side.create_topic("killed-strict", 1, 3, min_insync_replicas="3")
    victim = side.leader("killed-PLAINTEXT", 0)
    idempotent: dict[str, list[Any]] = {way: [] for way in _WAYS}
    tables: dict[str, list[Any]] = {way: [] for way in _WAYS_OF_TABLES}
    at_least_once = []
    killing = threading.Thread(target=side.kill, args=(victim,))
    with contextlib.ExitStack() as opened:
        opened.enter_context(renewing_early())

        def came_in(way: str, **settings: Any) -> ottla.Producer:
            given = settings_for(papers, way, _WAYS[way]) | {"batch_size": 1000} | settings
            return opened.enter_context(ottla.Producer(side.bootstrap_servers_of(way), **given))

        one_copy = {way: came_in(way, linger_ms=1) for way in _WAYS}
        of_tables = {way: came_in(way) for way in _WAYS_OF_TABLES}
        any_copies = came_in(
            "PLAINTEXT", linger_ms=1, enable_idempotence=False, max_in_flight_requests_per_connection=1
        )
        for number in range(_RECORDS):
            if number == _KILLED_AT:
                killing.start()
            if number % _CHUNK == 0:
                rows = range(number, number + _CHUNK)
                table = pa.table({"value": [b"%d" % row for row in rows], "partition": [row % 3 for row in rows]})
                for way, producer in of_tables.items():
                    sent = producer.send_table(f"killed-table-{way}", table, value="value", partition="partition")
                    tables[way].append(sent)
            for way, producer in one_copy.items():
                idempotent[way].append(producer.send(f"killed-{way}", b"%d" % number, partition=number % 3))
            at_least_once.append(any_copies.send("killed-at-least-once", b"%d" % number, partition=number % 3))
        killing.join()
        refused, doubtful, accepted = _send_to_strict_topic(side)
    side.start(victim)
    for topic in (*_TOPICS, "killed-strict"):
        side.await_in_sync(topic, 3)
    chunks = {way: [one.result(60) for one in sent] for way, sent in tables.items()}
    return Wave(idempotent, at_least_once, chunks, refused, doubtful, accepted)


def _send_to_strict_topic(side: Side) -> tuple[BaseException | None, list[bytes], list[Any]]:
    """With acks=all, two of three replicas are too few; with acks=1 that does not matter.

    A leader may learn later than others that a replica is gone, or that it is the leader. Until then, it appends a
    record and cannot acknowledge it, or refuses it for another reason. Such a record is in doubt, or has failed, and
    another one is sent.
    """
    side.await_in_sync("killed-strict", 2)
    doubtful: list[bytes] = []
    for number in range(10):
        value = b"refused %d" % number
        with ottla.Producer(side.bootstrap_servers, retries=3, linger_ms=0) as producer:
            refused = producer.send("killed-strict", value).exception(_PATIENCE_S)
        if isinstance(refused, DeliveryUnknown):
            doubtful.append(value)
        elif "NOT_LEADER_OR_FOLLOWER" not in str(refused):
            break
    with ottla.Producer(side.bootstrap_servers, acks=1, linger_ms=0) as producer:
        accepted = [producer.send("killed-strict", b"accepted %d" % number) for number in range(3)]
    return refused, doubtful, accepted


def in_order(partition: int) -> list[bytes]:
    """What one partition holds."""
    return [b"%d" % number for number in range(partition, _RECORDS, 3)]


@pytest.mark.parametrize("way", _WAYS)
def test_with_idempotence_every_record_is_there_once_in_order_where_its_delivery_says(
    side: Side, wave: Wave, reading: Any, way: str
) -> None:
    assert reading.values(side, f"killed-{way}") == {partition: in_order(partition) for partition in range(3)}
    for number, delivery in enumerate(wave.idempotent[way]):
        where = delivery.result(0)
        assert (where.partition, where.offset) == (number % 3, number // 3)


def test_without_idempotence_every_acked_record_is_there_and_first_copies_are_in_order(
    side: Side, wave: Wave, reading: Any
) -> None:
    assert all(delivery.exception(0) is None for delivery in wave.at_least_once)
    for partition, found in reading.values(side, "killed-at-least-once").items():
        assert list(dict.fromkeys(found)) == in_order(partition)


@pytest.mark.parametrize("way", _WAYS_OF_TABLES)
def test_every_row_of_a_table_is_there_once_in_order_where_its_outcome_says(
    side: Side, wave: Wave, reading: Any, way: str
) -> None:
    told = pa.concat_tables(wave.chunks[way])
    assert told.column("error").null_count == _RECORDS
    assert told.column("partition").to_pylist() == [number % 3 for number in range(_RECORDS)]
    assert told.column("offset").to_pylist() == [number // 3 for number in range(_RECORDS)]
    assert reading.values(side, f"killed-table-{way}") == {partition: in_order(partition) for partition in range(3)}


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
    assert foreign.confluent(side, "killed-PLAINTEXT", _RECORDS) == expected
    assert foreign.kcat(side, "killed-PLAINTEXT") == expected
    assert foreign.java(side, "killed-PLAINTEXT", _RECORDS) == expected
