"""A simulated cluster with its clients: the shipped cores on a simulated clock, network and disks.

`World` gives a `Host` (brokers and controller, as in a real cluster) simulated connections, disks and clocks. It drives
`ProducerCore` and `ReaderCore` as `client/` does with sockets and threads. Calls from outside (`producer.send`,
`delivery.result`) let simulated time pass until they are answered, so the same test can run in both. All chance comes
from the seed. The controller's disk never fails; but when the controller is killed, half of a change is at the end of
its file, as if it was being written.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, TypeVar

from ottla.broker.controller.state import CHANGES_FILE
from ottla.broker.events import BrokerAddress, ClusterImage, RequestReceived
from ottla.broker.refused import Refused
from ottla.broker.settings import BrokerSettings
from ottla.faults.fields import CONTROLLER
from ottla.faults.plan import FaultPlan
from ottla.host.broker_runner import BrokerRunner
from ottla.host.faults_in_force import FaultsInForce
from ottla.host.host import Host
from ottla.host.links import Links
from ottla.host.runner import Runner
from ottla.host.site import HostSite
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.simulation.admin import SimulatedAdmin
from ottla.simulation.chance import Chance
from ottla.simulation.client_network import FIRST_PORT, SimulatedClients
from ottla.simulation.clients import SimulatedProducer, SimulatedReader
from ottla.simulation.disk import Disk
from ottla.simulation.network import Network, SimulatedConnections
from ottla.simulation.scheduler import Scheduler
from ottla.simulation.trace import Trace

P = TypeVar("P", bound=SimulatedProducer)
R = TypeVar("R", bound=SimulatedReader)

_WALL_CLOCK_BEGINS_MS = 1_767_225_600_000
_PATIENCE_US = 600_000_000
_REQUEST_TIMEOUT_MS = 8_000
_SOME_CHANGE = b'{"version":1,"broker_epochs":{"0":1}}'

__all__ = ["CONTROLLER", "FIRST_PORT", "World"]


class World:
    """`brokers` brokers and a controller, running; `through_bytes`: messages are encoded and decoded."""

    def __init__(
        self,
        seed: int,
        *,
        brokers: int = 3,
        through_bytes: bool = False,
        keep_trace: bool = False,
        **settings: Any,
    ) -> None:
        rng = Chance(seed)
        self.scheduler = Scheduler()
        self.trace = Trace(keep_lines=keep_trace)
        # The faults of requests, which the brokers' cores look at.
        self.plan = FaultPlan()
        self.network = Network(self.scheduler, self._fork(rng), self.trace.add, through_bytes=through_bytes)
        self.bootstrap_servers = ",".join(f"broker-{i}:{FIRST_PORT + i}" for i in range(brokers))
        self._rng = rng
        # For tests that cause faults by chance.
        self.chance = rng
        self._clients = 0
        broker_settings = BrokerSettings(**{"request_timeout_ms": _REQUEST_TIMEOUT_MS, **settings})
        self._broker_fell: Callable[[int, str], None] | None = None
        self._image_published: Callable[[ClusterImage], None] | None = None
        # How long brokers take for a Produce request, at least and at most; drawn by a generator of its own.
        self._service: dict[int, tuple[int, int]] = {}
        self._service_chance = Chance(f"service {seed}")
        self.clients = SimulatedClients(self.scheduler, self.network)
        self.disks = [Disk() for _ in range(brokers)]
        self.controller_disk = Disk()
        self.host = Host(
            self.scheduler,
            [BrokerAddress(i, f"broker-{i}", FIRST_PORT + i) for i in range(brokers)],
            dict(enumerate(self.disks)),
            self.controller_disk,
            broker_settings,
            self.plan,
            self.network,
            self._open_connections,
            fork=lambda: self._fork(rng),
            wall_offset_us=lambda: _WALL_CLOCK_BEGINS_MS * 1000,
            cluster_id="simulated",
        )
        self.host.fell = self._fell
        self.host.controller_killed = self._tear_change
        self.site = HostSite(self.host, self.clients, rng)
        self.faults = FaultsInForce(self.host, self.site, self.plan)
        self.links.published = self._published
        self.host.boot()

    @property
    def brokers(self) -> dict[int, BrokerRunner]:
        """The newest start of each broker, by id."""
        return self.host.brokers

    @property
    def controller(self) -> Runner:
        """The newest start of the controller."""
        assert self.host.links.controller is not None
        return self.host.links.controller

    @property
    def links(self) -> Links:
        """The links between brokers and controller."""
        return self.host.links

    def _published(self, image: ClusterImage) -> None:
        if self._image_published is not None:
            self._image_published(image)
        self.site.image_published()

    def _tear_change(self) -> None:
        """Leave half of a change at the end of the controller's file: no broker got that change."""
        written = (self.controller_disk.read_file(CHANGES_FILE) or _SOME_CHANGE).rstrip(b"\n").rpartition(b"\n")[2]
        self.controller_disk.open(CHANGES_FILE).append([written[: len(written) // 2]])

    def _open_connections(self, runner: BrokerRunner) -> SimulatedConnections:
        broker_id = runner.broker_id
        self.network.add_broker(FIRST_PORT + broker_id, f"broker-{broker_id}", runner.arrive)
        return SimulatedConnections(self.network, FIRST_PORT + broker_id)

    @staticmethod
    def _fork(rng: Random) -> Random:
        """A generator of its own for each machine: one machine's draws then never change another's."""
        return Chance(rng.getrandbits(64))

    def now_ms(self) -> int:
        """The simulated wall clock."""
        return self.date_ms(self.scheduler.now_us)

    @staticmethod
    def date_ms(clock_us: int) -> int:
        """Milliseconds since 1970 on a machine whose clock shows `clock_us`."""
        return _WALL_CLOCK_BEGINS_MS + clock_us // 1000

    def run_until(self, reached: Callable[[], bool], *, limit_us: int = _PATIENCE_US) -> bool:
        """Let time pass until `reached()`; False if that did not happen within `limit_us`."""
        return self.scheduler.run_until(reached, limit_us=limit_us)

    def create_topic(self, name: str, *, partitions: int = 1, replication_factor: int = 3, **configs: Any) -> None:
        """Make a topic (settings with underscores for dots) and wait until every broker has it."""
        given = [CreatableTopicConfig(name=key.replace("_", "."), value=str(value)) for key, value in configs.items()]
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=replication_factor, configs=given
        )
        answer = self._order(CreateTopicsRequest(topics=[topic])).topics[0]
        if answer.error_code:
            raise ValueError(answer.error_message)
        if not self.run_until(lambda: all(name in m.core.image.topics for m in self.brokers.values())):  # type: ignore[attr-defined]
            raise RuntimeError(f"topic {name!r} did not reach every broker")

    def change_transaction_version(self, version: int) -> None:
        """Finalize another `transaction.version`: brokers follow at once, clients when they connect anew."""
        self.host.settings.transaction_version = version
        for runner in self.brokers.values():
            core: Any = runner.core
            core.settings.transaction_version = version
        # A new version of the cluster's metadata comes with it, by which clients tell a newer answer from an older one.
        topic = CreatableTopic(name=f"change-{self.scheduler.now_us}", num_partitions=1, replication_factor=1)
        self._order(CreateTopicsRequest(topics=[topic]))

    def _order(self, message: Any) -> Any:
        """The controller's answer to a request, without letting time pass."""
        answers: list[Any] = []
        self.links.order_now(message, answers.append)
        return answers[0]

    # ---- states -------------------------------------------------------------------------------------------------

    def is_whole(self) -> bool:
        """Whether all brokers run and every replica is in sync."""
        return self.host.is_whole()

    def counts_as_in_sync(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether the controller has this start of a broker registered, and in sync for some partition."""
        image = self.controller.core.image  # type: ignore[attr-defined]
        return image.broker_epochs[broker_id] == broker_epoch and any(
            broker_id in part.isr for topic in image.topics.values() for part in topic.partitions
        )

    def group_offsets(self, group_id: str) -> dict[tuple[str, int], int]:
        """The committed offsets of a group, from its coordinator, without pending ones."""
        for runner in self.brokers.values():
            core: Any = runner.core
            try:
                group = core.groups.find(group_id, self.scheduler.now_us)
            except Refused:
                continue  # this broker is not the coordinator
            return {} if group is None else {place: each.offset for place, each in group.offsets.items()}
        return {}

    # ---- outages ------------------------------------------------------------------------------------------------

    def kill(self, broker_id: int, *, kind: str = "kill") -> None:
        """End a broker; what it had written is still there when it starts again. `kind` is passed to the witness."""
        self.host.kill(broker_id, kind=kind)

    def power_off(self, broker_id: int) -> None:
        """Cut a broker's power, whether it runs or has ended before."""
        self.host.power_off(broker_id, self._rng)

    def shut_down(self, broker_id: int) -> None:
        """Let a broker end in order, when the controller has moved its leaders away."""
        self.host.shut_down(broker_id)

    def start(self, broker_id: int) -> None:
        """Start a broker that was ended."""
        self.host.start(broker_id)

    def pause(self, broker_id: int) -> None:
        """Freeze a broker; whatever is sent to it waits."""
        self.host.pause(broker_id)

    def resume(self, broker_id: int) -> None:
        """Let a paused broker go on."""
        self.host.resume(broker_id)

    def kill_controller(self) -> None:
        """Cut the controller's power; brokers go on with the metadata they have."""
        self.host.kill_controller()

    def start_controller(self) -> None:
        """Start a controller that was ended, from its disk, while brokers run."""
        self.host.start_controller()

    def take_time(self, broker_id: int, least_us: int, most_us: int) -> None:
        """From now on a broker takes a time between these for each client's Produce request, one at a time."""
        self._service[broker_id] = least_us, most_us
        self.host.take_time(broker_id, partial(self._service_us, broker_id))

    def _service_us(self, broker_id: int, request: RequestReceived) -> int:
        least_us, most_us = self._service[broker_id]
        if not most_us or type(request.message) is not ProduceRequest:
            return 0
        return least_us if least_us == most_us else self._service_chance.randint(least_us, most_us)

    def _fell(self, broker_id: int, kind: str) -> None:
        disk = self.disks[broker_id]
        if kind != "power_off" and disk.has_lost_pages:
            disk.has_lost_pages, kind = False, "failed_sync"
        elif kind in ("stop", "failed_disk"):
            kind = "kill"
        if self._broker_fell is not None:
            self._broker_fell(broker_id, kind)

    def producer(self, kind: type[P] = SimulatedProducer, name: str = "", /, **settings: Any) -> P:  # type: ignore[assignment]
        """A producer on a machine of its own."""
        producer = kind(self, self._new_client(name), settings, self._fork(self._rng))
        self.clients.join(name, producer)
        return producer

    def reader(self, kind: type[R] = SimulatedReader, name: str = "", /, **settings: Any) -> R:  # type: ignore[assignment]
        """A reader on a machine of its own."""
        reader = kind(self, self._new_client(name), settings, self._fork(self._rng))
        self.clients.join(name, reader)
        return reader

    def admin(self, name: str = "") -> SimulatedAdmin:
        """A client that sends single requests, on a machine of its own or on that of the client of this name."""
        admin = SimulatedAdmin(self, self._new_client(name), self._fork(self._rng))
        self.clients.join(name, admin)
        return admin

    def _new_client(self, name: str) -> int:
        self._clients += 1
        if name:
            self.network.owners[self._clients] = name
        return self._clients

    def watch(
        self,
        broker_acted: Callable[[int], None],
        image_published: Callable[[ClusterImage], None],
        broker_fell: Callable[[int, str], None],
    ) -> None:
        """Have these called: when a broker (by its id) handled something, for each image, when a broker ended.

        `image_published` is called with every image, also with those that no broker gets.
        """
        self.host.watch(broker_acted)
        self._broker_fell = broker_fell
        self._image_published = image_published
