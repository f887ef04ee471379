"""A core that sends single requests: the connection core and nothing more."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from ottla.connection.core import ConnectionCore
from ottla.connection.settings import ConnectionSettings
from ottla.protocol.messages.offset_commit import OffsetCommitRequest
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest


class Question:
    """Event: send this request; the `Answer` has the same `token`."""

    __slots__ = ("deadline_us", "message", "token", "version", "where")

    def __init__(self, message: Any, token: int, where: int, deadline_us: int, version: int = -1) -> None:
        self.message = message
        self.token = token
        self.where = where
        self.deadline_us = deadline_us
        self.version = version


class AskingCore:
    """A core whose only outputs, beside the connections', are an `Answer` to each `Question`."""

    def __init__(self, settings: ConnectionSettings, rng: Random) -> None:
        self._connection = ConnectionCore(settings, rng)
        self.addresses = self._connection.addresses
        # From version 10 on these requests name topics by id only; this client names them by name.
        self._connection.cap_versions({OffsetCommitRequest.API_KEY: 9, OffsetFetchRequest.API_KEY: 9})

    @property
    def features(self) -> Mapping[str, int]:
        """The cluster's features in force (KIP-584), as far as a broker's answer has them."""
        return self._connection.features

    def receive(self, event: Any, now_us: int) -> None:
        """Take in a `Question`, or an event of a connection."""
        if isinstance(event, Question):
            self._connection.ask(
                event.message,
                event.token,
                now_us,
                where=event.where,
                deadline_us=event.deadline_us,
                version=event.version,
            )
        else:
            self._connection.receive(event, now_us)

    def outputs(self) -> list[Any]:
        """Return what the driver must now do, and then the answers."""
        return [*self._connection.outputs(), *self._connection.take_answers()]

    def deadline_us(self) -> int | None:
        """Return when `tick` must be called at the latest."""
        return self._connection.deadline_us()

    def tick(self, now_us: int) -> None:
        """Let time pass."""
        self._connection.tick(now_us)
