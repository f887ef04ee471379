"""A whole cluster with its clients in one seed: the shipped cores around a simulated clock, network and disks.

`World` drives `BrokerCore`, `ControllerCore`, `ProducerCore` and `ReaderCore` as `cluster/` and `client/` do over
sockets and threads. Calls from outside (`producer.send`, `delivery.result`) let simulated time pass until they are
answered, so the same test can walk both worlds. Chance comes from the seed alone. Brokers can be killed, powered off,
paused, shut down in order and started, by hand or by a crash rule of the fault plan; the controller can be killed and
started from its own disk, which never fails, though the change it was writing may be torn.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, TypeVar

from ottla.broker.controller.core import ControllerCore
from ottla.broker.controller.state import CHANGES_FILE
from ottla.broker.core import BrokerCore
from ottla.broker.events import (
    AskController,
    AskPeer,
    BrokerAddress,
    ClusterImage,
    ControllerRequest,
    ControllerResponse,
    Halted,
    HangUp,
    ImagePublished,
    LetGo,
    MoveLeader,
    PeerAnswered,
    RequestReceived,
    Respond,
    Struck,
)
from ottla.broker.groups.members import GroupRefusal
from ottla.broker.settings import BrokerSettings
from ottla.faults.plan import FaultPlan
from ottla.faults.rule import FaultRule
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.fetch import FetchResponse
from ottla.protocol.messages.produce import ProduceRequest
from ottla.simulation.chance import Chance
from ottla.simulation.clients import SimulatedProducer, SimulatedReader
from ottla.simulation.clock import Clock
from ottla.simulation.disk import Disk
from ottla.simulation.interbroker import CONTROLLER, InterBroker
from ottla.simulation.machine import Machine
from ottla.simulation.network import Network
from ottla.simulation.scheduler import Scheduler
from ottla.simulation.trace import Trace
from ottla.weaknesses import Weaknesses

P = TypeVar("P", bound=SimulatedProducer)
R = TypeVar("R", bound=SimulatedReader)

FIRST_PORT = 9092
_OPERATOR = -1
_WALL_CLOCK_BEGINS_MS = 1_767_225_600_000
_PATIENCE_US = 600_000_000
_SOME_CHANGE = b'{"version":1,"broker_epochs":{"0":1}}'

__all__ = ["CONTROLLER", "FIRST_PORT", "World"]


class World:
    """`brokers` brokers and a controller, up and running; every 20th seed should go `through_bytes`."""

    def __init__(
        self,
        seed: int,
        *,
        brokers: int = 3,
        through_bytes: bool = False,
        keep_trace: bool = False,
        weaknesses: Weaknesses = (),
        **settings: Any,
    ) -> None:
        rng = Chance(seed)
        self.scheduler = Scheduler()
        self.trace = Trace(keep_lines=keep_trace)
        self.faults = FaultPlan()
        self.network = Network(self.scheduler, self._fork(rng), self.trace.add, through_bytes=through_bytes)
        self.bootstrap_servers = ",".join(f"broker-{i}:{FIRST_PORT + i}" for i in range(brokers))
        self._rng = rng
        # For who breaks things by chance.
        self.chance = rng
        self._clients = 0
        self._orders: dict[int, Any] = {}
        self._numbers = 0
        self.weaknesses = weaknesses
        self._settings = BrokerSettings(**settings)
        self._settings.weaknesses = weaknesses
        self._broker_acted: Callable[[int], None] | None = None
        self._broker_fell: Callable[[int, str], None] | None = None
        self._image_published: Callable[[ClusterImage], None] | None = None
        # Told of a crash rule that strikes a broker: rule, broker, kind. Without it the world does what the rule says.
        self.rule_struck: Callable[[int, int, str], None] | None = None
        self._slow_us: dict[int, int] = {}
        self.slowed = 0
        self.has_slow_disk = False
        # How long brokers take for a Produce request, at least and at most; drawn beside all else that is.
        self._service: dict[int, tuple[int, int]] = {}
        self._service_chance = Chance(f"service {seed}")
        self._starts = [0] * brokers
        self.clocks = [Clock() for _ in range(brokers)]
        # By the names of clients, whose instances share a machine; those without a name have a clock each.
        self._client_clocks: dict[str, Clock] = {}
        self._clients_of: dict[str, list[SimulatedProducer | SimulatedReader]] = {}
        self.disks = [Disk() for _ in range(brokers)]
        self.brokers: list[Machine] = []
        for broker_id in range(brokers):
            self.brokers.append(self._new_broker(broker_id))
        self._addresses = [BrokerAddress(i, f"broker-{i}", FIRST_PORT + i) for i in range(brokers)]
        self.controller_disk = Disk()
        self.controller_clock = Clock()
        core = ControllerCore(
            self._addresses,
            self.controller_disk,
            self._settings,
            self._fork(rng),
            cluster_id="simulated",
            directories={
                broker_id: machine.core.directory.identify(broker_id, machine.core.rng)  # type: ignore[attr-defined]
                for broker_id, machine in enumerate(self.brokers)
            },
        )
        self.controller = Machine(self.scheduler, core, self._perform_for_controller, self.controller_clock)
        self.links = InterBroker(self, self._fork(rng))
        self.controller.turn()

    @staticmethod
    def _fork(rng: Random) -> Random:
        """A generator of its own for each machine, so that one machine's draws never shift another's."""
        return Chance(rng.getrandbits(64))

    def now_ms(self) -> int:
        """The simulated wall clock."""
        return self.date_ms(self.scheduler.now_us)

    @staticmethod
    def date_ms(clock_us: int) -> int:
        """What a wall clock shows on a machine whose clock counts `clock_us`."""
        return _WALL_CLOCK_BEGINS_MS + clock_us // 1000

    def run_until(self, reached: Callable[[], bool], *, limit_us: int = _PATIENCE_US) -> bool:
        """Let time pass until `reached()`; False where that did not happen within `limit_us`."""
        return self.scheduler.run_until(reached, limit_us=limit_us)

    def create_topic(self, name: str, *, partitions: int = 1, replication_factor: int = 3, **configs: Any) -> None:
        """Make a topic (settings with underscores for dots) and wait until every broker knows it."""
        given = [CreatableTopicConfig(name=key.replace("_", "."), value=str(value)) for key, value in configs.items()]
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=replication_factor, configs=given
        )
        answer = self._order(CreateTopicsRequest(topics=[topic])).topics[0]
        if answer.error_code:
            raise ValueError(answer.error_message)
        if not self.run_until(lambda: all(name in m.core.image.topics for m in self.brokers)):  # type: ignore[attr-defined]
            raise RuntimeError(f"topic {name!r} did not reach every broker")

    def move_leader(self, topic: str, partition: int) -> bool:
        """Have another replica in sync lead; False where there is none."""
        if self.controller.is_dead or self.controller.is_frozen:
            return False
        return isinstance(self._order(MoveLeader(topic, partition)), int)

    def _order(self, message: Any) -> Any:
        self._numbers += 1
        self.controller.deliver(ControllerRequest(_OPERATOR, self._numbers, message))
        return self._orders.pop(self._numbers)

    def break_on_purpose(self, rule: FaultRule) -> int:
        """Add a fault; `faults.fired` of the number returned tells how often it struck."""
        return self.faults.add(rule, self.scheduler.now_us)

    # ---- how things stand ---------------------------------------------------------------------------------------

    def is_whole(self) -> bool:
        """Whether every replica is in sync, and in truth: this very start of every broker is the one that is meant."""
        image = self.controller.core.image  # type: ignore[attr-defined]
        return all(
            len(part.isr) == len(part.replicas) and part.leader >= 0
            for topic in image.topics.values()
            for part in topic.partitions
        ) and all(
            not machine.is_dead and not machine.is_frozen and image.broker_epochs[n] == machine.core.broker_epoch  # type: ignore[attr-defined]
            for n, machine in enumerate(self.brokers)
        )

    def counts_as_in_sync(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether the controller takes this start of a broker for alive, and in sync somewhere."""
        image = self.controller.core.image  # type: ignore[attr-defined]
        return image.broker_epochs[broker_id] == broker_epoch and any(
            broker_id in part.isr for topic in image.topics.values() for part in topic.partitions
        )

    def group_offsets(self, group_id: str) -> dict[tuple[str, int], int]:
        """What the coordinator of a group has committed for it, pending offsets left out."""
        for machine in self.brokers:
            core: Any = machine.core
            try:
                group = core.groups.find(group_id, self.scheduler.now_us)
            except GroupRefusal:
                continue  # coordinated elsewhere
            return {} if group is None else {place: each.offset for place, each in group.offsets.items()}
        return {}

    # ---- outages ------------------------------------------------------------------------------------------------

    def kill(self, broker_id: int, *, kind: str = "kill") -> None:
        """End a broker; what it had written is still there when it is started again. `kind` is for who watches."""
        self._end(broker_id, silently=False)
        disk = self.disks[broker_id]
        if disk.has_lost_pages:
            disk.has_lost_pages, kind = False, "failed_sync"
        self._tell_of_downfall(broker_id, kind)

    def power_off(self, broker_id: int) -> None:
        """Cut a broker's power: its clients hear nothing, its disk has what was synced, or a little more.

        Of a broker that has ended before, this takes what its page cache still had.
        """
        if not self.brokers[broker_id].is_dead:
            self._end(broker_id, silently=True)
        disk = self.disks[broker_id]
        disk.write_back.now_us = self.brokers[broker_id].now_us
        disk.power_off(self._rng)
        self._tell_of_downfall(broker_id, "power_off")

    def shut_down(self, broker_id: int) -> None:
        """Ask a broker to end in order: it does when the controller has let it go."""
        machine = self.brokers[broker_id]
        machine.core.shut_down(machine.now_us)  # type: ignore[attr-defined]
        machine.turn()

    def start(self, broker_id: int) -> None:
        """Start a broker that was ended."""
        self.brokers[broker_id] = self._new_broker(broker_id)
        self.brokers[broker_id].ring()

    def pause(self, broker_id: int) -> None:
        """Freeze a broker; whatever is sent to it waits."""
        self.brokers[broker_id].freeze()

    def resume(self, broker_id: int) -> None:
        """Let a paused broker go on."""
        self.brokers[broker_id].thaw()

    def kill_controller(self) -> None:
        """Cut the controller's power; brokers go on with what they know.

        What it had written is safe, as it is with a quorum of controllers. Half of the change that it was writing is
        left, of which nobody was told.
        """
        self.controller.die()
        self.links.forget_controller()
        written = (self.controller_disk.read_file(CHANGES_FILE) or _SOME_CHANGE).rstrip(b"\n").rpartition(b"\n")[2]
        self.controller_disk.open(CHANGES_FILE).append([written[: len(written) // 2]])

    def start_controller(self) -> None:
        """Start a controller that was ended, from its disk, among brokers that went on without it."""
        core = ControllerCore(
            self._addresses, self.controller_disk, self._settings, self._fork(self._rng), resumes=True
        )
        self.controller = Machine(self.scheduler, core, self._perform_for_controller, self.controller_clock)
        self.controller.turn()

    def cut_link(self, one: int, other: int) -> None:
        """Let nothing pass between two brokers, or between a broker and the controller (CONTROLLER)."""
        self.links.cut(one, other)

    def heal_links(self) -> None:
        """Let everything pass again."""
        self.links.mend()

    def slow_down(self, broker_id: int, delay_us: int) -> None:
        """From now on a broker takes so much longer for what makes it write; 0: at once."""
        self._slow_us[broker_id] = delay_us
        self.has_slow_disk = any(self._slow_us.values())
        self._watch_the_time()

    def take_time(self, broker_id: int, least_us: int, most_us: int) -> None:
        """From now on a broker takes between these for each Produce request of a client, one after the other."""
        self._service[broker_id] = least_us, most_us
        self._watch_the_time()

    def _watch_the_time(self) -> None:
        self.network.service_us = self._service_us if self.has_slow_disk or self._service else None

    def _service_us(self, port: int, request: RequestReceived) -> int:
        broker_id = port - FIRST_PORT
        least_us, most_us = self._service.get(broker_id, (0, 0))
        taken_us = 0
        if most_us and type(request.message) is ProduceRequest:
            taken_us = least_us if least_us == most_us else self._service_chance.randint(least_us, most_us)
        return taken_us + self.late_us(broker_id, request)

    def late_us(self, broker_id: int, event: Any) -> int:
        """How late a slow disk makes this event."""
        delay_us = self._slow_us.get(broker_id, 0)
        if not delay_us or not _makes_write(event):
            return 0
        self.slowed += 1
        return delay_us

    @staticmethod
    def port_of(broker_id: int) -> int:
        """Where clients reach a broker."""
        return FIRST_PORT + broker_id

    def jump_clock(self, broker_id: int, jump_us: int) -> None:
        """Move the date of a broker's clock."""
        self.clocks[broker_id].jump_us += jump_us
        self.brokers[broker_id].core.wall_offset_us += jump_us  # type: ignore[attr-defined]

    def drift_clock(self, broker_id: int, ppm: int) -> None:
        """From now on the clock of a broker (or the CONTROLLER) counts so many parts in a million too many."""
        is_controller = broker_id == CONTROLLER
        machine = self.controller if is_controller else self.brokers[broker_id]
        machine.clock.run(ppm, self.scheduler.now_us)
        machine.look_again()

    def drift_client_clock(self, name: str, ppm: int) -> None:
        """From now on the clock of the clients of this name counts so many parts in a million too many."""
        self._client_clocks.setdefault(name, Clock()).run(ppm, self.scheduler.now_us)
        for client in self._clients_of.get(name, ()):
            client.look_again()

    def clock_of(self, client_number: int) -> Clock:
        """The clock of the machine that a client runs on."""
        name = self.network.owners.get(client_number)
        return Clock() if name is None else self._client_clocks.setdefault(name, Clock())

    def _struck(self, rule_id: int, broker_id: int, kind: str) -> None:
        """A crash rule hits while this broker's core is at work; nothing of what it would have done next is done."""
        if self.rule_struck is not None:
            self.rule_struck(rule_id, broker_id, kind)
        elif kind == "pause":
            self.pause(broker_id)
        elif kind == "kill":
            self.kill(broker_id)
        elif kind == "power_off":
            self.power_off(broker_id)
        else:
            for each in range(len(self.brokers)):
                self.power_off(each)

    def _tell_of_downfall(self, broker_id: int, kind: str) -> None:
        if self._broker_fell is not None:
            self._broker_fell(broker_id, kind)

    def _new_broker(self, broker_id: int) -> Machine:
        self._starts[broker_id] += 1
        clock = self.clocks[broker_id]
        core = BrokerCore(
            broker_id,
            self.disks[broker_id],
            self._settings,
            self._fork(self._rng),
            self.faults,
            wall_offset_us=_WALL_CLOCK_BEGINS_MS * 1000 + clock.jump_us,
            broker_epoch=self._starts[broker_id],
        )
        machine = Machine(self.scheduler, core, self._broker_performer(broker_id), clock)
        if self._broker_acted is not None:
            machine.acted = partial(self._broker_acted, broker_id)
        self.network.add_broker(FIRST_PORT + broker_id, f"broker-{broker_id}", machine.deliver)
        return machine

    def _end(self, broker_id: int, *, silently: bool) -> None:
        self.brokers[broker_id].die()
        self.network.remove_broker(FIRST_PORT + broker_id, silently=silently)
        self.links.forget(broker_id)

    def producer(self, kind: type[P] = SimulatedProducer, name: str = "", /, **settings: Any) -> P:  # type: ignore[assignment]
        """A producer on a machine of its own."""
        producer = kind(self, self._new_client(name), settings, self._fork(self._rng))
        self._clients_of.setdefault(name, []).append(producer)
        return producer

    def reader(self, kind: type[R] = SimulatedReader, name: str = "", /, **settings: Any) -> R:  # type: ignore[assignment]
        """A reader on a machine of its own."""
        reader = kind(self, self._new_client(name), settings, self._fork(self._rng))
        self._clients_of.setdefault(name, []).append(reader)
        return reader

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
        """Have these called whenever a broker (by its id) did something, the controller published, a broker ended.

        The controller may decide more than one thing at once; brokers may hear of one only, so each is told.
        """
        self._broker_acted = broker_acted
        self._broker_fell = broker_fell
        self._image_published = image_published
        for broker_id, machine in enumerate(self.brokers):
            machine.acted = partial(broker_acted, broker_id)

    # ---- what the cores want ------------------------------------------------------------------------------------

    def _broker_performer(self, broker_id: int) -> Callable[[Any], None]:
        def perform(output: Any) -> None:
            kind = type(output)
            if kind is Respond:
                if output.connection_id < 0:
                    self.links.answer_peer(output.connection_id, output.message)
                else:
                    self.network.respond(output)
            elif kind is AskPeer:
                self.links.ask_peer(broker_id, output)
            elif kind is AskController:
                self.links.ask_controller(broker_id, output)
            elif kind is HangUp:
                if output.connection_id < 0:
                    self.links.answer_peer(output.connection_id, None)
                else:
                    self.network.hang_up(output)
            elif kind is Struck:
                self._struck(output.rule_id, broker_id, output.kind)
            elif kind is LetGo:
                # A disk that is full refuses some of what closing writes; the broker ends all the same.
                with suppress(OSError):
                    self.brokers[broker_id].core.close()  # type: ignore[attr-defined]
                self.kill(broker_id)
            elif kind is Halted:
                self.kill(broker_id)
            else:
                raise TypeError(f"a broker gave {kind.__name__}, which no driver knows")

        return perform

    def _perform_for_controller(self, output: Any) -> None:
        kind = type(output)
        if kind is ImagePublished:
            if self._image_published is not None:
                self._image_published(output.image)
            self.links.publish(output)
        elif kind is ControllerResponse and output.broker_id == _OPERATOR:
            self._orders[output.token] = output.message
        elif kind is ControllerResponse:
            self.links.answer_from_controller(output)
        else:
            raise TypeError(f"the controller gave {kind.__name__}, which no driver knows")


def _makes_write(event: Any) -> bool:
    if type(event) is RequestReceived:
        return type(event.message) is ProduceRequest
    return type(event) is PeerAnswered and type(event.message) is FetchResponse
