from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import UserMistake
from ottla.spark.offset_ranges import OffsetRange, Place
from ottla.spark.stream_offsets import (
    beginnings,
    consumer_lag,
    count_available,
    from_json,
    plan_micro_batch,
    share_out,
    to_json,
)


def test_offsets_are_kept_as_sparks_own_source_keeps_them_and_in_order() -> None:
    offsets: dict[Place, int] = {("b", 10): 3, ("b", 9): 2, ("a", 0): 23}
    assert json.dumps(to_json(offsets)) == '{"a": {"0": 23}, "b": {"9": 2, "10": 3}}'
    assert from_json(json.loads('{"b":{"10":3,"9":2},"a":{"0":23}}')) == offsets


@pytest.mark.parametrize("told", [{"index": 5}, {"t": {"zero": 1}}, {"t": {"0": None}}])
def test_a_checkpoint_of_another_source_is_refused(told: dict[str, object]) -> None:
    with pytest.raises(UserMistake, match="give this query a checkpoint of its own"):
        from_json(told)


offsets_of_partitions = st.lists(st.tuples(st.integers(0, 2**50), st.integers(0, 10_000)), min_size=1, max_size=8)


@given(parts=offsets_of_partitions, most=st.integers(1, 30_000))
def test_a_micro_batch_shares_its_size_out_and_starves_nobody(parts: list[tuple[int, int]], most: int) -> None:
    begin: dict[Place, int] = {("t", number): first for number, (first, _) in enumerate(parts)}
    latest: dict[Place, int] = {("t", number): first + size for number, (first, size) in enumerate(parts)}
    end = share_out(begin, latest, most)
    assert end.keys() == latest.keys()
    for place, offset in end.items():
        assert begin[place] <= offset <= latest[place]
        assert offset > begin[place] or latest[place] == begin[place]
    taken = count_available(begin, end)
    # Everybody gets at least one, which may come on top.
    assert taken <= max(most, 0) + len(parts)
    assert taken >= min(count_available(begin, latest), most) - len(parts)


def test_shares_go_by_what_each_partition_has() -> None:
    begin: dict[Place, int] = {("t", 0): 0, ("t", 1): 100, ("t", 2): 5}
    latest: dict[Place, int] = {("t", 0): 900, ("t", 1): 200, ("t", 2): 5}
    assert share_out(begin, latest, 100) == {("t", 0): 90, ("t", 1): 110, ("t", 2): 5}
    assert share_out(begin, latest, 1000) == latest


def test_new_partitions_begin_with_their_first_record() -> None:
    start: dict[Place, int] = {("t", 0): 5, ("t", 2): 1}
    latest: dict[Place, int] = {("t", 0): 9, ("t", 1): 4, ("t", 2): 9}
    first: dict[Place, int] = {("t", 0): 0, ("t", 1): 0, ("t", 2): 3}
    assert beginnings(start, latest, first) == {("t", 0): 5, ("t", 1): 0, ("t", 2): 3}
    ranges, losses = plan_micro_batch(start, latest, first)
    assert ranges == [OffsetRange("t", 0, 5, 9), OffsetRange("t", 1, 0, 4), OffsetRange("t", 2, 3, 9)]
    assert losses == ["offsets 1 to 2 of partition 2 of t are gone"]


@pytest.mark.parametrize(
    ("start", "end", "first", "ranges", "loss"),
    [
        ({0: 5}, {}, {}, [], "partition 0 of t is gone"),
        ({0: 5}, {0: 9}, {}, [], "partition 0 of t is gone"),
        ({0: 9}, {0: 4}, {0: 0}, [], "partition 0 of t ends at offset 4, and 9 was reached before"),
        ({0: 1}, {0: 4}, {0: 9}, [], "offsets 1 to 3 of partition 0 of t are gone"),
        ({}, {0: 4}, {0: 2}, [(2, 4)], "offsets 0 to 1 of partition 0 of t are gone"),
        ({0: 4}, {0: 4}, {0: 9}, [], None),
        ({0: 4}, {0: 4}, {}, [], None),
    ],
)
def test_every_loss_is_told(
    start: dict[int, int], end: dict[int, int], first: dict[int, int], ranges: list[tuple[int, int]], loss: str | None
) -> None:
    def places(offsets: dict[int, int]) -> dict[Place, int]:
        return {("t", partition): offset for partition, offset in offsets.items()}

    planned, losses = plan_micro_batch(places(start), places(end), places(first))
    assert [(span.start, span.end) for span in planned] == ranges
    assert losses == ([] if loss is None else [loss])


def test_lag_is_what_progress_shows_between_latest_and_end() -> None:
    source = {"latestOffset": '{"t": {"0": 9, "1": 4}}', "endOffset": '{"t": {"0": 5}}'}
    other = {"latestOffset": {"u": {"0": 3}}, "endOffset": {"u": {"0": 3}}}
    assert consumer_lag({"sources": [source, other]}) == {"t": {"0": 4, "1": 4}, "u": {"0": 0}}
    assert consumer_lag({"sources": [{"latestOffset": None, "endOffset": None}]}) == {}
    assert consumer_lag(None) == {}
