"""`with producer.transaction():`: committed at the end of the block, aborted when the block raises."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import TYPE_CHECKING

from ottla.client.leaving import abort_interrupted, tell_of_commit
from ottla.errors import OttlaError, TransactionMisuse, TransactionUnfinished, TransactionUnknown

if TYPE_CHECKING:
    from ottla.client.producer import Producer

_log = logging.getLogger("ottla.producer")


class Transaction:
    """One transaction as a context: committed at the end of the block, aborted when the block raises."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def __enter__(self) -> Producer:
        try:
            self._producer.begin_transaction()
        except KeyboardInterrupt as interruption:
            # The transaction may be open by now.
            self._abort(interruption, is_open=False)
            raise
        return self._producer

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self._abort(error)
            return
        try:
            self._producer.commit_transaction()
        except (TransactionUnfinished, TransactionUnknown):
            raise  # it may be committed: nothing may be done but to ask again
        except KeyboardInterrupt as interruption:
            tell_of_commit(interruption)
            raise
        except OttlaError as failure:
            if not failure.fatal:
                self._abort(failure)
            raise

    def _abort(self, cause: BaseException, *, is_open: bool = True) -> None:
        try:
            if isinstance(cause, KeyboardInterrupt):
                abort_interrupted(self._producer, cause)
            else:
                self._producer.abort_transaction()
        except OttlaError as failure:
            if isinstance(failure, TransactionMisuse) and not is_open:
                return  # it had not begun
            # Only logged: the error that ended the block is the one that is raised.
            _log.error("aborting the transaction after %s: %s", type(cause).__name__, failure)
