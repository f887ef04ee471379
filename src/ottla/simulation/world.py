"""A whole cluster with its clients in one seed: the shipped cores around a simulated clock, network and disks.

`World` drives `BrokerCore`, `ControllerCore`, `ProducerCore` and `ReaderCore` as `cluster/` and `client/` do over
sockets and threads. Calls from outside (`producer.send`, `delivery.result`) let simulated time pass until they are
answered, so the same test can walk both worlds. Chance comes from the seed alone.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from ottla.broker.apis import VERSIONS
from ottla.broker.controller.core import ControllerCore
from ottla.broker.core import BrokerCore
from ottla.broker.events import (
    AskController,
    AskPeer,
    BrokerAddress,
    ControllerAnswered,
    ControllerRequest,
    ControllerResponse,
    HangUp,
    ImagePublished,
    PeerAnswered,
    RequestReceived,
    Respond,
)
from ottla.broker.settings import BrokerSettings
from ottla.faults.plan import FaultPlan
from ottla.faults.rule import FaultRule
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.fetch import FetchResponse
from ottla.simulation.clients import SimulatedProducer, SimulatedReader
from ottla.simulation.disk import Disk
from ottla.simulation.machine import Machine
from ottla.simulation.network import Network, copied_fetch
from ottla.simulation.scheduler import Scheduler
from ottla.simulation.trace import Trace

FIRST_PORT = 9092
_OPERATOR = -1
_WALL_CLOCK_BEGINS_MS = 1_767_225_600_000
_PATIENCE_US = 600_000_000


class World:
    """`brokers` brokers and a controller, up and running; every 20th seed should go `through_bytes`."""

    def __init__(self, seed: int, *, brokers: int = 3, through_bytes: bool = False, keep_trace: bool = False) -> None:
        rng = Random(seed)
        self.scheduler = Scheduler()
        self.trace = Trace(keep_lines=keep_trace)
        self.faults = FaultPlan()
        self.network = Network(self.scheduler, self._fork(rng), self._crossed, through_bytes=through_bytes)
        self.bootstrap_servers = ",".join(f"broker-{i}:{FIRST_PORT + i}" for i in range(brokers))
        self._rng = rng
        self._clients = 0
        self._questions: dict[int, tuple[int, int, int]] = {}
        self._orders: dict[int, Any] = {}
        self._numbers = 0
        settings = BrokerSettings()
        self.disks = [Disk() for _ in range(brokers)]
        self.brokers: list[Machine] = []
        for broker_id in range(brokers):
            core = BrokerCore(
                broker_id,
                self.disks[broker_id],
                settings,
                self._fork(rng),
                self.faults,
                wall_offset_us=_WALL_CLOCK_BEGINS_MS * 1000,
            )
            machine = Machine(self.scheduler, core, self._broker_performer(broker_id))
            self.brokers.append(machine)
            self.network.add_broker(FIRST_PORT + broker_id, machine.deliver)
        addresses = [BrokerAddress(i, f"broker-{i}", FIRST_PORT + i) for i in range(brokers)]
        controller = ControllerCore(addresses, Disk(), settings, self._fork(rng), cluster_id="simulated")
        self.controller = Machine(self.scheduler, controller, self._perform_for_controller)
        self.controller.turn()

    @staticmethod
    def _fork(rng: Random) -> Random:
        """A generator of its own for each machine, so that one machine's draws never shift another's."""
        return Random(rng.getrandbits(64))

    def now_ms(self) -> int:
        """The simulated wall clock."""
        return _WALL_CLOCK_BEGINS_MS + self.scheduler.now_us // 1000

    def run_until(self, reached: Callable[[], bool], *, limit_us: int = _PATIENCE_US) -> bool:
        """Let time pass until `reached()`; False where that did not happen within `limit_us`."""
        return self.scheduler.run_until(reached, limit_us=limit_us)

    def create_topic(self, name: str, *, partitions: int = 1, replication_factor: int = 3) -> None:
        """Make a topic and wait until every broker knows it."""
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replication_factor)
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
        return self.faults.add(rule)

    def producer(self, **settings: Any) -> SimulatedProducer:
        """A producer on a machine of its own."""
        self._clients += 1
        return SimulatedProducer(self, self._clients, settings, self._fork(self._rng))

    def reader(self) -> SimulatedReader:
        """A reader on a machine of its own."""
        self._clients += 1
        return SimulatedReader(self, self._clients, self._fork(self._rng))

    # ---- between the machines -----------------------------------------------------------------------------------

    def _crossed(self, what: str, output: Any) -> None:
        self.trace.add(self.scheduler.now_us, what, output)

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
            elif kind is AskController:
                request = ControllerRequest(broker_id, output.token, output.message)
                self._later(lambda: self.controller.deliver(request))
            else:
                raise TypeError(f"a broker gave {kind.__name__}, which no driver knows")

        return perform

    def _perform_for_controller(self, output: Any) -> None:
        kind = type(output)
        if kind is ImagePublished:
            for broker in self.brokers:
                self._later(lambda broker=broker: broker.deliver(output))  # type: ignore[misc]
        elif kind is ControllerResponse and output.broker_id == _OPERATOR:
            self._orders[output.token] = output.message
        elif kind is ControllerResponse:
            answer = ControllerAnswered(output.token, output.message)
            self._later(lambda: self.brokers[output.broker_id].deliver(answer))
        else:
            raise TypeError(f"the controller gave {kind.__name__}, which no driver knows")

    def _ask_peer(self, broker_id: int, question: AskPeer) -> None:
        self._numbers += 1
        connection_id = -self._numbers
        self._questions[connection_id] = broker_id, question.broker_id, question.token
        version = VERSIONS[question.message.API_KEY][1]
        request = RequestReceived(connection_id, question.token, version, f"broker-{broker_id}", question.message)
        self._later(lambda: self.brokers[question.broker_id].deliver(request))

    def _answer_peer(self, connection_id: int, message: Any) -> None:
        asker, asked, token = self._questions.pop(connection_id)
        if type(message) is FetchResponse:
            message = copied_fetch(message)
        self._later(lambda: self.brokers[asker].deliver(PeerAnswered(asked, token, message)))

    def _later(self, action: Callable[[], None]) -> None:
        self.scheduler.after(self.network.delay_us(), action)
