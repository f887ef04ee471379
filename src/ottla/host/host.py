"""The brokers of one cluster and their controller: started, killed, cut off from power, frozen and stopped in order.

Each start of a broker has a runner of its own; the broker's disk and clock outlive it. `kill` ends the broker as
`kill -9` would: what it had written stays in the page cache. `power_off` also takes from the disk what was not synced.
`pause` freezes the broker: what is sent to it waits until `resume`. `shut_down` moves its leaders away first and closes
its logs in order. The controller is run like the brokers; no fault affects its disk.

The host has no sockets, files or clocks of its own: a cluster passes real ones, a simulation simulated ones (`ports`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from ottla.broker.controller.core import ControllerCore
from ottla.broker.core import BrokerCore
from ottla.broker.events import BrokerAddress, ClusterImage, FaultFired, Halted, LetGo, Released
from ottla.broker.log.directory import directory_id
from ottla.broker.log.lacking_logs import lacking_logs
from ottla.broker.settings import BrokerSettings
from ottla.broker.storage import Storage
from ottla.faults.fields import CONTROLLER
from ottla.faults.plan import FaultPlan
from ottla.host.broker_runner import BrokerRunner, ControllerRunner, SlowDisk
from ottla.host.links import Links
from ottla.host.machine_clock import OwnClock
from ottla.host.ports import ClientConnections, Disk, Wires
from ottla.host.schedule import Schedule

# The logger of the brokers' room: what is logged here is about brokers.
logger = logging.getLogger("ottla.broker")

RUNNING, PAUSED, DOWN = "running", "paused", "down"


class Host:
    """All brokers by id; `boot` starts them.

    `open_connections` makes the client connections of a started broker, `fork` gives each core a random generator of
    its own, `wall_offset_us` is what a correct clock adds to the schedule's time to get the time since 1970.
    """

    def __init__(
        self,
        schedule: Schedule,
        addresses: Sequence[BrokerAddress],
        disks: Mapping[int, Disk],
        controller_disk: Storage,
        settings: BrokerSettings,
        faults: FaultPlan,
        wires: Wires,
        open_connections: Callable[[BrokerRunner], ClientConnections],
        *,
        fork: Callable[[], Random],
        wall_offset_us: Callable[[], int],
        cluster_id: str | None = None,
    ) -> None:
        self.schedule = schedule
        self.addresses = addresses
        self.disks = disks
        self.controller_disk = controller_disk
        self.settings = settings
        self.faults = faults
        self._open_connections = open_connections
        self._fork = fork
        self._wall_offset_us = wall_offset_us
        self._cluster_id = cluster_id
        self._has_booted = False
        self._starts = {each.broker_id: 0 for each in addresses}
        self.clocks = {each.broker_id: OwnClock() for each in addresses}
        self.controller_clock = OwnClock()
        # The lists outlive a runner: a broker that is started anew has the same disk.
        self._slow_disks: dict[int, list[SlowDisk]] = {each.broker_id: [] for each in addresses}
        self._takes_us: dict[int, Callable[[Any], int] | None] = {}
        self.links = Links(schedule, wires, fork(), settings.request_timeout_ms * 1000)
        self._stopping: dict[int, Callable[[], None]] = {}
        # Called whenever a broker handled something; before and after one that was down is started; when one ended,
        # with the kind of end; and with an exception in a core.
        self.acted: Callable[[int], None] | None = None
        self.starting: Callable[[int], None] | None = None
        self.started: Callable[[int], None] | None = None
        self.fell: Callable[[int, str], None] | None = None
        self.failed: Callable[[Any, Any], None] | None = None
        # Called when the controller was killed, before it may be started from its disk.
        self.controller_killed: Callable[[], None] | None = None
        # Carries out a fault that ends or freezes a broker during a request: fault, broker, kind.
        self.on_fault_fired: Callable[[int, int, str], None] = _nobody

    # ---- states -------------------------------------------------------------------------------------------------

    @property
    def brokers(self) -> dict[int, BrokerRunner]:
        """The newest start of each broker that was started."""
        return self.links.brokers

    @property
    def has_controller(self) -> bool:
        """Whether there is a controller."""
        return self.links.controller is not None and not self.links.controller.is_dead

    def state(self, broker_id: int) -> str:
        """RUNNING, PAUSED or DOWN."""
        runner = self.brokers.get(broker_id)
        if runner is None or runner.is_dead:
            return DOWN
        return PAUSED if runner.is_frozen else RUNNING

    def cores(self) -> list[BrokerCore]:
        """The cores of the brokers that are not down."""
        return [runner.core for runner in self.brokers.values() if not runner.is_dead]  # type: ignore[misc]

    def is_whole(self) -> bool:
        """Whether every replica is in sync, and the controller's broker epochs are those of the brokers that run."""
        controller = self.links.controller
        if controller is None:
            return False
        image: ClusterImage = controller.core.image  # type: ignore[attr-defined]
        return all(
            len(part.isr) == len(part.replicas) and part.leader >= 0
            for topic in image.topics.values()
            for part in topic.partitions
        ) and all(
            self.state(broker_id) == RUNNING and image.broker_epochs[broker_id] == runner.core.broker_epoch  # type: ignore[attr-defined]
            for broker_id, runner in self.brokers.items()
        )

    # ---- begin --------------------------------------------------------------------------------------------------

    def boot(self, broker_ids: Sequence[int] | None = None) -> None:
        """Start these brokers (default: all), and the controller if there is none; OSError, UserMistake.

        If nothing ran before, the controller takes the brokers that start with it as registered: nothing has to wait
        for their first heartbeats.
        """
        starting = list(self._starts) if broker_ids is None else list(broker_ids)
        if not self.has_controller and not self.cores():
            self._boot_all(starting)
            return
        if not self.has_controller:
            self.start_controller()
        for broker_id in starting:
            self.start(broker_id)

    def _boot_all(self, starting: Sequence[int]) -> None:
        # The controller first: if its folder cannot be used, no broker has changed its own yet.
        core = ControllerCore(
            self.addresses,
            self.controller_disk,
            self.settings,
            self._fork(),
            cluster_id=self._cluster_id,
            running={broker_id: self._starts[broker_id] + 1 for broker_id in starting},
            directories=self._directories_of(starting),
            lacking=self._lacking_logs_of(starting),
        )
        for broker_id in starting:
            self._new_broker(broker_id)
        # The brokers begin with the image that it publishes.
        self._run_controller(core)
        self._has_booted = True

    def _directories_of(self, broker_ids: Sequence[int]) -> dict[int, str]:
        """The id of each broker's log directory.

        OSError if one cannot be read at the first start. At later starts such a broker sends it with a heartbeat, if it
        can.
        """
        rng = self._fork()
        found: dict[int, str] = {}
        for broker_id in broker_ids:
            try:
                found[broker_id] = directory_id(self.disks[broker_id], broker_id, rng)
            except OSError as error:
                if not self._has_booted:
                    raise
                logger.warning("broker %d cannot read which folder it has: %s", broker_id, error)
        return found

    def _lacking_logs_of(self, broker_ids: Sequence[int]) -> dict[int, frozenset[str]]:
        """The folders of each broker's logs that lack what was committed, where that can be read."""
        found: dict[int, frozenset[str]] = {}
        for broker_id in broker_ids if len(self.addresses) > 1 else ():
            try:
                found[broker_id] = lacking_logs(self.disks[broker_id])
            except OSError as error:
                logger.warning(
                    "broker %d: its logs cannot be read, so it is not known whether committed records are missing: %s",
                    broker_id,
                    error,
                )
        return found

    def start(self, broker_id: int) -> None:
        """Start a broker that is down."""
        self._new_broker(broker_id).ring()

    def start_controller(self) -> None:
        """Start a controller that was ended, from its disk, while brokers run."""
        self._run_controller(
            ControllerCore(self.addresses, self.controller_disk, self.settings, self._fork(), resumes=True)
        )

    def _run_controller(self, core: ControllerCore) -> None:
        runner = ControllerRunner(self.schedule, core, self.controller_clock, self.links)
        runner.failed = self.failed
        self.links.controller = runner
        runner.carry_out()

    def _new_broker(self, broker_id: int) -> BrokerRunner:
        if self.starting is not None and broker_id in self.brokers:
            self.starting(broker_id)
        self._starts[broker_id] += 1
        clock = self.clocks[broker_id]
        core = BrokerCore(
            broker_id,
            self.disks[broker_id],
            self.settings,
            self._fork(),
            self.faults,
            wall_offset_us=self._wall_offset_us() + clock.jump_us,
            broker_epoch=self._starts[broker_id],
        )
        runner = BrokerRunner(self.schedule, core, clock, broker_id, self.links, self._ended)
        runner.failed = self.failed
        runner.slow_disks = self._slow_disks[broker_id]
        runner.takes_us = self._takes_us.get(broker_id)
        self._watch(runner)
        self.links.join(broker_id, runner)
        runner.client_connections = self._open_connections(runner)
        if self.started is not None:
            self.started(broker_id)
        return runner

    def watch(self, acted: Callable[[int], None]) -> None:
        """Have this called with a broker's id whenever the broker has handled something."""
        self.acted = acted
        for runner in self.brokers.values():
            self._watch(runner)

    def _watch(self, runner: BrokerRunner) -> None:
        acted, broker_id = self.acted, runner.broker_id
        if acted is not None:
            runner.acted = lambda: acted(broker_id)

    def release(self, fault_id: int) -> None:
        """After a fault was healed, let requests that it held at brokers go on."""
        for runner in self.brokers.values():
            self.schedule.at(0, runner.deliver, Released(fault_id))

    # ---- end ----------------------------------------------------------------------------------------------------

    def kill(self, broker_id: int, *, kind: str = "kill") -> None:
        """End a broker; what it had written is still there when it starts again. `kind` is passed to `fell`."""
        self._end(broker_id, silently=False)
        self._tell(broker_id, kind)

    def power_off(self, broker_id: int, rng: Random) -> None:
        """Cut a broker's power: its disk keeps what was synced, or a little more.

        In the simulation its clients get nothing; in a cluster their connections are closed. A broker that has ended
        before loses what its page cache still had.
        """
        runner = self.brokers.get(broker_id)
        if runner is not None and not runner.is_dead:
            self._end(broker_id, silently=True)
        disk = self.disks[broker_id]
        disk.write_back.now_us = self.clocks[broker_id].own_us(self.schedule.now_us)
        disk.power_off(rng)
        self._tell(broker_id, "power_off")

    def pause(self, broker_id: int) -> None:
        """Freeze a broker; whatever is sent to it waits."""
        self.brokers[broker_id].freeze()

    def resume(self, broker_id: int) -> None:
        """Let a paused broker go on."""
        self.brokers[broker_id].thaw()

    def shut_down(self, broker_id: int, stopped: Callable[[], None] | None = None) -> None:
        """Let a broker end in order, when the controller has moved its leaders away; then call `stopped`."""
        runner = self.brokers[broker_id]
        if stopped is not None:
            self._stopping[broker_id] = stopped
        runner.core.shut_down(runner.now_us)  # type: ignore[attr-defined]
        runner.carry_out()

    def is_shutting_down(self, broker_id: int) -> bool:
        """Whether a broker was asked to end in order, and has not yet."""
        return broker_id in self._stopping

    def kill_controller(self) -> None:
        """End the controller; brokers go on with the metadata they have. What it had written is kept."""
        if self.links.controller is not None:
            self.links.controller.die()
        self.links.forget_controller()
        if self.controller_killed is not None:
            self.controller_killed()

    def _ended(self, runner: BrokerRunner, output: FaultFired | Halted | LetGo) -> None:
        """Carry out an output that ends or freezes a broker; the outputs after it are not carried out."""
        broker_id = runner.broker_id
        if type(output) is FaultFired:
            self.on_fault_fired(output.fault_id, broker_id, output.kind)
        elif type(output) is Halted:
            self.kill(broker_id, kind="failed_disk")
        else:
            self._close_core(runner, sync=True)
            self.kill(broker_id, kind="stop")

    def close(self, *, sync: bool) -> None:
        """Close the logs of all brokers and the controller in order; none of them does anything afterwards."""
        controller = self.links.controller
        for runner in self.brokers.values():
            if not runner.is_dead:
                runner.die()
                if runner.client_connections is not None:
                    runner.client_connections.close(silently=False)
                self._close_core(runner, sync=sync)
        if controller is not None and not controller.is_dead:
            controller.die()
            if sync:
                try:
                    controller.core.close()  # type: ignore[attr-defined]
                except OSError as error:
                    logger.warning("the controller could not write what it knows: %s", error)

    def _close_core(self, runner: BrokerRunner, *, sync: bool) -> None:
        """Close a broker's logs; with `sync` they are also synced to the disk."""
        try:
            runner.core.close(sync=sync)  # type: ignore[attr-defined]
        except OSError as error:
            # On a full disk some writes of closing fail; the broker ends all the same.
            logger.warning("broker %d could not close its logs in order: %s", runner.broker_id, error)

    def _end(self, broker_id: int, *, silently: bool) -> None:
        runner = self.brokers[broker_id]
        runner.die()
        if runner.client_connections is not None:
            runner.client_connections.close(silently=silently)
        self.links.forget(broker_id)
        self.disks[broker_id].let_go()

    def _tell(self, broker_id: int, kind: str) -> None:
        if self.fell is not None:
            self.fell(broker_id, kind)
        # A caller of `shut_down` may wait: the broker is down, perhaps not in order.
        stopped = self._stopping.pop(broker_id, None)
        if stopped is not None:
            stopped()

    # ---- the clock of all ---------------------------------------------------------------------------------------

    def clock_set_ahead(self) -> None:
        """The clock was set ahead: who is alive sends a heartbeat, then the controller looks who has sent none.

        By the order of the deadlines the controller may look before, and would find everybody silent for too long. A
        heartbeat that `stall` delays does not come before that look: its broker is fenced until it does.
        """
        controller = self.links.controller
        if controller is None or controller.is_dead:
            return
        liveness = controller.core.liveness  # type: ignore[attr-defined]
        liveness.await_heartbeats()
        for runner in self.brokers.values():
            self.schedule.at(0, runner.ring)

        def look() -> None:
            liveness.heartbeats_came()
            controller.look_again()

        # A heartbeat arrives by an action of its own, after the one that has sent it.
        self.schedule.at(0, lambda: self.schedule.at(0, look))

    # ---- faults of disks and clocks -----------------------------------------------------------------------------

    def slow_down(self, broker_id: int, delay_us: int) -> SlowDisk:
        """From now on delay what makes a broker write, until the fault ends."""
        disks = self._slow_disks[broker_id]

        def ended(slow: SlowDisk) -> None:
            disks[:] = [each for each in disks if each is not slow]
            self.links.has_slow_disk = any(self._slow_disks.values())

        slow = SlowDisk(delay_us, ended)
        disks.append(slow)
        self.links.has_slow_disk = True
        return slow

    def take_time(self, broker_id: int, takes_us: Callable[[Any], int] | None) -> None:
        """From now on a broker takes `takes_us(request)` for each client request, one at a time per connection."""
        self._takes_us[broker_id] = takes_us
        if broker_id in self.brokers:
            self.brokers[broker_id].takes_us = takes_us

    def jump_clock(self, broker_id: int, jump_us: int) -> None:
        """Move the date of a broker's clock."""
        self.clocks[broker_id].jump_us += jump_us
        runner = self.brokers.get(broker_id)
        if runner is not None:
            runner.core.wall_offset_us += jump_us  # type: ignore[attr-defined]

    def drift_clock(self, broker_id: int, ppm: int) -> None:
        """From now on the clock of a broker (or the CONTROLLER) is too fast by `ppm` parts per million."""
        is_controller = broker_id == CONTROLLER
        clock = self.controller_clock if is_controller else self.clocks[broker_id]
        clock.run(ppm, self.schedule.now_us)
        runner = self.links.controller if is_controller else self.brokers.get(broker_id)
        if runner is not None:
            runner.look_again()


def _nobody(*_: Any) -> None:
    """There is nothing that carries out faults."""
