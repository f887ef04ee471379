"""Which partition a record goes to: `send` and whole columns decide alike, by every built-in partitioner."""

from __future__ import annotations

import itertools
import zlib
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records.append import Appender
from ottla.records.encode_columns import StickyPartition, encode_stream
from ottla.records.partitions import PartitionLoad
from ottla.records.plain import partition_for_key

COUNT = 7
keys = st.lists(st.none() | st.binary(max_size=40), min_size=1, max_size=60)


class NoHooks:
    def wake(self):
        pass


def appender(**settings):
    defaults = {"batch_size": 1000, "max_request_size": 1 << 20, "buffer_memory": 1 << 28, "linger_us": 5000}
    made = Appender(**{**defaults, **settings}, hooks=NoHooks())
    made.set_topic("flights", COUNT)
    return made


def sent(made, given_keys, value=b"v"):
    return [made.send("flights", value, key).partition for key in given_keys]


def encoded(given_keys, *, value=b"v", batch_size=1000, **settings):
    """The partition of each row, as columns place them."""
    table = pa.table({"k": pa.array(given_keys, pa.binary()), "v": [value] * len(given_keys)})
    where = [-1] * len(given_keys)
    steps = encode_stream(
        table, topic="flights", partition_count=COUNT, key="k", value="v", batch_size=batch_size, **settings
    )
    for batch in itertools.chain.from_iterable(steps):
        rows = range(batch.first_row, batch.first_row + batch.record_count) if batch.rows is None else batch.rows
        for row in rows:
            where[row] = batch.partition
    return where


@given(keys)
def test_keys_are_placed_by_murmur2_unless_said_otherwise(given_keys):
    for partitions in (sent(appender(), given_keys), encoded(given_keys)):
        for key, partition in zip(given_keys, partitions, strict=True):
            assert key is None or partition == partition_for_key(key, COUNT)


@given(keys)
def test_consistent_random_places_keys_by_the_crc_of_zlib(given_keys):
    made = appender(partitioner="consistent_random")
    for partitions in (sent(made, given_keys), encoded(given_keys, partitioner="consistent_random")):
        for key, partition in zip(given_keys, partitions, strict=True):
            assert not key or partition == zlib.crc32(key) % COUNT


def test_consistent_random_takes_an_empty_key_for_none():
    made = appender(partitioner="consistent_random")
    assert len(set(sent(made, [b""] * 500))) > 1
    assert len(set(encoded([b""] * 500, partitioner="consistent_random"))) > 1
    assert len(set(sent(appender(), [b""] * 500))) == 1


@pytest.mark.parametrize("settings", [{"partitioner": "uniform_sticky"}, {"ignore_keys": True}])
def test_keys_that_are_ignored_place_nothing(settings):
    given_keys = [b"%d" % (i % 3) for i in range(300)]
    for partitions in (sent(appender(**settings), given_keys), encoded(given_keys, **settings)):
        places = {key: {p for k, p in zip(given_keys, partitions, strict=True) if k == key} for key in given_keys}
        assert all(len(found) > 1 for found in places.values())


def test_round_robin_gives_every_record_to_the_next_partition_whatever_its_key():
    given_keys = [b"same", None] * 50
    made = appender(partitioner="round_robin")
    assert sent(made, given_keys) == [i % COUNT for i in range(100)]
    found = encoded(given_keys, partitioner="round_robin", sticky=StickyPartition(COUNT - 1))
    assert found == [i % COUNT for i in range(100)]


def test_round_robin_goes_on_where_the_last_table_stopped():
    sticky = StickyPartition(COUNT - 1)
    found = [encoded([None] * 5, partitioner="round_robin", sticky=sticky) for _ in range(3)]
    assert list(itertools.chain(*found)) == [i % COUNT for i in range(15)]


def test_an_explicit_partition_takes_no_turn():
    made = appender(partitioner="round_robin")
    made.send("flights", b"v", partition=5)
    assert sent(made, [None] * 3) == [0, 1, 2]


def test_shares_follow_the_load():
    load = PartitionLoad((1, 4, 5), (6, 7, 9))
    made = appender(seed=3)
    made.set_load("flights", load)
    by_send = Counter(sent(made, [None] * 40_000, b"x" * 90))
    sticky = StickyPartition(0, seed=3)
    sticky.load = load
    by_table = Counter(encoded([None] * 40_000, value=b"x" * 90, sticky=sticky))
    for found in (by_send, by_table):
        assert set(found) == {1, 4, 5}
        total = found.total()
        assert found[1] / total == pytest.approx(6 / 9, abs=0.03)
        assert found[4] / total == pytest.approx(1 / 9, abs=0.03)
        assert found[5] / total == pytest.approx(2 / 9, abs=0.03)


def test_a_partition_the_load_leaves_out_is_left_at_once_and_keys_stay():
    made = appender(batch_size=1 << 20)
    [before] = sent(made, [None])
    others = tuple(p for p in range(COUNT) if p != before)
    made.set_load("flights", PartitionLoad(others, tuple(range(1, COUNT))))
    assert sent(made, [None])[0] != before
    key = next(b"%d" % i for i in itertools.count() if partition_for_key(b"%d" % i, COUNT) == before)
    assert sent(made, [key]) == [before]
    made.set_load("flights", None)
    assert set(sent(made, [None] * 5000, b"x" * 10_000)) == set(range(COUNT))


def test_round_robin_passes_over_what_the_load_leaves_out():
    load = PartitionLoad((1, 4), (1, 2))
    made = appender(partitioner="round_robin")
    made.set_load("flights", load)
    sticky = StickyPartition(0)
    sticky.load = load
    for found in (
        sent(made, [None] * 40),
        encoded([None] * 40, partitioner="round_robin", sticky=sticky),
    ):
        assert Counter(found) == {1: 20, 4: 20}


def test_a_load_of_more_partitions_than_are_known_is_not_taken():
    made = appender()
    made.set_load("flights", PartitionLoad((COUNT,), (1,)))
    assert max(sent(made, [None] * 5000, b"x" * 1000)) < COUNT
    made.set_load("flights", PartitionLoad((COUNT - 1,), (1,)))
    made.set_topic("flights", COUNT - 1)
    assert max(sent(made, [None] * 5000, b"x" * 1000)) < COUNT - 1


@pytest.mark.parametrize(("partitions", "frequencies"), [((), ()), ((1,), (0,)), ((1, 2), (1,))])
def test_a_load_that_says_nothing_is_refused(partitions, frequencies):
    with pytest.raises(ValueError, match="running sums"):
        PartitionLoad(partitions, frequencies)


def test_a_partitioner_nobody_knows_is_refused():
    with pytest.raises(ValueError, match="no partitioner 'sticky'"):
        appender(partitioner="sticky")
