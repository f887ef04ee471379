from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import UserMistake
from ottla.spark.limits import Limit
from ottla.spark.offset_ranges import OffsetRange, Place, pack_ranges, place_limit, plan_ranges, split_ranges

PLACES: list[Place] = [("flights", 0), ("flights", 1), ("flights", 2)]
FIRST: dict[Place, int] = {("flights", 0): 0, ("flights", 1): 10, ("flights", 2): 7}
END: dict[Place, int] = {("flights", 0): 100, ("flights", 1): 40, ("flights", 2): 7}


def placed(limit: Limit, *, by_time: dict[Place, int] | None = None, fail_on_data_loss: bool = True) -> list[int]:
    found = place_limit(limit, PLACES, FIRST, END, by_time or {}, fail_on_data_loss=fail_on_data_loss)
    return [found[place] for place in PLACES]


def test_words_mean_the_ends_of_every_partition() -> None:
    assert placed(Limit("startingOffsets", word="earliest")) == [0, 10, 7]
    assert placed(Limit("endingOffsets", word="latest")) == [100, 40, 7]


def test_given_offsets_are_kept_to_and_sentinels_mean_the_ends() -> None:
    assert placed(Limit("startingOffsets", offsets={"flights": {0: 5, 1: -2, 2: -1}})) == [5, 10, 7]


def test_a_time_means_the_first_record_as_young() -> None:
    by_time = {("flights", 0): 17, ("flights", 1): 12, ("flights", 2): -1}
    assert placed(Limit("endingTimestamp", time_ms=5, or_end=True), by_time=by_time) == [17, 12, 7]
    with pytest.raises(UserMistake) as refused:
        placed(Limit("startingTimestamp", time_ms=5), by_time=by_time)
    assert "startingTimestamp asks for records from 5 ms on, and partition 2 of flights has none" in str(refused.value)
    assert "startingOffsetsByTimestampStrategy=latest" in str(refused.value)


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        (
            Limit("startingOffsets", offsets={"flights": {0: 5}}),
            "startingOffsets names partitions [0] of flights, and [0, 1, 2] are to be read: it must name exactly those",
        ),
        (
            Limit("endingOffsets", offsets={"flights": {0: -1, 1: -1, 2: -1}, "other": {0: 1}}),
            "names partitions [0] of other, and [] are to be read",
        ),
        (
            Limit("startingOffsetsByTimestamp", times_ms={"flights": {0: 5, 1: 5}}),
            "startingOffsetsByTimestamp names partitions [0, 1] of flights",
        ),
        (
            Limit("startingOffsets", offsets={"flights": {0: 0, 1: 9, 2: 7}}),
            "asks for offset 9 of partition 1 of flights, which has the offsets from 10 to 40",
        ),
        (
            Limit("endingOffsets", offsets={"flights": {0: 101, 1: 10, 2: 7}}),
            "set failOnDataLoss=false to read what there is",
        ),
    ],
)
def test_what_cannot_be_read_is_named(limit: Limit, message: str) -> None:
    with pytest.raises(UserMistake) as refused:
        placed(limit)
    assert message in str(refused.value)


def test_without_fail_on_data_loss_what_there_is_is_read() -> None:
    limit = Limit("startingOffsets", offsets={"flights": {0: 200, 1: 0, 2: 7}})
    assert placed(limit, fail_on_data_loss=False) == [100, 10, 7]


def test_partitions_with_nothing_to_read_have_no_task() -> None:
    assert plan_ranges(FIRST, END) == [OffsetRange("flights", 0, 0, 100), OffsetRange("flights", 1, 10, 40)]


def test_a_start_behind_the_end_is_said() -> None:
    with pytest.raises(UserMistake, match=r"The start \(3\) lies beyond the end \(2\) in partition 0 of planes"):
        plan_ranges({("planes", 0): 3}, {("planes", 0): 2})


@given(
    sizes=st.lists(st.integers(1, 1_000_000), min_size=0, max_size=6),
    minimum=st.integers(0, 40),
    most=st.none() | st.integers(10_000, 2_000_000),
    start=st.integers(0, 2**40),
)
def test_pieces_cover_every_offset_once_and_are_as_many_and_as_small_as_asked(
    sizes: list[int], minimum: int, most: int | None, start: int
) -> None:
    ranges = [OffsetRange("t", partition, start, start + size) for partition, size in enumerate(sizes)]
    pieces = split_ranges(ranges, minimum, most)
    assert len(pieces) >= min(minimum, sum(sizes))
    assert all(0 < piece.end - piece.start <= (most or piece.end) for piece in pieces)
    for span in ranges:
        mine = [piece for piece in pieces if piece.partition == span.partition]
        assert mine[0].start == span.start
        assert mine[-1].end == span.end
        assert all(left.end == right.start for left, right in pairwise(mine))


def test_small_ranges_share_tasks_where_there_would_be_very_many() -> None:
    ranges = [OffsetRange("t", partition, 0, 5) for partition in range(2000)]
    packs = pack_ranges(ranges)
    assert [span for pack in packs for span in pack] == ranges
    assert 64 <= len(packs) <= 80
    assert len(pack_ranges(ranges, minimum=1000)) >= 1000
    assert all(len(pack) == 1 for pack in pack_ranges(ranges, minimum=2000))
    assert all(sum(span.end - span.start for span in pack) <= 10 for pack in pack_ranges(ranges, most_records=10))
    assert [len(pack) for pack in pack_ranges(ranges[:64])] == [1] * 64
    assert pack_ranges([]) == []


def test_large_ranges_keep_tasks_of_their_own() -> None:
    ranges = [OffsetRange("t", partition, 0, 1001 if partition % 2 else 3) for partition in range(200)]
    packs = pack_ranges(ranges)
    assert [span for pack in packs for span in pack] == ranges
    assert all(len(pack) == 1 for pack in packs if any(span.end > 1000 for span in pack))
    assert all(sum(span.end - span.start for span in pack) <= 1001 for pack in packs)
