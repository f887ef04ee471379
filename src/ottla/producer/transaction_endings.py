"""Ends prepared transactions by their identities: one EndTxn each, sent again until it is answered.

It ends what `Producer.prepare_transaction` has prepared, usually in another process, which was given the identity. It
takes any number of transactions at once. Their coordinators are asked for together; then each transaction has its own
requests and pauses. Once an EndTxn was not answered, only an answer that says how the transaction ended is accepted.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from random import Random
from typing import Any

from ottla.connection.core import ConnectionCore
from ottla.connection.request import Answer
from ottla.connection.settings import ConnectionSettings
from ottla.errors import OttlaError, TransactionError, TransactionUnknown
from ottla.producer.coordinator import coordinators_in, search
from ottla.producer.end_txn import EndTxn
from ottla.producer.transaction_answers import Reaction
from ottla.producer.transaction_states import REACH_US, VERSION_1_CAPS, TransactionIdentity, version_in
from ottla.protocol.error_codes import ErrorCode, kafka_error

# Transaction version -> the version of EndTxn that says so. Brokers before Kafka 3.8 know no version 4.
_END_TXN = {1: 3, 2: 5}


@dataclass(slots=True, frozen=True)
class EndWanted:
    """Event: end this transaction; answered by `Ended`.

    `version` is the transaction version that it was begun in; None: the one in force, by the last answer of a broker.
    """

    token: int
    identity: TransactionIdentity
    committed: bool
    version: int | None = None


@dataclass(slots=True, frozen=True)
class Ended:
    """Output: the transaction is ended, or `error` says why not; `identity` is the producer's next one.

    It is the identity before, unless the coordinator gave another one, as it does from transaction version 2 on
    (KIP-890).
    """

    token: int
    error: OttlaError | None
    identity: TransactionIdentity


class Ending:
    """One transaction that is to be ended; `problem` says why it is not ended yet."""

    __slots__ = ("end_txn", "failures", "identity", "node_id", "not_before_us", "problem", "token", "version")

    def __init__(self, wanted: EndWanted) -> None:
        self.token = wanted.token
        self.identity = wanted.identity
        self.end_txn = EndTxn(wanted.committed)
        self.version = wanted.version
        # The node id of its coordinator; None where that has to be found.
        self.node_id: int | None = None
        self.failures = 0
        self.not_before_us = 0
        self.problem = ""


class _Search:
    """The token of a FindCoordinator request."""

    __slots__ = ("endings", "keys")

    def __init__(self, endings: list[Ending]) -> None:
        self.endings = endings
        self.keys = list(dict.fromkeys(ending.identity.transactional_id for ending in endings))


class EndingCore:
    """A core whose only outputs, beside the connections', are `Ended`."""

    def __init__(self, settings: ConnectionSettings, rng: Random) -> None:
        self._connection = ConnectionCore(settings, rng)
        self.addresses = self._connection.addresses
        self._settings = settings
        self._endings: dict[int, Ending] = {}
        # Each ending is in one of these, or waits for an answer: to its EndTxn, or to FindCoordinator.
        self._ready: list[Ending] = []
        self._paused: list[tuple[int, int]] = []
        # Whether a broker has refused a request for many coordinators at once.
        self._one_by_one = False
        self._outputs: list[Ended] = []
        self._now_us = 0
        self._version = 0

    def problem(self, token: int) -> str:
        """Why this transaction is not ended yet, as a clause for a person."""
        ending = self._endings.get(token)
        told = "" if ending is None else ending.problem
        return told or str(self._connection.reach_error() or "its coordinator has not answered")

    def receive(self, event: Any, now_us: int) -> None:
        """Take in an `EndWanted`, or an event of a connection."""
        self._now_us = now_us
        if isinstance(event, EndWanted):
            self._endings[event.token] = ending = Ending(event)
            self._ready.append(ending)
        else:
            self._connection.receive(event, now_us)

    def tick(self, now_us: int) -> None:
        """Let time pass."""
        self._now_us = now_us
        self._connection.tick(now_us)

    def outputs(self) -> list[Any]:
        """Return what must now be done."""
        self._work()
        taken: list[Any] = [*self._connection.outputs(), *self._outputs]
        self._outputs = []
        return taken

    def deadline_us(self) -> int | None:
        """Return when `tick` must be called at the latest."""
        self._work()
        due = self._connection.deadline_us()
        wake_us = self._paused[0][0] if self._paused else None
        return wake_us if due is None or (wake_us is not None and wake_us < due) else due

    def _work(self) -> None:
        now_us = self._now_us
        for answer in self._connection.take_answers():
            self._take_answer(answer, now_us)
        while self._paused and self._paused[0][0] <= now_us:
            self._ready.append(self._endings[heapq.heappop(self._paused)[1]])
        ready, self._ready = self._ready, []
        homeless: list[Ending] = []
        for ending in ready:
            if ending.not_before_us > now_us:
                heapq.heappush(self._paused, (ending.not_before_us, ending.token))
            elif ending.node_id is None:
                homeless.append(ending)
            else:
                # A broker has named the coordinator, so the features are known.
                self._choose_version()
                self._connection.ask(
                    ending.end_txn.request(ending.identity),
                    ending,
                    now_us,
                    where=ending.node_id,
                    deadline_us=now_us + REACH_US,
                    version=-1 if ending.version is None else _END_TXN[ending.version],
                )
        if homeless:
            self._look_for([[each] for each in homeless] if self._one_by_one else [homeless], now_us)

    def _look_for(self, parts: list[list[Ending]], now_us: int) -> None:
        """Ask for the coordinators of these, one request for each part."""
        for endings in parts:
            asked = _Search(endings)
            question, version = search(asked.keys)
            self._connection.ask(question, asked, now_us, version=version)

    def _choose_version(self) -> None:
        version = version_in(self._connection.features)
        if version != self._version:
            self._version = version
            self._connection.cap_versions({} if version == 2 else VERSION_1_CAPS)

    def _take_answer(self, answer: Answer, now_us: int) -> None:
        if isinstance(answer.token, _Search):
            self._take_coordinators(answer.token, answer, now_us)
            return
        ending = answer.token
        if answer.unsupported:
            self._finish(ending, kafka_error(ErrorCode.UNSUPPORTED_VERSION, answer.failure or ""))
        elif answer.message is None:
            ending.end_txn.lost(answer)
            self._again(ending, f"EndTxn: {answer.failure}", now_us)
        elif not answer.message.error_code:
            self._finish(ending, None, answer.message)
        else:
            self._react(ending, answer.message.error_code, now_us)

    def _take_coordinators(self, asked: _Search, answer: Answer, now_us: int) -> None:
        is_refused = answer.unsupported or answer.unsendable
        if is_refused and len(asked.keys) > 1:
            # The broker is too old for such requests; or one of these keys cannot be written, which says nothing of
            # other searches.
            self._one_by_one = self._one_by_one or answer.unsupported
            self._look_for([[each] for each in asked.endings], now_us)
            return
        told = {} if answer.message is None else coordinators_in(answer.message, asked.keys)
        for ending in asked.endings:
            key = ending.identity.transactional_id
            what = f"looking for the coordinator of {key!r}"
            code, ending.node_id = told.get(key, (None, None))
            if is_refused:
                code = ErrorCode.UNSUPPORTED_VERSION if answer.unsupported else ErrorCode.INVALID_REQUEST
                self._finish(ending, kafka_error(code, f"{what}: {answer.failure}"))
            elif code is None:
                self._again(ending, f"{what}: {answer.failure or 'the answer leaves it out'}", now_us)
            elif not code:
                self._ready.append(ending)
            else:
                error = kafka_error(code, what)
                if error.retriable:
                    self._again(ending, str(error), now_us)
                else:
                    self._finish(ending, error)

    def _react(self, ending: Ending, code: int, now_us: int) -> None:
        reaction = ending.end_txn.reaction_to(code, ending.version or self._version)
        if reaction is Reaction.AGAIN or reaction is Reaction.LOOK:
            self._again(ending, str(kafka_error(code)), now_us, is_elsewhere=reaction is Reaction.LOOK)
            return
        wanted = "committed" if ending.end_txn.committed else "aborted"
        if reaction is Reaction.GONE:
            said = f"{ending.identity} cannot be {wanted}: it was ended the other way, or nothing was sent in it"
            self._finish(ending, TransactionError(said))
            return
        if reaction is Reaction.FENCED:
            code = ErrorCode.PRODUCER_FENCED
        error: OttlaError = kafka_error(code, str(ending.identity))
        if ending.end_txn.is_doubted:
            said = f"whether {ending.identity} is {wanted} is not known: that was asked for and not answered"
            cause, error = error, TransactionUnknown(f"{said}, then {error}")
            error.__cause__ = cause
        self._finish(ending, error)

    def _again(self, ending: Ending, problem: str, now_us: int, *, is_elsewhere: bool = True) -> None:
        ending.problem = problem
        ending.failures += 1
        ending.not_before_us = now_us + self._backoff_us(ending.failures)
        if is_elsewhere:
            ending.node_id = None
        self._ready.append(ending)

    def _finish(self, ending: Ending, error: OttlaError | None, told: Any = None) -> None:
        del self._endings[ending.token]
        identity = ending.identity
        if told is not None and told.producer_id >= 0:
            identity = TransactionIdentity(identity.transactional_id, told.producer_id, told.producer_epoch)
        self._outputs.append(Ended(ending.token, error, identity))

    def _backoff_us(self, failures: int) -> int:
        # The first pauses are short: most often only markers are still being written.
        most_ms = self._settings.retry_backoff_max_ms
        return self._connection.backoff_us(failures, min(20, self._settings.retry_backoff_ms), most_ms)
