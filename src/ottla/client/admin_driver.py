"""Single requests to a cluster, each with its answer, on an I/O thread of its own.

`AdminDriver` runs an `AskingCore` on that thread, and waits for its answers on the user's thread.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from ottla.client.channel import SocketBuffers
from ottla.client.driver import Driver, prepare
from ottla.client.security import unguessable
from ottla.connection.address_book import LastingError
from ottla.connection.asking import AskingCore, Question
from ottla.connection.request import ANY_NODE, Answer
from ottla.errors import OttlaError, Unreachable, UserMistake
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.reader.settings import ReaderSettings

# How long to wait for a leader's answer before other brokers are asked which one leads now.
LEADER_PATIENCE_MS = 2_000
# At most this many attempts if every address closes the connection behind the handshake, before any broker has answered
# a request: most likely they want another security.protocol. With fewer attempts, a connection that was lost by chance
# would be mistaken for that.
_CLOSED_EARLY_MAX = 3
# What the names of APIs begin with that change nothing.
_READING = ("Describe", "Fetch", "Find", "List", "Metadata", "OffsetFetch", "OffsetForLeaderEpoch")


class AdminDriver(Driver):
    """Front of an admin client's I/O loop."""

    KIND = "admin client"
    THREAD = "ottla-admin"
    CLOSED = "this admin client is closed; make a new one"
    AFTER_CRASH = "make a new one"

    def __init__(self, settings: ReaderSettings, rng: Random, buffers: SocketBuffers) -> None:
        self._settings = settings
        # What threads wait for, and what has come of that.
        self._awaited: set[int] = set()
        self._answers: dict[int, Answer] = {}
        self._tokens = itertools.count(1)
        prepare(settings.connection)
        self._core = AskingCore(settings.connection, unguessable(settings.connection.security, rng))
        super().__init__(self._core, settings.connection, buffers)

    @property
    def features(self) -> Mapping[str, int]:
        """The cluster's finalized features (KIP-584); empty until a broker has sent them."""
        return self._core.features

    def ask(self, message: Any, where: int, *, timeout_ms: int | None = None, reach_ms: int | None = None) -> Answer:
        """The answer to this request; Unreachable or NotKafka where there is none, KafkaError where the API is unknown.

        Waits at most `timeout_ms`, by default `default.api.timeout.ms`; `reach_ms` is that of `ask_all`.
        """
        if timeout_ms is None:
            timeout_ms = self._settings.default_api_timeout_ms
        deadline_us = self.clock.now_us() + timeout_ms * 1000
        addresses = self.loop.addresses
        answer = self._ask_once(message, where, timeout_ms, reach_ms)
        attempts = 1
        while answer is not None and _bears_repeating(answer, where):
            self.waiting.wait(self.cannot_go_on, self._settings.connection.retry_backoff_ms / 1000)
            left_ms = (deadline_us - self.clock.now_us()) // 1000
            if left_ms <= 0 or (attempts >= _CLOSED_EARLY_MAX and addresses.all_closed_early()):
                break
            answer = self._ask_once(message, where, left_ms, reach_ms)
            attempts += 1
        if answer is not None and answer.message is not None:
            return answer
        if not addresses.answered and not (answer is not None and answer.unsupported):
            is_time_over = self.clock.now_us() >= deadline_us
            raise addresses.error_after(timeout_ms) if is_time_over else addresses.error()
        name = type(message).__name__.removesuffix("Request")
        raise unanswered(name, answer, where, f"no answer within {timeout_ms} ms")

    def _ask_once(self, message: Any, where: int, timeout_ms: int, reach_ms: int | None) -> Answer | None:
        (answer,) = self.ask_all([(message, where)], timeout_ms, reach_ms=reach_ms)
        return answer

    def ask_all(
        self,
        questions: Sequence[tuple[Any, int]],
        timeout_ms: int,
        *,
        reach_ms: int | None = None,
        version: int = -1,
        may_be_unsendable: bool = False,
    ) -> list[Answer | None]:
        """The answer to each (request, node), all sent at the same time; None or without a message where none came.

        `reach_ms`: how long to try to send a request; by default `timeout_ms`. `version`: that of all requests; -1: the
        highest that both sides have. Where a broker is too old for a request, the answer says so if it
        `may_be_unsendable`, else UserMistake does. Raises only errors that a retry does not remove.
        """
        self.standing.check_usable()
        tokens = [next(self._tokens) for _ in questions]
        deadline_us = self.clock.now_us() + (timeout_ms if reach_ms is None else reach_ms) * 1000
        lasting = LastingError(self.loop.addresses)

        def settled() -> bool:
            return all(token in self._answers for token in tokens) or self.cannot_go_on() or lasting.seen()

        try:
            self._awaited.update(tokens)
            for token, (message, where) in zip(tokens, questions, strict=True):
                self.loop.post(Question(message, token, where, deadline_us, version))
            self.waiting.wait(settled, timeout_ms / 1000 + 1)
        finally:
            # In this order, and the other way round in `perform`: an answer that nobody waits for does not stay.
            self._awaited.difference_update(tokens)
            answers = [self._answers.pop(token, None) for token in tokens]
        unsendable = next((answer for answer in answers if answer is not None and answer.unsendable), None)
        if unsendable is not None and not may_be_unsendable:
            raise UserMistake(f"the cluster was not asked: {unsendable.failure}")
        if any(answer is None or answer.message is None for answer in answers):
            self.standing.check_usable()
            if lasting.error is not None:
                raise lasting.error
        return answers

    def until_well(
        self,
        attempt: Callable[[], OttlaError | None],
        *,
        timeout_ms: int | None = None,
        first_pause_ms: int | None = None,
    ) -> None:
        """Call `attempt` until it returns None; raise the error it returns once that is not retriable, or time is over.

        The time is `default.api.timeout.ms`, the first pause `retry.backoff.ms`, unless given; pauses grow.
        """
        connection = self._settings.connection
        pause_ms = connection.retry_backoff_ms if first_pause_ms is None else first_pause_ms
        if timeout_ms is None:
            timeout_ms = self._settings.default_api_timeout_ms
        deadline_us = self.clock.now_us() + timeout_ms * 1000
        while True:
            error = attempt()
            if error is None:
                return
            if not error.retriable or self.clock.now_us() >= deadline_us:
                raise error
            # Ends at once where the driver does.
            self.waiting.wait(self.cannot_go_on, pause_ms / 1000)
            pause_ms = min(2 * pause_ms, connection.retry_backoff_max_ms)

    def perform(self, output: Any) -> None:
        """Keep an answer for the thread that waits for it."""
        if isinstance(output, Answer):
            self._answers[output.token] = output
            self._changed = True
            if output.token not in self._awaited:
                self._answers.pop(output.token, None)


def unanswered(what: str, answer: Answer | None, where: int, silence: str = "no answer") -> OttlaError:
    """The error for a request of the API `what` that node `where` did not answer; below 0: that no node did.

    If the broker does not know the API, or no version of it that this client speaks, asking again is useless.
    """
    if answer is not None and answer.unsupported:
        broker_id = answer.broker_id if where < 0 else where
        return kafka_error(ErrorCode.UNSUPPORTED_VERSION, f"{what}: {answer.failure}", broker_id=broker_id)
    reason = answer.failure if answer is not None and answer.failure else silence
    return _without_answer(what, where, reason, was_sent=answer is not None and answer.sent)


def left_out(what: str, answer: Answer, *, topic: str | None = None, partition: int | None = None) -> Unreachable:
    """The error for an answer without `what`, which was asked for."""
    told = f"the broker's answer leaves out {what}"
    return Unreachable(told, topic=topic, partition=partition, broker_id=answer.broker_id)


def _without_answer(what: str, where: int, reason: str, *, was_sent: bool) -> Unreachable:
    broker_id = where if where >= 0 else None
    if was_sent:
        to = "" if broker_id is None else f" to broker {where}"
        unknown = "" if what.startswith(_READING) else "; it may have been carried out"
        return Unreachable(f"{what} was sent{to}, and no answer came: {reason}{unknown}", broker_id=broker_id)
    of = "" if broker_id is None else f" of broker {where}"
    return Unreachable(f"{what} could not be asked{of}: {reason}", broker_id=broker_id)


def _bears_repeating(answer: Answer, where: int) -> bool:
    """Whether a request failed with its connection, and may be sent again without doing anything twice.

    That is so if it was never sent. It is also so if any broker may get it: such a request changes nothing, or changes
    nothing more when it is sent again.
    """
    if answer.message is not None or answer.node_id is None or answer.unsupported or answer.unsendable:
        return False
    return not answer.sent or where == ANY_NODE
