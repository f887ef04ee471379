"""The brokers of an embedded cluster: a `Host` with real sockets, files and a real clock, and what can be done to it.

Nobody can connect to a broker that is down; its ports are kept for it. The controller ends only by `kill` and
`power_off` of all brokers at once, and by the faults `stop_controller` and `cut_power`. What it has written is never
lost (see `broker/UNSUPPORTED.md`).
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from ottla.broker.events import BrokerAddress, ClusterImage, HangUp, RequestReceived
from ottla.broker.settings import BrokerSettings
from ottla.cluster.client_network import EmbeddedClients
from ottla.cluster.loop_schedule import LoopSchedule
from ottla.cluster.server import Acceptor, BrokerServer
from ottla.cluster.storage import DiskStorage
from ottla.errors import ConfigError, UserMistake
from ottla.faults.plan import FaultPlan
from ottla.host.broker_runner import BrokerRunner
from ottla.host.faults_in_force import FaultsInForce
from ottla.host.host import DOWN, PAUSED, RUNNING, Host
from ottla.host.runner import Runner
from ottla.host.site import HostSite
from ottla.sockets.event_loop import EventLoop

if TYPE_CHECKING:
    from ottla.cluster.recorder import Recorder

logger = logging.getLogger("ottla.cluster")

_ALL_DOWN = "all brokers are down: start them first."
_NO_CONTROLLER = "the controller is down: heal the fault that has ended it first."


class SharedMemory:
    """Brokers and controller of one process: a message arrives at once, and is the object that was sent."""

    crossed = None

    def __init__(self, clients: EmbeddedClients) -> None:
        self._clients = clients

    def delay_us(self) -> int:
        """0, unless a fault (`stall`) delays messages."""
        return self._clients.delay_us() if self._clients.stalls else 0

    def copy(self, message: Any) -> Any:
        """The message itself: a follower may read batches from the leader's memory."""
        return message


class EmbeddedBrokers:
    """All brokers by id; kill, pause and so on raise UserMistake if the broker is not in a state that allows it."""

    def __init__(
        self,
        loop: EventLoop,
        addresses: list[BrokerAddress],
        acceptors: Mapping[int, list[Acceptor]],
        disks: Mapping[int, DiskStorage],
        controller_disk: DiskStorage,
        settings: BrokerSettings,
        faults: FaultPlan,
        rng: Random,
    ) -> None:
        self._loop = loop
        self.acceptors = acceptors
        self.disks = disks
        self._controller_disk = controller_disk
        self._numbers = itertools.count(1)
        self.clients = EmbeddedClients(self.server, list(disks), Random(rng.random()))
        self.schedule = LoopSchedule(loop)
        self.host = Host(
            self.schedule,
            addresses,
            disks,
            controller_disk,
            settings,
            faults,
            SharedMemory(self.clients),
            self._open_connections,
            fork=lambda: Random(rng.random()),
            wall_offset_us=lambda: loop.clock.wall_us() - loop.now_us(),
        )
        self.host.failed = self._failed
        self.host.fell = self._fell
        self.host.starting = self._reopen
        self.host.started = self._started
        self._site = HostSite(self.host, self.clients, rng)
        self.faults = FaultsInForce(self.host, self._site, faults)
        # Records what happens to one topic, after `record` was called.
        self.recorder: Recorder | None = None
        # Called when the cluster's metadata have changed.
        self.published: Callable[[], None] = _nothing
        self.host.links.published = self._image_published

    def record(self, topic: str, number_header: str) -> None:
        """Record what happens to a topic from now on; UserMistake if the cluster has a recorder already."""
        if self.recorder is not None:
            raise UserMistake("this cluster is being recorded already: it can have one recorder.")
        from ottla.cluster.recorder import Recorder

        self.recorder = Recorder(self.host, self.faults, topic, number_header)
        for server in self.servers():
            server.record(self.recorder)

    def boot(self) -> None:
        """Start all brokers and the controller; OSError, UserMistake."""
        self.host.boot()

    def states(self) -> dict[int, str]:
        """RUNNING, PAUSED or DOWN by broker id."""
        return {broker_id: self.host.state(broker_id) for broker_id in self.disks}

    def server(self, broker_id: int) -> BrokerServer | None:
        """The server with a broker's client connections; None while the broker is down."""
        runner = self.host.brokers.get(broker_id)
        return None if runner is None or runner.is_dead else runner.client_connections  # type: ignore[return-value]

    def servers(self) -> list[BrokerServer]:
        """The servers of the brokers that are not down."""
        return [server for broker_id in self.disks if (server := self.server(broker_id)) is not None]

    def check(self, broker_id: int) -> None:
        """ConfigError where there is no such broker."""
        if broker_id not in self.disks:
            known = ", ".join(map(str, self.disks))
            raise ConfigError(f"there is no broker {broker_id}: this cluster's brokers are {known}.")

    def start(self, broker_id: int | None) -> None:
        """Start a broker that is down, or all of those; also the controller, unless `stop_controller` keeps it down."""
        self._site.start(self._those(broker_id, DOWN, "started"))

    def clock_set_ahead(self) -> None:
        """The loop's clock was set ahead: sessions of brokers that are down end, those of the others go on."""
        self.host.clock_set_ahead()
        # What is due by now runs at once.
        self.schedule.post(_nothing)

    def why_no_orders(self) -> str:
        """Why the controller cannot carry out commands, and what the user can do."""
        return _NO_CONTROLLER if self.host.cores() else _ALL_DOWN

    def kill(self, broker_id: int | None, *, power: bool = False, seed: int | None = None) -> None:
        """End a broker, or all brokers and the controller, at once; with `power` unsynced bytes are lost, too.

        Which of the unsynced bytes are left is drawn from `seed`, for each broker by itself. A power cut of all
        brokers includes those that are down: what they wrote before is still in the page cache, and may be lost.
        """
        if broker_id is not None:
            self._check_state(broker_id, (RUNNING, PAUSED), "powered off" if power else "killed")
            self._end(broker_id, power=power, seed=seed)
            return
        if not power and not self.host.has_controller and {*self.states().values()} == {DOWN}:
            raise UserMistake("no broker is running: none can be killed now.")
        self.host.kill_controller()
        self._controller_disk.let_go()
        for each, state in self.states().items():
            if power or state != DOWN:
                self._end(each, power=power, seed=seed)

    def pause(self, broker_id: int | None) -> None:
        """Freeze a broker, or all that run."""
        for each in self._those(broker_id, RUNNING, "paused"):
            self.host.pause(each)

    def resume(self, broker_id: int | None) -> None:
        """Let a paused broker go on, or all that are paused."""
        for each in self._those(broker_id, PAUSED, "resumed"):
            self.host.resume(each)

    def stop(self, broker_id: int | None, stopped: Callable[[], None]) -> None:
        """Shut down a broker, or all that run: move its leaders away, close its logs in order, then call `stopped`."""
        stopping = self._those(broker_id, RUNNING, "stopped")
        for each in stopping:
            if self.host.is_shutting_down(each):
                raise UserMistake(f"broker {each} is being stopped already.")
        left = len(stopping)

        def one_stopped() -> None:
            nonlocal left
            left -= 1
            if not left:
                stopped()

        for each in stopping:
            self.host.shut_down(each, one_stopped)

    def close(self, *, sync: bool) -> None:
        """Close listening sockets and logs of all brokers in order; with `sync` the logs are synced to the disk."""
        # The loop may run once more. A core that gets an event then would open its logs again.
        self.schedule.clear()
        self.host.close(sync=sync)
        for acceptors in self.acceptors.values():
            for acceptor in acceptors:
                acceptor.socket.close()

    def _image_published(self, image: ClusterImage) -> None:
        if self.recorder is not None:
            self.recorder.image_published(image)
        self.published()
        self._site.image_published()

    def _open_connections(self, runner: BrokerRunner) -> BrokerServer:
        broker_id, numbers = runner.broker_id, self._numbers.__next__
        acceptors, open_files = self.acceptors[broker_id], self.disks[broker_id].open_files
        server = BrokerServer(self.schedule, self._loop, runner, acceptors, numbers, self.clients, open_files)
        if self.recorder is not None:
            server.record(self.recorder)
        return server

    def _reopen(self, broker_id: int) -> None:
        """Listen again before a broker that was down is started; UserMistake if another program has a port now."""
        for acceptor in self.acceptors[broker_id]:
            acceptor.reopen()

    def _started(self, broker_id: int) -> None:
        self.clients.broker_started(broker_id)
        if self.recorder is not None:
            self.recorder.broker_started(broker_id)

    def _fell(self, broker_id: int, kind: str) -> None:
        """Refuse connections to a broker that has ended, and keep its ports."""
        if self.recorder is not None:
            self.recorder.broker_fell(broker_id, kind)
        for acceptor in self.acceptors[broker_id]:
            acceptor.shut()

    def _failed(self, runner: Runner, event: Any) -> None:
        """Log an exception in a core (a bug, not bad input); only the connection of a failed request is closed."""
        name = f"broker {runner.broker_id}" if isinstance(runner, BrokerRunner) else "the controller"
        if event is None:
            logger.exception("%s failed when time passed", name)
            return
        logger.exception("%s failed at %s", name, type(event).__name__)
        if isinstance(event, RequestReceived):
            runner.perform(HangUp(event.connection_id, "internal error of the broker"))

    def _end(self, broker_id: int, *, power: bool, seed: int | None) -> None:
        if power:
            self._site.power_off(broker_id, seed)
        else:
            self.host.kill(broker_id)

    def _those(self, broker_id: int | None, wanted: str, what: str) -> list[int]:
        """This broker, or all that are in the state `wanted`; UserMistake if there is none."""
        if broker_id is not None:
            self._check_state(broker_id, (wanted,), what)
            return [broker_id]
        found = [each for each, state in self.states().items() if state == wanted]
        if not found:
            raise UserMistake(f"no broker is {wanted}: none can be {what} now.")
        return found

    def _check_state(self, broker_id: int, wanted: tuple[str, ...], what: str) -> None:
        self.check(broker_id)
        state = self.host.state(broker_id)
        if state not in wanted:
            raise UserMistake(f"broker {broker_id} is {state}: it cannot be {what} now.")


def _nothing() -> None:
    """Nobody wants this call."""
