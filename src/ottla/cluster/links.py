"""Carries typed messages between the cores of one process, and drives them with the loop's clock.

Everything that happens to a core goes through one queue, in the order in which it came about: requests of clients,
questions to a peer and their answers, questions to the controller, new images, time. A core is never entered while
another one is at work, so a Produce request, its replication and the acks that follow are usually done in one go,
without going back to the event loop. Peers' messages are handed over as objects: nothing is encoded.

Brokers come and go: one that parts is never entered again, one that is frozen finds everything that was meant for it
when it goes on.

A question to a peer (`AskPeer`) arrives there as a request on a connection that exists for this one question (ids
below zero), so that a Fetch that waits never holds up another question.
"""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from ottla.broker.apis import VERSIONS
from ottla.broker.events import (
    AskController,
    AskPeer,
    ClusterImage,
    ConnectionLost,
    ControllerAnswered,
    ControllerRequest,
    ControllerResponse,
    Halted,
    HangUp,
    ImagePublished,
    LetGo,
    PeerAnswered,
    Released,
    RequestReceived,
    Respond,
    Struck,
)
from ottla.cluster.event_loop import EventLoop, Timer

logger = logging.getLogger("ottla.cluster")

_EVENTS_PER_TURN = 256  # then the sockets get their turn
_OPERATOR = 0  # stands for "whoever holds the Cluster object" where the controller wants a broker id


class Core(Protocol):
    """What every core offers its driver."""

    def receive(self, event: Any, now_us: int) -> None: ...
    def outputs(self) -> list[Any]: ...
    def deadline_us(self) -> int | None: ...
    def tick(self, now_us: int) -> None: ...


class ClientDoor(Protocol):
    """A client's connection, as far as a core's outputs concern it."""

    client_id: str | None
    listener: str

    def respond(self, response: Respond) -> None: ...
    def hang_up(self, reason: str) -> None: ...
    @property
    def queued(self) -> int: ...
    def idle_since_s(self) -> float | None: ...
    def fall_silent(self, *, for_good: bool) -> None: ...
    def speak(self) -> None: ...
    def close(self) -> None: ...


class Troubles(Protocol):
    """What may be wrong between the brokers; asked for every message while `active`."""

    @property
    def active(self) -> bool: ...
    def parted(self, broker_id: int, other_id: int) -> bool: ...
    def late_us(self, broker_id: int, event: Any) -> int: ...


class Node:
    """One core and the client connections that are open to it."""

    __slots__ = ("armed_us", "broker_id", "clients", "core", "frozen", "held", "is_gone")

    def __init__(self, broker_id: int, core: Core) -> None:
        self.broker_id = broker_id
        self.core = core
        self.clients: dict[int, ClientDoor] = {}
        self.armed_us: int | None = None
        # While the broker is paused: what happens to it, and what it had decided but not yet done.
        self.frozen: list[Any] | None = None
        self.held: list[Any] = []
        self.is_gone = False


class Links:
    """The brokers and the controller of one process; `join` them, then `post` what happens to them."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self.image: ClusterImage | None = None
        # Told of every new image, of brokers that were let go, and of brokers that a fault strikes down or that end by
        # themselves.
        self.image_published: Callable[[], None] = _nothing
        self.let_go: Callable[[int], None] = _nothing
        self.struck: Callable[[int, Struck | Halted], None] = _nothing
        self._queue: deque[tuple[Callable[..., None], Any, Any]] = deque()
        self._running = False
        self._brokers: dict[int, Node] = {}
        self._controller: Node | None = None
        self._questions: dict[int, tuple[Node, int, int]] = {}
        self._orders: dict[int, Callable[[Any], None]] = {}
        self._numbers = itertools.count(1)
        self._timer: Timer | None = None
        self._timer_us = 0
        self.troubles: Troubles | None = None

    def join(self, broker_id: int, core: Core) -> Node:
        """Make a broker known to the others."""
        node = self._brokers[broker_id] = Node(broker_id, core)
        return node

    def part(self, node: Node) -> None:
        """A broker is no more: nothing reaches it, and who waits for its answer gets none."""
        node.is_gone = True
        del self._brokers[node.broker_id]
        for connection_id, (asker, asked_id, token) in list(self._questions.items()):
            if asked_id == node.broker_id:
                del self._questions[connection_id]
                self.receive(asker, PeerAnswered(asked_id, token, None))
            elif asker is node:
                del self._questions[connection_id]
                peer = self._brokers.get(asked_id)
                if peer is not None:
                    self.receive(peer, ConnectionLost(connection_id))

    def freeze(self, node: Node) -> None:
        """From now on nothing happens at this broker; what is meant for it waits."""
        node.frozen = []
        # No deadline of its own passes for it; one that has passed would ring without end.
        node.armed_us = None

    def thaw(self, node: Node) -> None:
        """The broker goes on where it was."""
        waiting, node.frozen = node.frozen, None
        held, node.held = node.held, []
        self.post(self._perform, node, held)
        for event in waiting or ():
            self.receive(node, event)
        self.post(self._tick, node, None)

    def wake(self, node: Node) -> None:
        """Let a core that has just joined say what it wants to begin with."""
        self.post(self._tick, node, None)

    def join_controller(self, core: Core) -> None:
        """Make the controller known to the brokers."""
        self._controller = Node(_OPERATOR, core)

    def part_controller(self) -> None:
        """The controller is no more: nobody reaches it, and orders it did not answer are not answered."""
        if self._controller is not None:
            self._controller.is_gone = True
            self._controller = None
        orders, self._orders = self._orders, {}
        for answered in orders.values():
            self.post(_call, answered, None)

    def close(self) -> None:
        """All are no more: whatever is still meant for one of them, or due, reaches nobody."""
        for node in self._nodes():
            node.is_gone = True
        self._brokers.clear()
        self._controller = None

    @property
    def has_controller(self) -> bool:
        """Whether there is a controller."""
        return self._controller is not None

    def brokers(self) -> list[Node]:
        """The brokers, in the order in which they joined."""
        return list(self._brokers.values())

    def start(self) -> None:
        """Let every core say what it wants to begin with."""
        for node in self._nodes():
            self.post(self._tick, node, None)

    def order(self, message: Any, answered: Callable[[Any], None]) -> None:
        """Send an administrative request to the controller on behalf of the operator; None answers if it dies."""
        token = next(self._numbers)
        self._orders[token] = answered
        assert self._controller is not None
        self.receive(self._controller, ControllerRequest(_OPERATOR, token, message))

    def release(self, rule_id: int) -> None:
        """A fault is healed: what it held back at any broker goes on."""
        for node in self.brokers():
            self.receive(node, Released(rule_id))

    def now_us(self) -> int:
        """The time by the cluster's clock."""
        return self._loop.now_us()

    def wall_us(self) -> int:
        """The time since 1970 by the cluster's clock."""
        return self._loop.clock.wall_us()

    def next_number(self) -> int:
        """A number that was never given before, for a client's connection."""
        return next(self._numbers)

    def receive(self, node: Node, event: Any) -> None:
        """An event for a core."""
        troubles = self.troubles
        if troubles is not None and troubles.active:
            late_us = troubles.late_us(node.broker_id, event)
            if late_us:
                self._loop.call_later(late_us / 1_000_000, self.post, self._hand_over, node, event)
                return
        self.post(self._hand_over, node, event)

    def tell_news(self) -> None:
        """Brokers that could not be reached may have missed an image: tell everybody the newest."""
        if self.image is not None:
            for broker in list(self._brokers.values()):
                if not self._are_parted(_OPERATOR, broker.broker_id):
                    self.receive(broker, ImagePublished(self.image))

    def _are_parted(self, broker_id: int, other_id: int) -> bool:
        troubles = self.troubles
        return troubles is not None and troubles.active and troubles.parted(broker_id, other_id)

    def post(self, action: Callable[..., None], first: Any, second: Any) -> None:
        """Run `action(first, second)` when no core is at work: now, unless this call comes from within one."""
        self._queue.append((action, first, second))
        if not self._running:
            self._run()

    def _run(self) -> None:
        queue = self._queue
        self._running = True
        try:
            for _ in range(_EVENTS_PER_TURN):
                if not queue:
                    break
                action, first, second = queue.popleft()
                action(first, second)
        finally:
            self._running = False
        if queue:
            self._loop.call_soon(self._run_on)
        self._arm()

    def _run_on(self) -> None:
        if not self._running and self._queue:
            self._run()

    def _hand_over(self, node: Node, event: Any) -> None:
        if node.is_gone:
            return
        if node.frozen is not None:
            node.frozen.append(event)
            return
        try:
            node.core.receive(event, self._loop.now_us())
        except Exception:
            # A bug, not bad input; the connection it showed on is given up and the broker goes on for the others.
            logger.exception("broker %d failed at %s", node.broker_id, type(event).__name__)
            if isinstance(event, RequestReceived):
                self._hang_up(node, HangUp(event.connection_id, "internal error of the broker"))
        self.carry_out(node)

    def _tick(self, node: Node, _: Any) -> None:
        if node.is_gone or node.frozen is not None:
            return
        try:
            node.core.tick(self._loop.now_us())
        except Exception:
            logger.exception("broker %d failed at the passing of time", node.broker_id)
        self.carry_out(node)

    def carry_out(self, node: Node) -> None:
        """Do what a broker's core has decided."""
        self._perform(node, node.core.outputs())

    def _perform(self, node: Node, outputs: list[Any]) -> None:
        for number, output in enumerate(outputs, start=1):
            if type(output) is Struck or type(output) is Halted:
                self.struck(node.broker_id, output)
            else:
                self._perform_one(node, output)
            if node.is_gone:
                return
            if node.frozen is not None:
                node.held += outputs[number:]
                node.armed_us = None
                return
        node.armed_us = node.core.deadline_us()

    def _perform_one(self, node: Node, output: Any) -> None:
        kind = type(output)
        if kind is Respond:
            self._respond(node, output)
        elif kind is AskPeer:
            self._ask_peer(node, output)
        elif kind is HangUp:
            self._hang_up(node, output)
        elif kind is AskController:
            if self._controller is None or self._are_parted(node.broker_id, _OPERATOR):
                self.receive(node, ControllerAnswered(output.token, None))
                return
            request = ControllerRequest(node.broker_id, output.token, output.message)
            self.receive(self._controller, request)
        elif kind is ControllerResponse:
            self._controller_answered(output)
        elif kind is ImagePublished:
            self.image = output.image
            for broker in self._brokers.values():
                if not self._are_parted(_OPERATOR, broker.broker_id):
                    self.receive(broker, output)
            self.image_published()
        elif kind is LetGo:
            self.let_go(node.broker_id)
        else:
            raise TypeError(f"a core gave {kind.__name__}, which no driver knows")

    def _respond(self, node: Node, response: Respond) -> None:
        if response.connection_id < 0:
            self._answer_peer(response.connection_id, response.message)
            return
        client = node.clients.get(response.connection_id)
        if client is not None:
            client.respond(response)

    def _hang_up(self, node: Node, output: HangUp) -> None:
        if output.connection_id < 0:
            self._answer_peer(output.connection_id, None)
            return
        client = node.clients.get(output.connection_id)
        if client is not None:
            client.hang_up(output.reason)

    def _ask_peer(self, node: Node, question: AskPeer) -> None:
        peer = self._brokers.get(question.broker_id)
        if peer is None or self._are_parted(node.broker_id, question.broker_id):
            self.receive(node, PeerAnswered(question.broker_id, question.token, None))
            return
        connection_id = -next(self._numbers)
        self._questions[connection_id] = (node, question.broker_id, question.token)
        message = question.message
        client_id = f"broker-{node.broker_id}"
        request = RequestReceived(connection_id, question.token, VERSIONS[message.API_KEY][1], client_id, message)
        self.receive(peer, request)

    def _answer_peer(self, connection_id: int, message: Any) -> None:
        asked = self._questions.pop(connection_id, None)
        if asked is None:
            return  # whoever asked is no more, or it is the answer to a request that a fault delivered once more
        node, broker_id, token = asked
        if self._are_parted(node.broker_id, broker_id):
            message = None
        self.receive(node, PeerAnswered(broker_id, token, message))

    def _controller_answered(self, output: ControllerResponse) -> None:
        if output.broker_id == _OPERATOR:
            answered = self._orders.pop(output.token)
            self.post(_call, answered, output.message)
        elif output.broker_id in self._brokers:
            message = None if self._are_parted(_OPERATOR, output.broker_id) else output.message
            self.receive(self._brokers[output.broker_id], ControllerAnswered(output.token, message))

    def _nodes(self) -> list[Node]:
        brokers = list(self._brokers.values())
        return brokers if self._controller is None else [self._controller, *brokers]

    def _arm(self) -> None:
        """One timer for all cores, at the earliest deadline; one that rings too early costs less than moving it."""
        due: int | None = None
        for node in self._nodes():
            if node.armed_us is not None and (due is None or node.armed_us < due):
                due = node.armed_us
        if due is None:
            return
        if self._timer is not None:
            if self._timer_us <= due:
                return
            self._timer.cancel()
        self._timer_us = due
        self._timer = self._loop.call_at(due / 1_000_000, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now_us = self._loop.now_us()
        for node in self._nodes():
            if node.armed_us is not None and node.armed_us <= now_us:
                self.post(self._tick, node, None)
        self._arm()


def _nothing(*_: Any) -> None:
    """Nobody has asked to be told."""


def _call(answered: Callable[[Any], None], message: Any) -> None:
    answered(message)
