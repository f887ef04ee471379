"""What the fault plan does to a request, carried out: lost, dropped, late, held, delivered twice, or a broker's end.

`before` is asked when a request is about to be handled, `handled` when its records are in this broker's log, and
`instead_of_answer` when its answer is ready. A connection that "says nothing more" stays open at the driver and is
deaf here: what still arrives on it is thrown away, as if the other end were unplugged. A crash leaves as `Struck`;
the driver ends this broker there and then, before anything that comes behind it in the outputs.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from ottla.broker.request import Request
from ottla.faults.fault import OF_BROKERS
from ottla.faults.fields import ACK, APPEND
from ottla.faults.plan import Action

if TYPE_CHECKING:
    from ottla.broker.core import BrokerCore


class DelayedAnswer:
    """An answer that is held back."""

    __slots__ = ("_core", "_message", "_request", "bucket")

    def __init__(self, core: BrokerCore, request: Request, message: Any) -> None:
        self.bucket = 0
        self._core = core
        self._request = request
        self._message = message

    def expire(self, now_us: int) -> None:
        """Now it may go."""
        self._core.send(self._request, self._message)


class DelayedRequest:
    """A request that is handled later, whatever has become of its connection."""

    __slots__ = ("_core", "_request", "bucket")

    def __init__(self, core: BrokerCore, request: Request) -> None:
        self.bucket = 0
        self._core = core
        self._request = request

    def expire(self, now_us: int) -> None:
        """Now it is handled."""
        self._core.dispatch(self._request, now_us)


def before(core: BrokerCore, request: Request, now_us: int) -> bool:
    """Ask the plan about a request that came in; True where it is not to be handled now."""
    assert request.context is not None
    action = core.faults.before_append(request.context, now_us)
    if action is None:
        return False
    if action.kind in OF_BROKERS:
        core.crash(action)
        if action.kind == "pause":
            core.purgatory.add(DelayedRequest(core, request), now_us)
        return True
    if action.kind == "hold":
        core.hold(action.fault_id, DelayedRequest(core, request))
        return True
    if action.kind == "delay_request":
        core.purgatory.add(DelayedRequest(core, request), now_us + action.delay_us)
        return True
    if action.kind in ("lose_request", "drop_request"):
        _end_connection(core, request, action, "request")
        return True
    request.refusal = action
    return False


def handled(core: BrokerCore, request: Request, stored: tuple[tuple[str, int], ...] | None, now_us: int) -> None:
    """Ask the plan about a request that has been handled; `stored`: where its records are in the log, if it had any."""
    assert request.context is not None
    request.after = core.faults.after_append(request.context, stored)
    request.context = None
    action = request.after
    if action is not None and action.moment == APPEND:
        core.crash(action)
        request.after = None
    elif action is not None and action.kind == "redeliver":
        # Its memory is the log's now and goes to followers by reference, so what comes again is a copy.
        core.purgatory.add(DelayedRequest(core, _again(core, request)), now_us + action.delay_us)
        request.after = None


def instead_of_answer(core: BrokerCore, request: Request, message: Any, now_us: int) -> bool:
    """Do to a finished answer what the plan said; True where it does not go out now."""
    action = request.after
    if action is None:
        return False
    if action.kind == "hold":
        core.hold(action.fault_id, DelayedAnswer(core, request, message if request.expects_answer else None))
        return True
    if action.moment == ACK:
        core.crash(action)
        return action.kind != "pause"
    if not request.expects_answer:
        return False
    if action.kind in ("lose_ack", "drop_ack"):
        _end_connection(core, request, action, "answer")
        return True
    if action.kind == "delay_ack":
        core.purgatory.add(DelayedAnswer(core, request, message), now_us + action.delay_us)
        return True
    return False


def _end_connection(core: BrokerCore, request: Request, action: Action, what: str) -> None:
    """Nobody waits for an answer that is not expected, so such a connection stays as it is."""
    if not request.expects_answer:
        core.send(request, None)
    elif action.kind.startswith("lose_"):
        core.hang_up(request.connection_id, f"{what} lost by fault {action.fault_id}")
    else:
        core.go_deaf(request.connection_id)


def _again(core: BrokerCore, request: Request) -> Request:
    """The same request once more, from a connection that nobody reads."""
    again = copy(request)
    again.connection_id = core.unheard_connection_id()
    again.after = again.refusal = again.context = None
    message = again.message = copy(request.message)
    if type(message).__name__ == "ProduceRequest":
        message.topic_data = [copy(topic) for topic in message.topic_data]
        for topic in message.topic_data:
            topic.partition_data = [copy(data) for data in topic.partition_data]
            for data in topic.partition_data:
                data.records = bytearray(data.records or b"")
    return again
