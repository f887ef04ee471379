"""One partition replica on this broker: its log, its role, the high watermark, and what waits for them.

As leader it takes batches from producers. Each follower's Fetch shows how far that follower has come. The high
watermark moves to the smallest log end of the replicas in sync (itself included), unless fewer of them are in sync than
`min.insync.replicas`. Requests that wait for the high watermark are answered while it moves, so the answer
NOT_ENOUGH_REPLICAS_AFTER_APPEND is never given (Kafka's brokers give it if the ISR shrinks in between). For a follower
that stays behind for `replica.lag.time.max.ms` the leader proposes that it is out of sync, for one that has caught up
that it is in sync again (`isr_proposals`). Until the controller agrees the larger set counts (KIP-497), and a living
follower that is about to join counts, too. As follower it copies what the leader has. The last batches of a leader stay
in memory until the high watermark has passed them, within `recent_batches_bytes` for the whole broker, so that
replication need not read the file.

Invariants: the high watermark never falls, except when the log is cut below it (after an unclean election), and never
passes the log's end; `recent` is a gapless run of batches that ends at the log's end, or empty; waiters are called at
every change they wait for.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from ottla.broker.events import PartitionImage
from ottla.broker.log.directory import LogDirectory
from ottla.broker.log.log import Log
from ottla.broker.metrics import TopicTraffic
from ottla.broker.storage import Buffer, FileSlice
from ottla.broker.topic_settings import TopicSettings
from ottla.broker.waiters import AckWaiter, FetchWaiter, LogStartWaiter
from ottla.protocol.messages.fetch import FetchPartition
from ottla.records.batch_header import BatchHeader

# Messages say why a log cannot be opened; the driver shows what is logged.
logger = logging.getLogger("ottla.broker")

NO_BROKER = -1


class Follower:
    """What a leader knows of a replica elsewhere; `caught_up_us` is 0 where it never was caught up."""

    __slots__ = ("broker_epoch", "caught_up_us", "end_offset", "fetched_us", "leader_end_offset", "log_start_offset")

    def __init__(self, caught_up_us: int) -> None:
        self.end_offset = -1
        self.caught_up_us = caught_up_us
        self.fetched_us = 0
        self.leader_end_offset = 0
        self.log_start_offset = -1
        self.broker_epoch = -1


class Proposals(Protocol):
    """Takes a leader's proposals to change which replicas are in sync; see `isr_proposals`."""

    alive: dict[int, int]
    heard_us: dict[int, int]
    lag_us: int

    def propose(self, partition: Partition) -> None:
        """Ask the controller for what `partition.proposed` says."""
        ...


class Fetcher(Protocol):
    """What fetches a replica's records from its leader; see `replica`."""

    def changed(self, partition: Partition) -> None:
        """The next Fetch must name this partition, as its offset or log start differs from the last one."""
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
        "_flush_ms",
        "_is_shut",
        "_proposals",
        "_waiting_acks",
        "broker_id",
        "consumers_waiting",
        "deletions_waiting",
        "epoch_start_offset",
        "fetch_again_us",
        "fetch_asked",
        "fetcher",
        "followed_from",
        "followers",
        "followers_waiting",
        "high_watermark",
        "index",
        "isr",
        "leader",
        "leader_epoch",
        "log",
        "partition_epoch",
        "proposed",
        "recent",
        "replicas",
        "settings",
        "topic",
        "topic_id",
        "traffic",
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
        proposals: Proposals,
    ) -> None:
        self.broker_id = broker_id
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.leader = NO_BROKER
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.proposed: tuple[int, ...] | None = None
        self.high_watermark = 0
        self.epoch_start_offset = 0
        self.log: Log | None = None
        self.settings = settings
        self.traffic = TopicTraffic()
        self.followers: dict[int, Follower] = {}
        self.fetch_again_us = 0
        # What the last Fetch asked the leader for, and what fetches; None where nothing does.
        self.fetch_asked: FetchPartition | None = None
        self.fetcher: Fetcher | None = None
        self.followed_from = 0
        # (base offset, next offset, batch)
        self.recent: deque[tuple[int, int, Buffer]] = deque()
        self.consumers_waiting: dict[FetchWaiter, None] = {}
        self.followers_waiting: dict[FetchWaiter, None] = {}
        self.deletions_waiting: dict[LogStartWaiter, None] = {}
        # (offset to be replicated up to, order of arrival, what waits), ascending
        self._waiting_acks: list[tuple[int, int, AckWaiter]] = []
        self._budget = budget
        self._directory = directory
        # The `flush.ms` that the directory has of this log; None where it has none.
        self._flush_ms: int | None = None
        self._proposals = proposals
        # Whether the last attempt to open the log failed, which was logged.
        self._is_shut = False

    def configure(self, settings: TopicSettings) -> None:
        """Use these settings from now on."""
        self.settings = settings
        self._flush_every(settings.flush_ms)
        if self.log is not None:
            self.log.settings = settings

    def _flush_every(self, flush_ms: int | None) -> None:
        self._directory.flush_every(self._flush_ms, flush_ms)
        self._flush_ms = flush_ms

    @property
    def folder(self) -> str:
        """The folder of its log."""
        return f"{self.topic}-{self.index}"

    @property
    def is_leader(self) -> bool:
        return self.leader == self.broker_id

    @property
    def last_stable_offset(self) -> int:
        """The end of what can be read as committed: the first open transaction, at most the high watermark.

        It moves only where the high watermark does: a marker counts once it is replicated.
        """
        log = self.log
        if log is None:
            return self.high_watermark
        stable_end = log.producers.stable_end(self.high_watermark)
        return stable_end if stable_end >= log.log_start_offset else min(log.log_start_offset, self.high_watermark)

    def open_log(self) -> bool:
        """Open and recover the log; True where it is (already) open, False where the storage fails.

        The first failure is logged, and the next one after a success: it is tried again with every request.
        """
        if self.log is not None:
            return True
        log = Log(self._directory, self.folder, self.settings)
        high_watermark = self._directory.high_watermark(self.folder)
        try:
            log.open(self.topic_id)
        except OSError as error:
            self._tell_shut(error)
            return False
        self._is_shut = False
        self.log = log
        committed = max(self.high_watermark, high_watermark, log.log_start_offset)
        if log.log_end_offset < committed:
            logger.warning(
                "broker %d: the log of %s ends at offset %d: offsets %d to %d were committed, and are missing here",
                self.broker_id,
                self.folder,
                log.log_end_offset,
                log.log_end_offset,
                committed - 1,
            )
        self.high_watermark = min(committed, log.log_end_offset)
        self.epoch_start_offset = log.log_end_offset
        self._note_epoch()
        return True

    def _tell_shut(self, error: OSError) -> None:
        if self._is_shut:
            return
        self._is_shut = True
        where = f" ({error.filename})" if error.filename else ""
        logger.error(
            "broker %d: the log of %s cannot be opened: %s%s; nothing of this replica is written or read until it can: "
            "put right what is wrong with the disk or the folder, and it is opened with the next attempt",
            self.broker_id,
            self.folder,
            error.strerror or error,
            where,
        )

    def become(self, image: PartitionImage, now_us: int) -> None:
        """Take the role the controller gives; a new leader epoch begins with nothing known of followers."""
        self.replicas = image.replicas
        if image.partition_epoch <= self.partition_epoch:
            return  # known already, perhaps from the answer to a proposal
        new_epoch = image.leader_epoch != self.leader_epoch
        self.leader = image.leader
        self.leader_epoch = image.leader_epoch
        self.partition_epoch = image.partition_epoch
        self.isr = image.isr
        self.proposed = None
        self._forget_recent()
        self.open_log()
        if new_epoch:
            self.fetch_again_us = 0
            self.followers = {
                each: Follower(now_us if each in image.isr else 0) for each in image.replicas if each != self.broker_id
            }
            self.epoch_start_offset = self.log.log_end_offset if self.log is not None else 0
            self._note_epoch()
            for waiter in (*self.consumers_waiting, *self.followers_waiting):
                waiter.wake()
        else:
            for each in image.replicas:
                # Replicas that are added do not end the epoch; those that go do.
                if each != self.broker_id and each not in self.followers:
                    self.followers[each] = Follower(0)
        if self.is_leader:
            self._tell_isr()
            self.reconsider(now_us)

    def _tell_isr(self) -> None:
        for waiter in self.followers_waiting:
            waiter.isr_changed()

    def _note_epoch(self) -> None:
        """As leader: note that the epoch begins here, also without a record; followers of an empty log need that."""
        if self.is_leader and self.log is not None:
            self.log.epochs.note(self.leader_epoch, self.log.log_end_offset)

    @property
    def min_isr(self) -> int:
        """How many replicas must be in sync for acks=all; no more than there are replicas."""
        return min(self.settings.min_insync_replicas, len(self.replicas))

    def broker_epoch_of(self, broker_id: int) -> int:
        """The broker epoch in a follower's last Fetch; -1 where it had none."""
        follower = self.followers.get(broker_id)
        return follower.broker_epoch if follower is not None else -1

    def append(self, records: bytearray | memoryview, header: BatchHeader, now_us: int) -> int:
        """Append a checked batch as leader and return its base offset.

        OSError: nothing was appended, or it could not be synced, and is in the log.
        """
        log = self.log
        assert log is not None
        end_offset = log.log_end_offset
        try:
            base_offset = log.append(records, header, self.leader_epoch)
        except OSError:
            if log.log_end_offset != end_offset:
                # Otherwise followers would get later batches from memory without this one.
                self._forget_recent()
            raise
        heard = self._proposals.heard_us
        for broker_id, follower in self.followers.items():
            heard_us = heard.get(broker_id, 0)
            if follower.end_offset == end_offset and heard_us > follower.fetched_us:
                # It has not named this partition since, as it had all of it: it was caught up at its last Fetch.
                follower.caught_up_us = max(follower.caught_up_us, heard_us)
                follower.fetched_us, follower.leader_end_offset = heard_us, end_offset
        if len(self.isr) > 1:
            self._keep_recent(base_offset, log.log_end_offset, records)
        else:
            self.advance_high_watermark(now_us)
        for waiter in self.followers_waiting:
            waiter.wake()
        return base_offset

    def await_replication(self, end_offset: int, order: int, waiter: AckWaiter) -> None:
        """Call the waiter when the high watermark has reached `end_offset`; `order` is unique and grows."""
        insort(self._waiting_acks, (end_offset, order, waiter))

    def stop_waiting(self, end_offset: int, order: int) -> None:
        """Forget the waiter with this order, if there is one."""
        waiting = self._waiting_acks
        at = bisect_left(waiting, (end_offset, order))
        if at < len(waiting) and waiting[at][1] == order:
            del waiting[at]

    def follower_fetched(self, broker_id: int, fetch_offset: int, now_us: int, broker_epoch: int = -1) -> None:
        """A follower (this start of it) has everything below `fetch_offset`."""
        follower = self.followers.get(broker_id)
        if follower is None or self.log is None:
            return
        end_offset = self.log.log_end_offset
        if fetch_offset >= end_offset:
            follower.caught_up_us = now_us
        elif fetch_offset >= follower.leader_end_offset:
            # It has all that there was at its last Fetch: it was caught up then.
            follower.caught_up_us = max(follower.caught_up_us, follower.fetched_us)
        follower.leader_end_offset = end_offset
        follower.fetched_us = now_us
        follower.broker_epoch = broker_epoch
        if broker_id not in self.isr:
            follower.end_offset = fetch_offset
            self._let_join(broker_id, follower)
            self.advance_high_watermark(now_us)
        elif follower.end_offset != fetch_offset:
            follower.end_offset = fetch_offset
            self.advance_high_watermark(now_us)

    def follower_begins(self, broker_id: int, log_start_offset: int, now_us: int) -> None:
        """A follower has nothing below `log_start_offset` any more."""
        follower = self.followers.get(broker_id)
        if follower is not None and follower.log_start_offset != log_start_offset:
            follower.log_start_offset = log_start_offset
            for waiter in list(self.deletions_waiting):
                waiter.log_start_moved(self, now_us)

    def log_start_moved(self) -> None:
        """The log begins later: those who fetch from it get that with an answer, its leader with the next Fetch."""
        for waiter in self.followers_waiting:
            waiter.wake()
        for waiter in self.consumers_waiting:
            waiter.note()
        if self.fetcher is not None:
            self.fetcher.changed(self)

    @property
    def low_watermark(self) -> int:
        """As leader: no replica that is alive has anything below this offset (Kafka's low watermark)."""
        lowest = self.log.log_start_offset if self.log is not None else -1
        for broker_id, follower in self.followers.items():
            if broker_id in self._proposals.alive:
                lowest = min(lowest, follower.log_start_offset)
        return lowest

    def reconsider(self, now_us: int) -> None:
        """As leader: something about the brokers or the replicas in sync has changed."""
        if len(self.isr) == 1:
            # No follower in sync needs recent batches, and from now on they are not kept.
            self._forget_recent()
        self.advance_high_watermark(now_us)
        for deletion in list(self.deletions_waiting):
            deletion.log_start_moved(self, now_us)

    def drop_laggards(self, now_us: int) -> None:
        """As leader: propose to go on without the followers that have stayed behind for too long."""
        if not self.open_log() or self.log is None or self.proposed is not None:
            return
        late: dict[int, None] = {}
        for broker_id, follower in self.followers.items():
            if follower.end_offset >= self.log.log_end_offset:
                # Idle followers of idle partitions are caught up as long as nothing is appended.
                follower.caught_up_us = now_us
            elif broker_id in self.isr and now_us - follower.caught_up_us > self._proposals.lag_us:
                late[broker_id] = None
        if late:
            self.proposed = tuple(each for each in self.isr if each not in late)
            self._proposals.propose(self)
        else:
            self.reconsider(now_us)

    def settle_isr(self, isr: tuple[int, ...], partition_epoch: int, now_us: int) -> None:
        """As leader: the controller has accepted a proposal."""
        if partition_epoch > self.partition_epoch:
            self.partition_epoch = partition_epoch
            self.isr = isr
            self.proposed = None
            self._tell_isr()
            self.reconsider(now_us)

    def _let_join(self, broker_id: int, follower: Follower) -> None:
        """Propose that a follower is in sync, if it has all that is committed, and its newest start is alive."""
        if self.proposed is not None or follower.end_offset < max(self.high_watermark, self.epoch_start_offset):
            return
        if self._may_join(broker_id, follower):
            self.proposed = (*self.isr, broker_id)
            self._proposals.propose(self)

    def _may_join(self, broker_id: int, follower: Follower) -> bool:
        epoch = self._proposals.alive.get(broker_id)
        return epoch is not None and follower.broker_epoch in (-1, epoch)

    def advance_high_watermark(self, now_us: int) -> None:
        """As leader: move the high watermark as far as all replicas in sync have come, and call the waiters."""
        log = self.log
        if log is None or len(self.isr) < self.min_isr:
            return
        reached = log.log_end_offset
        in_sync = self.isr if self.proposed is None else (*self.isr, *self.proposed)
        for broker_id, follower in self.followers.items():
            if follower.end_offset < reached and (
                broker_id in in_sync
                # A follower about to join is waited for, or it might never catch up with a busy leader.
                or (
                    now_us - follower.caught_up_us <= self._proposals.lag_us
                    and follower.caught_up_us
                    and self._may_join(broker_id, follower)
                )
            ):
                reached = follower.end_offset
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
        for fetch in self.followers_waiting:
            fetch.note()

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
        """Append batches as the leader gave them; OSError: see `Log.append_copies`."""
        assert self.log is not None
        self.log.append_copies(buffers, headers)
        self.traffic.replication_bytes_in += sum(map(len, buffers))

    def follow_high_watermark(self, high_watermark: int) -> None:
        """As follower: the leader's high watermark, as far as the log goes."""
        if self.log is None:
            return
        reached = min(high_watermark, self.log.log_end_offset)
        if reached > self.high_watermark:
            self.high_watermark = reached
            for fetch in self.consumers_waiting:
                fetch.wake()

    def follow_log_start(self, offset: int) -> None:
        """As follower: begin no earlier than the leader's log, at most at the high watermark."""
        if self.log is not None:
            self.log.advance_log_start(min(offset, self.high_watermark))

    def start_anew(self, offset: int) -> None:
        """As follower: drop all records, as the leader's log begins at `offset` and has none of them; OSError."""
        with self._cutting() as log:
            log.start_anew(offset)
        self.high_watermark = offset

    def truncate(self, offset: int) -> None:
        """As follower: cut what the leader does not have; OSError where the storage fails."""
        with self._cutting() as log:
            log.truncate(offset)
        if log.log_end_offset < self.high_watermark:
            logger.warning(
                "broker %d: the log of %s is cut from offset %d on, as its leader, broker %d, has nothing behind that: "
                "offsets %d to %d were committed, and are lost here",
                self.broker_id,
                self.folder,
                log.log_end_offset,
                self.leader,
                log.log_end_offset,
                self.high_watermark - 1,
            )
            self.high_watermark = log.log_end_offset

    @contextmanager
    def _cutting(self) -> Iterator[Log]:
        """The log to cut; if that fails half way, it is closed, and opened again from its files at the next attempt."""
        log = self.log
        assert log is not None
        try:
            yield log
        except OSError:
            log.give_up()
            self.log = None
            raise

    def retire(self, error_code: int, now_us: int) -> None:
        """The replica leads no more or is deleted: everything that waits for it gets this error, or looks again."""
        self._forget_recent()
        waiting, self._waiting_acks = self._waiting_acks, []
        for _, order, waiter in waiting:
            waiter.replicated(order, error_code, now_us)
        for fetch in (*self.consumers_waiting, *self.followers_waiting):
            fetch.wake()
        for deletion in list(self.deletions_waiting):
            deletion.log_start_moved(self, now_us)

    def close(self) -> None:
        """Close the log's files."""
        self._flush_every(None)
        if self.log is not None:
            self.log.close()
            self.log = None

    def remove(self) -> None:
        """Remove the log; OSError where the storage fails."""
        self._flush_every(None)
        if self.log is not None:
            self.log.remove()
            self.log = None
        else:
            # It was not opened, perhaps because it could not be.
            self._directory.remove_log_of(self.folder, self.topic_id)

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


# The partitions that a broker holds, by topic and index.
Topics = dict[str, dict[int, Partition]]
