"""Transactions in an event loop: the verbs of `transaction_verbs.py`, awaited, and `async with producer.transaction()`.

Cancelling a verb ends only the wait: the commit or abort goes on, and the same verb must be awaited again for its
outcome. If a block is cancelled, its transaction is aborted, as if it had raised.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from ottla.client.async_leaving import INTERRUPTIONS, abort_cancelled
from ottla.client.leaving import tell_of_commit
from ottla.errors import OttlaError, TransactionMisuse, TransactionUnfinished, TransactionUnknown

if TYPE_CHECKING:
    from ottla.client.async_producer import AsyncProducer
    from ottla.client.coroutine_waits import CoroutineWaits
    from ottla.client.producer_driver import ProducerDriver
    from ottla.client.transaction_verbs import Call

_log = logging.getLogger("ottla.producer")


async def carry_out(driver: ProducerDriver, waits: CoroutineWaits, calls: Iterator[Call]) -> None:
    """Carry a verb out: wait for each of its calls in turn, `max.block.ms` at most."""
    transactions = driver.transactions
    waits.bind()
    for call in calls:
        with driver.spent.on(call.spent_on):
            await waits.within(driver.settings.max_block_ms / 1000, transactions.has_ended(call))
        transactions.hear(call)


class AsyncTransaction:
    """One transaction as a context: committed at the end of the block, aborted when the block raises."""

    def __init__(self, producer: AsyncProducer) -> None:
        self._producer = producer

    async def __aenter__(self) -> AsyncProducer:
        try:
            await self._producer.begin_transaction()
        except INTERRUPTIONS as cancelled:
            # The transaction may be open by now.
            await self._abort(cancelled, is_open=False)
            raise
        return self._producer

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            await self._abort(error)
            return
        try:
            await self._producer.commit_transaction()
        except (TransactionUnfinished, TransactionUnknown):
            raise  # it may be committed: nothing may be done but to ask again
        except INTERRUPTIONS as interruption:
            tell_of_commit(interruption)
            raise
        except OttlaError as failure:
            if not failure.fatal:
                await self._abort(failure)
            raise

    async def _abort(self, cause: BaseException, *, is_open: bool = True) -> None:
        try:
            if isinstance(cause, INTERRUPTIONS):
                await abort_cancelled(self._producer, cause)
            else:
                await self._producer.abort_transaction()
        except OttlaError as failure:
            if isinstance(failure, TransactionMisuse) and not is_open:
                return  # it had not begun
            # Only logged: the error that ended the block is the one that is raised.
            _log.error("aborting the transaction after %s: %s", type(cause).__name__, failure)
