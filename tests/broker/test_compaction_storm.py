"""Compaction against a plain model: keys written, deleted, aborted; logs cleaned; brokers dying in every step."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from ottla.broker.log.cleaning_round import CleaningRound
from ottla.broker.log.directory import CLEANED, RECOVERY_POINTS, LogDirectory
from ottla.broker.log.end_markers import end_marker_batch, read_end_marker
from ottla.broker.log.log import Log
from ottla.broker.log.producer_state import EndMarker, ProducerStates
from ottla.broker.log_cleaner import cleanable
from ottla.broker.settings import BrokerSettings
from ottla.broker.topic_settings import TopicSettings
from ottla.cluster.storage import DiskStorage
from ottla.records.batch_header import BatchHeader, Buffer, check_crc, read_header
from ottla.records.plain import Record, decode_batches, encode_batch
from ottla.records.record_walk import staying

from .deadly_disk import DeadlyDisk, Death

FOLDER = "flights-0"
TOPIC_ID = bytes(range(16))
CONFIGS = (("cleanup.policy", "compact"), ("segment.bytes", "1024"), ("delete.retention.ms", "300"))
PRODUCERS = 3


class Written(NamedTuple):
    """A batch as it was appended."""

    offset: int
    content: bytes


class Life:
    """One log, what was ever written to it, and time."""

    def __init__(self, seed: int, storage: Any = None) -> None:
        self.rng = Random(seed)
        self.disk = storage or DeadlyDisk()
        self.written: list[Written] = []
        self.now_ms = 1_000
        self.number = 0
        self.rounds = 0
        self.open()

    def open(self) -> None:
        self.directory = LogDirectory(self.disk, BrokerSettings())
        self.log = Log(self.directory, FOLDER, TopicSettings(CONFIGS, self.directory.settings))
        self.log.open(TOPIC_ID)
        self.written = [batch for batch in self.written if batch.offset < self.log.log_end_offset]
        self.states = ProducerStates()
        for batch in self.written:
            self._note(batch)

    def _note(self, batch: Written) -> None:
        header = read_header(batch.content)
        marker = read_end_marker(batch.content) if header.is_control else None
        self.states.note(header, batch.offset, end_marker=marker)

    def _append(self, content: bytearray) -> None:
        offset = self.log.append(content, read_header(content), 0)
        self.written.append(Written(offset, bytes(content)))
        self._note(self.written[-1])

    # What happens.

    def put(self) -> None:
        rng = self.rng
        rows = []
        for _ in range(rng.randint(1, 4)):
            self.number += 1
            value = b"%d" % self.number * rng.randint(1, 30) if rng.random() < 0.75 else None
            rows.append(Record(len(rows), self.now_ms, b"key%d" % rng.randrange(8), value))
        codec = rng.choice(["none", "none", "gzip", "lz4"])
        producer = rng.randrange(-1, PRODUCERS)
        if producer < 0:
            self._append(bytearray(encode_batch(rows, codec=codec)))
            return
        known = next((e for e in self.states.entries() if e.producer_id == producer), None)
        sequence = known.last_sequence + 1 if known is not None else 0
        in_transaction = known is not None and known.current_txn_first_offset >= 0
        self._append(
            bytearray(
                encode_batch(
                    rows,
                    codec=codec,
                    producer_id=producer,
                    producer_epoch=0,
                    base_sequence=sequence,
                    is_transactional=in_transaction or producer > 0,
                )
            )
        )

    def end_transaction(self) -> None:
        begun = [e.producer_id for e in self.states.entries() if e.current_txn_first_offset >= 0]
        if begun:
            marker = EndMarker(self.rng.random() < 0.6, 0)
            self._append(end_marker_batch(self.rng.choice(begun), 0, marker, self.now_ms))

    def clean(self) -> None:
        log = self.log
        part = cleanable(log, log.producers.stable_end(log.log_end_offset), self.now_ms)
        if part is not None:
            cleaning = CleaningRound(log, part.segments, self.now_ms)
            for _ in cleaning.steps():
                log.storage.write_back.now_us += 1  # what was begun to be synced is, a little later
                assert not cleaning.is_outdated
            self.rounds += 1
            assert log.cleaned_to == part.segments[-1].next_offset
            self.directory.write(CLEANED, {FOLDER: log.cleaned_to})

    def checkpoint(self) -> None:
        self.directory.write(RECOVERY_POINTS, {FOLDER: self.log.recovery_point})

    def end_in_order(self) -> None:
        self.log.close_in_order()
        self.checkpoint()
        self.directory.mark_clean({FOLDER: (self.log.log_end_offset, self.log.active.size)})
        self.log.close()
        self.open()

    def die_cleaning(self) -> None:
        self.disk.dies_in = self.rng.randrange(30)
        try:
            self.clean()
        except Death:
            end = self.log.log_end_offset
            if self.rng.random() < 0.5:
                self.disk.power_off(self.rng)
                self.open()
            else:
                self.open()
                assert self.log.log_end_offset == end
        self.disk.dies_in = None

    def step(self) -> None:
        self.now_ms += self.rng.randrange(40)
        happenings = [self.put] * 12 + [self.end_transaction] * 5 + [self.clean, self.die_cleaning, self.checkpoint]
        self.rng.choice([*happenings, self.end_in_order])()

    # What must be true.

    def _committed(self, batches: list[tuple[Any, list[Record]]]) -> list[Record]:
        """The records that a reader of committed records gets, by the log's own word on what was aborted."""
        log = self.log
        stable = log.producers.stable_end(log.log_end_offset)
        rows = log.aborted.between(0, log.log_end_offset)
        return [
            record
            for header, records in batches
            for record in records
            if not header.is_control
            and record.offset < stable
            and not (
                header.is_transactional
                and any(
                    r.producer_id == header.producer_id and r.first_offset <= record.offset <= r.last_offset
                    for r in rows
                )
            )
        ]

    def _expected(self) -> list[Record]:
        """The committed records of all that was ever written, by the markers that were."""
        begun: dict[int, list[Record]] = {}
        found: list[Record] = []
        for written in self.written:
            [(header, records)] = decode_batches(written.content)
            if header.is_control:
                marker = read_end_marker(written.content)
                assert marker is not None
                ended = begun.pop(header.producer_id, [])
                found += ended if marker.committed else []
            elif header.is_transactional:
                begun.setdefault(header.producer_id, []).extend(records)
            else:
                found += records
        unstable = min((records[0].offset for records in begun.values()), default=self.log.log_end_offset)
        return sorted(record for record in found if record.offset < unstable)

    def read(self) -> list[tuple[Any, list[Record]]]:
        """Every batch, read as a consumer reads."""
        found: list[tuple[Any, list[Record]]] = []
        offset = self.log.log_start_offset
        while (piece := self.log.slice(offset, self.log.log_end_offset, 700, True)) is not None:
            content = piece.read()
            for header, records in decode_batches(content):
                check_crc(content, header)
                found.append((header, records))
                assert header.base_offset >= offset
                offset = header.last_offset + 1
        return found

    def check(self) -> None:
        batches, expected = self.read(), self._expected()
        got = self._committed(batches)
        offsets = [record.offset for record in got]
        assert offsets == sorted(offsets)
        by_offset = {record.offset: record for record in expected}
        assert all(by_offset.get(record.offset) == record for record in got)
        last_expected = {record.key: record for record in expected}
        last_got = {record.key: record for record in got}
        for key, record in last_expected.items():
            if record.value is None:
                assert key not in last_got or last_got[key].value is None
            else:
                assert last_got.get(key) == record
        assert self.log.log_end_offset == (expected_end(self.written))
        assert sorted(self.log.producers.entries()) == sorted(self.states.entries())
        left = [name for name in self.disk.files(FOLDER) if name.endswith((".cleaned", ".swap"))]
        assert left == []
        bases = [segment.base_offset for segment in self.log.segments]
        assert bases == sorted(set(bases))


def expected_end(written: list[Written]) -> int:
    return read_header(written[-1].content).last_offset_delta + written[-1].offset + 1 if written else 0


def live(seed: int, steps: int = 150) -> Life:
    life = Life(seed)
    for _ in range(steps):
        life.step()
        life.check()
    return life


@pytest.mark.parametrize("seed", range(40))
def test_nothing_committed_is_lost_and_nothing_old_comes_back(seed: int) -> None:
    assert live(seed).rounds > 0


def test_a_cleaner_that_drops_the_last_record_of_a_key_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(header: BatchHeader, section: Buffer, latest: dict[bytes, int], expired: bool) -> Any:
        return staying(header, section, {key: offset + 1 for key, offset in latest.items()}, expired)

    monkeypatch.setattr("ottla.broker.log.compaction.staying", wrong)
    with pytest.raises(AssertionError):
        [live(seed) for seed in range(5)]


def test_a_cleaned_log_holds_each_key_once_and_is_small() -> None:
    life = Life(3)
    for _ in range(400):
        life.put()
    for producer in range(PRODUCERS):
        if any(e.producer_id == producer and e.current_txn_first_offset >= 0 for e in life.states.entries()):
            life._append(end_marker_batch(producer, 0, EndMarker(True, 0), life.now_ms))
    life.log.roll()
    for _ in range(3):
        life.log.cleaned_to = 0
        life.clean()
        life.now_ms += 1000
    life.check()
    keys = [record.key for record in life._committed(life.read())]
    assert sorted(keys) == sorted(set(keys))
    assert len(life.log.segments) <= 3
    life.open()
    life.check()


def test_who_is_reading_a_segment_reads_on_when_it_is_replaced(tmp_path: Path) -> None:
    life = Life(4, DiskStorage(str(tmp_path)))
    for _ in range(100):
        life.put()
    while any(e.current_txn_first_offset >= 0 for e in life.states.entries()):
        life.end_transaction()
    life.log.roll()
    while not life.log.settle_syncs():
        pass
    pieces = [
        life.log.slice(segment.base_offset, life.log.log_end_offset, 1 << 20, True)
        for segment in life.log.segments[:-1]
    ]
    before = [piece.read() for piece in pieces if piece is not None]
    size = life.log.size_bytes
    life.clean()
    assert life.log.size_bytes < size / 2
    assert [piece.read() for piece in pieces if piece is not None] == before
    life.check()
