"""Writes the decision record R, each time in its own transaction, with the driver's producer.

When it is known what became of the transactions that R names, R is written again with a note at each: landed
(committed) or lost (timed out). From then on neither coordinators nor receipts are needed. Coordinators forget unused
transactional ids (`transactional.id.expiration.ms`), and know only the last transaction of an id.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Self

from ottla.client.producer import Producer
from ottla.errors import DeliveryError, OttlaError, RecordError, TransactionUnfinished
from ottla.producer.transaction_states import TransactionIdentity
from ottla.sink.decision import Decision, encode
from ottla.sink.refusals import decision_too_large, is_too_large, too_many_tasks
from ottla.sink.session import Session

_log = logging.getLogger("ottla.sink")

_REQUEST_BYTES_MAX = 16 * 1024 * 1024
# The size of a decision and when it is sent do not depend on the user's settings.
_OWN = {
    "linger.ms": 0,
    "max.request.size": _REQUEST_BYTES_MAX,
    "buffer.memory": 2 * _REQUEST_BYTES_MAX,
    "compression.type": "gzip",
}


class DecisionWriter:
    """The producer of one plan's driver, made with the first record; a context manager that returns or closes it.

    It uses exactly the producer id and epoch it is given, and fences no other producer. If they are not the newest,
    nothing is written.
    """

    def __init__(self, session: Session, driver_identity: TransactionIdentity) -> None:
        self.session = session
        self._driver_identity = driver_identity
        self._producer: Producer | None = None
        self._is_at_rest = False

    @property
    def identity(self) -> TransactionIdentity | None:
        """The driver's identity after its last successful transaction; None if it is not known."""
        return self._driver_identity if self._producer is None else self._producer.transaction_identity

    def write(self, decision: Decision, look: Callable[[], Decision], asked_times: int) -> Decision:
        """Append R, call `look`, append R again if that returns another one, and commit; returns R as it was committed.

        The commit is asked for up to `asked_times` times, each time for `max.block.ms`. Raises OttlaError,
        TransactionUnfinished if the commit has no answer, and what `look` raises.
        """
        producer = self._opened()
        self._is_at_rest = False
        producer.begin_transaction()
        self._append(producer, decision)
        seen = look()
        if seen != decision:
            # Readers use the second of two records in one transaction.
            self._append(producer, seen)
        _ask_for_commit(producer, asked_times)
        self._is_at_rest = True
        return seen

    def write_again(self, decision: Decision) -> None:
        """Write R again with its notes; raises what `write` raises."""
        self.write(decision, lambda: decision, asked_times=1)

    def try_to_write_again(self, decision: Decision) -> None:
        """As `write_again`, but a failure is only logged: the next plan tries again."""
        try:
            self.write_again(decision)
        except (OttlaError, TimeoutError) as error:
            _log.warning(
                "%s of sink %r is committed, but its decision record could not be updated. If rows are still marked as "
                "not committed there, the next batch or start updates it. The error: %s",
                decision.batch,
                decision.sink_id,
                error,
            )

    def _append(self, producer: Producer, decision: Decision) -> None:
        settings = self.session.settings
        value = encode(decision)
        try:
            producer.send(settings.control_topic, value, settings.sink_id.encode(), partition=0).result()
        except RecordError as error:
            raise too_many_tasks(decision, len(value), _REQUEST_BYTES_MAX) from error
        except DeliveryError as error:
            if is_too_large(error):
                raise decision_too_large(settings, decision, len(value)) from error
            raise

    def _opened(self) -> Producer:
        if self._producer is None:
            settings = {**self.session.settings.for_sending(), **_OWN}
            self._producer = self.session.port.producer(settings, self._driver_identity, self.session.version)
        return self._producer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._producer is not None and self._is_at_rest:
            self.session.port.keep(self._producer)
        else:
            self.close()

    def close(self) -> None:
        """Close the producer; a transaction that is still open is aborted."""
        self._is_at_rest = False
        if self._producer is not None:
            # If there was an error, it has been raised already.
            with contextlib.suppress(OttlaError, TimeoutError):
                self._producer.close()


def _ask_for_commit(producer: Producer, times: int) -> None:
    for _ in range(times - 1):
        try:
            return producer.commit_transaction()
        except TransactionUnfinished as unfinished:
            _log.warning("%s", unfinished)
    return producer.commit_transaction()
