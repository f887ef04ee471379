"""Carries out what the fault plan does to a request: lost, dropped, late, held, delivered twice, or a broker's end.

`before` is called when a request is about to be handled, `handled` when its records are in this broker's log or it is
to be answered, and `instead_of_answer` when its answer is ready. With "drop" a connection stays open at the driver and
is deaf here: what still arrives on it is thrown away, as if the network cable were out. A crash is the output
`FaultFired`: the driver ends this broker before it carries out any later output.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

from ottla.broker.connections import Connections
from ottla.broker.events import FaultFired
from ottla.broker.fetch_sessions import FetchSession
from ottla.broker.outbox import Outbox
from ottla.broker.purgatory import DelayedOperation, Purgatory
from ottla.broker.request import Request
from ottla.faults.fields import ACK, APPEND
from ottla.faults.plan import Action, FaultPlan, fault_context
from ottla.faults.request_fault import Does

# At the beginning of a record batch.
_BASE_OFFSET_BYTES = 8
_OF_BROKERS = (Does.END_BROKER, Does.PAUSE_BROKER)
# The request or its answer is lost: CUT also ends the connection, SILENCE leaves it open.
_LOSES_MESSAGE = (Does.CUT, Does.SILENCE)
# Handles a request at this time.
Handle = Callable[[Request, int], None]


class DelayedAnswer:
    """An answer that is held back."""

    __slots__ = ("_connections", "_message", "_request", "bucket")

    def __init__(self, connections: Connections, request: Request, message: Any) -> None:
        self.bucket = 0
        self._connections = connections
        self._request = request
        self._message = message

    def expire(self, now_us: int) -> None:
        """Send it now."""
        self._connections.send(self._request, self._message)


class DelayedRequest:
    """A request that is handled later, whatever has become of its connection."""

    __slots__ = ("_handle", "_request", "bucket")

    def __init__(self, handle: Handle, request: Request) -> None:
        self.bucket = 0
        self._handle = handle
        self._request = request

    def expire(self, now_us: int) -> None:
        """Now it is handled."""
        self._handle(self._request, now_us)


class RequestFaults:
    """What the plan (shared by the brokers of a cluster) does to the requests of one broker.

    `handle` handles a request whose time has come; its checks are done, and the plan has decided about it.
    """

    __slots__ = ("_broker_id", "_connections", "_handle", "_held", "_outbox", "_purgatory", "plan")

    def __init__(
        self,
        plan: FaultPlan,
        broker_id: int,
        outbox: Outbox,
        purgatory: Purgatory,
        connections: Connections,
        handle: Handle,
    ) -> None:
        self.plan = plan
        self._broker_id = broker_id
        self._outbox = outbox
        self._purgatory = purgatory
        self._connections = connections
        self._handle = handle
        # What faults hold back, by the ids of their rules, until `released`.
        self._held: dict[int, list[DelayedOperation]] = {}

    def before(self, request: Request, session: FetchSession | None, now_us: int) -> bool:
        """Ask the plan about a request that came in; True where it is not to be handled now.

        `session` is the one that a Fetch goes on with.
        """
        kept = [] if session is None else [(each.topic or "", each.index) for each in session.partitions.values()]
        request.context = fault_context(request.message, self._broker_id, kept)
        action = self.plan.before_append(request.context, now_us)
        if action is None:
            return False
        does = action.does
        if does in _OF_BROKERS:
            self._crash(action)
            if does is Does.PAUSE_BROKER:
                self._purgatory.add(DelayedRequest(self._handle, request), now_us)
            return True
        if does is Does.HOLD:
            self._hold(action.fault_id, DelayedRequest(self._handle, request))
            return True
        if does is Does.DELAY:
            self._purgatory.add(DelayedRequest(self._handle, request), now_us + action.delay_us)
            return True
        if does in _LOSES_MESSAGE:
            self._end_connection(request, action, "request")
            return True
        if does is not Does.REFUSE:
            raise NotImplementedError(f"{action.kind}: brokers cannot do {does.name} before the append")
        request.refusal = action
        return False

    def handled(self, request: Request, stored: tuple[tuple[str, int], ...] | None, now_us: int) -> None:
        """Ask the plan about a request that was handled; `stored`: where its records are in the log, if it had any."""
        assert request.context is not None
        request.after = self.plan.after_append(request.context, stored)
        request.context = None
        action = request.after
        if action is not None and action.moment == APPEND:
            self._crash(action)
            request.after = None
        elif action is not None and action.does is Does.REPEAT:
            # The log and followers use its memory by reference now, so the second request is a copy.
            again = DelayedRequest(self._handle, self._again(request))
            self._purgatory.add(again, now_us + action.delay_us)
            request.after = None

    def instead_of_answer(self, request: Request, message: Any, now_us: int) -> bool:
        """Do to a finished answer what the plan decided; True where it is not sent now."""
        action = request.after
        if action is None:
            return False
        does = action.does
        if does is Does.HOLD:
            answer = message if request.expects_answer else None
            self._hold(action.fault_id, DelayedAnswer(self._connections, request, answer))
            return True
        if action.moment == ACK:
            self._crash(action)
            return does is not Does.PAUSE_BROKER
        if not request.expects_answer:
            return False
        if does in _LOSES_MESSAGE:
            self._end_connection(request, action, "answer")
            return True
        if does is Does.DELAY:
            self._purgatory.add(DelayedAnswer(self._connections, request, message), now_us + action.delay_us)
            return True
        # The answer is what was refused already.
        if does is not Does.REFUSE:
            raise NotImplementedError(f"{action.kind}: brokers cannot do {does.name} after the append")
        return False

    def released(self, fault_id: int, now_us: int) -> None:
        """The fault with this id is healed: what it held back goes on."""
        for operation in self._held.pop(fault_id, ()):
            operation.expire(now_us)

    def _hold(self, fault_id: int, operation: DelayedOperation) -> None:
        self._held.setdefault(fault_id, []).append(operation)

    def _crash(self, action: Action) -> None:
        """Have the driver do to this broker what a fault says."""
        self._outbox.put(FaultFired(action.kind, action.fault_id))

    def _end_connection(self, request: Request, action: Action, what: str) -> None:
        """End the connection, or make it deaf; it stays as it is where no answer is expected."""
        if not request.expects_answer:
            self._connections.send(request, None)
        elif action.does is Does.CUT:
            self._connections.hang_up(request.connection_id, f"{what} lost by fault {action.fault_id}")
        else:
            self._connections.go_deaf(request.connection_id)

    def _again(self, request: Request) -> Request:
        """The same request once more, from a connection that does not exist: its answer is dropped."""
        again = copy(request)
        again.connection_id = -1 - (self._outbox.next_number() << 64)
        again.after = again.refusal = again.context = None
        message = again.message = copy(request.message)
        if type(message).__name__ == "ProduceRequest":
            message.topic_data = [copy(topic) for topic in message.topic_data]
            for topic in message.topic_data:
                topic.partition_data = [copy(data) for data in topic.partition_data]
                for data in topic.partition_data:
                    data.records = records = bytearray(data.records or b"")
                    # The append wrote the base offset into the batch; as it was sent, it had 0.
                    records[:_BASE_OFFSET_BYTES] = bytes(min(_BASE_OFFSET_BYTES, len(records)))
        return again
