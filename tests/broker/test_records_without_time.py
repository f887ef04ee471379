"""Records whose producer gave them no time: a segment is not closed because the next record has one."""

from __future__ import annotations

from .world import TOPIC, World, batch_of


def test_a_record_with_a_time_goes_behind_those_without(world: World) -> None:
    world.produce(batch_of(b"timeless", timestamp_ms=-1))
    world.produce(batch_of(b"timed", timestamp_ms=1_700_000_000_000))
    assert [name for name in world.storages[1].files(f"{TOPIC}-0") if name.endswith(".log")] == [f"{0:020d}.log"]


def test_offsets_in_a_batch_count_from_zero(world: World) -> None:
    """As Apache Kafka has it; what a broker stores is numbered by itself."""
    assert world.produce(batch_of(b"a", b"b", base_offset=7)).error_code == 87
    assert world.produce(batch_of(b"a", b"b")).base_offset == 0


def test_a_segment_whose_records_have_no_times_is_closed_when_it_is_known_for_segment_ms() -> None:
    world = World(1, log_retention_check_interval_ms=1000)
    world.create_topic(segment_ms=5000)
    world.produce(batch_of(b"timeless", timestamp_ms=-1))

    def segments() -> int:
        return sum(name.endswith(".log") for name in world.storages[1].files(f"{TOPIC}-0"))

    world.pass_time(5_000)
    assert segments() == 1
    world.pass_time(2_000)
    assert segments() == 2
    # One that holds nothing stays as it is.
    world.pass_time(60_000)
    assert segments() == 2
    assert world.produce(batch_of(b"next", timestamp_ms=-1)).base_offset == 1
