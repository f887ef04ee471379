"""The Kafka that one side of a trial is sent to: an embedded cluster of its own, or a topic of its own on any Kafka.

The run of a side asks it where clients send and where the topic is read, puts faults in force there, and waits until
all is settled. `foreign_side.py` has the second kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ottla.client.admin import Admin
from ottla.cluster.cluster import Cluster
from ottla.errors import ConfigError
from ottla.ledger.schema import SEQUENCE_HEADER
from ottla.patience import comes_within, stays_within
from ottla.trial.group_member import BROKER_SETTINGS
from ottla.trial.listener import listeners_of
from ottla.trial.recorded import Recorded
from ottla.trial.scenario import COORDINATOR, ROLES, TOPIC, TRANSACTIONAL_ID, Scenario, Side, TimedFault

if TYPE_CHECKING:
    from ottla.faults.verbs import FaultInForce, Verbs

_PATIENCE_S = 30.0
# Behind a late request of a connection another one may wait that is late, too.
_DELAYS_MAX = 10
_QUIET_S = 0.2
_ENDING = ("PrepareCommit", "PrepareAbort")
_SENDFILE_BEAN = "ottla.network:type=SocketServer,name=SendfileBytesPerSec"


class SideCluster(ABC):
    """A context manager: the topic can be used within it.

    `bootstrap_servers`, `client_settings`: what a client that sends is given, under names of Python. `read_from`,
    `reader_settings`: the same for the reader of the topic when all is settled. `faults`: what can go wrong here.
    """

    topic: str = TOPIC
    transactional_id: str = TRANSACTIONAL_ID
    bootstrap_servers: str
    client_settings: Mapping[str, Any]
    read_from: str
    reader_settings: Mapping[str, Any]
    faults: Verbs

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        try:
            self._open(self._stack)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, _kind: type | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self._stack.close()

    @abstractmethod
    def _open(self, stack: ExitStack) -> None:
        """Make what there is to be used; `stack` ends it."""

    def begin(self, planned: TimedFault) -> FaultInForce:
        """Put a fault in force: about the trial's topic where it names none, and about the broker with its role."""
        fault = planned.fault
        if planned.role:
            fault = fault.but(broker_id=self._broker_with(planned.role, fault.kind))
        named = getattr(fault, "topic", None)
        is_about_produce = fault.applies_to_requests and getattr(fault, "api", None) in (None, "Produce")
        if named == TOPIC or (named is None and is_about_produce and "topic" in fault.fields()):
            fault = fault.but(topic=self.topic)
        return self.faults.add(fault)

    def _broker_with(self, role: str, kind: str) -> int:
        """The broker that has a role for the topic's first partition now."""
        leader, replicas = self._first_partition()
        followers = [broker for broker in replicas if broker != leader]
        brokers = dict(zip(ROLES, (leader, *followers), strict=False))
        if role not in brokers:
            raise ConfigError(f"fault {kind}: the trial's partition has no {role}: it has {len(replicas)} replicas")
        return brokers[role]

    @abstractmethod
    def _first_partition(self) -> tuple[int, Sequence[int]]:
        """The leader and all replicas of the topic's first partition."""

    @abstractmethod
    def in_sync(self) -> int:
        """How many replicas of the topic's first partition are in sync."""

    @abstractmethod
    def settle(self, late_s: float) -> str | None:
        """Wait, faults healed, until the topic can be read to its end; where it cannot: why not, in a clause.

        `late_s`: how long after this moment a request may still come that a fault keeps back.
        """

    @abstractmethod
    def check(self) -> None:
        """Raise Unreachable where it does not answer any more; called before each record."""

    def recorded(self, flushes: Sequence[tuple[int, int]]) -> Recorded | None:
        """What the brokers saw, where that was asked for and can be had."""
        return None


class EmbeddedSide(SideCluster):
    """An embedded cluster that only this side has. `is_recorded`: its brokers keep what they see."""

    def __init__(self, scenario: Scenario, side: Side, *, is_recorded: bool) -> None:
        self._scenario = scenario
        self._side = side
        self._is_recorded = is_recorded
        self.client_settings = {}

    def _open(self, stack: ExitStack) -> None:
        side = self._side
        settings = {**(BROKER_SETTINGS if side.group else {}), **side.settings} or None
        offered = stack.enter_context(listeners_of(side))
        self._cluster = stack.enter_context(
            Cluster(self._scenario.brokers, settings=settings, listeners=offered.listeners)
        )
        self._cluster.create_topic(
            self.topic, self._scenario.partitions, side.replicas or None, configs=dict(side.topic) or None
        )
        if self._is_recorded:
            self._cluster.record(self.topic, SEQUENCE_HEADER)
        self.bootstrap_servers = self._cluster.bootstrap_servers
        self.read_from, self.reader_settings = self._cluster.bootstrap_servers_of(side.listener), offered.reader
        self.faults = self._cluster.faults

    def begin(self, planned: TimedFault) -> FaultInForce:
        """The same; here the coordinator can be moved, too."""
        if planned.role == COORDINATOR and planned.fault.kind == "move_leader":
            return self._cluster.faults.move_coordinator(transactional_id=self.transactional_id)
        return super().begin(planned)

    def _broker_with(self, role: str, kind: str) -> int:
        if role == COORDINATOR:
            return self._cluster.coordinator(transactional_id=self.transactional_id)
        return super()._broker_with(role, kind)

    def _first_partition(self) -> tuple[int, Sequence[int]]:
        part = self._cluster.partition(self.topic, 0)
        return part["leader"], part["replicas"]

    def in_sync(self) -> int:
        """As the controller has it."""
        return len(self._cluster.isr(self.topic, 0))

    def check(self) -> None:
        """Does nothing: its brokers end by faults alone."""

    def settle(self, late_s: float) -> str | None:
        """Wait until no record comes, no transaction is being ended, and all is in sync and readable to its end."""
        for partition in range(self._scenario.partitions):
            self._cluster.await_leader(self.topic, partition, timeout=_PATIENCE_S)
            self._cluster.await_isr(self.topic, partition, timeout=_PATIENCE_S)
        if late_s and not stays_within(_PATIENCE_S + _DELAYS_MAX * late_s, self._ends, late_s + _QUIET_S):
            return "records were still stored when the topic was read"
        if self._side.transaction_records and not self._await_markers():
            return f"transactions were still being ended {_PATIENCE_S:g} s after the last fault had ended"
        if not comes_within(_PATIENCE_S, lambda: all(readable == end for readable, end in self._ends())):
            return f"some of what is stored could not be read {_PATIENCE_S:g} s after the last fault had ended"
        return None

    def _await_markers(self) -> bool:
        """Wait until no transaction is being ended; False if one still is.

        Coordinators answer EndTxn before they write the markers. A transaction may stay open on purpose.
        """
        with Admin(self.bootstrap_servers) as admin:
            return comes_within(_PATIENCE_S, lambda: not admin.list_transactions("", _ENDING))

    def _ends(self) -> list[tuple[int, int]]:
        """How far readers may read each partition, and where it ends."""
        return [
            (each["high_watermark"], each["log_end_offset"])
            for partition in self._cluster.replicas(self.topic)
            for each in partition["replicas"]
            if each["broker"] == partition["leader"]
        ]

    def recorded(self, flushes: Sequence[tuple[int, int]]) -> Recorded | None:
        """What the brokers kept."""
        return Recorded.read(self._cluster.recorded(), flushes)

    def create_topic(self, name: str) -> None:
        """Make a topic with one partition beside the trial's, for an application that reads what it sends."""
        self._cluster.create_topic(name)

    def sendfile_bytes(self) -> int:
        """How many bytes brokers gave to `sendfile` for clients. Their own exchange of records uses no sockets."""
        return sum(int(beans[_SENDFILE_BEAN]["Count"]) for beans in self._cluster.metrics().values())
