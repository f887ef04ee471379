"""What compaction leaves of a batch, rule by rule; when a log is compacted; and that the broker does it by itself."""

from __future__ import annotations

import errno
import tracemalloc
from random import Random

import pytest

from ottla.broker.log.cleaning_round import CleaningRound
from ottla.broker.log.compaction import DELETE_HORIZON, Aborted, Pass, horizon_of, take_keys
from ottla.broker.log.end_markers import end_marker_batch
from ottla.broker.log.files import AbortedTransaction, ProducerSnapshotEntry
from ottla.broker.log.producer_state import EndMarker
from ottla.broker.topic_names import OFFSETS_TOPIC
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.records.batch_header import CorruptBatch, check_crc, read_header, stamp_offset
from ottla.records.plain import Record, decode_batches, encode_batch

from .log_world import LogWorld
from .world import TOPIC, WALL_OFFSET_US, World, records_of

NOW_MS = 50_000
WALL_MS = WALL_OFFSET_US // 1000


def passing(latest: dict[bytes, int], *, aborted: tuple[AbortedTransaction, ...] = (), **more: object) -> Pass:
    producers = more.pop("producers", ())
    return Pass(latest, Aborted(aborted), producers, now_ms=NOW_MS, delete_retention_ms=100, **more)  # type: ignore[arg-type]


def batch(*pairs: tuple[bytes | None, bytes | None], offset: int = 0, **more: object) -> bytes:
    rows = [
        Record(offset + n, 1000 + n, key, value, (("name", b"h"), ("none", None)))
        for n, (key, value) in enumerate(pairs)
    ]
    return encode_batch(rows, partition_leader_epoch=7, **more)  # type: ignore[arg-type]


def compacted(rules: Pass, content: bytes, *, keep: bool = False) -> bytes | None:
    left = rules.compact(read_header(content), content, keep=keep)
    if left is not None:
        old, new = read_header(content), read_header(left)
        check_crc(left, new)
        for field in ("base_offset", "last_offset_delta", "producer_id", "producer_epoch", "base_sequence"):
            assert getattr(old, field) == getattr(new, field)
        assert new.partition_leader_epoch == old.partition_leader_epoch
    return None if left is None else bytes(left)


def records(content: bytes) -> list[Record]:
    return [record for _, rows in decode_batches(content) for record in rows]


def test_a_batch_is_compacted_without_an_object_for_each_record() -> None:
    """A batch of a kilobyte may hold more than a million: here each is a tombstone, and gets the horizon."""
    keys = [b"%06d" % number for number in range(30_000)]
    content = batch(*[(key, None) for key in keys], codec="zstd")
    latest: dict[bytes, int] = {}
    assert take_keys(read_header(content), content, 0, latest) == (len(keys), 6 * len(keys))
    rules = passing(latest)
    tracemalloc.start()
    left = compacted(rules, content)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert left is not None
    assert len(records(left)) == len(keys)
    assert peak_bytes < 6_000_000


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_only_the_last_record_of_a_key_stays_at_its_offset(codec: str) -> None:
    content = batch((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"4"), offset=10, codec=codec)
    left = compacted(passing({b"a": 12, b"b": 11, b"c": 20}), content)
    assert left is not None
    assert records(left) == [r for r in records(content) if r.offset in (11, 12)]
    assert read_header(left).codec == codec
    assert read_header(left).max_timestamp == 1002


def test_a_batch_of_which_all_stays_is_not_touched() -> None:
    content = batch((b"a", b"1"), (b"b", b"2"))
    assert passing({b"a": 0, b"b": 1}).compact(read_header(content), content) is content


def test_a_batch_of_which_nothing_stays_goes_or_is_empty() -> None:
    content = batch((b"a", b"1"), (b"b", b"2"), codec="gzip")
    latest = {b"a": 5, b"b": 6}
    assert compacted(passing(latest), content) is None
    left = compacted(passing(latest), content, keep=True)
    assert left is not None
    assert records(left) == []
    assert compacted(passing(latest), left) is None
    assert compacted(passing(latest), left, keep=True) == left


def test_records_without_keys_go() -> None:
    left = compacted(passing({}), batch((None, b"1"), (b"a", b"2")))
    assert left is not None
    assert [r.key for r in records(left)] == [b"a"]


def test_tombstones_get_a_horizon_and_go_when_it_is_over() -> None:
    content = batch((b"a", None), (b"b", b"2"))
    left = compacted(passing({b"a": 0}), content)
    assert left is not None
    assert records(left) == records(content)
    assert read_header(left).attributes & DELETE_HORIZON
    assert horizon_of(read_header(left)) == NOW_MS + 100
    assert compacted(passing({b"a": 0}), left) == left
    late = Pass({b"a": 0}, Aborted(()), (), now_ms=NOW_MS + 100, delete_retention_ms=100)
    gone = compacted(late, left)
    assert gone is not None
    assert records(gone) == records(content)[1:]


def test_records_of_aborted_transactions_go() -> None:
    content = batch((b"a", b"1"), offset=4, producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True)
    row = AbortedTransaction(9, 4, 8, 4)
    assert compacted(passing({}, aborted=(row,)), content) is None
    other = AbortedTransaction(8, 4, 8, 4)
    assert compacted(passing({}, aborted=(other,)), content) == content


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_goes_when_its_transaction_is_gone_and_its_horizon_is_over(committed: bool) -> None:
    content = batch((b"a", b"1"), offset=4, producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True)
    marker = end_marker_batch(9, 0, EndMarker(committed, 3), 1000)
    stamp_offset(marker, 0, 5, 7)
    first = passing({b"a": 6})
    assert compacted(first, content) is None
    assert compacted(first, bytes(marker)) == marker
    assert first.discarded_markers == []
    second = passing({})
    dated = compacted(second, bytes(marker))
    assert dated is not None
    assert records(dated) == records(bytes(marker))
    assert horizon_of(read_header(dated)) == NOW_MS + 100
    assert second.discarded_markers == [5]
    assert compacted(passing({}), dated) == dated
    late = Pass({}, Aborted(()), (), now_ms=NOW_MS + 101, delete_retention_ms=100)
    assert compacted(late, dated) is None


def test_the_last_batch_of_a_producer_stays_without_its_records() -> None:
    content = batch((b"a", b"1"), (b"a", b"2"), producer_id=9, producer_epoch=2, base_sequence=40)
    known = ProducerSnapshotEntry(9, 2, 41, 1, 1, 1000, -1, -1)
    left = compacted(passing({b"a": 5}, producers=(known,)), content)
    assert left is not None
    assert records(left) == []


def test_what_holds_no_records_as_claimed_is_found() -> None:
    content = batch((b"a", b"1"), (b"b", b"2"))
    rng = Random(5)
    for _ in range(200):
        broken = bytearray(content)
        broken[rng.randrange(61, len(broken))] ^= 1 << rng.randrange(8)
        try:
            passing({}).compact(read_header(broken), bytes(broken))
        except CorruptBatch:
            continue
    with pytest.raises(CorruptBatch):
        passing({}).compact(read_header(content), content[:-1])


# The broker.


def compacting(brokers: int = 1, **configs: object) -> World:
    """The cleaner looks every second; segments hold two records of `put`."""
    world = World(brokers, log_cleaner_backoff_ms=1000, offsets_topic_num_partitions=1)
    configs = {"cleanup_policy": "compact", "segment_bytes": 1024, "min_cleanable_dirty_ratio": 0, **configs}
    assert world.create_topic(replicas=brokers, **configs) == 0
    return world


def put(world: World, key: bytes, value: bytes | None, *, timestamp_ms: int = WALL_MS) -> None:
    content = encode_batch([Record(0, timestamp_ms, key, value and value.ljust(400, b"."))])
    assert world.produce(content).error_code == 0


def read(world: World) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of everything a consumer gets."""
    found: list[tuple[int, bytes | None, bytes | None]] = []
    offset = 0
    while offset < world.end_offset().offset:
        answer = world.fetch(offset)
        content = answer.records.read() if hasattr(answer.records, "read") else bytes(answer.records)
        for header, rows in decode_batches(content):
            offset = header.last_offset + 1
            found += ((r.offset, r.key, r.value and r.value.rstrip(b".")) for r in rows)
    return found


@pytest.mark.parametrize("brokers", [1, 3])
def test_a_compacted_topic_keeps_the_last_value_of_each_key_on_all_replicas(brokers: int) -> None:
    world = compacting(brokers)
    for number in range(12):
        put(world, b"ab"[number % 2 :][:1], b"%d" % number)
    world.pass_time(5_000)
    assert read(world) == [(8, b"a", b"8"), (9, b"b", b"9"), (10, b"a", b"10"), (11, b"b", b"11")]
    assert world.end_offset(timestamp=-2).offset == 0
    for broker_id in world.brokers:
        stored = world.stored(broker_id=broker_id)
        assert [r.offset for r in stored] == [8, 9, 10, 11]
        checkpoint = world.storages[broker_id].read_file("cleaner-offset-checkpoint")
        assert checkpoint == f"0\n1\n{TOPIC} 0 10\n".encode()


def test_deleted_keys_disappear_after_delete_retention_ms() -> None:
    world = compacting(delete_retention_ms=5_000)
    put(world, b"a", b"1")
    put(world, b"a", None)
    for number in range(6):
        put(world, b"b", b"%d" % number)
    world.pass_time(3_000)
    assert (1, b"a", None) in read(world)
    world.pass_time(5_000)
    for number in range(6, 12):
        put(world, b"b", b"%d" % number)
    world.pass_time(3_000)
    assert b"a" not in [key for _, key, _ in read(world)]


@pytest.mark.parametrize(
    "configs", [{"min_cleanable_dirty_ratio": 1}, {"min_compaction_lag_ms": 60_000}, {"cleanup_policy": "delete"}]
)
def test_a_log_is_left_alone_where_its_settings_say_so(configs: dict[str, object]) -> None:
    world = compacting(**configs)
    for number in range(12):
        put(world, b"a", b"%d" % number)
    world.pass_time(5_000)
    assert [offset for offset, _, _ in read(world)] == list(range(12))


def test_max_compaction_lag_overrules_the_ratio() -> None:
    world = compacting(min_cleanable_dirty_ratio=1, max_compaction_lag_ms=20_000)
    for number in range(12):
        put(world, b"a", b"%d" % number)
    world.pass_time(15_000)
    assert len(read(world)) == 12
    world.pass_time(10_000)
    assert len(read(world)) < 5


def test_nothing_is_compacted_where_the_cleaner_is_off() -> None:
    world = World(1, log_cleaner_enable=False, log_cleaner_backoff_ms=1000)
    world.create_topic(cleanup_policy="compact", segment_bytes=1024, min_cleanable_dirty_ratio=0)
    for number in range(12):
        put(world, b"a", b"%d" % number)
    world.pass_time(5_000)
    assert len(read(world)) == 12


def test_compact_and_delete_do_both() -> None:
    world = World(1, log_cleaner_backoff_ms=1000, log_retention_check_interval_ms=1000)
    world.create_topic(
        cleanup_policy="compact,delete", segment_bytes=1024, min_cleanable_dirty_ratio=0, retention_ms=10_000
    )
    for number in range(12):
        put(world, b"ab"[number % 2 :][:1], b"%d" % number)
    world.pass_time(5_000)
    assert [offset for offset, _, _ in read(world)] == [8, 9, 10, 11]
    assert world.end_offset(timestamp=-2).offset == 0
    world.pass_time(10_000)
    assert world.end_offset(timestamp=-2).offset == 12


def test_the_coordinators_topics_are_compacted() -> None:
    world = compacting()
    assert world.ask(1, FindCoordinatorRequest(key="group"), version=1).node_id == 1
    partition = world.brokers[1].topics[OFFSETS_TOPIC][0]
    assert partition.settings.cleanup_policy == ("compact",)


def test_an_offset_that_is_gone_leads_to_what_follows_it() -> None:
    world = compacting()
    for number in range(12):
        put(world, b"a", b"%d" % number)
    world.pass_time(5_000)
    answer = world.fetch(4, partition_max_bytes=1)
    [(header, rows)] = decode_batches(answer.records.read())
    assert header.last_offset > 4
    assert rows == []
    assert [r.offset for r in records_of(world.fetch(10))] == [10, 11]
    assert world.end_offset(timestamp=WALL_MS).offset == 9


def test_an_offset_that_is_gone_at_the_end_of_a_segment_leads_to_the_next_segment() -> None:
    # A follower copies what compaction has left of the leader's log, and begins a segment behind the gap.
    log = LogWorld(segment_bytes=1024).log
    for offset in (0, 9):
        content = batch((b"a", b"".ljust(600, b".")), offset=offset)
        log.append_copies([content], [read_header(content)])
    assert [segment.base_offset for segment in log.segments] == [0, 9]
    found = log.slice(5, log.log_end_offset, 10_000, True)
    assert found is not None
    assert [record.offset for record in records(found.read())] == [9]


def test_a_full_disk_only_puts_compaction_off() -> None:
    world = compacting()
    for number in range(12):
        put(world, b"a", b"%d" % number)
    storage = world.storages[1]
    storage.failure = errno.ENOSPC
    world.pass_time(5_000)
    assert len(read(world)) == 12
    storage.failure = None
    world.pass_time(5_000)
    assert [offset for offset, _, _ in read(world)] == [9, 10, 11]
    assert not [name for name in storage.files(f"{TOPIC}-0") if name.endswith((".cleaned", ".swap"))]


def test_a_log_with_a_corrupt_batch_is_left_as_it_is() -> None:
    world = compacting()
    for number in range(12):
        put(world, b"a", b"%d" % number)
    log = world.brokers[1].topics[TOPIC][0].log
    assert log is not None
    path, position = log.byte_of(5)
    world.storages[1].contents[path][position] ^= 1
    before = {
        name: bytes(world.storages[1].contents[f"{TOPIC}-0/{name}"]) for name in world.storages[1].files(f"{TOPIC}-0")
    }
    world.pass_time(10_000)
    after = {
        name: bytes(world.storages[1].contents[f"{TOPIC}-0/{name}"]) for name in world.storages[1].files(f"{TOPIC}-0")
    }
    assert after == before


def test_a_round_ends_where_its_log_is_cut() -> None:
    world = compacting()
    for number in range(12):
        put(world, b"a", b"%d" % number)
    partition = world.brokers[1].topics[TOPIC][0]
    log = partition.log
    assert log is not None
    cleaning = CleaningRound(log, log.segments[:-1], WALL_MS)
    log.truncate(6)
    assert cleaning.is_outdated
    cleaning.abandon()
    assert [r.offset for r in world.stored()] == [0, 1, 2, 3, 4, 5]
