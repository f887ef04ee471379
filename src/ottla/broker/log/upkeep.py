"""What a broker's logs need as time passes: checkpoints written, syncs noticed. Driven by `BrokerCore.tick`.

Each job has an interval of its own, taken from Kafka's settings. A job that fails for one log (OSError) goes on with
the next and is tried again when it is due again.

Invariant: nothing here changes what a reader may see without the log's own rules allowing it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ottla.broker.log.directory import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from ottla.broker.log.log import Log
from ottla.broker.partition import Partition

if TYPE_CHECKING:
    from ottla.broker.core import BrokerCore

_SYNC_POLL_US = 100_000


class _Job:
    """Something done every `interval_us`; it is not due before the broker's first tick."""

    __slots__ = ("due_us", "interval_us", "run")

    def __init__(self, interval_us: int, run: Callable[[int], None]) -> None:
        self.interval_us = interval_us
        self.run = run
        self.due_us = -1


class LogUpkeep:
    """The upkeep of all logs of one broker; `deadline_us` says when `tick` is due at the latest."""

    def __init__(self, core: BrokerCore) -> None:
        self._core = core
        settings = core.settings
        self._jobs = [
            _Job(settings.replica_high_watermark_checkpoint_interval_ms * 1000, self._store_high_watermarks),
            _Job(settings.log_flush_offset_checkpoint_interval_ms * 1000, self._store_recovery_points),
        ]

    def start(self, now_us: int) -> None:
        """There are logs from now on; starting twice is allowed."""
        for job in self._jobs:
            if job.due_us < 0:
                job.due_us = now_us + job.interval_us

    def deadline_us(self) -> int | None:
        """When the next job is due; None where there is nothing to look after."""
        due = min((job.due_us for job in self._jobs if job.due_us >= 0), default=None)
        if self._core.directory.syncing and due is not None:
            due = min(due, self._core.directory.storage.write_back.now_us + _SYNC_POLL_US)
        return due

    def tick(self, now_us: int) -> None:
        """Do what is due."""
        syncing = self._core.directory.syncing
        for log in list(syncing):
            del syncing[log]
            with contextlib.suppress(OSError):
                log.settle_syncs()
        for job in self._jobs:
            if 0 <= job.due_us <= now_us:
                job.due_us = now_us + job.interval_us
                job.run(now_us)

    def close_in_order(self) -> None:
        """Flush all logs and write down where they stand; the mark that says so comes last. OSError."""
        ends: dict[str, tuple[int, int]] = {}
        for log in self._logs():
            log.close_in_order()
            if log.log_end_offset:
                ends[log.folder] = log.log_end_offset, log.active.size
        self._store_high_watermarks(0)
        self._store_recovery_points(0)
        self._core.directory.mark_clean(ends)

    def _partitions(self) -> Iterator[Partition]:
        for partitions in self._core.topics.values():
            yield from partitions.values()

    def _logs(self) -> Iterator[Log]:
        for partition in self._partitions():
            if partition.log is not None:
                yield partition.log

    def _store_high_watermarks(self, now_us: int) -> None:
        marks = {
            partition.folder: partition.high_watermark
            for partition in self._partitions()
            if partition.log is not None and partition.high_watermark
        }
        with contextlib.suppress(OSError):
            self._core.directory.write(HIGH_WATERMARKS, marks)

    def _store_recovery_points(self, now_us: int) -> None:
        points = {log.folder: log.recovery_point for log in self._logs() if log.recovery_point}
        starts = {
            log.folder: log.log_start_offset
            for log in self._logs()
            if log.log_start_offset > log.segments[0].base_offset
        }
        with contextlib.suppress(OSError):
            self._core.directory.write(RECOVERY_POINTS, points)
            self._core.directory.write(LOG_STARTS, starts)
