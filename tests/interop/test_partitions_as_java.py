"""A million keys: where Java's own classes put each of them, and where `send` and `send_table` do.

One run of a JVM on a source file of its own: `java PartitionsForKeys.java` with Kafka's jars on the class path.
"""

from __future__ import annotations

import itertools
import struct
from array import array
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from ottla.records.append import Appender
from ottla.records.encode_columns import encode_stream
from ottla.records.plain import murmur2

pytestmark = pytest.mark.kafka

_SOURCE = Path(__file__).with_name("PartitionsForKeys.java")
_KEYS = 1_000_000
_PARTITIONS = 97
_LONGEST = 40


class NoHooks:
    def wake(self) -> None: ...


@pytest.fixture(scope="module")
def keys() -> list[bytes]:
    """Every length from 0 on, random bytes (above 127, too) and what people take for keys."""
    random = Random(794)
    alike = [b"%d" % number for number in range(_KEYS // 4)]
    alike += [b"customer-%08d" % number for number in range(_KEYS // 4)]
    return alike + [random.randbytes(number % (_LONGEST + 1)) for number in range(_KEYS - len(alike))]


@pytest.fixture(scope="module")
def by_java(keys: list[bytes], java: Any) -> tuple[list[int], list[int]]:
    """Java's hash and partition of each key."""
    given = b"".join(itertools.chain.from_iterable((struct.pack(">i", len(key)), key) for key in keys))
    said: bytes = java.run(str(_SOURCE), str(_PARTITIONS), given=given)
    found = array("i", said)
    found.byteswap()
    assert len(found) == 2 * len(keys)
    return found[::2].tolist(), found[1::2].tolist()


def test_send_places_a_million_keys_as_java_does(keys: list[bytes], by_java: tuple[list[int], list[int]]) -> None:
    appender = Appender(
        batch_size=16384, max_request_size=1 << 20, buffer_memory=1 << 30, linger_us=5000, hooks=NoHooks()
    )
    appender.set_topic("flights", _PARTITIONS)
    send = appender.send
    assert [send("flights", None, key).partition for key in keys] == by_java[1]


def test_send_table_places_a_million_keys_as_java_does(keys: list[bytes], by_java: tuple[list[int], list[int]]) -> None:
    table = pa.table({"key": pa.array(keys, pa.binary())})
    found = array("i", bytes(4 * len(keys)))
    for batch in _batches(table):
        rows = range(batch.first_row, batch.first_row + batch.record_count) if batch.rows is None else batch.rows
        for row in rows:
            found[row] = batch.partition
    assert found.tolist() == by_java[1]


def test_the_plain_twin_hashes_as_java_does(keys: list[bytes], by_java: tuple[list[int], list[int]]) -> None:
    assert [murmur2(key) for key in keys[::20]] == by_java[0][::20]


def _batches(table: pa.Table) -> Iterator[Any]:
    steps = encode_stream(
        table, topic="flights", partition_count=_PARTITIONS, key="key", value="key", batch_size=1 << 20
    )
    return itertools.chain.from_iterable(steps)
