"""Which broker coordinates a transactional id or a group: any broker is asked, and again when it has moved.

A `Coordinator` is the token of its own FindCoordinator requests. At most one of these is in flight. `search` asks for
many coordinators in one request (KIP-699; brokers from Kafka 3.0 on).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ottla.connection.core import ConnectionCore
from ottla.connection.request import Answer
from ottla.errors import KafkaError
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest

GROUP = 0
TRANSACTION = 1
MANY_FROM_VERSION = 4
"""The first version of FindCoordinator with many keys in a request."""


def search(keys: Sequence[str]) -> tuple[FindCoordinatorRequest, int]:
    """The request for the coordinators of these transactional ids, and its version (-1: the usual one)."""
    if len(keys) == 1:
        return FindCoordinatorRequest(key=keys[0], key_type=TRANSACTION), -1
    return FindCoordinatorRequest(coordinator_keys=list(keys), key_type=TRANSACTION), MANY_FROM_VERSION


def coordinators_in(message: Any, keys: Sequence[str]) -> Mapping[str, tuple[int, int]]:
    """{key: (error code, node id)} of the answer to `search`; a broker may leave keys out."""
    if len(keys) == 1:
        return {keys[0]: (message.error_code, message.node_id)}
    return {each.key: (each.error_code, each.node_id) for each in message.coordinators}


class Coordinator:
    """One coordinator; `problem` says why it is not known now, `backoff(failures)` is a pause in microseconds."""

    __slots__ = (
        "_asking",
        "_backoff",
        "_connection",
        "_failures",
        "_node_id",
        "_not_before_us",
        "key",
        "kind",
        "problem",
    )

    def __init__(self, connection: ConnectionCore, kind: int, key: str, backoff: Callable[[int], int]) -> None:
        self.kind = kind
        self.key = key
        self.problem = ""
        self._connection = connection
        self._backoff = backoff
        self._node_id: int | None = None
        self._asking = False
        self._failures = 0
        self._not_before_us = 0

    def find(self, now_us: int) -> int | None:
        """Return its node id; None where it is not known, then it is asked for."""
        if self._node_id is None and not self._asking and self._not_before_us <= now_us:
            self._asking = True
            self._connection.ask(FindCoordinatorRequest(key=self.key, key_type=self.kind), self, now_us)
        return self._node_id

    def forget(self) -> None:
        """Note that it has moved, or cannot be reached: the next `find` asks again."""
        self._node_id = None

    def deadline_us(self) -> int | None:
        """Return when `find` may ask again."""
        return self._not_before_us if self._node_id is None and not self._asking else None

    def take_answer(self, answer: Answer, now_us: int) -> KafkaError | None:
        """Take in an answer; return its error if to ask again does not help, else None."""
        self._asking = False
        if answer.unsupported:
            return kafka_error(ErrorCode.UNSUPPORTED_VERSION, answer.failure or self.key)
        if answer.unsendable:
            return kafka_error(ErrorCode.INVALID_REQUEST, f"looking for the coordinator: {answer.failure}")
        if answer.message is None:
            self.problem = f"looking for the coordinator of {self.key!r}: {answer.failure}"
        elif not answer.message.error_code:
            self._node_id = answer.message.node_id
            self._failures = 0
            self.problem = ""
            return None
        else:
            error = kafka_error(answer.message.error_code, f"looking for the coordinator of {self.key!r}")
            self.problem = str(error)
            if not error.retriable:
                return error
        self._failures += 1
        self._not_before_us = now_us + self._backoff(self._failures)
        return None
