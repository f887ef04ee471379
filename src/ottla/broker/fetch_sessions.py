"""Fetch sessions (KIP-227): requests name only partitions whose fetch has changed, answers only those with news.

A session keeps the partitions that a client, or another broker, fetches, each with the offset asked for last. A
partition wakes the session when something happens to it, so a Fetch looks only at the partitions in `news`, however
many there are. Every Fetch has a session: one that begins none (epoch -1, or no slot left) has its own for as long as
it lasts.

    session id, epoch of the request   what it means
    0, 0                               begin a session
    n, 0                               end session n and begin another one
    0, -1                              no session
    n, -1                              end session n
    n, k                               request number k of session n: the partitions that changed, those to forget

A client's session survives its connection. There are `max.incremental.fetch.session.cache.slots` of them. If none is
free, one session is closed: one that was not used for two minutes, else the smallest of those that were in use for
longer than that, if it is smaller than the new one. A client's session counts as smaller than a broker's, and makes
room for one at any age. A broker that begins a session has ended the one it had.

Invariants: a partition that is not in `news` has nothing to give beyond the offset asked for; a session that is kept is
woken by every partition that it found here; a partition that was answered with an error stays in `news`.
"""

from __future__ import annotations

from random import Random
from typing import Any, Protocol

from ottla.broker.partition import Partition, Topics
from ottla.broker.topic_ids import TopicIds
from ottla.broker.waiters import FetchWaiter
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest

CONSUMER = -1
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
NO_SESSION = 0
_EPOCH_MAX = (1 << 31) - 1
_ID_BITS = 31
# See the module (Kafka's eviction time, which is no setting).
_OLD_US = 120_000_000


def follower_id(message: FetchRequest) -> int:
    """The broker that fetches, or CONSUMER (which debugging tools with ids below -1 are, too)."""
    replica_id = message.replica_id if message.replica_state is None else message.replica_state.replica_id
    return max(CONSUMER, replica_id)


def next_epoch(epoch: int) -> int:
    """The epoch of the request after one with this epoch."""
    return 1 if epoch == _EPOCH_MAX else epoch + 1


class WaitingFetch(Protocol):
    """A Fetch that waits for one of its partitions."""

    def wake(self) -> None:
        """One of them has news."""
        ...

    def end(self, now_us: int) -> None:
        """The next Fetch of the session has come."""
        ...


class SessionPartition:
    """One partition of a session: what was asked for, and what was in the last answer.

    `topic` is None where no topic has the id asked for; `partition` is None where this broker does not hold it.
    """

    __slots__ = (
        "asked",
        "index",
        "partition",
        "session",
        "told_high_watermark",
        "told_log_start",
        "topic",
        "topic_id",
    )

    def __init__(self, session: FetchSession, topic: str | None, topic_id: bytes, asked: FetchPartition) -> None:
        self.session = session
        self.topic = topic
        self.topic_id = topic_id
        self.index = asked.partition
        self.asked = asked
        self.partition: Partition | None = None
        # A follower begins with high watermark 0 and its own log start; a consumer gets both with the first answer.
        follows = session.follower_id != CONSUMER
        self.told_high_watermark = 0 if follows else -1
        self.told_log_start = asked.log_start_offset if follows else -1

    def wake(self) -> None:
        """There may be more to read, or an error to answer."""
        session = self.session
        session.news[self] = None
        if session.parked is not None:
            session.parked.wake()

    def note(self) -> None:
        """The high watermark or the log's start has moved: it is to be in the next answer."""
        self.session.untold[self] = None

    def isr_changed(self) -> None:
        """Check with the next Fetch whether the follower is in sync."""
        self.session.joining[self] = None


class FetchSession:
    """What one client or follower fetches of the `topics` held here.

    `id` is NO_SESSION and `is_kept` False where it lasts for one Fetch only.

    `news`: partitions to look at for the next answer; `untold`: those whose high watermark or log start may have moved;
    `joining`: those whose follower is not in sync, or whose last Fetch could not be noted. `parked`: the Fetch that
    waits.
    """

    __slots__ = (
        "_topic_ids",
        "_topics",
        "created_us",
        "epoch",
        "follower_id",
        "id",
        "is_kept",
        "is_listening",
        "joining",
        "news",
        "parked",
        "partitions",
        "untold",
        "used_us",
        "uses_topic_ids",
    )

    def __init__(self, follower_id: int, uses_topic_ids: bool, topics: Topics, topic_ids: TopicIds) -> None:
        self._topics = topics
        self._topic_ids = topic_ids
        self.id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self.follower_id = follower_id
        self.uses_topic_ids = uses_topic_ids
        self.is_kept = self.is_listening = False
        self.created_us = self.used_us = 0
        # By (topic, index) or, where clients ask by topic id, by (topic id, index).
        self.partitions: dict[tuple[Any, int], SessionPartition] = {}
        self.news: dict[SessionPartition, None] = {}
        self.untold: dict[SessionPartition, None] = {}
        self.joining: dict[SessionPartition, None] = {}
        self.parked: WaitingFetch | None = None

    def ask(self, message: FetchRequest) -> None:
        """Take over what a request asks for and what it forgets."""
        partitions = self.partitions
        by_id = self.uses_topic_ids
        for topic in message.topics:
            name: Any = topic.topic_id if by_id else topic.topic
            for asked in topic.partitions:
                known = partitions.get((name, asked.partition))
                if known is None:
                    known = SessionPartition(self, topic.topic, topic.topic_id, asked)
                    partitions[name, asked.partition] = known
                    if self.follower_id != CONSUMER:
                        self.untold[known] = None
                else:
                    known.topic_id = topic.topic_id
                    known.asked = asked
                self.find(known)
                self.news[known] = None
        for forgotten in message.forgotten_topics_data:
            name = forgotten.topic_id if by_id else forgotten.topic
            for index in forgotten.partitions:
                gone = partitions.pop((name, index), None)
                if gone is not None:
                    self._hear_no_more_of(gone)
                    self.news.pop(gone, None)
                    self.untold.pop(gone, None)
                    self.joining.pop(gone, None)

    def find(self, each: SessionPartition) -> None:
        """Look the partition up: it may have come, gone, or be another one of the same name."""
        if self.uses_topic_ids:
            each.topic = self._topic_ids.name_of(each.topic_id)
        held = self._topics.get(each.topic) if each.topic is not None else None
        found = held.get(each.index) if held is not None else None
        if found is not None and each.topic_id != ZERO_UUID and found.topic_id != each.topic_id:
            found = None
        if found is each.partition:
            return
        self._hear_no_more_of(each)
        each.partition = found
        if found is not None and self.is_listening:
            self._waiters(found)[each] = None

    def listen(self) -> None:
        """From now on the partitions wake this session."""
        if self.is_listening:
            return
        self.is_listening = True
        for each in self.partitions.values():
            if each.partition is not None:
                self._waiters(each.partition)[each] = None

    def end(self) -> None:
        """Nothing of this session is needed any more, unless a Fetch still waits: that ends it when it is answered."""
        self.is_kept = False
        if self.is_listening and self.parked is None:
            self.is_listening = False
            for each in self.partitions.values():
                if each.partition is not None:
                    self._waiters(each.partition).pop(each, None)

    def _hear_no_more_of(self, each: SessionPartition) -> None:
        if each.partition is not None and self.is_listening:
            self._waiters(each.partition).pop(each, None)

    def _waiters(self, partition: Partition) -> dict[FetchWaiter, None]:
        return partition.consumers_waiting if self.follower_id == CONSUMER else partition.followers_waiting


class FetchSessions:
    """The sessions of one broker; `evictions` counts those that were closed for new ones.

    `of_followers`: the newest session of each broker that fetches here, also while it is not kept.
    """

    __slots__ = ("_rng", "_sessions", "_slots", "_topic_ids", "_topics", "evictions", "of_followers")

    def __init__(self, slots: int, rng: Random, topics: Topics, topic_ids: TopicIds) -> None:
        self._slots = slots
        self._rng = rng
        self._topics = topics
        self._topic_ids = topic_ids
        # The one that was not used for longest comes first.
        self._sessions: dict[int, FetchSession] = {}
        self.of_followers: dict[int, FetchSession] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def partitions_kept(self) -> int:
        """How many partitions all sessions have."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def of(self, message: FetchRequest) -> FetchSession | None:
        """The session that a request goes on with; None for one that begins with it."""
        return self._sessions.get(message.session_id) if message.session_epoch > INITIAL_EPOCH else None

    def begin(self, message: FetchRequest, follower_id: int, by_id: bool) -> FetchSession:
        """A session of a request that says it is the first; it lasts for that one, unless it is kept."""
        session = FetchSession(follower_id, by_id, self._topics, self._topic_ids)
        session.ask(message)
        return session

    def go_on(
        self, message: FetchRequest, follower_id: int, by_id: bool, now_us: int
    ) -> tuple[FetchSession | None, int]:
        """The session of a request that says it is not the first, brought up to date; or why not."""
        session = self._sessions.get(message.session_id)
        if session is None or session.follower_id != follower_id:
            return None, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != message.session_epoch:
            return None, ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != by_id:
            return None, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.ask(message)
        if session.partitions:
            session.epoch = next_epoch(session.epoch)
            session.used_us = now_us
            self._sessions[session.id] = self._sessions.pop(session.id)
        else:
            self.close(session)
        return session, 0

    def keep(self, session: FetchSession, now_us: int) -> None:
        """Give a session that begins an id, where there is room."""
        if len(self._sessions) >= self._slots and not self._make_room(session, now_us):
            return
        number = 0
        while number == NO_SESSION or number in self._sessions:
            number = self._rng.getrandbits(_ID_BITS)
        session.id = number
        session.epoch = next_epoch(INITIAL_EPOCH)
        session.is_kept = True
        session.created_us = session.used_us = now_us
        self._sessions[number] = session
        session.listen()

    def close_number(self, session_id: int) -> None:
        """End the session with this id, where there is one."""
        session = self._sessions.get(session_id)
        if session is not None:
            self.close(session)

    def close(self, session: FetchSession) -> None:
        """End a session."""
        self._sessions.pop(session.id, None)
        session.id = NO_SESSION
        session.end()

    def _make_room(self, newcomer: FetchSession, now_us: int) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_us - oldest.used_us <= _OLD_US:
            privileged = newcomer.follower_id != CONSUMER
            worth = (privileged, len(newcomer.partitions), NO_SESSION)
            least: FetchSession | None = None
            for session in self._sessions.values():
                is_old = session.used_us - session.created_us > _OLD_US
                if (is_old or (privileged and session.follower_id == CONSUMER)) and (
                    least is None or _worth(session) < _worth(least)
                ):
                    least = session
            if least is None or worth < _worth(least):
                return False
            oldest = least
        self.close(oldest)
        self.evictions += 1
        return True


def _worth(session: FetchSession) -> tuple[bool, int, int]:
    return session.follower_id != CONSUMER, len(session.partitions), session.id
