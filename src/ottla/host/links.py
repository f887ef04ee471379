"""The messages between brokers and the controller, and the faults that delay or lose them.

Each question (a request from one to another) has a connection of its own, with an id below zero. So a Fetch that waits
never delays another question; answers may overtake each other, and an image may come late. On a cut link, or one that
loses messages, a question or its answer is lost. The asking broker then gets None as the answer: at once (as by a
connection reset), or after a second if the loss is silent.

A question to another broker that is not answered within request.timeout.ms is given up, as in Kafka, except Fetch,
which may wait for records. Questions to the controller have no timeout; they are answered with None when it ends.

Messages are passed as objects: nothing is encoded.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from ottla.broker.apis import VERSIONS
from ottla.broker.events import (
    AskController,
    AskPeer,
    ClusterImage,
    ConnectionLost,
    ControllerAnswered,
    ControllerRequest,
    ControllerResponse,
    ImagePublished,
    PeerAnswered,
    RequestReceived,
)
from ottla.faults.fields import CONTROLLER
from ottla.host.crossing import NEVER, Crossing
from ottla.host.ports import Wires
from ottla.host.runner import Runner
from ottla.host.schedule import Schedule
from ottla.protocol.messages import FETCH
from ottla.protocol.messages.fetch import FetchResponse

# In place of a broker's id: the program or simulation that runs the cluster.
OPERATOR = -1
# How long a broker waits for an answer that is lost silently.
_SILENCE_US = 1_000_000


class Cut:
    """A cut link between two brokers, or a broker and the controller; `fired` counts the lost messages."""

    __slots__ = ("_links", "fired", "is_silent", "one", "other")

    def __init__(self, links: Links, one: int, other: int, *, is_silent: bool) -> None:
        self._links = links
        self.one = min(one, other)
        self.other = max(one, other)
        self.is_silent = is_silent
        self.fired = 0

    def end(self) -> None:
        """End the cut: messages pass again."""
        self._links.mend(self)


class Loss:
    """Loses a share of all messages silently; `fired` counts them."""

    __slots__ = ("_links", "fired", "probability")

    def __init__(self, links: Links, probability: float) -> None:
        self._links = links
        self.probability = probability
        self.fired = 0

    def end(self) -> None:
        """End the loss."""
        self._links.keep(self)


class Links:
    """The links of one cluster; a broker is named by its id, the controller by CONTROLLER."""

    def __init__(self, schedule: Schedule, wires: Wires, rng: Random, request_timeout_us: int) -> None:
        self._schedule = schedule
        self._wires = wires
        self._crossed = wires.crossed
        self._names = {CONTROLLER: "controller"}
        self._rng = rng
        self._request_timeout_us = request_timeout_us
        # The newest start of each broker, and of the controller; they may be dead.
        self.brokers: dict[int, Any] = {}
        self.controller: Runner | None = None
        # The newest image that was published, and what is called with each.
        self.image: ClusterImage | None = None
        self.published: Callable[[ClusterImage], None] | None = None
        # Whether any broker's disk is slow.
        self.has_slow_disk = False
        self._cuts: list[Cut] = []
        self._losses: list[Loss] = []
        # By connection: the broker that asks, the one that is asked, and the token for the answer.
        self._questions: dict[int, tuple[int, int, int]] = {}
        # By connection: the time limit of the answer; the oldest question first.
        self._patience: dict[int, int] = {}
        self._is_timed = False
        # The questions that the controller has not answered: (broker, token) -> what to call, None for a broker's.
        self._asked: dict[tuple[int, int], Callable[[Any], None] | None] = {}
        self._numbers = 0
        self._orders = 0

    def join(self, broker_id: int, runner: Any) -> None:
        """Make a start of a broker known to the others."""
        self._names[broker_id] = f"broker-{broker_id}"
        self.brokers[broker_id] = runner

    # ---- faults -------------------------------------------------------------------------------------------------

    def cut(self, one: int, other: int, *, silently: bool = False) -> Cut:
        """Let no message pass between these two until the cut ends."""
        cut = Cut(self, one, other, is_silent=silently)
        self._cuts.append(cut)
        return cut

    def mend(self, cut: Cut) -> None:
        """End a cut; an image that a broker missed comes with its next heartbeat."""
        self._cuts = [each for each in self._cuts if each is not cut]

    def lose(self, probability: float) -> Loss:
        """From now on lose this share of all messages silently, until the loss ends."""
        loss = Loss(self, probability)
        self._losses.append(loss)
        return loss

    def keep(self, loss: Loss) -> None:
        """End a loss."""
        self._losses = [each for each in self._losses if each is not loss]

    def _lost_us(self, one: int, other: int) -> int | None:
        """None if a message passes; otherwise after how long the asking broker gets None as its answer."""
        if self._cuts:
            low, high = (one, other) if one < other else (other, one)
            for cut in self._cuts:
                if cut.one == low and cut.other == high:
                    cut.fired += 1
                    return _SILENCE_US if cut.is_silent else 0
        for loss in self._losses:
            if self._rng.random() < loss.probability:
                loss.fired += 1
                return _SILENCE_US
        return None

    # ---- among brokers ------------------------------------------------------------------------------------------

    def ask_peer(self, broker_id: int, question: AskPeer) -> None:
        """Carry a broker's question to another broker."""
        asked = question.broker_id
        peer = self.brokers.get(asked)
        self._numbers += 1
        connection_id = -self._numbers
        lost_us = 0 if peer is None or peer.is_dead else self._lost_us(broker_id, asked)
        if lost_us is not None:
            self._cross("request", broker_id, asked, self._numbers, question.message, NEVER)
            self._deliver(broker_id, PeerAnswered(asked, question.token, None), lost_us)
            return
        self._questions[connection_id] = broker_id, asked, question.token
        api_key = question.message.API_KEY
        request = RequestReceived(
            connection_id, question.token, VERSIONS[api_key][1], f"broker-{broker_id}", question.message
        )
        arrives_us = self._deliver(asked, request)
        self._cross("request", broker_id, asked, self._numbers, question.message, arrives_us)
        if api_key != FETCH:
            self._patience[connection_id] = self._schedule.now_us + self._request_timeout_us
            self._time_oldest()

    def answer_peer(self, connection_id: int, message: Any) -> None:
        """Carry an answer to the broker that asked; None: there is no answer."""
        if connection_id not in self._questions:
            return  # the asking broker has ended, or a fault delivered the request twice
        asker, asked, token = self._questions.pop(connection_id)
        self._patience.pop(connection_id, None)
        lost_us = self._lost_us(asker, asked)
        if lost_us is not None:
            message = None
        elif type(message) is FetchResponse:
            message = self._wires.copy(message)
        arrives_us = self._deliver(asker, PeerAnswered(asked, token, message), lost_us or 0)
        self._cross("answer", asked, asker, -connection_id, message, arrives_us)

    def _time_oldest(self) -> None:
        """Schedule `_give_up` at the time limit of the oldest question, if it is not scheduled yet."""
        if not self._is_timed:
            for due_us in self._patience.values():
                self._is_timed = True
                self._schedule.at(due_us, self._give_up)
                break

    def _give_up(self) -> None:
        self._is_timed = False
        now_us = self._schedule.now_us
        late: list[int] = []
        for connection_id, due_us in self._patience.items():
            if due_us > now_us:
                break
            late.append(connection_id)
        for connection_id in late:
            self.answer_peer(connection_id, None)
        self._time_oldest()

    def forget(self, broker_id: int) -> None:
        """Close the questions of a broker that has ended; those that it was asked are answered with None."""
        for connection_id, (asker, asked, _) in list(self._questions.items()):
            if asked == broker_id:
                self.answer_peer(connection_id, None)
            elif asker == broker_id:
                del self._questions[connection_id]
                self._patience.pop(connection_id, None)
                self._deliver(asked, ConnectionLost(connection_id))

    # ---- with the controller ------------------------------------------------------------------------------------

    def ask_controller(self, broker_id: int, question: AskController) -> None:
        """Carry a broker's question to the controller."""
        controller = self.controller
        lost_us = 0 if controller is None or controller.is_dead else self._lost_us(broker_id, CONTROLLER)
        if lost_us is not None:
            self._cross("request", broker_id, CONTROLLER, question.token, question.message, NEVER)
            self._deliver(broker_id, ControllerAnswered(question.token, None), lost_us)
            return
        request = ControllerRequest(broker_id, question.token, question.message)
        self._asked[broker_id, question.token] = None
        arrives_us = self._later(controller, request, 0)
        self._cross("request", broker_id, CONTROLLER, question.token, question.message, arrives_us)

    def order(self, message: Any, answered: Callable[[Any], None]) -> None:
        """Send the controller a request from outside; `answered` gets its answer, or None if it is down or ends."""
        if self.controller is None or self.controller.is_dead:
            answered(None)
            return
        self._schedule.at(0, self.controller.deliver, self._ordered(message, answered))

    def order_now(self, message: Any, answered: Callable[[Any], None]) -> None:
        """As `order`, for callers outside of the schedule's actions: `answered` is called before this returns."""
        if self.controller is None or self.controller.is_dead:
            answered(None)
            return
        self.controller.deliver(self._ordered(message, answered))

    def _ordered(self, message: Any, answered: Callable[[Any], None]) -> ControllerRequest:
        self._orders += 1
        self._asked[OPERATOR, self._orders] = answered
        return ControllerRequest(OPERATOR, self._orders, message)

    def answer_from_controller(self, answer: ControllerResponse) -> None:
        """Carry the controller's answer to the broker that asked."""
        place = answer.broker_id, answer.token
        if place not in self._asked:
            return  # the question was for an earlier start of the controller
        answered = self._asked.pop(place)
        if answered is not None:
            answered(answer.message)
            return
        lost_us = self._lost_us(answer.broker_id, CONTROLLER)
        message = answer.message if lost_us is None else None
        arrives_us = self._deliver(answer.broker_id, ControllerAnswered(answer.token, message), lost_us or 0)
        self._cross("answer", CONTROLLER, answer.broker_id, answer.token, message, arrives_us)

    def forget_controller(self) -> None:
        """Answer all questions to the controller with None: it has ended."""
        asked, self._asked = self._asked, {}
        for (broker_id, token), answered in asked.items():
            if answered is None:
                self._deliver(broker_id, ControllerAnswered(token, None))
            else:
                self._schedule.at(0, answered, None)

    def publish(self, output: ImagePublished) -> None:
        """Carry an image to every broker; a loss is not reported to anybody."""
        self.image = output.image
        if self.published is not None:
            self.published(output.image)
        for broker_id in self.brokers:
            lost = self._lost_us(broker_id, CONTROLLER) is not None
            arrives_us = NEVER if lost else self._deliver(broker_id, output)
            self._cross("image", CONTROLLER, broker_id, 0, output.image, arrives_us)

    # ---- delivery -----------------------------------------------------------------------------------------------

    def _cross(self, what: str, sender: int, receiver: int, number: int, message: Any, arrives_us: int) -> None:
        if self._crossed is not None:
            now_us, names = self._schedule.now_us, self._names
            self._crossed(Crossing(now_us, what, names[sender], names[receiver], number, message, arrives_us))

    def _deliver(self, broker_id: int, event: Any, wait_us: int = 0) -> int:
        """Schedule an event for this start of a broker: if the broker ends first, its next start does not get it."""
        runner = self.brokers[broker_id]
        if self.has_slow_disk:
            wait_us += runner.late_us(event)
        return self._later(runner, event, wait_us)

    def _later(self, runner: Any, event: Any, wait_us: int) -> int:
        arrives_us = self._schedule.now_us + wait_us + self._wires.delay_us()
        self._schedule.at(arrives_us, runner.deliver, event)
        return arrives_us
