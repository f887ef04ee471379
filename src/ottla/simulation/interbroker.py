"""What brokers and the controller say to each other, and what keeps them from it.

Each question is a connection of its own, as in `cluster/links.py`: answers may overtake each other, an image may come
late. Between two that are parted, or over a lossy net, a question or its answer is lost; whoever asked hears that at
once (a connection reset) or, where it happens silently, when its patience is over.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from ottla.broker.apis import FETCH, VERSIONS
from ottla.broker.events import (
    AskController,
    AskPeer,
    ConnectionLost,
    ControllerAnswered,
    ControllerRequest,
    ControllerResponse,
    ImagePublished,
    PeerAnswered,
    RequestReceived,
)
from ottla.protocol.messages.fetch import FetchResponse
from ottla.simulation.network import copied_fetch
from ottla.simulation.trace import NEVER, Crossing

if TYPE_CHECKING:
    from ottla.simulation.machine import Machine
    from ottla.simulation.world import World

CONTROLLER = -2
# How long one waits for an answer that is lost without a word, and for one that may still come.
_PATIENCE_US = 1_000_000
_REQUEST_TIMEOUT_US = 8_000_000


class Cut:
    """Between two brokers, or a broker and the controller; `fired` counts the messages that did not pass."""

    __slots__ = ("fired", "is_silent", "one", "other")

    def __init__(self, one: int, other: int, is_silent: bool) -> None:
        self.one = min(one, other)
        self.other = max(one, other)
        self.is_silent = is_silent
        self.fired = 0


class InterBroker:
    """The links of one world; brokers go by their ids, the controller by CONTROLLER."""

    def __init__(self, world: World, rng: Random) -> None:
        self._world = world
        self._scheduler = world.scheduler
        self._network = world.network
        self._trace = world.trace
        self._rng = rng
        self._cuts: list[Cut] = []
        self._names = {CONTROLLER: "controller", **{each: f"broker-{each}" for each in range(len(world.brokers))}}
        self._loss_chance = 0.0
        self._questions: dict[int, tuple[int, int, int]] = {}
        self._orders: dict[tuple[int, int], None] = {}
        self._numbers = 0
        self.lost = 0

    # ---- what keeps them from it --------------------------------------------------------------------------------

    def cut(self, one: int, other: int, *, silently: bool = False) -> Cut:
        """Let nothing pass between these two until `mend`."""
        cut = Cut(one, other, silently)
        self._cuts.append(cut)
        return cut

    def mend(self, cut: Cut | None = None) -> None:
        """Let everything pass again that this cut kept back; without one, that any did."""
        self._cuts = [] if cut is None else [each for each in self._cuts if each is not cut]

    def lose(self, chance: float) -> None:
        """From now on lose this share of all messages, without a word."""
        self._loss_chance = chance

    def _lost_us(self, one: int, other: int) -> int | None:
        """None where a message passes; otherwise how long it takes until somebody hears that it did not."""
        if self._cuts:
            low, high = (one, other) if one < other else (other, one)
            for cut in self._cuts:
                if cut.one == low and cut.other == high:
                    cut.fired += 1
                    return _PATIENCE_US if cut.is_silent else 0
        if self._loss_chance and self._rng.random() < self._loss_chance:
            self.lost += 1
            return _PATIENCE_US
        return None

    # ---- among brokers ------------------------------------------------------------------------------------------

    def ask_peer(self, broker_id: int, question: AskPeer) -> None:
        """Carry a broker's question to another broker."""
        world, asked = self._world, question.broker_id
        self._numbers += 1
        connection_id = -self._numbers
        lost_us = 0 if world.brokers[asked].is_dead else self._lost_us(broker_id, asked)
        if lost_us is not None:
            self._cross("request", broker_id, asked, self._numbers, question.message, NEVER)
            self._deliver(broker_id, PeerAnswered(asked, question.token, None), lost_us)
            return
        self._questions[connection_id] = broker_id, asked, question.token
        version = VERSIONS[question.message.API_KEY][1]
        request = RequestReceived(connection_id, question.token, version, f"broker-{broker_id}", question.message)
        arrives_us = self._deliver(asked, request)
        self._cross("request", broker_id, asked, self._numbers, question.message, arrives_us)
        if question.message.API_KEY != FETCH:  # no rule strikes followers' fetches, so they are always answered
            self._scheduler.after(_REQUEST_TIMEOUT_US, self._give_up, connection_id)

    def answer_peer(self, connection_id: int, message: Any) -> None:
        """Carry an answer to the broker that asked; None: there will be none."""
        if connection_id not in self._questions:
            return  # whoever asked is no more
        asker, asked, token = self._questions.pop(connection_id)
        lost_us = self._lost_us(asker, asked)
        if lost_us is not None:
            message = None
        elif type(message) is FetchResponse:
            message = copied_fetch(message)
        arrives_us = self._deliver(asker, PeerAnswered(asked, token, message), lost_us or 0)
        self._cross("answer", asked, asker, -connection_id, message, arrives_us)

    def _give_up(self, connection_id: int) -> None:
        self.answer_peer(connection_id, None)

    def forget(self, broker_id: int) -> None:
        """This broker has ended: its questions are closed, and those it was asked get no answer."""
        for connection_id, (asker, asked, _) in list(self._questions.items()):
            if asked == broker_id:
                self.answer_peer(connection_id, None)
            elif asker == broker_id:
                del self._questions[connection_id]
                self._deliver(asked, ConnectionLost(connection_id))

    # ---- with the controller ------------------------------------------------------------------------------------

    def ask_controller(self, broker_id: int, question: AskController) -> None:
        """Carry a broker's question to the controller."""
        controller = self._world.controller
        lost_us = 0 if controller.is_dead else self._lost_us(broker_id, CONTROLLER)
        if lost_us is not None:
            self._cross("request", broker_id, CONTROLLER, question.token, question.message, NEVER)
            self._deliver(broker_id, ControllerAnswered(question.token, None), lost_us)
            return
        request = ControllerRequest(broker_id, question.token, question.message)
        self._orders[broker_id, question.token] = None
        arrives_us = self._later(controller, request, 0)
        self._cross("request", broker_id, CONTROLLER, question.token, question.message, arrives_us)

    def answer_from_controller(self, answer: ControllerResponse) -> None:
        """Carry the controller's answer to the broker that asked."""
        if self._orders.pop((answer.broker_id, answer.token), 0) == 0:
            return  # another start of the controller was asked, and has been given up
        lost_us = self._lost_us(answer.broker_id, CONTROLLER)
        message = answer.message if lost_us is None else None
        arrives_us = self._deliver(answer.broker_id, ControllerAnswered(answer.token, message), lost_us or 0)
        self._cross("answer", CONTROLLER, answer.broker_id, answer.token, message, arrives_us)

    def forget_controller(self) -> None:
        """The controller has ended: what it was asked gets no answer."""
        for broker_id, token in self._orders:
            self._deliver(broker_id, ControllerAnswered(token, None))
        self._orders.clear()

    def publish(self, image: ImagePublished) -> None:
        """Carry an image to every broker; who does not get it is not told."""
        for broker_id in range(len(self._world.brokers)):
            arrives_us = NEVER if self._lost_us(broker_id, CONTROLLER) is not None else self._deliver(broker_id, image)
            self._cross("image", CONTROLLER, broker_id, 0, image.image, arrives_us)

    def _cross(self, what: str, sender: int, receiver: int, number: int, message: Any, arrives_us: int) -> None:
        names, now_us = self._names, self._scheduler.now_us
        self._trace.add(Crossing(now_us, what, names[sender], names[receiver], number, message, arrives_us))

    def _deliver(self, broker_id: int, event: Any, wait_us: int = 0) -> int:
        """To this very machine: what is meant for a broker that dies on the way never reaches its successor."""
        if self._world.has_slow_disk:
            wait_us += self._world.late_us(broker_id, event)
        return self._later(self._world.brokers[broker_id], event, wait_us)

    def _later(self, machine: Machine, event: Any, wait_us: int) -> int:
        arrives_us = self._scheduler.now_us + wait_us + self._network.delay_us()
        self._scheduler.at(arrives_us, machine.deliver, event)
        return arrives_us
