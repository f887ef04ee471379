"""A broker's decisions: requests in, answers out, logs kept through the storage port; no sockets, no clock, no threads.

How a driver runs it: `receive` an event, then carry out `outputs()` in order; `deadline_us()` says when to call
`tick`. Requests of one connection are handled one at a time in the order they came: what arrives before the answer
waits inside the core (`queued` counts it, so that a driver can stop reading from the socket). Every request gets a
`Respond`; its message is None where no answer is expected (Produce with acks=0). After `HangUp` whatever else had
arrived on that connection is dropped; the driver reports every ended connection, also those it closed on `HangUp`, with
`ConnectionLost`. Connection ids are used once.

Peers: `AskPeer` reaches the other broker as a `RequestReceived` on a connection of its own; what that broker answers
comes back as `PeerAnswered`. Records of a request are patched in place (base offset and leader epoch) where their
memory is writable, kept and passed on to followers by reference, so a driver must hand over memory that nobody
writes to again.

Invariants: nothing is acknowledged that was not appended; a partition's log is read by consumers below its high
watermark only; an OSError of the storage becomes KAFKA_STORAGE_ERROR for that partition and harms no other. Only after
a failed sync the whole broker ends (`Halted`).
"""

from __future__ import annotations

import logging
from copy import copy
from random import Random
from typing import TYPE_CHECKING, Any

from ottla.broker.apis.handlers import handler_of
from ottla.broker.apis.port import BrokerPort
from ottla.broker.connections import Connections
from ottla.broker.coordinators import Coordinators
from ottla.broker.events import (
    ClusterImage,
    ConnectionLost,
    ControllerAnswered,
    Halted,
    ImagePublished,
    PeerAnswered,
    Released,
    RequestReceived,
)
from ottla.broker.heartbeats import Heartbeats
from ottla.broker.log.directory import LogDirectory
from ottla.broker.metrics import BrokerMetrics
from ottla.broker.outbox import Outbox
from ottla.broker.partition import Topics
from ottla.broker.purgatory import Purgatory
from ottla.broker.replicas import Replicas
from ottla.broker.request import Request
from ottla.broker.request_channel import RequestChannel
from ottla.broker.request_faults import RequestFaults
from ottla.broker.settings import BrokerSettings
from ottla.broker.storage import Storage
from ottla.broker.wall_clock import WallClock
from ottla.faults.plan import FaultPlan

if TYPE_CHECKING:
    from ottla.broker.client_telemetry import ClientTelemetry
    from ottla.broker.groups.coordinator import GroupCoordinator
    from ottla.broker.transactions.coordinator import TransactionCoordinator

# Logged beside the broker's other messages; the driver shows what is logged.
logger = logging.getLogger("ottla.broker")


class BrokerCore:
    """One broker: `storage` is its own folder, `faults` (shared by the brokers of a cluster) applies to its requests.

    A core makes its parts, gives each what it needs, and brings every event to the part it concerns. Drivers use the
    methods and properties below; `replicas`, `connections`, `purgatory` and `metrics` are for metrics, tests and the
    simulation's witness.
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
        # A copy, which follows changes while the broker runs; the parts have the settings as started, too.
        self.settings = copy(settings)
        self.rng = rng
        self.is_halted = False
        self.metrics = BrokerMetrics()
        self.purgatory = Purgatory()
        self._clock = WallClock(wall_offset_us)
        self._outbox = Outbox(broker_epoch)
        self._write_back = storage.write_back
        self._write_back.set_interval(settings.os_flush_interval_ms * 1000)
        self.replicas = Replicas(
            broker_id, broker_epoch, storage, self.settings, settings, rng, self._clock, self._outbox, self.metrics
        )
        self.connections = Connections(self._outbox)
        plan = faults if faults is not None else FaultPlan()
        request_faults = RequestFaults(plan, broker_id, self._outbox, self.purgatory, self.connections, self._handle)
        self._faults = request_faults
        topic_ids, fetch_sessions = self.replicas.topic_ids, self.replicas.fetch_sessions
        self._channel = RequestChannel(
            self.connections, request_faults, self.metrics, topic_ids, fetch_sessions, self._handle
        )
        self._coordinators = Coordinators(self.replicas, self.purgatory, self._outbox, self._clock, rng, self._channel)
        self._port = BrokerPort(
            self.replicas,
            self._coordinators,
            self._channel,
            self.connections,
            self.purgatory,
            self._outbox,
            self._clock,
            self.metrics,
            rng,
        )
        self._heartbeats = Heartbeats(self.replicas, self._outbox, rng)

    def receive(self, event: Any, now_us: int) -> None:
        """Take a RequestReceived, ConnectionLost, PeerAnswered, ControllerAnswered, ImagePublished or Released."""
        if self.is_halted:
            return
        self._write_back.now_us = now_us
        kind = type(event)
        if kind is RequestReceived:
            self._channel.receive(event, now_us)
        elif kind is PeerAnswered:
            if not self._outbox.peer_answered(event.token, event.message, now_us):
                self.replicas.leader_answered(event.broker_id, event.token, event.message, now_us)
        elif kind is ConnectionLost:
            self.connections.lost(event.connection_id)
        elif kind is ControllerAnswered:
            self._outbox.controller_answered(event.token, event.message, now_us)
        elif kind is ImagePublished:
            self._apply(event.image, now_us)
        elif kind is Released:
            self._faults.released(event.fault_id, now_us)
        else:
            raise TypeError(f"a broker core knows no event {kind.__name__}")
        self._settle(now_us)

    def outputs(self) -> list[Any]:
        """What must now be done, in order: Respond, HangUp, AskPeer, AskController, LetGo, FaultFired, Halted."""
        return self._outbox.take()

    def deadline_us(self) -> int | None:
        """When `tick` is due at the latest; None: never."""
        if self.is_halted:
            return None
        due = self._heartbeats.due_us
        purgatory_us = self.purgatory.deadline_us()
        if purgatory_us is not None and purgatory_us < due:
            due = purgatory_us
        replicas_us = self.replicas.deadline_us()
        if replicas_us is not None and replicas_us < due:
            due = replicas_us
        return due

    def tick(self, now_us: int) -> None:
        """Do what is due: expire requests, send a heartbeat, look after logs, ask leaders again."""
        if self.is_halted:
            return
        self._write_back.now_us = now_us
        self.purgatory.expire(now_us)
        if self._heartbeats.due_us <= now_us:
            self._heartbeats.send(now_us)
        self.replicas.tick(now_us)
        self._settle(now_us)

    def queued(self, connection_id: int) -> int:
        """Requests of this connection that wait for their turn (the one being handled not counted)."""
        return self.connections.queued(connection_id)

    def shut_down(self, now_us: int) -> None:
        """Ask the controller to move leadership elsewhere; `LetGo` comes out when that is done."""
        self._heartbeats.go(now_us)

    def close(self, *, sync: bool = True) -> None:
        """Close all logs in order and leave a mark, so that the next start need not check every byte.

        Without `sync` the mark is left out, too: what is only in the page cache may not outlive a power cut.
        """
        self.replicas.close(sync=sync)

    # What drivers and observers read, and the one thing that drivers set.

    @property
    def wall_offset_us(self) -> int:
        """What must be added to `now_us` for the time since 1970; a driver may change it (a clock jump)."""
        return self._clock.offset_us

    @wall_offset_us.setter
    def wall_offset_us(self, offset_us: int) -> None:
        self._clock.offset_us = offset_us

    @property
    def image(self) -> ClusterImage:
        """The cluster as the controller published it last."""
        return self.replicas.image

    @property
    def topics(self) -> Topics:
        """The partitions held here, by topic and index."""
        return self.replicas.topics

    @property
    def directory(self) -> LogDirectory:
        """The broker's folder."""
        return self.replicas.directory

    @property
    def groups(self) -> GroupCoordinator:
        """The groups coordinated here."""
        return self._coordinators.groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transactions coordinated here."""
        return self._coordinators.transactions

    @property
    def client_telemetry(self) -> ClientTelemetry:
        """What clients push of their metrics."""
        return self._port.client_telemetry

    # What concerns several parts.

    def _handle(self, request: Request, now_us: int) -> None:
        """Handle a request of the request channel, whenever its time has come."""
        handler_of(request.message.API_KEY)(self._port, request, now_us)

    def _apply(self, image: ClusterImage, now_us: int) -> None:
        """Take a new image: first the replicas, then the coordinators, then leaders and the controller are asked."""
        gone = self.replicas.apply(image, now_us)
        if gone is None:
            return
        self._coordinators.image_changed(gone, now_us)
        if image.quotas or self._port.quotas is not None:
            self._port.take_quotas(image.quotas)
        self.replicas.ask_changed_leaders(now_us)
        self._heartbeats.image_applied()

    def _settle(self, now_us: int) -> None:
        """Finish what the event set in motion: fetches that have news, requests whose turn has come, proposals."""
        directory = self.replicas.directory
        while directory.failure is None and self._channel.step(now_us):
            pass
        if directory.failure is not None:
            self._halt(directory.failure)
            return
        self.replicas.proposals.send(now_us)

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
        self._outbox.put(Halted(reason))
