"""What is done to a broker's logs as time passes: checkpoints, syncs, retention, compaction; see `Replicas.tick`.

Each job has an interval of its own, taken from Kafka's settings. A job that fails for one log (OSError) goes on with
the next and is tried again when it is due again.

Invariant: a reader sees none of this, except what retention and compaction remove.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from ottla.broker.log.directory import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, LogDirectory
from ottla.broker.log.log import Log
from ottla.broker.log.retention import delete_old_segments
from ottla.broker.log_cleaner import LogCleaner
from ottla.broker.partition import Partition, Topics
from ottla.broker.settings import NEVER, BrokerSettings
from ottla.broker.wall_clock import WallClock

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

    def __init__(self, topics: Topics, directory: LogDirectory, settings: BrokerSettings, clock: WallClock) -> None:
        self._topics = topics
        self._directory = directory
        self._settings = settings
        self._clock = clock
        self._next_us: int | None = None
        self._poll_us = 0
        self._flush_checked_us = 0
        self._cleaner = LogCleaner(topics, directory, settings, clock)
        self._jobs = [
            _Job(settings.replica_high_watermark_checkpoint_interval_ms * 1000, self._store_high_watermarks),
            _Job(settings.log_flush_offset_checkpoint_interval_ms * 1000, self._store_recovery_points),
            _Job(settings.log_retention_check_interval_ms * 1000, self._delete_old_segments),
            _Job(settings.producer_id_expiration_check_interval_ms * 1000, self._expire_producers),
        ]

    def start(self, now_us: int) -> None:
        """There are logs from now on; starting twice is allowed."""
        for job in self._jobs:
            if job.due_us < 0:
                job.due_us = now_us + job.interval_us
        self._next_us = min(job.due_us for job in self._jobs)
        self._cleaner.start(now_us)

    def deadline_us(self) -> int | None:
        """When there is something to do; None before the broker knows of any log."""
        due = self._next_us
        if due is None:
            return None
        directory = self._directory
        remove_us = directory.remove_due_us
        if remove_us is not None and remove_us < due:
            due = remove_us
        if directory.flush_ms < NEVER:
            due = min(due, self._flush_checked_us + directory.flush_ms * 1000)
        if self._cleaner.due_us is not None and self._cleaner.due_us < due:
            due = self._cleaner.due_us
        return min(due, self._poll_us) if directory.syncing else due

    def tick(self, now_us: int) -> None:
        """Do what is due."""
        directory = self._directory
        for log in list(directory.syncing):
            del directory.syncing[log]
            with contextlib.suppress(OSError):
                log.settle_syncs()
        self._poll_us = now_us + _SYNC_POLL_US
        if directory.remove_due_us is not None and directory.remove_due_us <= now_us:
            directory.remove_due()
        if directory.flush_ms < NEVER and now_us - self._flush_checked_us >= directory.flush_ms * 1000:
            self._flush_checked_us = now_us
            self._flush(now_us)
        if self._cleaner.due_us is not None and self._cleaner.due_us <= now_us:
            self._cleaner.tick(now_us)
        if self._next_us is None or now_us < self._next_us:
            return
        for job in self._jobs:
            if job.due_us <= now_us:
                job.due_us = now_us + job.interval_us
                job.run(now_us)
        self._next_us = min([job.due_us for job in self._jobs])

    def close_in_order(self) -> None:
        """Flush all logs and write their checkpoints, and last `.kafka_cleanshutdown`. OSError."""
        ends: dict[str, tuple[int, int]] = {}
        for log in self._logs():
            log.close_in_order()
            if log.log_end_offset:
                ends[log.folder] = log.log_end_offset, log.active.size
        self._store_high_watermarks(0)
        self._store_recovery_points(0)
        self._directory.mark_clean(ends)

    def _partitions(self) -> Iterator[Partition]:
        for partitions in self._topics.values():
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
            self._directory.write(HIGH_WATERMARKS, marks)

    def _store_recovery_points(self, now_us: int) -> None:
        points = {log.folder: log.recovery_point for log in self._logs() if log.recovery_point}
        starts = {
            log.folder: log.log_start_offset
            for log in self._logs()
            if log.log_start_offset > log.segments[0].base_offset
        }
        with contextlib.suppress(OSError):
            self._directory.write(RECOVERY_POINTS, points)
            self._directory.write(LOG_STARTS, starts)

    def _flush(self, now_us: int) -> None:
        """Begin to flush the logs that are due; a log without `flush.ms` has the scheduler's interval."""
        otherwise_ms = self._settings.log_flush_scheduler_interval_ms
        for log in self._logs():
            flush_ms = log.settings.flush_ms if log.settings.flush_ms < NEVER else otherwise_ms
            if flush_ms < NEVER and now_us - log.flushed_us >= flush_ms * 1000:
                with contextlib.suppress(OSError):
                    log.flush_soon()

    def _delete_old_segments(self, now_us: int) -> None:
        wall_ms = self._clock.ms(now_us)
        for partition in self._partitions():
            if partition.log is not None:
                with contextlib.suppress(OSError):
                    if delete_old_segments(partition.log, partition.high_watermark, wall_ms):
                        partition.log_start_moved()

    def _expire_producers(self, now_us: int) -> None:
        wall_ms = self._clock.ms(now_us)
        for log in self._logs():
            log.producers.expire(wall_ms, self._settings.producer_id_expiration_ms)
