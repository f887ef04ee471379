"""`TransactionHandle`: commits or aborts a prepared transaction by its identity, in any process.

`EndingCore` decides; an I/O thread drives it for as long as a call lasts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any, Self

from ottla.client.channel import SocketBuffers
from ottla.client.driver import Driver, prepare
from ottla.client.security import unguessable
from ottla.client.transaction_verbs import checked_identity
from ottla.connection.address_book import LastingError
from ottla.errors import OttlaError, TransactionUnfinished
from ottla.producer.transaction_endings import Ended, EndingCore, EndWanted
from ottla.producer.transaction_states import TransactionIdentity
from ottla.reader.settings import ReaderSettings


class TransactionHandle:
    """A transaction that `Producer.prepare_transaction` left open, to be committed or aborted; it can be pickled.

    `identity` is what that call returned; settings are those of `ottla.Admin`. The coordinator aborts by itself what is
    not ended within the producer's `transaction.timeout.ms`.
    """

    def __init__(
        self,
        identity: TransactionIdentity | tuple[str, int, int],
        bootstrap_servers: str | Sequence[str],
        **settings: Any,
    ) -> None:
        self.identity = checked_identity(identity)
        self._given = {"bootstrap_servers": bootstrap_servers, **settings}

    def __repr__(self) -> str:
        return f"<TransactionHandle for {self.identity}>"

    def end(self, committed: bool) -> None:
        """Commit (or abort) it, and return when the coordinator has stored that; the same call may be repeated.

        Raises TransactionUnfinished when there is no answer within `default.api.timeout.ms`: end it again, with the
        same outcome. TransactionError: it was ended the other way before. ProducerFenced: a newer producer of the
        transactional id has ended it. TransactionUnknown: an earlier request was not answered, and its outcome can no
        longer be found out. Unreachable and NotKafka as everywhere.
        """
        error = end_transactions([self.identity], committed, **self._given)[self.identity]
        if error is not None:
            raise error


def end_transactions(
    identities: Iterable[TransactionIdentity | tuple[str, int, int]],
    committed: bool,
    bootstrap_servers: str | Sequence[str],
    **settings: Any,
) -> Mapping[TransactionIdentity, OttlaError | None]:
    """Commit (or abort) prepared transactions at the same time: what `TransactionHandle.end` raises, None for success.

    Returns when all are ended or `default.api.timeout.ms` is over; settings are those of `ottla.Admin`.
    """
    wanted = dict.fromkeys(checked_identity(identity) for identity in identities)
    driver = EndingDriver.of({"bootstrap_servers": bootstrap_servers, **settings})
    try:
        return {identity: told.error for identity, told in driver.end(wanted, committed).items()}
    finally:
        driver.close()


class EndingDriver(Driver):
    """Front of a transaction handle's I/O loop."""

    KIND = "transaction handle"
    THREAD = "ottla-transactions"
    CLOSED = "the transaction handle is closed"
    AFTER_CRASH = "end the transaction again"

    def __init__(self, settings: ReaderSettings, buffers: SocketBuffers) -> None:
        self._settings = settings
        prepare(settings.connection)
        self._core = EndingCore(settings.connection, unguessable(settings.connection.security, Random()))
        self._answers: dict[int, Ended] = {}
        self._tokens = itertools.count(1)
        super().__init__(self._core, settings.connection, buffers)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """A driver that is started; settings are those of `ottla.Admin`."""
        settings = ReaderSettings(given)
        driver = cls(settings, SocketBuffers.of(settings.connection, given))
        driver.start()
        return driver

    def end(
        self, versions: Mapping[TransactionIdentity, int | None], committed: bool
    ) -> dict[TransactionIdentity, Ended]:
        """The outcome of each; where it is not known in time, the core goes on trying until the driver is closed.

        `versions` says in which transaction version each was begun; None: the one in force.
        """
        tokens = {next(self._tokens): identity for identity in versions}
        for token, identity in tokens.items():
            self.loop.post(EndWanted(token, identity, committed, versions[identity]))
        timeout_ms = self._settings.default_api_timeout_ms
        lasting = LastingError(self.loop.addresses)

        def settled() -> bool:
            return all(token in self._answers for token in tokens) or self.cannot_go_on() or lasting.seen()

        began_us = self.clock.now_us()
        self.waiting.wait(settled, timeout_ms / 1000)
        self.standing.check_usable()
        if lasting.error is not None:
            raise lasting.error
        waited_ms = (self.clock.now_us() - began_us) // 1000
        return {
            identity: self._answers.pop(token)
            if token in self._answers
            else self._unfinished(token, identity, waited_ms)
            for token, identity in tokens.items()
        }

    def _unfinished(self, token: int, identity: TransactionIdentity, waited_ms: int) -> Ended:
        error = TransactionUnfinished(
            f"after {waited_ms} ms (default.api.timeout.ms) it is not known whether {identity} has ended: "
            f"{self._core.problem(token)}; end it again, committed or aborted as before"
        )
        return Ended(token, error, identity)

    def perform(self, output: Any) -> None:
        """Keep an answer for the thread that waits for it."""
        if isinstance(output, Ended):
            self._answers[output.token] = output
            self._changed = True
