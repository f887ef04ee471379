"""A broker's decisions: requests in, answers out, logs kept through the storage port; no sockets, no clock, no threads.

How a driver runs it: `receive` an event, then carry out `outputs()` in order; `deadline_us()` says when to call
`tick`. Requests of one connection are handled one at a time in the order they came: what arrives while an answer is
owed waits inside the core (`queued` counts it, so that a driver can stop reading from the socket). Every request gets
a `Respond`; its message is None where no answer is expected (Produce with acks=0). After `HangUp` whatever else had
arrived on that connection is dropped; the driver reports every ended connection, also those it closed on `HangUp`,
with `ConnectionLost`. Connection ids are used once.

Peers: `AskPeer` reaches the other broker as a `RequestReceived` on a connection of its own; what that broker answers
comes back as `PeerAnswered`. Records of a request are patched in place (base offset and leader epoch) where their
memory is writable, kept and passed on to followers by reference, so a driver must hand over memory that nobody
writes to again.

Invariants: nothing is acknowledged that was not appended; a partition's log is read by consumers below its high
watermark only; an OSError of the storage becomes KAFKA_STORAGE_ERROR for that partition and harms no other, except that
of a sync: with it the broker has `Halted`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from copy import copy
from random import Random
from typing import TYPE_CHECKING, Any

from ottla.broker import strikes
from ottla.broker.apis import API_VERSIONS, FETCH, PRODUCE, VERSIONS, api_versions, fetch
from ottla.broker.apis.handlers import handler_of
from ottla.broker.dynamic_settings import reconfigure
from ottla.broker.events import (
    AskController,
    AskPeer,
    BrokerAddress,
    ClusterImage,
    ConnectionLost,
    ControllerAnswered,
    Halted,
    HangUp,
    ImagePublished,
    PartitionImage,
    PeerAnswered,
    Released,
    RequestReceived,
    Respond,
    Struck,
    TopicImage,
)
from ottla.broker.fetch_sessions import CONSUMER, FetchSessions
from ottla.broker.heartbeats import Heartbeats
from ottla.broker.isr_proposals import IsrProposals
from ottla.broker.log.directory import LogDirectory
from ottla.broker.log.upkeep import LogUpkeep
from ottla.broker.metrics import FOLLOWER_FETCH, BrokerMetrics
from ottla.broker.partition import NO_BROKER, Partition, RecentBudget
from ottla.broker.purgatory import DelayedOperation, Purgatory
from ottla.broker.replica import ReplicaFetcher
from ottla.broker.request import Cancellable, Connection, Request, fault_context
from ottla.broker.settings import BrokerSettings
from ottla.broker.storage import Storage
from ottla.broker.topic_ids import FROM_VERSION as TOPIC_IDS_FROM_VERSION
from ottla.broker.topic_ids import TopicIds
from ottla.broker.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.broker.topic_settings import TopicSettings
from ottla.faults.plan import Action, FaultPlan
from ottla.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.groups.coordinator import GroupCoordinator
    from ottla.broker.transactions.coordinator import TransactionCoordinator

# Why a broker ends must be found where brokers' own words are; the driver shows what is logged.
logger = logging.getLogger("ottla.broker")


class BrokerCore:
    """One broker: `storage` is its own folder, `faults` (shared by the brokers of a cluster) strikes its requests.

    Logs are opened and recovered when the first `ImagePublished` names them; until then no partition is known.
    `wall_offset_us` is what must be added to `now_us` for the time since 1970; a driver may change it (a clock jump).
    """

    def __init__(
        self,
        broker_id: int,
        storage: Storage,
        settings: BrokerSettings,
        rng: Random,
        faults: FaultPlan | None = None,
        *,
        wall_offset_us: int = 0,
        broker_epoch: int = 1,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.wall_offset_us = wall_offset_us
        self.storage = storage
        # As started; `settings` follows what is changed while the broker runs.
        self.static_settings = settings
        self.settings = copy(settings)
        self.rng = rng
        self.faults = faults if faults is not None else FaultPlan()
        self.image = ClusterImage(-1, "", NO_BROKER, (), {})
        self.topics: dict[str, dict[int, Partition]] = {}
        self.purgatory = Purgatory()
        self.metrics = BrokerMetrics()
        # What faults hold back, by the ids of their rules, until `Released`.
        self.held: dict[int, list[DelayedOperation]] = {}
        self.woken: dict[fetch.PendingFetch, None] = {}
        self.fetch_sessions = FetchSessions(settings.max_incremental_fetch_session_cache_slots, rng)
        self._budget = RecentBudget(settings.recent_batches_bytes)
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._connections: dict[int, Connection] = {}
        self._due: deque[Connection] = deque()
        self._asked: dict[int, Callable[[Any, int], None]] = {}
        self._peers_asked: dict[int, Callable[[Any, int], None]] = {}
        self._groups: GroupCoordinator | None = None
        self._transactions: TransactionCoordinator | None = None
        self.topic_ids = TopicIds()
        self._outputs: list[Any] = []
        self._heartbeats = Heartbeats(self)
        self._proposals = IsrProposals(self)
        # No number of an earlier start of this broker is given again: answers to it are still on their way.
        self._number = broker_epoch << 40
        self._write_back = storage.write_back
        self._write_back.set_interval(settings.os_flush_interval_ms * 1000)
        self.directory = LogDirectory(storage, settings)
        self.is_halted = False
        self.upkeep = LogUpkeep(self)

    def receive(self, event: Any, now_us: int) -> None:
        """Take a RequestReceived, ConnectionLost, PeerAnswered, ControllerAnswered, ImagePublished or Released."""
        if self.is_halted:
            return
        self._write_back.now_us = now_us
        kind = type(event)
        if kind is RequestReceived:
            self._request_received(event, now_us)
        elif kind is PeerAnswered and event.token in self._peers_asked:
            self._peers_asked.pop(event.token)(event.message, now_us)
        elif kind is PeerAnswered:
            fetcher = self._fetchers.get(event.broker_id)
            if fetcher is not None and fetcher.answered(event.token, event.message, now_us):
                self._ask_leader(fetcher, now_us)
        elif kind is ConnectionLost:
            connection = self._connections.pop(event.connection_id, None)
            if connection is not None and connection.parked is not None:
                connection.parked.cancel()
        elif kind is ControllerAnswered:
            answered = self._asked.pop(event.token, None)
            if answered is not None:  # otherwise it was an earlier start of this broker that asked
                answered(event.message, now_us)
        elif kind is ImagePublished:
            self._apply(event.image, now_us)
        elif kind is Released:
            for operation in self.held.pop(event.fault_id, ()):
                operation.expire(now_us)
        else:
            raise TypeError(f"a broker core knows no event {kind.__name__}")
        self._settle(now_us)

    def outputs(self) -> list[Any]:
        """What must now be done, in order: Respond, HangUp, AskPeer, AskController, LetGo, Halted; each once."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def deadline_us(self) -> int | None:
        """When `tick` is due at the latest; None: never."""
        if self.is_halted:
            return None
        due = self._heartbeats.due_us
        purgatory_us = self.purgatory.deadline_us()
        if purgatory_us is not None and purgatory_us < due:
            due = purgatory_us
        upkeep_us = self.upkeep.deadline_us()
        if upkeep_us is not None and upkeep_us < due:
            due = upkeep_us
        proposals_us = self._proposals.due_us
        if proposals_us is not None and proposals_us < due:
            due = proposals_us
        for fetcher in self._fetchers.values():
            again = fetcher.ask_again_us
            if again is not None and again < due:
                due = again
        return due

    def tick(self, now_us: int) -> None:
        """Answer what has waited long enough, and ask leaders again."""
        if self.is_halted:
            return
        self._write_back.now_us = now_us
        self.purgatory.expire(now_us)
        if self._heartbeats.due_us <= now_us:
            self._heartbeats.send(now_us)
        self.upkeep.tick(now_us)
        self._proposals.tick(now_us)
        for fetcher in self._fetchers.values():
            if fetcher.ask_again_us is not None and fetcher.ask_again_us <= now_us:
                self._ask_leader(fetcher, now_us)
        self._settle(now_us)

    def queued_requests(self) -> int:
        """Requests of all connections that wait for their turn."""
        return sum(len(connection.waiting) for connection in self._connections.values())

    def queued(self, connection_id: int) -> int:
        """Requests of this connection that wait for their turn (the one being handled not counted)."""
        connection = self._connections.get(connection_id)
        return len(connection.waiting) if connection is not None else 0

    def shut_down(self, now_us: int) -> None:
        """Ask the controller to move leadership elsewhere; `LetGo` comes out when that is done."""
        self._heartbeats.go(now_us)

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
            self.topics = {}

    # What the APIs in `apis/` work with.

    def wall_ms(self, now_us: int) -> int:
        """The time since 1970 in milliseconds, as this broker's clock has it."""
        return (now_us + self.wall_offset_us) // 1000

    def answer(self, request: Request, message: Any, now_us: int) -> None:
        """Give a request its answer, or do to it what the fault plan says."""
        if request.context is not None:
            strikes.handled(self, request, None, now_us)
        if request.after is not None and strikes.instead_of_answer(self, request, message, now_us):
            return
        self.send(request, message if request.expects_answer else None)

    def send(self, request: Request, message: Any) -> None:
        """Hand out the answer (None: none is expected); the connection's next request is due."""
        connection = self._connections.get(request.connection_id)
        if connection is None or connection.hung_up:
            return
        self._outputs.append(Respond(request.connection_id, request.correlation_id, request.version, message))
        connection.parked = None
        if connection.waiting:
            self._due.append(connection)
        else:
            del self._connections[request.connection_id]

    def hang_up(self, connection_id: int, reason: str) -> None:
        """Have the connection closed; what else arrived on it is dropped."""
        connection = self._connections.get(connection_id)
        if connection is None or connection.hung_up:
            return
        connection.hung_up = True
        connection.waiting.clear()
        self._outputs.append(HangUp(connection_id, reason))

    def heard_from_follower(self, broker_id: int, now_us: int) -> None:
        """A broker fetches what it follows."""
        self._proposals.heard_us[broker_id] = now_us

    def go_deaf(self, connection_id: int) -> None:
        """Leave the connection open, and neither hear nor say anything on it any more."""
        connection = self._connections.get(connection_id)
        if connection is None:
            return  # its client has gone
        connection.hung_up = True
        connection.waiting.clear()

    def unheard_connection_id(self) -> int:
        """The id of a connection that does not exist: what is answered there reaches nobody."""
        return -1 - (self.next_number() << 64)

    def hold(self, fault_id: int, operation: DelayedOperation) -> None:
        """Keep a request, or an answer, until the fault with this id is healed."""
        self.held.setdefault(fault_id, []).append(operation)

    def crash(self, action: Action) -> None:
        """Have the driver do to this broker what a fault says."""
        self._outputs.append(Struck(action.kind, action.fault_id))

    def park(self, request: Request, waiter: Cancellable) -> None:
        """Let `waiter` be cancelled when the connection is lost."""
        connection = self._connections.get(request.connection_id)
        if connection is not None:
            connection.parked = waiter

    def ask_controller(self, request: Request, unreachable: Callable[[Any], Any]) -> None:
        """Answer the request with what the controller says, or with `unreachable(message)`."""

        def answered(message: Any, now_us: int) -> None:
            self.answer(request, message if message is not None else unreachable(request.message), now_us)

        self.ask_controller_for(request.message, answered)

    def ask_controller_for(self, message: Any, answered: Callable[[Any, int], None]) -> None:
        """Call `answered(answer, now)` when the controller has said something; None: it cannot be reached."""
        token = self.next_number()
        self._asked[token] = answered
        self._outputs.append(AskController(token, message))

    def ask_peer(self, broker_id: int, message: Any, answered: Callable[[Any, int], None]) -> None:
        """Call `answered(answer, now)` when that broker has said something; None: it cannot be reached."""
        token = self.next_number()
        self._peers_asked[token] = answered
        self._outputs.append(AskPeer(broker_id, token, message))

    def put_out(self, output: Any) -> None:
        """Have the driver do something."""
        self._outputs.append(output)

    @property
    def groups(self) -> GroupCoordinator:
        """The groups coordinated here, made when first asked for."""
        if self._groups is None:
            from ottla.broker.groups.coordinator import GroupCoordinator

            self._groups = GroupCoordinator(self)
        return self._groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transactions coordinated here, made when first asked for."""
        if self._transactions is None:
            from ottla.broker.transactions.coordinator import TransactionCoordinator

            self._transactions = TransactionCoordinator(self)
        return self._transactions

    def next_number(self) -> int:
        """A number not given before; they grow."""
        self._number += 1
        return self._number

    def why_not_here(self, topic: str | None, index: int) -> tuple[int, str]:
        """Error code and sentence for a partition that this broker does not lead; None: asked for by an unknown id."""
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id"
        image = self.image.topics.get(topic)
        if image is None or not 0 <= index < len(image.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {topic}-{index}"
        return ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic}-{index} is led by broker {image.partitions[index].leader}"

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

    # Requests.

    def _request_received(self, event: RequestReceived, now_us: int) -> None:
        connection = self._connections.get(event.connection_id)
        if connection is None:
            self._connections[event.connection_id] = Connection(event.connection_id)
            self._handle(event, now_us)
        elif not connection.hung_up:
            connection.waiting.append(event)

    def _handle(self, event: RequestReceived, now_us: int) -> None:
        request = Request(event)
        message = event.message
        api_key = message.API_KEY
        from_peer = api_key == FETCH and fetch.follower_id(message) != CONSUMER
        self.metrics.requested(FOLLOWER_FETCH if from_peer else api_key, event.size)
        lowest, highest = VERSIONS.get(api_key, (0, -1))
        if not (lowest <= event.version <= highest or from_peer):
            if api_key == API_VERSIONS:
                request.version = 0
                self.send(request, api_versions.unsupported_version_response())
                return
            self.hang_up(event.connection_id, f"API {api_key} version {event.version} is not supported")
            return
        if event.version >= TOPIC_IDS_FROM_VERSION and api_key <= FETCH and not from_peer:
            if api_key == PRODUCE:
                self.topic_ids.name_all(message.topic_data, "name")
            else:
                self.topic_ids.name_all(message.topics, "topic")
        if api_key == PRODUCE and message.acks == 0:
            request.expects_answer = False
        if self.faults.active and not from_peer:
            session = self.fetch_sessions.of(message) if api_key == FETCH else None
            request.context = fault_context(message, self.broker_id, session)
            if strikes.before(self, request, now_us):
                return
        handler_of(api_key)(self, request, now_us)

    def dispatch(self, request: Request, now_us: int) -> None:
        """Handle a request whose time has come, checked and asked about before."""
        handler_of(request.message.API_KEY)(self, request, now_us)

    def _settle(self, now_us: int) -> None:
        """Finish what the event set in motion: fetches that have news, requests whose turn has come, proposals."""
        while self.woken or self._due:
            if self.directory.failure is not None:
                break
            if self.woken:
                woken, self.woken = self.woken, {}
                for waiting in woken:
                    waiting.attempt(now_us)
            else:
                connection = self._due.popleft()
                if not connection.hung_up and self._connections.get(connection.connection_id) is connection:
                    self._handle(connection.waiting.popleft(), now_us)
        if self.directory.failure is not None:
            self._halt(self.directory.failure)
            return
        self._proposals.send(now_us)

    def _halt(self, reason: str) -> None:
        """Kafka's broker ends with its last log directory (KIP-112), and this one has no other.

        Whatever it went on doing would rest on pages that may not be on the disk; others lead once it is fenced.
        """
        self.is_halted = True
        logger.error(
            "broker %d: %s; what was written may be lost though it can still be read, so the broker ends: put the disk "
            "right and start it again",
            self.broker_id,
            reason,
        )
        self._outputs.append(Halted(reason))

    # The cluster.

    def _apply(self, image: ClusterImage, now_us: int) -> None:
        """Take a new image: open, lead, follow and remove partitions as it says."""
        if image.version <= self.image.version or image.broker_epochs.get(self.broker_id) != self.broker_epoch:
            # Older than what is known, or it tells what an earlier start of this broker was to do.
            return
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
        changed: dict[int, None] = {}
        gone = [name for name in names if _is_gone(old.topics.get(name), image.topics.get(name))]
        for name in gone:
            if name in self.topics:
                for partition in self.topics.pop(name).values():
                    self._stop_following(partition, changed)
                    partition.leader = NO_BROKER
                    partition.retire(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, now_us)
                    self._remove_log(partition)
                self.metrics.forget_topic(name)
        for name, indexes in names.items():
            topic = image.topics.get(name)
            if topic is not None and (reconfigured or topic is not old.topics.get(name)):
                self._apply_topic(topic, old.topics.get(name), indexes, reconfigured, changed, now_us)
        epochs = image.broker_epochs
        self._proposals.apply({each.broker_id: epochs[each.broker_id] for each in image.brokers}, now_us)
        if self._groups is not None or OFFSETS_TOPIC in self.topics:
            self.groups.image_changed(gone, now_us)
        if self._transactions is not None or TRANSACTIONS_TOPIC in self.topics:
            self.transactions.image_changed(now_us)
        for leader_id in changed:
            self._ask_leader(self._fetchers[leader_id], now_us)
        self._heartbeats.image_applied()

    def _apply_topic(
        self,
        topic: TopicImage,
        before: TopicImage | None,
        indexes: tuple[int, ...] | None,
        reconfigured: bool,
        changed: dict[int, None],
        now_us: int,
    ) -> None:
        """Take what is new of one topic: all of its partitions where `indexes` does not say which."""
        name = topic.name
        known = before.partitions if before is not None and before.topic_id == topic.topic_id else ()
        kept = self.topics.get(name)
        if kept and before is not None and topic.configs == before.configs and not reconfigured:
            # Somebody leads or is in sync who was not, which is what most images say: no setting has changed.
            settings = next(iter(kept.values())).settings
        else:
            settings = TopicSettings(topic.configs, self.settings)
        for index in range(len(topic.partitions)) if indexes is None or reconfigured else indexes:
            role = topic.partitions[index]
            if index < len(known) and known[index] is not role:
                self.metrics.partition_changed(known[index], role, self.broker_id)
            if self.broker_id in role.replicas:
                partitions = self.topics.setdefault(name, {})
                if index not in partitions:
                    partitions[index] = self._new_partition(name, topic.topic_id, index, settings)
                partitions[index].configure(settings)
                if index < len(known) and known[index] == role:
                    continue
                self._take_role(partitions[index], role, changed, now_us)

    def _new_partition(self, topic: str, topic_id: bytes, index: int, settings: TopicSettings) -> Partition:
        partition = Partition(
            self.broker_id, topic, topic_id, index, settings, self.directory, self._budget, self._proposals
        )
        partition.traffic = self.metrics.traffic(topic)
        return partition

    def _take_role(self, partition: Partition, role: PartitionImage, changed: dict[int, None], now_us: int) -> None:
        if role.partition_epoch <= partition.partition_epoch:
            partition.become(role, now_us)
            return
        if partition.is_leader and role.leader != self.broker_id:
            partition.leader = role.leader
            partition.retire(ErrorCode.NOT_LEADER_OR_FOLLOWER, now_us)
        self._stop_following(partition, changed)
        partition.become(role, now_us)
        if role.leader not in (self.broker_id, NO_BROKER):
            fetcher = self._fetchers.get(role.leader)
            if fetcher is None:
                fetcher = self._fetchers[role.leader] = ReplicaFetcher(
                    self.broker_id, self.broker_epoch, role.leader, self.settings
                )
            fetcher.follow(partition, self.next_number())
            changed[role.leader] = None

    def _stop_following(self, partition: Partition, changed: dict[int, None]) -> None:
        fetcher = self._fetchers.get(partition.leader)
        if fetcher is not None:
            fetcher.unfollow(partition.topic, partition.index)
            changed[partition.leader] = None

    def _ask_leader(self, fetcher: ReplicaFetcher, now_us: int) -> None:
        question = fetcher.question(self.next_number(), now_us)
        if question is not None:
            self._outputs.append(question)

    def _remove_log(self, partition: Partition) -> None:
        try:
            partition.remove()
        except OSError:
            # The topic is gone for everybody; a folder that cannot be removed is removed when its name is used again.
            partition.close()


def _is_gone(before: TopicImage | None, after: TopicImage | None) -> bool:
    """Whether a topic is deleted, perhaps to make room for another one of its name."""
    return before is not None and (after is None or after.topic_id != before.topic_id)
