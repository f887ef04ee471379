"""What brokers and the controller say to each other, and what keeps them from it.

Each question is a connection of its own (ids below zero), so that a Fetch that waits never holds up another question:
answers may overtake each other, an image may come late. Between two that are parted, or over links that lose messages,
a question or its answer is lost; whoever asked hears that at once (a connection reset) or, where it happens silently,
when it has waited for long enough. A question that is not answered in time is given up, as in Kafka
(request.timeout.ms); only a Fetch is not: it waits for records, and ends when another broker leads.

Messages are handed over as objects: nothing is encoded.
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

# In place of a broker's id: whoever runs the cluster.
OPERATOR = -1
# How long one waits for an answer that is lost without a word.
_SILENCE_US = 1_000_000


class Cut:
    """Between two brokers, or a broker and the controller; `fired` counts the messages that did not pass."""

    __slots__ = ("_links", "fired", "is_silent", "one", "other")

    def __init__(self, links: Links, one: int, other: int, *, is_silent: bool) -> None:
        self._links = links
        self.one = min(one, other)
        self.other = max(one, other)
        self.is_silent = is_silent
        self.fired = 0

    def end(self) -> None:
        """Everything passes again that this kept back."""
        self._links.mend(self)


class Loss:
    """Loses a share of all messages without a word; `fired` counts them."""

    __slots__ = ("_links", "fired", "probability")

    def __init__(self, links: Links, probability: float) -> None:
        self._links = links
        self.probability = probability
        self.fired = 0

    def end(self) -> None:
        """Nothing is lost any more for this."""
        self._links.keep(self)


class Links:
    """The links of one cluster; brokers go by their ids, the controller by CONTROLLER."""

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
        # The newest image that was published, and who is told of each.
        self.image: ClusterImage | None = None
        self.published: Callable[[ClusterImage], None] | None = None
        # Whether any broker's disk is slow.
        self.has_slow_disk = False
        self._cuts: list[Cut] = []
        self._losses: list[Loss] = []
        # By connection: who asked whom, and by which token it is to be answered.
        self._questions: dict[int, tuple[int, int, int]] = {}
        # Until when an answer may come; the oldest question first.
        self._patience: dict[int, int] = {}
        self._is_timed = False
        # Those that the controller was asked and has not answered.
        self._asked: dict[tuple[int, int], Callable[[Any], None] | None] = {}
        self._numbers = 0
        self._orders = 0

    def join(self, broker_id: int, runner: Any) -> None:
        """Make a start of a broker known to the others."""
        self._names[broker_id] = f"broker-{broker_id}"
        self.brokers[broker_id] = runner

    # ---- what keeps them from it --------------------------------------------------------------------------------

    def cut(self, one: int, other: int, *, silently: bool = False) -> Cut:
        """Let nothing pass between these two until it ends."""
        cut = Cut(self, one, other, is_silent=silently)
        self._cuts.append(cut)
        return cut

    def mend(self, cut: Cut) -> None:
        """Let everything pass again that this cut kept back; an image that was missed comes with the next heartbeat."""
        self._cuts = [each for each in self._cuts if each is not cut]

    def lose(self, probability: float) -> Loss:
        """From now on lose this share of all messages, without a word, until it ends."""
        loss = Loss(self, probability)
        self._losses.append(loss)
        return loss

    def keep(self, loss: Loss) -> None:
        """Lose no message any more for this."""
        self._losses = [each for each in self._losses if each is not loss]

    def _lost_us(self, one: int, other: int) -> int | None:
        """None where a message passes; otherwise how long it takes until somebody hears that it did not."""
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
        """Carry an answer to the broker that asked; None: there will be none."""
        if connection_id not in self._questions:
            return  # whoever asked is no more, or it is the answer to a request that a fault delivered once more
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
        """Look again when the oldest question has waited for long enough; one look is enough for all."""
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
        """This broker has ended: its questions are closed, and those it was asked get no answer."""
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
        """Ask the controller on behalf of whoever runs the cluster; None answers where it is dead, or dies."""
        if self.controller is None or self.controller.is_dead:
            answered(None)
            return
        self._schedule.at(0, self.controller.deliver, self._ordered(message, answered))

    def order_now(self, message: Any, answered: Callable[[Any], None]) -> None:
        """As `order`, for who calls while no core is at work: it is answered before this returns."""
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
            return  # another start of the controller was asked, and has been given up
        answered = self._asked.pop(place)
        if answered is not None:
            answered(answer.message)
            return
        lost_us = self._lost_us(answer.broker_id, CONTROLLER)
        message = answer.message if lost_us is None else None
        arrives_us = self._deliver(answer.broker_id, ControllerAnswered(answer.token, message), lost_us or 0)
        self._cross("answer", CONTROLLER, answer.broker_id, answer.token, message, arrives_us)

    def forget_controller(self) -> None:
        """The controller has ended: what it was asked gets no answer."""
        asked, self._asked = self._asked, {}
        for (broker_id, token), answered in asked.items():
            if answered is None:
                self._deliver(broker_id, ControllerAnswered(token, None))
            else:
                self._schedule.at(0, answered, None)

    def publish(self, output: ImagePublished) -> None:
        """Carry an image to every broker; who does not get it is not told."""
        self.image = output.image
        if self.published is not None:
            self.published(output.image)
        for broker_id in self.brokers:
            lost = self._lost_us(broker_id, CONTROLLER) is not None
            arrives_us = NEVER if lost else self._deliver(broker_id, output)
            self._cross("image", CONTROLLER, broker_id, 0, output.image, arrives_us)

    # ---- on the way ---------------------------------------------------------------------------------------------

    def _cross(self, what: str, sender: int, receiver: int, number: int, message: Any, arrives_us: int) -> None:
        if self._crossed is not None:
            now_us, names = self._schedule.now_us, self._names
            self._crossed(Crossing(now_us, what, names[sender], names[receiver], number, message, arrives_us))

    def _deliver(self, broker_id: int, event: Any, wait_us: int = 0) -> int:
        """To this start of the broker: a message on the way to a broker that dies never reaches its next start."""
        runner = self.brokers[broker_id]
        if self.has_slow_disk:
            wait_us += runner.late_us(event)
        return self._later(runner, event, wait_us)

    def _later(self, runner: Any, event: Any, wait_us: int) -> int:
        arrives_us = self._schedule.now_us + wait_us + self._wires.delay_us()
        self._schedule.at(arrives_us, runner.deliver, event)
        return arrives_us
