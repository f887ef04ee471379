"""Pushing the producer's metrics to brokers that ask for them (KIP-714), with `enable.metrics.push`.

How it works. A broker with a plugin that receives metrics lists GetTelemetrySubscriptions among its APIs; an object of
this class is made when such a broker is connected. It asks that broker for a subscription (an id, and which metrics,
how often, in which form). Then the driver reads the metrics at that interval (`MetricsWanted`, `MetricsRead`), and they
are encoded and pushed. The first push comes after half to one and a half intervals, drawn at random: so clients that
were started together do not push together. When the producer closes, a last push says so; closing waits for its answer
for a second at most. Everything goes to the same broker as long as there is a connection to it.

Errors are handled as in Java. After an unknown subscription, a new one is requested at once. After a push that was too
large, or came too soon, a new one is requested an interval later. Any other error ends the pushing for good; it is not
logged. Three things differ. Java also ends it when a connection was lost meanwhile; here the next try comes an interval
later. Metrics that do not fit into the bytes that the broker allows are left out here, topics first. What a broker has
refused is in the next delta. A codec that was refused is not used again.

Invariants: at most one of these requests is in flight. Only closing waits for it.
"""

from __future__ import annotations

from enum import IntEnum
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from ottla.connection.core import ConnectionCore
from ottla.connection.request import Answer
from ottla.producer.events import ClientInstanceKnown, MetricsRead, MetricsWanted, TelemetryBegun
from ottla.producer.idempotence import Idempotence
from ottla.producer.pushed_metrics import PushedMetrics
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest
from ottla.records.batch_header import CODECS
from ottla.records.compression import compress

# How long closing waits for the answer to the last push.
LAST_PUSH_US = 1_000_000
_DEFAULT_INTERVAL_US = 300_000_000
# How long to wait for a connection to a broker that takes metrics before looking again.
_LOOK_AGAIN_US = 1_000_000
_NEVER_US = 1 << 62
_ASK_ANEW = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
_ASK_LATER = (ErrorCode.TELEMETRY_TOO_LARGE, ErrorCode.THROTTLING_QUOTA_EXCEEDED)


class TelemetryState(IntEnum):
    """The state of the pushing."""

    UNSUBSCRIBED = 0
    ASKING = 1
    SUBSCRIBED = 2
    READING = 3
    PUSHING = 4
    OVER = 5


class TelemetryEvent(IntEnum):
    """What changes the state."""

    ASK = 0
    TOLD = 1
    NOT_WANTED = 2
    READ = 3
    PUSH = 4
    TAKEN = 5
    NOT_TAKEN = 6
    STOP = 7


TRANSITIONS: dict[tuple[TelemetryState, TelemetryEvent], TelemetryState] = {
    (TelemetryState.UNSUBSCRIBED, TelemetryEvent.ASK): TelemetryState.ASKING,
    (TelemetryState.ASKING, TelemetryEvent.TOLD): TelemetryState.SUBSCRIBED,
    (TelemetryState.ASKING, TelemetryEvent.NOT_WANTED): TelemetryState.UNSUBSCRIBED,
    (TelemetryState.SUBSCRIBED, TelemetryEvent.READ): TelemetryState.READING,
    (TelemetryState.READING, TelemetryEvent.PUSH): TelemetryState.PUSHING,
    (TelemetryState.PUSHING, TelemetryEvent.TAKEN): TelemetryState.SUBSCRIBED,
    (TelemetryState.PUSHING, TelemetryEvent.NOT_TAKEN): TelemetryState.UNSUBSCRIBED,
    **{(state, TelemetryEvent.STOP): TelemetryState.OVER for state in TelemetryState if state != TelemetryState.OVER},
}


class _Subscription(NamedTuple):
    number: int
    interval_us: int
    # Codes of codecs, in the broker's order of preference.
    codecs: tuple[int, ...]
    bytes_max: int
    is_delta: bool
    prefixes: tuple[str, ...]


class Telemetry:
    """Requests subscriptions and pushes metrics; it is the token of its requests, and `outputs` are for the driver."""

    def __init__(self, connection: ConnectionCore, rng: Random, idempotence: Idempotence, now_us: int) -> None:
        self.state = TelemetryState.UNSUBSCRIBED
        self.outputs: list[MetricsWanted | ClientInstanceKnown | TelemetryBegun] = []
        self._connection = connection
        self._rng = rng
        # It has the transactional id, which may change.
        self._idempotence = idempotence
        self._metrics = PushedMetrics()
        self._began_us = now_us
        # The same as Unix time, computed when that is first read: the clock may be set later.
        self._began_ns = 0
        self._due_us = now_us
        self._node_id: int | None = None
        self._client_instance_id = ZERO_UUID
        # The id in the last `TelemetryBegun`.
        self._begun_as = ZERO_UUID
        self._subscription: _Subscription | None = None
        self._refused_codecs: list[int] = []
        self._codec = 0
        # Not None: the producer closes, and waits until then at most.
        self._end_us: int | None = None
        self._is_last = False

    def deadline_us(self) -> int | None:
        """Return when `work` must be called at the latest."""
        due_us = self._due_us if self._end_us is None else min(self._due_us, self._end_us)
        return None if due_us == _NEVER_US or self.state is TelemetryState.OVER else due_us

    def work(self, now_us: int) -> None:
        """Request a subscription, or have the metrics read, if that is due."""
        if now_us < self._due_us:
            return
        node_id = self._find_node(now_us)
        if node_id is None:
            self._due_us = now_us + _LOOK_AGAIN_US
        elif self.state is TelemetryState.UNSUBSCRIBED:
            self._move(TelemetryEvent.ASK)
            message = GetTelemetrySubscriptionsRequest(client_instance_id=self._client_instance_id)
            self._connection.request(node_id, message, self, now_us)
        else:
            self._move(TelemetryEvent.READ)
            self.outputs.append(MetricsWanted())

    def take_metrics(self, read: MetricsRead, now_us: int) -> None:
        """Push what the driver has read."""
        subscription, node_id = self._subscription, self._node_id
        if self.state is not TelemetryState.READING or subscription is None or node_id is None:
            return
        self._move(TelemetryEvent.PUSH)
        message = PushTelemetryRequest(
            client_instance_id=self._client_instance_id,
            subscription_id=subscription.number,
            terminating=self._is_last,
            metrics=self._encode(subscription, read, now_us),
            compression_type=self._codec,
        )
        self._connection.request(node_id, message, self, now_us)

    def take_answer(self, answer: Answer, now_us: int) -> None:
        """Take in the answer to a request."""
        if self.state is TelemetryState.ASKING:
            self._take_subscription(answer, now_us)
        elif self.state is TelemetryState.PUSHING:
            self._take_push_answer(answer, now_us)

    def is_over(self, until_us: int, now_us: int) -> bool:
        """Tell whether the producer may close its connections; begins the last push where there is one to make."""
        if self._end_us is None:
            self._end_us = min(until_us, now_us + LAST_PUSH_US)
        state = self.state
        if state is TelemetryState.OVER:
            return True
        if now_us < self._end_us:
            if state is TelemetryState.READING or state is TelemetryState.PUSHING:
                return False
            if state is TelemetryState.SUBSCRIBED and self._find_node(now_us) is not None:
                self._is_last = True
                self._move(TelemetryEvent.READ)
                self.outputs.append(MetricsWanted())
                return False
        self._move(TelemetryEvent.STOP)
        return True

    def _find_node(self, now_us: int) -> int | None:
        """The broker that was used before, else any that takes metrics; None where nothing can be sent to one now."""
        connection = self._connection
        takers = connection.speaking(PushTelemetryRequest.API_KEY)
        if self._node_id not in takers:
            self._node_id = min(takers, key=connection.in_flight, default=None)
        if self._node_id is None:
            if self._end_us is None:
                connection.any_node(now_us)  # has it connect where there is no connection at all
            return None
        return self._node_id if connection.can_send(self._node_id, now_us) else None

    def _take_subscription(self, answer: Answer, now_us: int) -> None:
        told: Any = answer.message
        if told is None or told.error_code:
            self._begin_again(TelemetryEvent.NOT_WANTED, told, now_us)
            return
        if told.client_instance_id == ZERO_UUID:
            self._move(TelemetryEvent.STOP)
            return
        before = self._subscription
        interval_us = told.push_interval_ms * 1000 if told.push_interval_ms > 0 else _DEFAULT_INTERVAL_US
        names = tuple(told.requested_metrics)
        self._subscription = _Subscription(
            told.subscription_id,
            interval_us,
            tuple(code for code in told.accepted_compression_types if 0 < code < len(CODECS)),
            told.telemetry_max_bytes if told.telemetry_max_bytes > 0 else _NEVER_US,
            told.delta_temporality,
            ("",) if names == ("*",) else names,
        )
        if before is not None and before.is_delta != told.delta_temporality:
            self._metrics.forget()
        client_instance_id = str(UUID(bytes=bytes(told.client_instance_id)))
        if told.client_instance_id != self._client_instance_id:
            self._client_instance_id = told.client_instance_id
            self.outputs.append(ClientInstanceKnown(client_instance_id))
        if not names:
            self._move(TelemetryEvent.NOT_WANTED)
            self._due_us = now_us + interval_us
        else:
            self._move(TelemetryEvent.TOLD)
            self._due_us = now_us + int(interval_us * self._rng.uniform(0.5, 1.5))
            if told.client_instance_id != self._begun_as:
                self._begun_as = told.client_instance_id
                self.outputs.append(TelemetryBegun(client_instance_id, interval_us // 1000))

    def _take_push_answer(self, answer: Answer, now_us: int) -> None:
        told: Any = answer.message
        if told is None or told.error_code:
            if told is not None and told.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE:
                self._refused_codecs.append(self._codec)
            self._begin_again(TelemetryEvent.NOT_TAKEN, told, now_us)
            return
        assert self._subscription is not None
        self._metrics.taken()
        self._move(TelemetryEvent.TAKEN)
        self._due_us = now_us + self._subscription.interval_us
        if self._is_last:
            self._move(TelemetryEvent.STOP)

    def _begin_again(self, event: TelemetryEvent, told: Any, now_us: int) -> None:
        """After an error: request a subscription now, or an interval later, or end the pushing."""
        code = 0 if told is None else told.error_code
        if told is not None and code not in _ASK_ANEW and code not in _ASK_LATER:
            self._move(TelemetryEvent.STOP)
            return
        self._move(event)
        # At once only after a push: a broker that refuses the subscription itself is not asked in a loop.
        if code in _ASK_ANEW and event is TelemetryEvent.NOT_TAKEN:
            self._due_us = now_us
        else:
            interval_us = _DEFAULT_INTERVAL_US if self._subscription is None else self._subscription.interval_us
            self._due_us = now_us + interval_us

    def _encode(self, subscription: _Subscription, read: MetricsRead, now_us: int) -> Any:
        """What to push, compressed; `_codec` says how."""
        self._codec = next((code for code in subscription.codecs if code not in self._refused_codecs), 0)
        if not self._began_ns:
            self._began_ns = read.unix_ns - (now_us - self._began_us) * 1000
        chosen = self._metrics.choose(read.metrics, subscription.prefixes)
        own_id = self._idempotence.transactional_id
        resource = {} if own_id is None else {"transactional_id": own_id}
        while True:
            data = self._metrics.encode(chosen, resource, read.unix_ns, self._began_ns, delta=subscription.is_delta)
            if self._codec:
                data = bytes(compress(CODECS[self._codec], None, data))
            if len(data) <= subscription.bytes_max or not chosen:
                return data
            chosen = chosen[: len(chosen) // 2]

    def _move(self, event: TelemetryEvent) -> None:
        try:
            self.state = TRANSITIONS[self.state, event]
        except KeyError:
            raise RuntimeError(f"telemetry: {event.name} cannot happen in {self.state.name}") from None
        # Nothing is due while an answer is waited for, or when all is over; callers set the time where something is.
        self._due_us = _NEVER_US
