"""When which log is compacted: Kafka's log cleaner, one log at a time, a step per tick.

Of the logs with `cleanup.policy=compact` the one with the largest dirty share is taken: of the segments that may be
compacted, the share of bytes that no round has cleaned yet. It must exceed `min.cleanable.dirty.ratio`, unless records
wait for longer than `max.compaction.lag.ms`. Segments may be compacted that are closed, below the last stable offset,
and older than `min.compaction.lag.ms`. Where there is nothing to do the cleaner looks again after
`log.cleaner.backoff.ms`. Every replica does this for itself.

A log with a corrupt batch is not compacted any more, as in Kafka.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.log.directory import CLEANED, LogDirectory
from ottla.broker.log.log import Log
from ottla.broker.log.segment import Segment
from ottla.broker.partition import Partition, Topics
from ottla.broker.settings import BrokerSettings
from ottla.broker.wall_clock import WallClock
from ottla.records.batch_header import CorruptBatch

if TYPE_CHECKING:
    from ottla.broker.log.cleaning_round import CleaningRound

logger = logging.getLogger("ottla.broker")

_PAUSE_US = 5_000


class Cleanable(NamedTuple):
    """What of a log may be compacted: its first segments, up to the first that may not; `dirty_ratio` of their bytes.

    `is_overdue`: records wait for longer than `max.compaction.lag.ms`.
    """

    segments: list[Segment]
    dirty_ratio: float
    is_overdue: bool


def cleanable(log: Log, last_stable_offset: int, wall_ms: int) -> Cleanable | None:
    """What of the log may be compacted now; None where nothing is dirty. OSError."""
    settings = log.settings
    dirty_from = max(log.cleaned_to, log.log_start_offset)
    segments: list[Segment] = []
    clean_bytes = dirty_bytes = 0
    oldest_ms: int | None = None
    for segment in log.segments[:-1]:
        is_dirty = segment.next_offset > dirty_from
        if segment.next_offset > last_stable_offset:
            break
        if is_dirty:
            lag_ms = settings.min_compaction_lag_ms
            if lag_ms > 0 and segment.max_timestamp > wall_ms - lag_ms:
                break
            dirty_bytes += segment.size
            first_ms = segment.oldest_timestamp()
            if first_ms > 0:
                oldest_ms = first_ms if oldest_ms is None else min(oldest_ms, first_ms)
        else:
            clean_bytes += segment.size
        segments.append(segment)
    if not dirty_bytes:
        return None
    lag_most_ms = max(settings.max_compaction_lag_ms, settings.min_compaction_lag_ms)
    is_overdue = oldest_ms is not None and oldest_ms < wall_ms - lag_most_ms
    return Cleanable(segments, dirty_bytes / (clean_bytes + dirty_bytes), is_overdue)


class LogCleaner:
    """Compacts the logs of one broker; `due_us` is when `tick` has something to do, None before `start`."""

    def __init__(self, topics: Topics, directory: LogDirectory, settings: BrokerSettings, clock: WallClock) -> None:
        self.due_us: int | None = None
        self._topics = topics
        self._directory = directory
        self._settings = settings
        self._clock = clock
        self._partition: Partition | None = None
        self._round: CleaningRound | None = None
        self._steps: Iterator[None] = iter(())
        self._uncleanable: dict[Log, None] = {}

    def start(self, now_us: int) -> None:
        """There are logs from now on; starting twice is allowed."""
        if self.due_us is None and self._settings.log_cleaner_enable:
            self.due_us = now_us + self._settings.log_cleaner_backoff_ms * 1000

    def tick(self, now_us: int) -> None:
        """Do a step of the present round, or look for a log that is due."""
        if self._round is None and not self._begin(now_us):
            self.due_us = now_us + max(1, self._settings.log_cleaner_backoff_ms) * 1000
            return
        self.due_us = now_us + _PAUSE_US
        current = self._round
        assert current is not None
        if current.is_outdated or not self._is_open(current.log):
            self._end()
            return
        try:
            next(self._steps)
        except StopIteration:
            self._end()
            self._store_checkpoint()
        except CorruptBatch as error:
            logger.error("log %s is not compacted any more: %s", current.log.folder, error)
            self._uncleanable[current.log] = None
            self._end()
        except OSError:
            self._end()
            self.due_us = now_us + max(1, self._settings.log_cleaner_backoff_ms) * 1000

    def _begin(self, now_us: int) -> bool:
        """Begin a round of the log with the largest dirty share; False where none is due."""
        wall_ms = self._clock.ms(now_us)
        found: tuple[float, Partition, list[Segment]] | None = None
        for partition in self._partitions():
            log = partition.log
            if log is None or "compact" not in log.settings.cleanup_policy or log in self._uncleanable:
                continue
            with contextlib.suppress(OSError):
                part = cleanable(log, partition.last_stable_offset, wall_ms)
                if part is None:
                    continue
                wanted = part.is_overdue or part.dirty_ratio > log.settings.min_cleanable_dirty_ratio
                if wanted and (found is None or part.dirty_ratio > found[0]):
                    found = part.dirty_ratio, partition, part.segments
        if found is None:
            return False
        # Imported here: most brokers never compact a log.
        from ottla.broker.log.cleaning_round import CleaningRound

        _, self._partition, segments = found
        assert self._partition.log is not None
        self._round = CleaningRound(self._partition.log, segments, wall_ms)
        self._steps = self._round.steps()
        return True

    def _end(self) -> None:
        if self._round is not None and self._is_open(self._round.log):
            self._round.abandon()
        self._round = None
        self._partition = None
        self._steps = iter(())

    def _is_open(self, log: Log) -> bool:
        """Whether the log is still one of this broker's."""
        partition = self._partition
        if partition is None or partition.log is not log:
            return False
        return self._topics.get(partition.topic, {}).get(partition.index) is partition

    def _partitions(self) -> Iterator[Partition]:
        for partitions in self._topics.values():
            yield from partitions.values()

    def _store_checkpoint(self) -> None:
        cleaned = {
            partition.folder: partition.log.cleaned_to
            for partition in self._partitions()
            if partition.log is not None and partition.log.cleaned_to
        }
        with contextlib.suppress(OSError):
            self._directory.write(CLEANED, cleaned)
