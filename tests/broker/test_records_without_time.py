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
