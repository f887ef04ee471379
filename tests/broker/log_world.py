"""One log on a simulated disk, its files looked at with Kafka's eyes, and what should be in it as a plain list."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from ottla.broker.log import files
from ottla.broker.log.directory import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, LogDirectory
from ottla.broker.log.log import Log
from ottla.broker.log.producer_state import ProducerStates
from ottla.broker.log.segment import offset_of
from ottla.broker.settings import BrokerSettings
from ottla.broker.topic_settings import TopicSettings
from ottla.records.batch_header import BatchHeader, iterate_headers, read_header
from ottla.records.plain import Record, encode_batch
from ottla.simulation.disk import Disk

FOLDER = "flights-0"
TOPIC_ID = bytes(range(16))


class Stored(NamedTuple):
    """A batch as it is in the log."""

    header: BatchHeader
    content: bytes


class LogWorld:
    """A log with topic settings `configs`, underscores for dots; `open` again without `close` is what a kill leaves."""

    def __init__(self, disk: Disk | None = None, **configs: object) -> None:
        self.disk = disk or Disk()
        self.broker_settings = BrokerSettings()
        self.configs = tuple((name.replace("_", "."), str(value)) for name, value in configs.items())
        self.model: list[Stored] = []
        self.epoch = 0
        self.open()

    def open(self) -> None:
        self.directory = LogDirectory(self.disk, self.broker_settings)
        self.log = Log(self.directory, FOLDER, TopicSettings(self.configs, self.broker_settings))
        self.log.open(TOPIC_ID)

    def append(
        self,
        count: int = 1,
        size: int = 10,
        *,
        timestamp_ms: int = 1000,
        producer: tuple[int, int, int] = (-1, -1, -1),
        keys: list[bytes | None] | None = None,
        **more: object,
    ) -> int:
        """Append a batch of `count` records as leader; its base offset. `producer`: id, epoch, sequence."""
        rows = [Record(n, timestamp_ms + n, keys[n] if keys else None, b"v" * size) for n in range(count)]
        batch = bytearray(
            encode_batch(rows, producer_id=producer[0], producer_epoch=producer[1], base_sequence=producer[2], **more)  # type: ignore[arg-type]
        )
        base_offset = self.log.append(batch, read_header(batch), self.epoch)
        self.model.append(Stored(read_header(batch), bytes(batch)))
        return base_offset

    def checkpoint(self) -> None:
        """What the broker's upkeep writes now and then."""
        self.directory.write(RECOVERY_POINTS, {FOLDER: self.log.recovery_point})
        self.directory.write(LOG_STARTS, {FOLDER: self.log.log_start_offset})
        self.directory.write(HIGH_WATERMARKS, {FOLDER: self.log.log_end_offset})

    def close(self) -> None:
        self.log.close_in_order()
        self.checkpoint()
        self.directory.mark_clean({FOLDER: (self.log.log_end_offset, self.log.active.size)})
        self.log.close()

    def cut_power(self, rng: Random) -> None:
        """The disk keeps what was synced; the model forgets what is gone from the reopened log."""
        self.disk.power_off(rng)
        self.open()
        self.forget_from(self.log.log_end_offset)

    def forget_from(self, offset: int) -> None:
        self.model = [batch for batch in self.model if batch.header.last_offset < offset]

    def batches(self) -> list[Stored]:
        """Everything readable, read as a consumer reads."""
        found = []
        offset = self.log.log_start_offset
        while True:
            piece = self.log.slice(offset, self.log.log_end_offset, 4000, True)
            if piece is None:
                return found
            content = piece.read()
            for header in iterate_headers(content):
                found.append(Stored(header, content[header.position : header.position + header.size_bytes]))
            offset = found[-1].header.last_offset + 1

    def producers(self) -> list[files.ProducerSnapshotEntry]:
        """What the batches of the model say about producers."""
        states = ProducerStates()
        for batch in self.model:
            states.note(batch.header, batch.header.base_offset)
        return sorted(states.entries())

    def check(self) -> None:
        """The log holds what the model holds, and its files agree with each other."""
        start = self.log.log_start_offset
        expected = [batch for batch in self.model if batch.header.last_offset >= start]
        assert [batch.content for batch in self.batches()] == [batch.content for batch in expected]
        assert sorted(self.log.producers.entries()) == self.producers()
        self.check_indexes()

    def check_indexes(self) -> None:
        bases = sorted(base for name in self.disk.files(FOLDER) if (base := offset_of(name)) is not None)
        for base in bases[:-1]:
            stem = f"{FOLDER}/{base:020d}"
            content = self.disk.read_file(stem + ".log") or b""
            by_position = {header.position: header for header in iterate_headers(content)}
            for entry in files.read_offset_index(self.disk.read_file(stem + ".index") or b""):
                assert by_position[entry.position].last_offset == base + entry.relative_offset
            times = files.read_time_index(self.disk.read_file(stem + ".timeindex") or b"")
            for moment in times:
                upto = [h for h in by_position.values() if h.last_offset <= base + moment.relative_offset]
                assert max(h.max_timestamp for h in upto) == moment.timestamp_ms
            newest = max((h.max_timestamp for h in by_position.values()), default=-1)
            assert newest == (times[-1].timestamp_ms if times else -1)
