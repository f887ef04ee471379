"""The replicas a broker holds: opened, made leaders or followers, and removed, by the controller's images.

Here is also what belongs to all of them: the image that was applied last, the broker's log directory and the upkeep of
its logs, one fetcher for each leader that is followed, the proposals about replicas in sync, and the fetch sessions of
clients and followers.

Logs are opened and recovered when the first image names them; until then no partition is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from random import Random

from ottla.broker.dynamic_settings import reconfigure
from ottla.broker.events import BrokerAddress, ClusterImage, PartitionImage, TopicImage
from ottla.broker.fetch_sessions import FetchSessions
from ottla.broker.isr_proposals import IsrProposals
from ottla.broker.log.directory import LogDirectory
from ottla.broker.log_upkeep import LogUpkeep
from ottla.broker.metrics import BrokerMetrics
from ottla.broker.outbox import Outbox
from ottla.broker.partition import NO_BROKER, Partition, RecentBudget, Topics
from ottla.broker.refused import Refused
from ottla.broker.replica import ReplicaFetcher
from ottla.broker.settings import BrokerSettings
from ottla.broker.storage import Storage
from ottla.broker.topic_ids import TopicIds
from ottla.broker.topic_settings import TopicSettings
from ottla.broker.wall_clock import WallClock
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.fetch import FetchResponse


class Replicas:
    """The replicas of one broker, `topics` by topic and index; `storage` is the broker's own folder.

    `settings` follows what is changed while the broker runs, `static_settings` is as it was started.
    """

    __slots__ = (
        "_budget",
        "_changed",
        "_fetchers",
        "_metrics",
        "_outbox",
        "broker_epoch",
        "broker_id",
        "directory",
        "fetch_sessions",
        "image",
        "proposals",
        "settings",
        "static_settings",
        "topic_ids",
        "topics",
        "upkeep",
    )

    def __init__(
        self,
        broker_id: int,
        broker_epoch: int,
        storage: Storage,
        settings: BrokerSettings,
        static_settings: BrokerSettings,
        rng: Random,
        clock: WallClock,
        outbox: Outbox,
        metrics: BrokerMetrics,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.settings = settings
        self.static_settings = static_settings
        self.image = ClusterImage(-1, "", NO_BROKER, (), {})
        self.topics: Topics = {}
        self.topic_ids = TopicIds()
        slots = static_settings.max_incremental_fetch_session_cache_slots
        self.fetch_sessions = FetchSessions(slots, rng, self.topics, self.topic_ids)
        self.directory = LogDirectory(storage, static_settings)
        self.proposals = IsrProposals(broker_id, broker_epoch, settings, self.topics, outbox)
        self.upkeep = LogUpkeep(self.topics, self.directory, settings, clock)
        self._outbox = outbox
        self._metrics = metrics
        self._budget = RecentBudget(static_settings.recent_batches_bytes)
        self._fetchers: dict[int, ReplicaFetcher] = {}
        # Leaders from which the last image changed what is to be fetched.
        self._changed: dict[int, None] = {}

    # Time.

    def deadline_us(self) -> int | None:
        """When `tick` is due at the latest; None: never."""
        due = self.upkeep.deadline_us()
        proposals_us = self.proposals.due_us
        if proposals_us is not None and (due is None or proposals_us < due):
            due = proposals_us
        for fetcher in self._fetchers.values():
            again = fetcher.ask_again_us
            if again is not None and (due is None or again < due):
                due = again
        return due

    def tick(self, now_us: int) -> None:
        """Do what is due for logs and followers, and ask leaders again."""
        self.upkeep.tick(now_us)
        self.proposals.tick(now_us)
        for fetcher in self._fetchers.values():
            if fetcher.ask_again_us is not None and fetcher.ask_again_us <= now_us:
                self._ask_leader(fetcher, now_us)

    def close(self, *, sync: bool = True) -> None:
        """Close all logs in order and leave a mark, so that the next start need not check every byte.

        Without `sync` the mark is left out, too: what is only in the page cache may not outlive a power cut.
        """
        try:
            if sync:
                self.upkeep.close_in_order()
        finally:
            for partitions in self.topics.values():
                for partition in partitions.values():
                    partition.close()
            self.topics.clear()

    # Others.

    def leader_answered(self, broker_id: int, token: int, answer: FetchResponse | None, now_us: int) -> None:
        """A leader has answered a Fetch; None: it cannot be reached."""
        fetcher = self._fetchers.get(broker_id)
        if fetcher is not None and fetcher.answered(token, answer, now_us):
            self._ask_leader(fetcher, now_us)

    def heard_from_follower(self, broker_id: int, now_us: int) -> None:
        """A Fetch of this follower has come."""
        self.proposals.heard_us[broker_id] = now_us

    # Leaders.

    def why_not_here(self, topic: str | None, index: int) -> Refused:
        """Why a partition is refused that this broker does not lead; topic None: asked for by an unknown id."""
        if topic is None:
            return Refused(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
        image = self.image.topics.get(topic)
        if image is None or not 0 <= index < len(image.partitions):
            return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {topic}-{index}")
        leader = image.partitions[index].leader
        return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic}-{index} is led by broker {leader}")

    def leader_of(self, topic: str, index: int) -> tuple[int, int, BrokerAddress | None]:
        """The leader's id, its epoch, and where it is; (-1, -1, None) where that is not known."""
        image = self.image.topics.get(topic)
        if image is None or not 0 <= index < len(image.partitions):
            return NO_BROKER, -1, None
        partition = image.partitions[index]
        for address in self.image.brokers:
            if address.broker_id == partition.leader:
                return partition.leader, partition.leader_epoch, address
        return partition.leader, partition.leader_epoch, None

    # Images.

    def apply(self, image: ClusterImage, now_us: int) -> list[str] | None:
        """Take a new image: open, lead, follow and remove partitions as it says; the topics that are gone with it.

        None where the image is older than the present one, or meant for an earlier start of this broker. Leaders are
        asked by `ask_changed_leaders`, when the coordinators have the image, too.
        """
        if image.version <= self.image.version or image.broker_epochs.get(self.broker_id) != self.broker_epoch:
            return None
        old, self.image = self.image, image
        reconfigured = image.broker_configs != old.broker_configs
        if reconfigured:
            reconfigure(self.settings, self.static_settings, image.broker_configs, self.broker_id)
        self.upkeep.start(now_us)
        changes = image.changes
        names: Mapping[str, tuple[int, ...] | None]
        if reconfigured or changes is None or changes.from_version != old.version:
            names = dict.fromkeys((*old.topics, *image.topics))
        else:
            names = changes.topics
        self.topic_ids.follow(old, image, names)
        if old.version < 0:
            self._remove_moved()
        gone = [name for name in names if _is_gone(old.topics.get(name), image.topics.get(name))]
        for name in gone:
            if name in self.topics:
                self._remove_topic(name, now_us)
        for name, indexes in names.items():
            topic = image.topics.get(name)
            if topic is not None and (reconfigured or topic is not old.topics.get(name)):
                self._apply_topic(topic, old.topics.get(name), indexes, reconfigured, now_us)
        epochs = image.broker_epochs
        self.proposals.apply({each.broker_id: epochs[each.broker_id] for each in image.brokers}, now_us)
        return gone

    def ask_changed_leaders(self, now_us: int) -> None:
        """Ask the leaders from which the last image changed what is to be fetched."""
        changed, self._changed = self._changed, {}
        for leader_id in changed:
            self._ask_leader(self._fetchers[leader_id], now_us)

    def _remove_topic(self, name: str, now_us: int) -> None:
        for partition in self.topics.pop(name).values():
            self._remove(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, now_us)
        self._metrics.forget_topic(name)

    def _let_go(self, name: str, index: int, now_us: int) -> None:
        """Hold a partition no more, its replica was moved; nothing happens where it is not held."""
        partitions = self.topics.get(name)
        if partitions is None or index not in partitions:
            return
        self._remove(partitions.pop(index), ErrorCode.NOT_LEADER_OR_FOLLOWER, now_us)
        if not partitions:
            del self.topics[name]
            self._metrics.forget_topic(name)

    def _remove(self, partition: Partition, error_code: int, now_us: int) -> None:
        """Everything that waits for the partition gets this error, and its log is removed."""
        self._stop_following(partition)
        partition.leader = NO_BROKER
        partition.retire(error_code, now_us)
        _remove_log(partition)

    def _remove_moved(self) -> None:
        """Remove the logs of replicas that were moved to others while this broker was down."""
        with suppress(OSError):
            for folder in self.directory.storage.folders():
                name, _, number = folder.rpartition("-")
                topic = self.image.topics.get(name)
                if topic is None or not number.isdecimal() or int(number) >= len(topic.partitions):
                    continue
                if self.broker_id not in topic.partitions[int(number)].replicas:
                    self.directory.remove_log_of(folder, topic.topic_id)

    def _apply_topic(
        self,
        topic: TopicImage,
        before: TopicImage | None,
        indexes: tuple[int, ...] | None,
        reconfigured: bool,
        now_us: int,
    ) -> None:
        """Take what is new of one topic: all of its partitions where `indexes` does not say which."""
        name = topic.name
        known = before.partitions if before is not None and before.topic_id == topic.topic_id else ()
        kept = self.topics.get(name)
        if kept and before is not None and topic.configs == before.configs and not reconfigured:
            # Most images change only leaders and replicas in sync: then no setting has changed.
            settings = next(iter(kept.values())).settings
        else:
            settings = TopicSettings(topic.configs, self.settings)
        for index in range(len(topic.partitions)) if indexes is None or reconfigured else indexes:
            role = topic.partitions[index]
            if index < len(known) and known[index] is not role:
                self._metrics.partition_changed(known[index], role, self.broker_id)
            if self.broker_id not in role.replicas:
                self._let_go(name, index, now_us)
            else:
                partitions = self.topics.setdefault(name, {})
                if index not in partitions:
                    partitions[index] = self._new_partition(name, topic.topic_id, index, settings)
                partitions[index].configure(settings)
                if index < len(known) and known[index] == role:
                    continue
                self._take_role(partitions[index], role, now_us)

    def _new_partition(self, topic: str, topic_id: bytes, index: int, settings: TopicSettings) -> Partition:
        partition = Partition(
            self.broker_id, topic, topic_id, index, settings, self.directory, self._budget, self.proposals
        )
        partition.traffic = self._metrics.traffic(topic)
        return partition

    def _take_role(self, partition: Partition, role: PartitionImage, now_us: int) -> None:
        if role.partition_epoch <= partition.partition_epoch:
            partition.become(role, now_us)
            return
        if partition.is_leader and role.leader != self.broker_id:
            partition.leader = role.leader
            partition.retire(ErrorCode.NOT_LEADER_OR_FOLLOWER, now_us)
        self._stop_following(partition)
        partition.become(role, now_us)
        if role.leader not in (self.broker_id, NO_BROKER):
            fetcher = self._fetchers.get(role.leader)
            if fetcher is None:
                fetcher = self._fetchers[role.leader] = ReplicaFetcher(
                    self.broker_id, self.broker_epoch, role.leader, self.settings
                )
            fetcher.follow(partition, self._outbox.next_number())
            self._changed[role.leader] = None

    def _stop_following(self, partition: Partition) -> None:
        fetcher = self._fetchers.get(partition.leader)
        if fetcher is not None:
            fetcher.unfollow(partition.topic, partition.index)
            self._changed[partition.leader] = None

    def _ask_leader(self, fetcher: ReplicaFetcher, now_us: int) -> None:
        question = fetcher.question(self._outbox.next_number(), now_us)
        if question is not None:
            self._outbox.put(question)


def _remove_log(partition: Partition) -> None:
    try:
        partition.remove()
    except OSError:
        # The partition is gone all the same. A folder that cannot be removed stays: a new topic of that name sets it
        # aside.
        partition.close()


def _is_gone(before: TopicImage | None, after: TopicImage | None) -> bool:
    """Whether a topic is deleted, perhaps to make room for another one of its name."""
    return before is not None and (after is None or after.topic_id != before.topic_id)
