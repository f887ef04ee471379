"""A whole cluster with its clients in one seed: the shipped cores around a simulated clock, network and disks.

`World` drives `BrokerCore`, `ControllerCore`, `ProducerCore` and `ReaderCore` as `cluster/` and `client/` do over
sockets and threads. Calls from outside (`producer.send`, `delivery.result`) let simulated time pass until they are
answered, so the same test can walk both worlds. Chance comes from the seed alone. Brokers can be killed, powered off,
paused and started, by hand or by a crash rule of the fault plan, and links between them cut; the controller and its
disk never fail, not even when a rule cuts everybody's power.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, TypeVar

from ottla.broker.apis import VERSIONS
from ottla.broker.controller.core import ControllerCore
from ottla.broker.core import BrokerCore
from ottla.broker.events import (
    AskController,
    AskPeer,
    BrokerAddress,
    ConnectionLost,
    ControllerAnswered,
    ControllerRequest,
    ControllerResponse,
    HangUp,
    ImagePublished,
    PeerAnswered,
    RequestReceived,
    Respond,
    Struck,
)
from ottla.broker.settings import BrokerSettings
from ottla.faults.plan import FaultPlan
from ottla.faults.rule import FaultRule
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.fetch import FetchResponse
from ottla.simulation.chance import Chance
from ottla.simulation.clients import SimulatedProducer, SimulatedReader
from ottla.simulation.disk import Disk
from ottla.simulation.machine import Machine
from ottla.simulation.network import Network, copied_fetch
from ottla.simulation.scheduler import Scheduler
from ottla.simulation.trace import Crossing, Trace
from ottla.weaknesses import Weaknesses

P = TypeVar("P", bound=SimulatedProducer)

FIRST_PORT = 9092
_OPERATOR = -1
CONTROLLER = -2
_WALL_CLOCK_BEGINS_MS = 1_767_225_600_000
_PATIENCE_US = 600_000_000


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
        self._clients = 0
        self._questions: dict[int, tuple[int, int, int]] = {}
        self._orders: dict[int, Any] = {}
        self._numbers = 0
        self.weaknesses = weaknesses
        self._settings = BrokerSettings(**settings)
        self._settings.weaknesses = weaknesses
        self._broker_acted: Callable[[int], None] | None = None
        self._broker_fell: Callable[[int, str], None] | None = None
        self._cut: dict[tuple[int, int], None] = {}
        self._starts = [0] * brokers
        self.disks = [Disk() for _ in range(brokers)]
        self.brokers: list[Machine] = []
        for broker_id in range(brokers):
            self.brokers.append(self._new_broker(broker_id))
        addresses = [BrokerAddress(i, f"broker-{i}", FIRST_PORT + i) for i in range(brokers)]
        controller = ControllerCore(addresses, Disk(), self._settings, self._fork(rng), cluster_id="simulated")
        self.controller = Machine(self.scheduler, controller, self._perform_for_controller)
        self.controller.turn()

    @staticmethod
    def _fork(rng: Random) -> Random:
        """A generator of its own for each machine, so that one machine's draws never shift another's."""
        return Chance(rng.getrandbits(64))

    def now_ms(self) -> int:
        """The simulated wall clock."""
        return _WALL_CLOCK_BEGINS_MS + self.scheduler.now_us // 1000

    def run_until(self, reached: Callable[[], bool], *, limit_us: int = _PATIENCE_US) -> bool:
        """Let time pass until `reached()`; False where that did not happen within `limit_us`."""
        return self.scheduler.run_until(reached, limit_us=limit_us)

    def create_topic(self, name: str, *, partitions: int = 1, replication_factor: int = 3, **configs: Any) -> None:
        """Make a topic (settings with underscores for dots) and wait until every broker knows it."""
        given = [CreatableTopicConfig(name=key.replace("_", "."), value=str(value)) for key, value in configs.items()]
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=replication_factor, configs=given
        )
        self._numbers += 1
        token = self._numbers
        self.controller.deliver(ControllerRequest(_OPERATOR, token, CreateTopicsRequest(topics=[topic])))
        answer = self._orders.pop(token).topics[0]
        if answer.error_code:
            raise ValueError(answer.error_message)
        if not self.run_until(lambda: all(name in m.core.image.topics for m in self.brokers)):  # type: ignore[attr-defined]
            raise RuntimeError(f"topic {name!r} did not reach every broker")

    def break_on_purpose(self, rule: FaultRule) -> int:
        """Add a fault; `faults.fired` of the number returned tells how often it struck."""
        return self.faults.add(rule, self.scheduler.now_us)

    # ---- outages ------------------------------------------------------------------------------------------------

    def kill(self, broker_id: int) -> None:
        """End a broker; what it had written is still there when it is started again."""
        self._end(broker_id, silently=False)
        self._tell_of_downfall(broker_id, "kill")

    def power_off(self, broker_id: int) -> None:
        """Cut a broker's power: its clients hear nothing, its disk has what was synced, or a little more."""
        self._end(broker_id, silently=True)
        disk = self.disks[broker_id]
        disk.write_back.now_us = self.scheduler.now_us
        disk.power_off(self._rng)
        self._tell_of_downfall(broker_id, "power_off")

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

    def cut_link(self, one: int, other: int) -> None:
        """Let nothing pass between two brokers, or between a broker and the controller (CONTROLLER)."""
        self._cut[min(one, other), max(one, other)] = None

    def heal_links(self) -> None:
        """Let everything pass again."""
        self._cut.clear()

    def _struck(self, broker_id: int, kind: str) -> None:
        """A crash rule hits while this broker's core is at work; nothing of what it would have done next is done."""
        if kind == "pause":
            self.pause(broker_id)
        elif kind == "kill":
            self.kill(broker_id)
        elif kind == "power_off":
            self.power_off(broker_id)
        else:
            for each, machine in enumerate(self.brokers):
                if not machine.is_dead:
                    self.power_off(each)

    def _tell_of_downfall(self, broker_id: int, kind: str) -> None:
        if self._broker_fell is not None:
            self._broker_fell(broker_id, kind)

    def _is_cut(self, one: int, other: int) -> bool:
        return (min(one, other), max(one, other)) in self._cut

    def _new_broker(self, broker_id: int) -> Machine:
        self._starts[broker_id] += 1
        core = BrokerCore(
            broker_id,
            self.disks[broker_id],
            self._settings,
            self._fork(self._rng),
            self.faults,
            wall_offset_us=_WALL_CLOCK_BEGINS_MS * 1000,
            broker_epoch=self._starts[broker_id],
        )
        machine = Machine(self.scheduler, core, self._broker_performer(broker_id))
        if self._broker_acted is not None:
            machine.acted = partial(self._broker_acted, broker_id)
        self.network.add_broker(FIRST_PORT + broker_id, f"broker-{broker_id}", machine.deliver)
        return machine

    def _end(self, broker_id: int, *, silently: bool) -> None:
        self.brokers[broker_id].die()
        self.network.remove_broker(FIRST_PORT + broker_id, silently=silently)
        for connection_id, (asker, asked, _) in list(self._questions.items()):
            if asked == broker_id:
                self._answer_peer(connection_id, None)
            elif asker == broker_id:
                del self._questions[connection_id]
                self._deliver_later(asked, ConnectionLost(connection_id))

    def producer(self, kind: type[P] = SimulatedProducer, **settings: Any) -> P:  # type: ignore[assignment]
        """A producer on a machine of its own."""
        self._clients += 1
        return kind(self, self._clients, settings, self._fork(self._rng))

    def watch(
        self,
        broker_acted: Callable[[int], None],
        controller_acted: Callable[[], None],
        broker_fell: Callable[[int, str], None],
    ) -> None:
        """Have these called whenever a broker (by its id) or the controller has done something, or a broker ended."""
        self._broker_acted = broker_acted
        self._broker_fell = broker_fell
        self.controller.acted = controller_acted
        for broker_id, machine in enumerate(self.brokers):
            machine.acted = partial(broker_acted, broker_id)

    def reader(self, **settings: Any) -> SimulatedReader:
        """A reader on a machine of its own."""
        self._clients += 1
        return SimulatedReader(self, self._clients, settings, self._fork(self._rng))

    # ---- between the machines -----------------------------------------------------------------------------------

    def _crossed(self, what: str, sender: int, receiver: int, number: int, message: Any, arrives_us: int) -> None:
        """Between brokers, or a broker and the controller; the network sees the rest."""
        one, other = (f"broker-{each}" if each >= 0 else "controller" for each in (sender, receiver))
        self.trace.add(Crossing(self.scheduler.now_us, what, one, other, number, message, arrives_us))

    def _broker_performer(self, broker_id: int) -> Callable[[Any], None]:
        def perform(output: Any) -> None:
            kind = type(output)
            if kind is Respond:
                if output.connection_id < 0:
                    self._answer_peer(output.connection_id, output.message)
                else:
                    self.network.respond(output)
            elif kind is HangUp:
                if output.connection_id < 0:
                    self._answer_peer(output.connection_id, None)
                else:
                    self.network.hang_up(output)
            elif kind is AskPeer:
                self._ask_peer(broker_id, output)
            elif kind is AskController and self._is_cut(broker_id, CONTROLLER):
                self._deliver_later(broker_id, ControllerAnswered(output.token, None))
            elif kind is AskController:
                request = ControllerRequest(broker_id, output.token, output.message)
                arrives_us = self._later(lambda: self.controller.deliver(request))
                self._crossed("request", broker_id, CONTROLLER, output.token, output.message, arrives_us)
            elif kind is Struck:
                self._struck(broker_id, output.kind)
            else:
                raise TypeError(f"a broker gave {kind.__name__}, which no driver knows")

        return perform

    def _perform_for_controller(self, output: Any) -> None:
        kind = type(output)
        if kind is ImagePublished:
            for broker_id in range(len(self.brokers)):
                if not self._is_cut(broker_id, CONTROLLER):
                    arrives_us = self._deliver_later(broker_id, output)
                    self._crossed("image", CONTROLLER, broker_id, 0, output.image, arrives_us)
        elif kind is ControllerResponse and output.broker_id == _OPERATOR:
            self._orders[output.token] = output.message
        elif kind is ControllerResponse:
            message = None if self._is_cut(output.broker_id, CONTROLLER) else output.message
            arrives_us = self._deliver_later(output.broker_id, ControllerAnswered(output.token, message))
            self._crossed("answer", CONTROLLER, output.broker_id, output.token, message, arrives_us)
        else:
            raise TypeError(f"the controller gave {kind.__name__}, which no driver knows")

    def _ask_peer(self, broker_id: int, question: AskPeer) -> None:
        if self._is_cut(broker_id, question.broker_id) or self.brokers[question.broker_id].is_dead:
            self._deliver_later(broker_id, PeerAnswered(question.broker_id, question.token, None))
            return
        self._numbers += 1
        connection_id = -self._numbers
        self._questions[connection_id] = broker_id, question.broker_id, question.token
        version = VERSIONS[question.message.API_KEY][1]
        request = RequestReceived(connection_id, question.token, version, f"broker-{broker_id}", question.message)
        arrives_us = self._deliver_later(question.broker_id, request)
        self._crossed("request", broker_id, question.broker_id, -connection_id, question.message, arrives_us)

    def _answer_peer(self, connection_id: int, message: Any) -> None:
        if connection_id not in self._questions:
            return  # whoever asked is no more
        asker, asked, token = self._questions.pop(connection_id)
        if self._is_cut(asker, asked):
            message = None
        if type(message) is FetchResponse:
            message = copied_fetch(message)
        arrives_us = self._deliver_later(asker, PeerAnswered(asked, token, message))
        self._crossed("answer", asked, asker, -connection_id, message, arrives_us)

    def _deliver_later(self, broker_id: int, event: Any) -> int:
        """To this very machine: what is meant for a broker that dies on the way never reaches its successor."""
        machine = self.brokers[broker_id]
        return self._later(lambda: machine.deliver(event))

    def _later(self, action: Callable[[], None]) -> int:
        arrives_us = self.scheduler.now_us + self.network.delay_us()
        self.scheduler.at(arrives_us, action)
        return arrives_us
