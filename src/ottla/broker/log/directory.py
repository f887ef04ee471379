"""What the logs of one broker share: its folder, its settings, and the files that say how far its logs have come.

| file | what it says of each log | written |
|---|---|---|
| `recovery-point-offset-checkpoint` | everything below is on the disk | now and then, at a clean end |
| `replication-offset-checkpoint` | the high watermark | every few seconds, at a clean end |
| `log-start-offset-checkpoint` | the first offset, where no file name says it | now and then, at a clean end |
| `cleaner-offset-checkpoint` | how far it was compacted | after each round of compaction |
| `.kafka_cleanshutdown` | the logs were closed in order | at a clean end; a start removes it |
| `meta.properties` | which folder this is (`directory.id`, KIP-858) | when the folder is first used |

A sync that fails puts the folder offline (`failure`). The kernel drops what it could not write, so the next sync would
succeed, and the recovery point would pass records that are not on the disk. A file in the log's folder (`sync-failed`)
makes the next start write that part once more, if the page cache still has it.

The checkpoints have Kafka's format (`checkpoints.py`). `.kafka_cleanshutdown` is JSON as Kafka's, with one more field,
`logEnds`: where each log ended and how many bytes its last segment had. By it a log is checked if its files were
changed since.

Invariants: a checkpoint that cannot be read counts as empty, which costs time and no data; what was read of a log is
kept until that log is opened.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
from collections.abc import Mapping
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Protocol

from ottla.broker.log.checkpoints import Checkpoint
from ottla.broker.settings import NEVER, BrokerSettings
from ottla.broker.storage import Storage
from ottla.broker.uuids import random_uuid, uuid_text

# A warning says where a log was set aside; the driver shows what is logged.
logger = logging.getLogger("ottla.broker")

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
# In a log's folder: what was written behind the recovery point may be in the page cache alone.
SYNC_FAILED = "sync-failed"
META_PROPERTIES = "meta.properties"
# In a log's folder: the topic id of the topic that the log belongs to.
METADATA_FILE = "partition.metadata"
# What a power cut may leave of it.
BLANK = b"\0 \r\n\t"
_DIRECTORY_ID = "directory.id"
_CHECKPOINTS = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANED)
_FOLDER_NAME_MAX = 255


def directory_id(storage: Storage, broker_id: int, rng: Random) -> str:
    """Which folder this is, by an id drawn when it is first used; OSError where that cannot be read or kept.

    If the id is not what it was, the controller knows that the folder was removed or replaced, and its records are
    gone.
    """
    content = storage.read_file(META_PROPERTIES)
    for line in (content or b"").decode(errors="replace").splitlines():
        name, _, value = line.partition("=")
        if name.strip() == _DIRECTORY_ID and value.strip():
            return value.strip()
    drawn = uuid_text(random_uuid(rng))
    lines = f"version=1\nnode.id={broker_id}\n{_DIRECTORY_ID}={drawn}\n"
    storage.write_file(META_PROPERTIES, lines.encode(), synced=True)
    return drawn


class SyncingLog(Protocol):
    """A log that has begun syncs in the background."""

    def settle_syncs(self) -> bool:
        """Take note of those that are done; whether all are. OSError where one has failed."""
        ...


class LogDirectory:
    """A broker's folder; `storage` is where the logs are. Logs that wait for a sync they began are in `syncing`.

    `remove_due_us`: when `remove_due` has something to do, None while nothing waits. `failure` says why the folder is
    offline, None while it is not.
    """

    __slots__ = (
        "_checkpoints",
        "_clean_ends",
        "_directory_id",
        "_flush_wanted",
        "_lacked_descriptors",
        "_set_aside",
        "_set_aside_count",
        "failure",
        "flush_ms",
        "remove_due_us",
        "settings",
        "storage",
        "syncing",
    )

    def __init__(self, storage: Storage, settings: BrokerSettings) -> None:
        self.storage = storage
        self.settings = settings
        self.syncing: dict[SyncingLog, None] = {}
        self.failure: str | None = None
        self._lacked_descriptors = False
        # How often logs are to be flushed -> how many of them.
        self._flush_wanted: dict[int, int] = {}
        self.flush_ms = settings.log_flush_scheduler_interval_ms
        self._directory_id: str | None = None
        # (when, order, path) of files that are to go, the first one first
        self._set_aside: list[tuple[int, int, str]] = []
        self._set_aside_count = 0
        self.remove_due_us: int | None = None
        self._clean_ends = self._take_clean_shutdown()
        self._checkpoints = {name: Checkpoint(storage, name) for name in _CHECKPOINTS}

    def identify(self, broker_id: int, rng: Random) -> str:
        """See `directory_id`; OSError."""
        if self._directory_id is None:
            self._directory_id = directory_id(self.storage, broker_id, rng)
        return self._directory_id

    def recovery_point(self, folder: str) -> int:
        """Everything of the log below is on the disk; 0 where nothing is known."""
        return self._checkpoints[RECOVERY_POINTS].unopened.get(folder, 0)

    def high_watermark(self, folder: str) -> int:
        """The log's high watermark as last written, 0 where nothing is known."""
        return self._checkpoints[HIGH_WATERMARKS].unopened.get(folder, 0)

    def log_start(self, folder: str) -> int:
        """The log's first offset as last written, 0 where nothing is known."""
        return self._checkpoints[LOG_STARTS].unopened.get(folder, 0)

    def cleaned_to(self, folder: str) -> int:
        """How far the log was compacted, 0 where nothing is known."""
        return self._checkpoints[CLEANED].unopened.get(folder, 0)

    def clean_end(self, folder: str) -> tuple[int, int] | None:
        """(log end offset, bytes in the last segment) of a log that was closed in order; None where it was not."""
        return self._clean_ends.get(folder)

    def forget(self, folder: str) -> None:
        """Drop what the files said of a log: it is open now, or gone."""
        for checkpoint in self._checkpoints.values():
            checkpoint.unopened.pop(folder, None)
        self._clean_ends.pop(folder, None)

    def remember(self, folder: str, recovery_point: int, log_start: int, cleaned_to: int) -> None:
        """Keep this for when the log is opened again: its own files do not say it."""
        known = {RECOVERY_POINTS: recovery_point, LOG_STARTS: log_start, CLEANED: cleaned_to}
        for name, offset in known.items():
            self._checkpoints[name].unopened[folder] = offset

    def remove_log_of(self, folder: str, topic_id: bytes) -> None:
        """Remove the log that this topic has left in a folder; one of another topic stays. OSError.

        A missing or blank `partition.metadata` (as after a power cut) counts as this topic's, as in `Log.open`.
        """
        owner = (self.storage.read_file(f"{folder}/{METADATA_FILE}") or b"").strip(BLANK)
        if not owner or uuid_text(topic_id).encode() in owner.split():
            self.storage.remove(folder)
            self.forget(folder)

    def keep_stray(self, folder: str, topic_id: str) -> None:
        """Keep the log that another topic has left in a folder, under a name as Kafka gives such logs; OSError."""
        for number in count():
            suffix = f".{number:032x}-stray"
            aside = folder[: _FOLDER_NAME_MAX - len(suffix)] + suffix
            if not self.storage.exists(aside):
                break
        self.storage.rename(folder, aside)
        self.forget(folder)
        self.retract(folder)
        logger.warning(
            "the folder %s held the log of another topic (id %s): it is set aside as %s, and a new log begins; "
            "remove it when nobody wants its records any more",
            folder,
            topic_id,
            aside,
        )

    def write(self, name: str, offsets: Mapping[str, int]) -> None:
        """Write a checkpoint, unless it says this already; logs that were not opened keep their lines. OSError."""
        self._checkpoints[name].write(offsets)

    def retract(self, folder: str, end: int = 0) -> None:
        """Lower a log's lines in all checkpoints to `end`: it was cut, or is another log now. OSError."""
        for checkpoint in self._checkpoints.values():
            checkpoint.retract(folder, end)

    def retract_unreached(self, folder: str, end: int) -> None:
        """`retract` for a log that is found to end there, in the files that say what is synced and what is deleted."""
        for name in (RECOVERY_POINTS, LOG_STARTS):
            self._checkpoints[name].retract(folder, end)

    def sync_failed(self, folder: str, error: OSError) -> None:
        """A log could not be synced: the folder is offline from now on, until the broker is started again.

        If the file could not be opened for it, as no descriptor was left, nothing is lost: it is tried again later.
        """
        if error.errno in (errno.EMFILE, errno.ENFILE):
            if not self._lacked_descriptors:
                self._lacked_descriptors = True
                logger.warning(
                    "the log of %s is not synced now, but later: %s (see ulimit -n; told once)", folder, error.strerror
                )
            return
        if self.failure is None:
            self.failure = f"the log of {folder} cannot be synced: {error.strerror or error}"
        # A power cut may take this file: it takes the page cache, too. Where it cannot be written, the next start does
        # not write that part again, and a later power cut may take it unnoticed.
        with contextlib.suppress(OSError):
            self.storage.open(f"{folder}/{SYNC_FAILED}").append([b"1"])

    def flush_every(self, before_ms: int | None, after_ms: int | None) -> None:
        """A log's `flush.ms` was `before_ms` and is `after_ms` now; None: the log is new, or gone.

        `flush_ms` becomes the shortest of all logs' times, at most `log.flush.scheduler.interval.ms`.
        """
        if before_ms == after_ms:
            return
        wanted = self._flush_wanted
        if before_ms is not None:
            wanted[before_ms] -= 1
            if not wanted[before_ms]:
                del wanted[before_ms]
        if after_ms is not None:
            wanted[after_ms] = wanted.get(after_ms, 0) + 1
        self.flush_ms = min(self.settings.log_flush_scheduler_interval_ms, min(wanted, default=NEVER))

    def remove_later(self, paths: list[str], delay_ms: int) -> None:
        """Remove these files when the delay is over; a broker that ends before removes them at its next start."""
        due_us = self.storage.write_back.now_us + delay_ms * 1000
        for path in paths:
            self._set_aside_count += 1
            heappush(self._set_aside, (due_us, self._set_aside_count, path))
        self.remove_due()

    def remove_due(self) -> None:
        """Remove the files whose delay is over; one that cannot be removed is left to the next start."""
        now_us = self.storage.write_back.now_us
        waiting = self._set_aside
        while waiting and waiting[0][0] <= now_us:
            with contextlib.suppress(OSError):
                self.storage.remove(heappop(waiting)[2])
        self.remove_due_us = waiting[0][0] if waiting else None

    def mark_clean(self, ends: Mapping[str, tuple[int, int]]) -> None:
        """All logs were closed in order; `ends` as `clean_end` gives them. OSError."""
        mark = {"version": 0, "brokerEpoch": -1, "logEnds": {**self._clean_ends, **ends}}
        self.storage.write_file(CLEAN_SHUTDOWN, json.dumps(mark).encode(), synced=True)

    def _take_clean_shutdown(self) -> dict[str, tuple[int, int]]:
        try:
            content = self.storage.read_file(CLEAN_SHUTDOWN)
        except OSError:
            content = b""
        if content is None:
            return {}
        self.storage.remove(CLEAN_SHUTDOWN, synced=True)
        return ends_in(content)


def ends_in(content: bytes) -> dict[str, tuple[int, int]]:
    """What a `.kafka_cleanshutdown` says of where logs ended, by folder; see `LogDirectory.clean_end`."""
    try:
        ends = json.loads(content)["logEnds"]
        return {str(folder): (int(end), int(size)) for folder, (end, size) in ends.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
