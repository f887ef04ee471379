"""The machines of one cluster: which brokers run, and what can be done to them.

Each broker has a machine of its own: its disk and its ports outlive it. `kill` drops the broker as `kill -9` would:
its clients' connections are cut, what it had written stays in the page cache. `power_off` takes from the disk what was
not synced as well. `pause` freezes it: its clients' bytes pile up, nothing is answered, and `resume` goes on where it
was. `stop` lets others lead first and closes the logs in order. Nobody can connect to a broker that is down; its ports
are kept for it. The controller lives as long as any broker of a whole cluster that was struck down together does: only
`kill` and `power_off` of all of them end it, and what it had written always outlives them (see UNSUPPORTED.md).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from random import Random

from ottla.broker.controller.core import ControllerCore
from ottla.broker.core import BrokerCore
from ottla.broker.events import BrokerAddress, Halted, Struck
from ottla.broker.log.directory import directory_id
from ottla.broker.settings import BrokerSettings
from ottla.cluster.links import Links, Node
from ottla.cluster.server import BrokerServer, Door
from ottla.cluster.storage import DiskStorage
from ottla.errors import UserMistake
from ottla.faults.plan import FaultPlan

logger = logging.getLogger("ottla.cluster")

RUNNING, PAUSED, DOWN = "running", "paused", "down"
ALL_DOWN = "the whole cluster is down: start() it first."


class Machine:
    """What stays of a broker when it dies, and the broker while it runs; `starts` counts since the controller's."""

    __slots__ = ("address", "core", "doors", "node", "server", "starts", "storage")

    def __init__(self, address: BrokerAddress, storage: DiskStorage, doors: list[Door]) -> None:
        self.address = address
        self.storage = storage
        self.doors = doors
        self.starts = 0
        self.core: BrokerCore | None = None
        self.node: Node | None = None
        self.server: BrokerServer | None = None

    @property
    def state(self) -> str:
        """RUNNING, PAUSED or DOWN."""
        if self.node is None:
            return DOWN
        return PAUSED if self.node.frozen is not None else RUNNING


class Machines:
    """All machines by broker id; verbs raise UserMistake where a broker is not in the state for it."""

    def __init__(
        self,
        links: Links,
        open_server: Callable[[Machine, Node, BrokerCore], BrokerServer],
        settings: BrokerSettings,
        faults: FaultPlan,
        rng: Random,
        controller_storage: DiskStorage,
        machines: Sequence[Machine],
    ) -> None:
        self._links = links
        self._open_server = open_server
        self._settings = settings
        self._faults = faults
        self._rng = rng
        self._controller_storage = controller_storage
        self._controller: ControllerCore | None = None
        self._machines = {machine.address.broker_id: machine for machine in machines}
        self._stopping: dict[int, Callable[[], None]] = {}
        # Told of every broker that was started.
        self.started: Callable[[int], None] = _nobody
        links.struck = self._struck
        links.let_go = self._let_go

    def boot(self, broker_ids: Sequence[int] | None = None) -> None:
        """Start the controller, where there is none, and these brokers (default: all); OSError, UserMistake."""
        starting = list(self._machines) if broker_ids is None else list(broker_ids)
        if self._controller is None:
            for machine in self._machines.values():
                machine.starts = 0
            addresses = [machine.address for machine in self._machines.values()]
            rng = Random(self._rng.random())
            directories = {each: directory_id(self._machines[each].storage, each, self._rng) for each in starting}
            self._controller = ControllerCore(
                addresses, self._controller_storage, self._settings, rng, running=starting, directories=directories
            )
            self._links.join_controller(self._controller)
        for broker_id in starting:
            self._join(self._machines[broker_id])
        self._links.start()
        for broker_id in starting:
            machine = self._machines[broker_id]
            assert machine.node is not None
            assert machine.core is not None
            machine.server = self._open_server(machine, machine.node, machine.core)
            self.started(broker_id)

    def _join(self, machine: Machine) -> None:
        machine.starts += 1
        machine.core = BrokerCore(
            machine.address.broker_id,
            machine.storage,
            self._settings,
            Random(self._rng.random()),
            self._faults,
            wall_offset_us=self._links.wall_us() - self._links.now_us(),
            broker_epoch=machine.starts,
        )
        machine.node = self._links.join(machine.address.broker_id, machine.core)

    def states(self) -> dict[int, str]:
        """RUNNING, PAUSED or DOWN by broker id."""
        return {broker_id: machine.state for broker_id, machine in self._machines.items()}

    def servers(self) -> list[BrokerServer]:
        """The doors of the brokers that run."""
        return [machine.server for machine in self._machines.values() if machine.server is not None]

    def cores(self) -> list[BrokerCore]:
        """The brokers that run."""
        return [machine.core for machine in self._machines.values() if machine.core is not None]

    def of(self, broker_id: int) -> Machine:
        """A broker's machine."""
        machine = self._machines.get(broker_id)
        if machine is None:
            known = ", ".join(map(str, self._machines))
            raise UserMistake(f"there is no broker {broker_id}: this cluster's brokers are {known}.")
        return machine

    def start(self, broker_id: int | None) -> None:
        """Start a broker that is down, or all that are."""
        if broker_id is None:
            down = [each for each, machine in self._machines.items() if machine.node is None]
            if not down:
                raise UserMistake("all brokers are running already.")
        else:
            self._check(broker_id, (DOWN,), "started")
            down = [broker_id]
        for each in down:
            for door in self._machines[each].doors:
                door.reopen()
        self.boot(down)

    def kill(self, broker_id: int | None, *, power: bool = False, seed: int | None = None) -> None:
        """End a broker, or all of them and the controller, at once and without a word; with `power` also its disk's.

        What of the unsynced bytes is left without power is drawn from `seed`, for each broker by itself. The power of
        all is also that of the brokers that are down already: page caches outlive a killed process, and nothing else.
        """
        if broker_id is not None:
            self._check(broker_id, (RUNNING, PAUSED), "killed")
            self._end(self._machines[broker_id], power=power, seed=seed)
            return
        self._controller = None
        self._links.part_controller()
        self._controller_storage.let_go()
        for machine in self._machines.values():
            if machine.node is not None:
                self._end(machine, power=power, seed=seed)
            elif power:
                self._cut_power(machine, seed)

    def pause(self, broker_id: int) -> None:
        """Freeze a broker."""
        self._check(broker_id, (RUNNING,), "paused")
        node = self._machines[broker_id].node
        assert node is not None
        self._links.freeze(node)

    def resume(self, broker_id: int) -> None:
        """Let a paused broker go on."""
        self._check(broker_id, (PAUSED,), "resumed")
        node = self._machines[broker_id].node
        assert node is not None
        self._links.thaw(node)

    def stop(self, broker_id: int, stopped: Callable[[], None]) -> None:
        """Let others lead what a broker leads, close its logs in order, and call `stopped`."""
        self._check(broker_id, (RUNNING,), "stopped")
        if broker_id in self._stopping:
            raise UserMistake(f"broker {broker_id} is being stopped already.")
        core, node = self._machines[broker_id].core, self._machines[broker_id].node
        assert core is not None
        assert node is not None
        self._stopping[broker_id] = stopped
        self._links.post(self._ask_to_go, node, core)

    def close(self, *, sync: bool) -> None:
        """Close doors and logs of all brokers in order; without `sync` nothing needs to reach the disk."""
        for machine in self._machines.values():
            self._close_server(machine)
        # The loop may turn once more; a core that hears of anything then would open its logs again.
        self._links.close()
        for machine in self._machines.values():
            self._close_core(machine, sync=sync)
            for door in machine.doors:
                door.socket.close()
        if self._controller is not None and sync:
            try:
                self._controller.close()
            except OSError as error:
                logger.warning("the controller could not write what it knows: %s", error)

    def _ask_to_go(self, node: Node, core: BrokerCore) -> None:
        core.shut_down(self._links.now_us())
        self._links.carry_out(node)

    def _let_go(self, broker_id: int) -> None:
        machine = self._machines[broker_id]
        assert machine.node is not None
        self._links.part(machine.node)
        machine.node = None
        self._close_server(machine)
        self._close_core(machine, sync=True)
        for door in machine.doors:
            door.shut()
        stopped = self._stopping.pop(broker_id, None)
        if stopped is not None:
            stopped()

    def _struck(self, broker_id: int, output: Struck | Halted) -> None:
        """A fault hits while this broker's core is at work, or its disk: what it would have done next is not done."""
        if type(output) is Halted:
            self._end(self._machines[broker_id], power=False, seed=None)
            return
        assert isinstance(output, Struck)
        if output.kind == "pause":
            self.pause(broker_id)
            return
        # The same plan leaves the same bytes, whether it names a seed or not.
        seed = self._faults.rule(output.rule_id).seed or 0
        if output.kind == "cut_power":
            self.kill(None, power=True, seed=seed)
        else:
            self.kill(broker_id, power=output.kind == "power_off", seed=seed)

    def _end(self, machine: Machine, *, power: bool, seed: int | None) -> None:
        assert machine.node is not None
        self._links.part(machine.node)
        machine.node = None
        machine.core = None
        machine.storage.let_go()
        self._close_server(machine)
        for door in machine.doors:
            door.shut()
        if power:
            self._cut_power(machine, seed)
        # Who waits for it to stop: it is down, if not in order.
        stopped = self._stopping.pop(machine.address.broker_id, None)
        if stopped is not None:
            stopped()

    def _cut_power(self, machine: Machine, seed: int | None) -> None:
        machine.storage.write_back.now_us = self._links.now_us()
        rng = self._rng if seed is None else Random(f"{seed} {machine.address.broker_id}")
        machine.storage.power_off(rng)

    def _close_server(self, machine: Machine) -> None:
        if machine.server is not None:
            machine.server.close()
            machine.server = None

    def _close_core(self, machine: Machine, *, sync: bool) -> None:
        if machine.core is None:
            return
        try:
            machine.core.close(sync=sync)
        except OSError as error:
            logger.warning("broker %d could not close its logs in order: %s", machine.address.broker_id, error)
        machine.core = None

    def _check(self, broker_id: int, wanted: tuple[str, ...], what: str) -> None:
        state = self.of(broker_id).state
        if state not in wanted:
            raise UserMistake(f"broker {broker_id} is {state}: it cannot be {what} now.")


def _nobody(_: int) -> None:
    """Nobody wants to know."""
