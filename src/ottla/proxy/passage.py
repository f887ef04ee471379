"""What passes between one client and one upstream broker: a pure core, which decides what becomes of each frame.

Whole frames come in from both sides, with the time; the outputs are in `events.py`. Requests keep their order, and so
do answers: one that a fault holds up holds up those behind it, as in a broker. A frame that no fault is about, and that
names no address, passes as the bytes it came in.

Invariants:
- Every request that expects an answer is in `_unanswered`, in the order in which the client sent it, until its answer
  has left or its connection ends in place of it.
- A connection that a fault ends first gets the answers to what was sent before.
- A request that a fault holds up is forwarded also when its client has closed its connection meanwhile, and the
  upstream connection stays until all that was forwarded is answered, as a broker handles what a client sent before it
  left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from ottla.errors import UserMistake
from ottla.faults.plan import Action, FaultPlan
from ottla.faults.request_fault import Does
from ottla.protocol.errors import ProtocolError
from ottla.protocol.frames import correlation_id_of, encode_response
from ottla.protocol.messages import PRODUCE, SASL_HANDSHAKE
from ottla.proxy import addresses, answers, refusals
from ottla.proxy.events import CloseClient, CloseUpstream, FaultFired, Output, ToClient, ToUpstream, Unseen
from ottla.proxy.request import TOKEN, Request, framed
from ottla.proxy.request_contexts import RequestContexts
from ottla.proxy.sasl_tokens import SaslTokens


class Shared:
    """What all passages of a proxy have in common: its faults, its addresses, and which topic an id stands for."""

    __slots__ = ("book", "plan", "topic_names")

    def __init__(self, plan: FaultPlan, book: addresses.AddressBook) -> None:
        self.plan = plan
        self.book = book
        self.topic_names: dict[bytes, str] = {}


class Passage:
    """One client's connection to one broker; `broker_id` tells which, -1 where that is not known yet."""

    __slots__ = (
        "_again",
        "_awaited",
        "_blocked",
        "_broker_id",
        "_client_is_gone",
        "_contexts",
        "_is_closing",
        "_is_deaf",
        "_is_ending",
        "_outputs",
        "_shared",
        "_tokens",
        "_unanswered",
        "_upstream_is_gone",
        "_upstream_is_left",
        "_upstream_reason",
        "_waiting",
        "client_id",
    )

    def __init__(self, shared: Shared, broker_id: Callable[[], int]) -> None:
        self._shared = shared
        self._broker_id = broker_id
        self._contexts = RequestContexts(shared.topic_names)
        self.client_id: str | None = None
        self._outputs: list[Output] = []
        # Frames behind a request that a fault holds up.
        self._waiting: deque[memoryview] = deque()
        self._blocked: Request | None = None
        # What the client waits for, and what was forwarded and is not answered yet, each in its order.
        self._unanswered: deque[Request] = deque()
        self._awaited: deque[Request] = deque()
        # What is to be handled once more, and when.
        self._again: list[tuple[int, Request]] = []
        self._tokens = SaslTokens()
        self._client_is_gone = self._upstream_is_gone = self._upstream_is_left = False
        # Nothing more is taken from the client: its connection is to end, has ended, or is silent for good.
        self._is_ending = self._is_closing = self._is_deaf = False
        self._upstream_reason = ""

    # ---- what happens -------------------------------------------------------------------------------------------

    def receive_request(self, frame: memoryview, now_us: int) -> None:
        """A frame came from the client."""
        if self._is_over:
            return
        self._waiting.append(frame)
        self._proceed(now_us)

    def receive_answer(self, frame: memoryview, now_us: int) -> None:
        """A frame came from upstream."""
        if not self._awaited:
            self._close("the upstream broker sent an answer that nobody asked for", is_mistake=True)
            return
        request = self._awaited.popleft()
        try:
            if request.api_key != TOKEN and correlation_id_of(frame) != request.correlation_id:
                told = f"the upstream broker answered request {correlation_id_of(frame)}, and {request.correlation_id}"
                self._close(f"{told} was the next one", is_mistake=True)
                return
            if not request.is_repeat:
                self._answered(request, frame, now_us)
        except ProtocolError as error:
            self._close(f"an answer to {request.api} cannot be read: {error}", is_mistake=True)
            return
        except UserMistake as error:
            # Without a port for a broker the answer would tell the client the broker's own address.
            self._close(
                f"an answer to {request.api} names a broker for which there is no port: {error}", is_mistake=True
            )
            return
        self._send_answers(now_us)
        self._leave_upstream_if_done()

    def client_lost(self) -> None:
        """The client has closed its connection: what was held up of it is forwarded all the same, in time."""
        self._client_is_gone = True
        self._waiting.clear()
        self._unanswered.clear()
        self._leave_upstream_if_done()

    def upstream_lost(self, reason: str, now_us: int) -> None:
        """The upstream connection is gone: answers that came before that still go out, in their time."""
        self._upstream_is_gone = True
        self._upstream_reason = reason
        self._blocked = None
        self._awaited.clear()
        self._again.clear()
        self._send_answers(now_us)
        self._leave_upstream_if_done()

    def tick(self, now_us: int) -> None:
        """What was held up until now goes on."""
        blocked = self._blocked
        if blocked is not None and blocked.due_us and blocked.due_us <= now_us:
            self._unblock(now_us)
        self._send_answers(now_us)
        due = [request for due_us, request in self._again if due_us <= now_us]
        self._again = [each for each in self._again if each[0] > now_us]
        for request in due:
            self._forward_again(request)
        self._leave_upstream_if_done()

    def release(self, fault_id: int, now_us: int) -> None:
        """A fault was healed: what it held goes on."""
        blocked = self._blocked
        for request in self._unanswered:
            if request.held_by == fault_id and request is not blocked:
                request.held_by = 0
        if blocked is not None and blocked.held_by == fault_id:
            self._unblock(now_us)
        self._send_answers(now_us)
        self._leave_upstream_if_done()

    def deadline_us(self) -> int | None:
        """When `tick` has something to do."""
        times = [due_us for due_us, _ in self._again]
        if self._blocked is not None and self._blocked.due_us:
            times.append(self._blocked.due_us)
        if self._unanswered and self._unanswered[0].answer is not None and self._unanswered[0].due_us:
            times.append(self._unanswered[0].due_us)
        return min(times, default=None)

    def outputs(self) -> list[Output]:
        """What is to be done now, in this order."""
        outputs = self._outputs
        self._outputs = []
        return outputs

    @property
    def is_held_up(self) -> bool:
        """Whether nothing should be read from the client for now: frames wait behind a request that waits."""
        return self._blocked is not None and bool(self._waiting)

    @property
    def has_more_to_forward(self) -> bool:
        """Whether a fault still holds up what upstream is to get."""
        return self._blocked is not None or bool(self._again)

    @property
    def under_way(self) -> int:
        """How many requests upstream has not answered yet, with those that a fault keeps back or sends once more."""
        return (self._blocked is not None) + len(self._waiting) + len(self._again) + len(self._awaited)

    # ---- requests -----------------------------------------------------------------------------------------------

    def _proceed(self, now_us: int) -> None:
        while self._waiting and self._blocked is None and not self._is_over:
            frame = self._waiting.popleft()
            try:
                self._take(frame, now_us)
            except ProtocolError as error:
                self._close(f"a request cannot be read: {error}", is_mistake=True)

    def _take(self, frame: memoryview, now_us: int) -> None:
        if self._tokens.take(frame):
            self._forward(Request(frame, now_us, is_token=True), now_us)
            return
        plan = self._shared.plan
        request = Request(frame, now_us, decoded=plan.active)
        if self.client_id is None:
            self.client_id = request.client_id
        if self._upstream_is_gone:
            self._close(self._upstream_reason)
            return
        if self._answer_newer_api_versions(request) or self._refuse_unreadable(request):
            return
        if request.api_key == SASL_HANDSHAKE and request.version == 0 and request.message is not None:
            self._tokens.begin(request.message.mechanism)
        if plan.active and self._apply_before(request, now_us):
            return
        self._forward(request, now_us)

    def _answer_newer_api_versions(self, request: Request) -> bool:
        """A client that asks for versions in one that cannot be read here is told so, and asks again."""
        request.answer = answers.to_newer_api_versions(request)
        if request.answer is None:
            return False
        self._unanswered.append(request)
        self._send_answers(request.received_us)
        return True

    def _refuse_unreadable(self, request: Request) -> bool:
        told = answers.unreadable(request)
        if told is not None:
            self._close(told, is_mistake=True)
        return told is not None

    def _apply_before(self, request: Request, now_us: int) -> bool:
        """Ask the plan about a request; True where it is not to be forwarded now."""
        request.context, unseen = self._contexts.context_of(request, self._broker_id())
        if unseen is not None:
            self._outputs.append(Unseen(unseen))
        action = self._shared.plan.before_append(request.context, now_us)
        if action is None:
            return False
        self._told(action, request)
        does = action.does
        if does in (Does.HOLD, Does.DELAY):
            if does is Does.HOLD:
                request.held_by = action.fault_id
            else:
                request.due_us = now_us + action.delay_us
            self._blocked = request
            return True
        if does in (Does.CUT, Does.SILENCE):
            if request.expects_answer:
                request.ending = does
                self._end_with(request, now_us)
            return True
        if does is not Does.REFUSE:
            raise NotImplementedError(f"{action.kind}: proxies cannot do {does.name} before the append")
        return self._refuse(request, action, now_us)

    def _refuse(self, request: Request, action: Action, now_us: int) -> bool:
        """Answer for some partitions of a Produce request, or for all; True where nothing is left to forward."""
        left = refusals.take_out(request.message, action.partitions, self._shared.topic_names)
        if left is request.message:
            return False
        if not request.expects_answer:
            self._close("a Produce request with acks=0 was refused by a fault")
            return True
        request.refused = action
        if left is not None:
            request.frame = refusals.frame_of(request, left)
            return False
        response = refusals.answer(request.message, action, self._shared.topic_names)
        request.answer = encode_response(request.correlation_id, response, request.version)
        self._unanswered.append(request)
        self._send_answers(now_us)
        return True

    def _unblock(self, now_us: int) -> None:
        request = self._blocked
        assert request is not None
        self._blocked = None
        request.due_us = request.held_by = 0
        self._forward(request, now_us)
        self._proceed(now_us)

    def _forward(self, request: Request, now_us: int) -> None:
        self._outputs.append(ToUpstream(request.pieces()))
        if request.expects_answer:
            if not self._client_is_gone:
                self._unanswered.append(request)
            self._awaited.append(request)
            if request.context is None or not request.context.may_fire_later:
                request.frame = None
            return
        if request.context is not None:
            # No answer will show what becomes of it, so that is decided now.
            action = self._shared.plan.after_append(request.context)
            if action is not None:
                self._told(action, request)
                if action.does is Does.REPEAT:
                    self._again.append((now_us + action.delay_us, request))

    def _forward_again(self, request: Request) -> None:
        self._outputs.append(ToUpstream(request.pieces()))
        if request.expects_answer:
            again = Request(request.frame, request.received_us) if request.frame is not None else request
            again.is_repeat = True
            self._awaited.append(again)

    # ---- answers ------------------------------------------------------------------------------------------------

    def _answered(self, request: Request, frame: memoryview, now_us: int) -> None:
        """Make of an upstream answer what the client is to get, and decide what becomes of it."""
        message = answers.readable(request, frame)
        is_changed = message is not None and answers.adjust(
            request, message, self._shared.book, self._shared.topic_names
        )
        context = request.context
        if context is not None and context.may_fire_later:
            stored = refusals.stored(message, self._shared.topic_names) if request.api_key == PRODUCE else None
            action = self._shared.plan.after_append(context, stored)
            if action is not None:
                self._told(action, request)
                is_changed = self._apply_after(request, action, message, now_us) or is_changed
        if request.refused is not None and message is not None:
            refusals.add_refused(message, request.message, request.refused, self._shared.topic_names)
            is_changed = True
        if is_changed and message is not None:
            request.answer = encode_response(request.correlation_id, message, answers.version_of(request, message))
        else:
            request.answer = framed(frame)

    def _apply_after(self, request: Request, action: Action, message: Any, now_us: int) -> bool:
        """Do to a handled request what the plan says; whether its answer's message was changed."""
        does = action.does
        if does is Does.REFUSE:
            return message is not None and refusals.change_outcome(message, action, self._shared.topic_names)
        if does in (Does.CUT, Does.SILENCE):
            request.ending = does
        elif does is Does.DELAY:
            request.due_us = now_us + action.delay_us
        elif does is Does.HOLD:
            request.held_by = action.fault_id
        elif does is Does.REPEAT:
            self._again.append((now_us + action.delay_us, request))
        else:
            raise NotImplementedError(f"{action.kind}: proxies cannot do {does.name} after the append")
        return False

    def _send_answers(self, now_us: int) -> None:
        """Send what can leave: each answer waits for those before it."""
        unanswered = self._unanswered
        while unanswered and not self._client_is_gone and not (self._is_closing or self._is_deaf):
            request = unanswered[0]
            if request.ending is not None:
                unanswered.clear()
                self._end(request.ending)
                return
            if request.answer is None or request.held_by or request.due_us > now_us:
                break
            unanswered.popleft()
            self._outputs.append(ToClient(request.answer))
        if self._upstream_is_gone and not self._is_deaf and (not unanswered or unanswered[0].answer is None):
            self._close(self._upstream_reason)

    # ---- ends ---------------------------------------------------------------------------------------------------

    @property
    def _is_over(self) -> bool:
        """Whether nothing more is taken from the client."""
        return self._is_ending or self._is_closing or self._is_deaf

    def _end_with(self, request: Request, now_us: int) -> None:
        """The connection ends where this request's answer would have been: nothing behind it is taken."""
        self._is_ending = True
        self._waiting.clear()
        self._unanswered.append(request)
        self._send_answers(now_us)

    def _end(self, ending: Does) -> None:
        if ending is Does.CUT:
            self._close("a fault has lost a request, or its answer")
            return
        self._is_deaf = True
        self._waiting.clear()
        self._leave_upstream_if_done()

    def _close(self, reason: str, *, is_mistake: bool = False) -> None:
        """End the client's connection; what was forwarded is still handled upstream."""
        if self._is_closing or self._client_is_gone:
            return
        self._is_closing = True
        self._waiting.clear()
        self._unanswered.clear()
        self._outputs.append(CloseClient(reason, is_mistake=is_mistake))
        self._leave_upstream_if_done()

    def _leave_upstream_if_done(self) -> None:
        """Close the upstream connection when the client's is over, and nothing is on its way any more."""
        if not (self._is_closing or self._is_deaf or self._client_is_gone) or self._upstream_is_left:
            return
        if self._blocked is None and not self._awaited and not self._again:
            self._upstream_is_left = True
            self._outputs.append(CloseUpstream())

    def _told(self, action: Action, request: Request) -> None:
        self._outputs.append(FaultFired(action.fault_id, request.api, request.client_id, action.partitions))
