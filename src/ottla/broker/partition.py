"""One partition replica on this broker: its log, its role, the high watermark, and who waits for either.

As leader it takes batches from producers, learns from each follower's Fetch how far that follower has come, and moves
the high watermark to the smallest log end of the replicas in sync (itself included). As follower it copies what the
leader has. The last batches of a leader stay in memory until every follower has fetched them, within
`recent_batches_bytes` for the whole broker, so that replication need not read the file again.

Invariants: the high watermark never falls and never passes the log's end; `recent` is a gapless run of batches that
ends at the log's end, or empty; waiters are told of every change they wait for.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from typing import Protocol

from ottla.broker.events import PartitionImage
from ottla.broker.log.directory import LogDirectory
from ottla.broker.log.log import Log
from ottla.broker.storage import Buffer, FileSlice
from ottla.broker.topic_settings import TopicSettings
from ottla.records.batch_header import BatchHeader

NO_BROKER = -1


class AckWaiter(Protocol):
    """A produce request that waits until its records are replicated."""

    def replicated(self, order: int, error_code: int, now_us: int) -> None:
        """What it waits for under `order` is replicated (error code 0) or will never be."""
        ...


class FetchWaiter(Protocol):
    """A fetch request that waits for more bytes."""

    def wake(self) -> None:
        """Something it waits for has changed."""
        ...


class RecentBudget:
    """How many bytes of recent batches a broker may keep in memory, and keeps."""

    __slots__ = ("limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0


class Partition:
    """A replica of `topic`-`index`; `log` is None while storage refuses to open it."""

    __slots__ = (
        "_budget",
        "_directory",
        "_waiting_acks",
        "broker_id",
        "consumers_waiting",
        "epoch_start_offset",
        "fetch_again_us",
        "follower_ends",
        "followers_waiting",
        "high_watermark",
        "index",
        "isr",
        "leader",
        "leader_epoch",
        "log",
        "recent",
        "replicas",
        "settings",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        broker_id: int,
        topic: str,
        topic_id: bytes,
        index: int,
        settings: TopicSettings,
        directory: LogDirectory,
        budget: RecentBudget,
    ) -> None:
        self.broker_id = broker_id
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.leader = NO_BROKER
        self.leader_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.high_watermark = 0
        self.epoch_start_offset = 0
        self.log: Log | None = None
        self.settings = settings
        self.follower_ends: dict[int, int] = {}
        self.fetch_again_us = 0
        # (base offset, next offset, batch)
        self.recent: deque[tuple[int, int, Buffer]] = deque()
        self.consumers_waiting: dict[FetchWaiter, None] = {}
        self.followers_waiting: dict[FetchWaiter, None] = {}
        # (offset to be replicated up to, order of arrival, who waits), ascending
        self._waiting_acks: list[tuple[int, int, AckWaiter]] = []
        self._budget = budget
        self._directory = directory

    def configure(self, settings: TopicSettings) -> None:
        """Go by these settings from now on."""
        self.settings = settings
        if self.log is not None:
            self.log.settings = settings

    @property
    def folder(self) -> str:
        """The folder of its log."""
        return f"{self.topic}-{self.index}"

    @property
    def is_leader(self) -> bool:
        return self.leader == self.broker_id

    def open_log(self) -> bool:
        """Open and recover the log; False where the storage fails, True where it is (already) open."""
        if self.log is not None:
            return True
        log = Log(self._directory, self.folder, self.settings)
        high_watermark = self._directory.high_watermark(self.folder)
        try:
            log.open(self.topic_id)
        except OSError:
            return False
        self.log = log
        self.high_watermark = min(max(self.high_watermark, high_watermark, log.log_start_offset), log.log_end_offset)
        self.epoch_start_offset = log.log_end_offset
        return True

    def become(self, image: PartitionImage, now_us: int) -> None:
        """Take the role the controller gives; leaders of a new epoch forget what they knew of followers."""
        new_epoch = image.leader_epoch != self.leader_epoch or image.leader != self.leader
        self.leader = image.leader
        self.leader_epoch = image.leader_epoch
        self.replicas = image.replicas
        self.isr = image.isr
        self._forget_recent()
        self.open_log()
        if new_epoch:
            self.fetch_again_us = 0
            self.follower_ends = {}
            self.epoch_start_offset = self.log.log_end_offset if self.log is not None else 0
        if self.is_leader:
            self.advance_high_watermark(now_us)

    def append(self, records: bytearray | memoryview, header: BatchHeader, now_us: int) -> int:
        """Append a checked batch as leader and return its base offset; OSError: nothing was appended."""
        log = self.log
        assert log is not None
        base_offset = log.append(records, header, self.leader_epoch)
        if len(self.isr) > 1:
            self._keep_recent(base_offset, log.log_end_offset, records)
        else:
            self.advance_high_watermark(now_us)
        for waiter in self.followers_waiting:
            waiter.wake()
        return base_offset

    def await_replication(self, end_offset: int, order: int, waiter: AckWaiter) -> None:
        """Tell the waiter when the high watermark has reached `end_offset`; `order` is unique and grows."""
        insort(self._waiting_acks, (end_offset, order, waiter))

    def follower_fetched(self, broker_id: int, fetch_offset: int, now_us: int) -> None:
        """A follower has everything below `fetch_offset`."""
        if self.follower_ends.get(broker_id) != fetch_offset:
            self.follower_ends[broker_id] = fetch_offset
            self.advance_high_watermark(now_us)

    def advance_high_watermark(self, now_us: int) -> None:
        """As leader: move the high watermark as far as all replicas in sync have come, and tell who waits."""
        log = self.log
        if log is None:
            return
        reached = log.log_end_offset
        for broker_id in self.isr:
            if broker_id != self.broker_id:
                reached = min(reached, self.follower_ends.get(broker_id, 0))
        if reached <= self.high_watermark:
            return
        self.high_watermark = reached
        recent = self.recent
        while recent and recent[0][1] <= reached:
            self._budget.used_bytes -= len(recent.popleft()[2])
        waiting = self._waiting_acks
        if waiting and waiting[0][0] <= reached:
            done = 0
            while done < len(waiting) and waiting[done][0] <= reached:
                done += 1
            replicated = waiting[:done]
            del waiting[:done]
            for _, order, waiter in replicated:
                waiter.replicated(order, 0, now_us)
        for fetch in self.consumers_waiting:
            fetch.wake()

    def slice_for_follower(self, offset: int, max_bytes: int, at_least_one: bool) -> list[Buffer] | FileSlice | None:
        """Batches from `offset` to the log's end: from memory where they are recent, else from the file."""
        log = self.log
        assert log is not None
        recent = self.recent
        if not recent or offset < recent[0][0]:
            end_offset = recent[0][0] if recent else log.log_end_offset
            return log.slice(offset, end_offset, max_bytes, at_least_one)
        found: list[Buffer] = []
        size = 0
        for _, next_offset, batch in recent:
            if next_offset <= offset:
                continue
            size += len(batch)
            if size > max_bytes and not (at_least_one and not found):
                break
            found.append(batch)
        return found or None

    def append_copies(self, buffers: list[Buffer], headers: list[BatchHeader]) -> None:
        """Append batches as the leader gave them; OSError: nothing was appended."""
        assert self.log is not None
        self.log.append_copies(buffers, headers)

    def follow_high_watermark(self, high_watermark: int) -> None:
        """As follower: the leader's high watermark, as far as the log goes."""
        if self.log is not None:
            self.high_watermark = max(self.high_watermark, min(high_watermark, self.log.log_end_offset))

    def truncate(self, offset: int) -> None:
        """As follower: cut what the leader does not have; OSError where the storage fails."""
        assert self.log is not None
        self.log.truncate(offset)
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)

    def retire(self, error_code: int, now_us: int) -> None:
        """The replica leads no more or is deleted: whoever waits is told so."""
        self._forget_recent()
        waiting, self._waiting_acks = self._waiting_acks, []
        for _, order, waiter in waiting:
            waiter.replicated(order, error_code, now_us)
        for fetch in (*self.consumers_waiting, *self.followers_waiting):
            fetch.wake()

    def close(self) -> None:
        """Give the log's files back."""
        if self.log is not None:
            self.log.close()
            self.log = None

    def remove(self) -> None:
        """Remove the log; OSError where the storage fails."""
        if self.log is not None:
            self.log.remove()
            self.log = None

    def _keep_recent(self, base_offset: int, next_offset: int, batch: Buffer) -> None:
        budget, recent = self._budget, self.recent
        size = len(batch)
        while recent and budget.used_bytes + size > budget.limit_bytes:
            budget.used_bytes -= len(recent.popleft()[2])
        if budget.used_bytes + size <= budget.limit_bytes:
            recent.append((base_offset, next_offset, batch))
            budget.used_bytes += size

    def _forget_recent(self) -> None:
        self._budget.used_bytes -= sum(len(batch) for _, _, batch in self.recent)
        self.recent.clear()
