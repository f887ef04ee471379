from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import UserMistake
from ottla.spark.offset_ranges import OffsetRange, plan_ranges, split_ranges
from ottla.spark.options import SourceOptions, read_options

BOUNDS = {"flights": {0: (0, 100), 1: (10, 40), 2: (7, 7)}, "planes": {0: (0, 5)}}


def options(**given_options: str) -> SourceOptions:
    if "assign" not in given_options:
        given_options.setdefault("subscribe", "flights")
    return read_options({"kafka.bootstrap.servers": "a:1"} | given_options)


def test_every_partition_is_read_from_its_first_to_its_end_offset() -> None:
    assert plan_ranges(options(subscribe="planes,flights"), BOUNDS) == [
        OffsetRange("planes", 0, 0, 5),
        OffsetRange("flights", 0, 0, 100),
        OffsetRange("flights", 1, 10, 40),
    ]


def test_an_assignment_reads_only_its_partitions() -> None:
    assert plan_ranges(options(assign='{"flights": [1]}'), BOUNDS) == [OffsetRange("flights", 1, 10, 40)]


def test_given_offsets_are_kept_to() -> None:
    planned = plan_ranges(
        options(
            startingOffsets='{"flights": {"0": 5, "1": -2, "2": 7}}',
            endingOffsets='{"flights": {"0": 6, "1": 12, "2": -1}}',
        ),
        BOUNDS,
    )
    assert planned == [OffsetRange("flights", 0, 5, 6), OffsetRange("flights", 1, 10, 12)]


@pytest.mark.parametrize(
    ("given_options", "message"),
    [
        ({"assign": '{"flights": [3]}'}, "partition 3 of flights, which has 3 partitions"),
        ({"startingOffsets": '{"flights": {"0": 5}}'}, "names partitions [0] of flights, and [0, 1, 2] are to be read"),
        (
            {"endingOffsets": '{"flights": {"0": -1, "1": -1, "2": -1}, "other": {"0": 1}}'},
            "names partitions [0] of other, and [] are to be read",
        ),
        (
            {"startingOffsets": '{"flights": {"0": 0, "1": 9, "2": 7}}'},
            "asks for offset 9 of partition 1 of flights, which holds offsets 10 to 40",
        ),
        (
            {"assign": '{"planes": [0]}', "endingOffsets": '{"planes": {"0": 6}}'},
            "set failOnDataLoss=false to read what there is",
        ),
        (
            {
                "assign": '{"planes": [0]}',
                "startingOffsets": '{"planes": {"0": 3}}',
                "endingOffsets": '{"planes": {"0": 2}}',
            },
            "startingOffsets (3) lies beyond endingOffsets (2)",
        ),
    ],
)
def test_offsets_that_cannot_be_read_are_named(given_options: dict[str, str], message: str) -> None:
    with pytest.raises(UserMistake) as refused:
        plan_ranges(options(**given_options), BOUNDS)
    assert message in str(refused.value)


def test_without_fail_on_data_loss_what_there_is_is_read() -> None:
    planned = plan_ranges(
        options(
            assign='{"flights": [1]}',
            startingOffsets='{"flights": {"1": 0}}',
            endingOffsets='{"flights": {"1": 99}}',
            failOnDataLoss="false",
        ),
        BOUNDS,
    )
    assert planned == [OffsetRange("flights", 1, 10, 40)]


@given(
    sizes=st.lists(st.integers(1, 1_000_000), min_size=0, max_size=6),
    minimum=st.integers(0, 40),
    start=st.integers(0, 2**40),
)
def test_pieces_cover_every_offset_once_and_are_as_many_as_asked(sizes: list[int], minimum: int, start: int) -> None:
    ranges = [OffsetRange("t", partition, start, start + size) for partition, size in enumerate(sizes)]
    pieces = split_ranges(ranges, minimum)
    assert len(pieces) >= min(minimum, sum(sizes))
    assert all(piece.start < piece.end for piece in pieces)
    for span in ranges:
        mine = [piece for piece in pieces if piece.partition == span.partition]
        assert mine[0].start == span.start
        assert mine[-1].end == span.end
        assert all(left.end == right.start for left, right in pairwise(mine))
