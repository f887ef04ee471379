"""The transaction calls of a producer, on users' threads: each is an event for the core, and a wait for its answer.

The gate. Outside of an open transaction the appender refuses records with the reason (`closed_error`, which `send`
looks at anyway, so a transaction costs nothing per record). Whoever ends a transaction shuts the gate first and then
has everything flushed to the core; so what came before belongs to the transaction, and nothing comes after.

A call that has no answer within `max.block.ms` raises TransactionUnfinished and goes on in the background. Where it was
to end the transaction, the same call must be repeated, and waits for the same answer; nothing else is possible until
somebody has heard it (as with Java's producer).

Each verb is written once, as a generator of the calls to be waited for in turn: threads wait in `wait`, coroutines in
`async_transactions.py`, and both `hear` what the answer was before they go on.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ottla.errors import OttlaError, TransactionMisuse, TransactionUnfinished
from ottla.producer.events import (
    BeginTransaction,
    CommitOffsets,
    EndTransaction,
    InitializeTransactions,
    TransactionAnswered,
    TransactionChanged,
)

if TYPE_CHECKING:
    from ottla.client.producer_driver import ProducerDriver
    from ottla.producer.transaction_states import TransactionIdentity

Offset = int | tuple[int, str] | tuple[int, str, int]

_GATES = {True: "committed", False: "aborted", None: "prepared"}
_NAMES = {True: "commit_transaction", False: "abort_transaction", None: "prepare_transaction"}
# Which of the producer's sums the time of a call is added to.
_SPENT_ON = {
    "init_transactions": "txn_init_ns",
    "begin_transaction": "txn_begin_ns",
    "send_offsets_to_transaction": "txn_send_offsets_ns",
    "commit_transaction": "txn_commit_ns",
    "abort_transaction": "txn_abort_ns",
    "prepare_transaction": "txn_prepare_ns",
}


class Call:
    """One call that was made; `answered` is set last, `spent_on` names the metrics' sum that its time is added to."""

    __slots__ = ("answered", "error", "name", "spent_on")

    def __init__(self, name: str) -> None:
        self.name = name
        self.spent_on = _SPENT_ON[name]
        self.error: OttlaError | None = None
        self.answered = False


class TransactionVerbs:
    """What `Producer` calls about transactions; TransactionMisuse for a producer without `transactional.id`."""

    def __init__(self, driver: ProducerDriver) -> None:
        self._driver = driver
        self._tokens = itertools.count(1)
        self._calls: dict[int, Call] = {}
        # The end that somebody has asked for and nobody has heard of.
        self._unheard: Call | None = None
        # Held for one look, never while something happens.
        self._deciding = threading.Lock()
        self._refusal: OttlaError | None = None

    # ---- users' threads ---------------------------------------------------------------------------------------------

    def initialize(self, identity: TransactionIdentity | tuple[str, int, int] | None = None) -> Iterator[Call]:
        """Get an identity, fencing older producers of the same id, or take one over."""
        self._check("init_transactions")
        known = None if identity is None else self._known(identity)
        token, call = self._make("init_transactions")
        self._driver.loop.post(InitializeTransactions(token, known))
        yield call

    def _known(self, identity: TransactionIdentity | tuple[str, int, int]) -> tuple[int, int]:
        transactional_id, producer_id, producer_epoch = identity
        own = self._driver.settings.transactional_id
        if transactional_id != own:
            raise TransactionMisuse(
                f"the identity is one of transactional_id {transactional_id!r}, and this producer has {own!r}"
            )
        return producer_id, producer_epoch

    def begin(self) -> Iterator[Call]:
        """Open a transaction."""
        self._check("begin_transaction")
        if not self._driver.core.transactions_ready:
            yield from self.initialize()
        token, call = self._make("begin_transaction")
        self._driver.loop.post(BeginTransaction(token))
        yield call

    def commit_offsets(
        self,
        offsets: Mapping[tuple[str, int], Offset],
        group_id: str,
        generation: int,
        member_id: str,
        group_instance_id: str | None,
    ) -> Iterator[Call]:
        """Have offsets of a group committed with the transaction."""
        self._check("send_offsets_to_transaction")
        rows = tuple(_offset_row(place, offset) for place, offset in offsets.items())
        if not rows:
            return
        token, call = self._make("send_offsets_to_transaction")
        self._driver.loop.post(CommitOffsets(token, group_id, rows, generation, member_id, group_instance_id))
        yield call

    def end(self, committed: bool | None) -> Iterator[Call]:
        """Commit, abort or (None) prepare the transaction, with everything sent so far."""
        name = _NAMES[committed]
        self._check(name)
        with self._deciding:
            call = self._unheard
            is_new = call is None
            if call is None:
                token, call = self._make(name)
                self._unheard = call
        if is_new:
            appender = self._driver.appender
            if appender.closed_error is None:
                appender.closed_error = TransactionMisuse(f"the transaction is being {_GATES[committed]}")
            self._driver.flush_before(EndTransaction(token, committed))
        yield call
        if committed is False:
            # Who aborts knows that records were lost with it.
            self._driver.books.forget_unhappy()

    def _check(self, name: str) -> None:
        driver = self._driver
        if driver.settings.transactional_id is None:
            raise TransactionMisuse(f"{name}() needs a producer with transactional_id; give one to ottla.Producer")
        driver.refuse_own_thread(f"{name}()")
        driver.check_usable()
        unheard = self._unheard
        if unheard is not None and unheard.name != name:
            raise TransactionMisuse(
                f"{name}() is not possible now: nobody has heard yet how {unheard.name}() went; call that again first"
            )

    def _make(self, name: str) -> tuple[int, Call]:
        token = next(self._tokens)
        call = self._calls[token] = Call(name)
        return token, call

    def wait(self, calls: Iterator[Call]) -> None:
        """Carry a verb out, waiting for each of its calls."""
        driver = self._driver
        for call in calls:
            with driver.spent.on(call.spent_on):
                driver.wait_for(self.has_ended(call), driver.settings.max_block_ms / 1000)
            self.hear(call)

    def has_ended(self, call: Call) -> Callable[[], bool]:
        """What is returned says whether there is an answer, or never will be one."""
        return lambda: call.answered or self._driver.is_over

    def hear(self, call: Call) -> None:
        """Take note of the answer, and raise it if it is an error; TransactionUnfinished where there is none."""
        driver = self._driver
        if not call.answered:
            max_block_ms = driver.settings.max_block_ms
            if driver.is_over:
                driver.check_usable()
            raise TransactionUnfinished(
                f"{call.name}() has no answer after max.block.ms ({max_block_ms} ms): "
                f"{driver.core.transaction_trouble()}; it goes on by itself, call {call.name}() again to wait for it"
            )
        if self._unheard is call:
            self._unheard = None
        if call.error is not None:
            raise call.error.with_traceback(None)

    # ---- the I/O thread ---------------------------------------------------------------------------------------------

    def perform(self, output: TransactionAnswered | TransactionChanged) -> None:
        """Hand an answer to whoever waits for it, and open or shut the gate."""
        if isinstance(output, TransactionChanged):
            self._refusal = output.error
        self._driver.set_gate(self._refusal)
        if isinstance(output, TransactionAnswered):
            call = self._calls.pop(output.token)
            call.error = output.error
            call.answered = True


def _offset_row(place: Any, offset: Any) -> tuple[str, int, int, int, str]:
    """(topic, partition, offset, leader epoch, metadata)."""
    metadata, leader_epoch = "", -1
    given = offset if isinstance(offset, tuple) else (offset,)
    if len(given) > 1:
        metadata = given[1]
    if len(given) > 2:
        leader_epoch = given[2]
    is_place = isinstance(place, tuple) and len(place) == 2 and isinstance(place[0], str)
    if not is_place or not _is_count(place[1]) or not given or not _is_count(given[0]) or not isinstance(metadata, str):
        raise TransactionMisuse(
            f"{place!r}: {offset!r} is no offset to commit; give {{(topic, partition): next offset to read}}, or "
            "(offset, metadata) or (offset, metadata, leader epoch) in place of the offset"
        )
    return place[0], place[1], given[0], leader_epoch, metadata


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
