"""The transaction calls of a producer, on users' threads: each is an event for the core, and a wait for its answer.

Outside of an open transaction the gate (`producer/gate.py`) refuses records with the reason. `send` checks the gate
anyway, so a transaction costs nothing per record. Ending a transaction first shuts the gate and then flushes everything
to the core: records sent before that belong to the transaction, and none is taken after it.

A call that has no answer within `max.block.ms` raises TransactionUnfinished and goes on in the background. If it was to
end the transaction, the same call must be repeated: it waits for the same answer, and returns or raises it. Before
that, no other call is possible (as with Java's producer).

Each verb is written once, as a generator of the calls to wait for in turn: threads wait in `wait`, coroutines in
`async_transactions.py`. Both then call `hear`, which raises the answer if it is an error.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ottla.connection.setting import INT32_MAX, INT64_MAX, shown
from ottla.connection.settings import TEXT_BYTES_MAX
from ottla.errors import OttlaError, TransactionMisuse, TransactionUnfinished, UserMistake
from ottla.producer.events import (
    BeginTransaction,
    CommitOffsets,
    EndTransaction,
    InitializeTransactions,
    TransactionAnswered,
    TransactionChanged,
)
from ottla.producer.transaction_states import TransactionIdentity

if TYPE_CHECKING:
    from ottla.client.producer_driver import ProducerDriver

Offset = int | tuple[int, str] | tuple[int, str, int]

_INT16_MAX = 2**15 - 1
_OFFSETS_ALLOWED = (
    "{(topic, partition): next offset to read}, or (offset, metadata) or (offset, metadata, leader epoch) in place of "
    "the offset"
)

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
        # The call that ends the transaction, until a thread has taken its answer.
        self._unheard: Call | None = None
        # Held while a thread decides which call ends the transaction. A signal's handler may do so in between.
        self._deciding = threading.RLock()

    # ---- users' threads ---------------------------------------------------------------------------------------------

    def initialize(
        self, identity: TransactionIdentity | tuple[str, int, int] | None = None, version: int | None = None
    ) -> Iterator[Call]:
        """Get a new identity, which fences older producers of the same id, or use the given one."""
        self._check("init_transactions")
        if version not in (None, 1, 2) or (version is not None and identity is None):
            raise UserMistake(
                f"transaction_version is {version!r}; give 1 or 2, and only with an identity, or leave it out"
            )
        known = None if identity is None else checked_identity(identity)
        token, call = self._make("init_transactions")
        self._driver.loop.post(InitializeTransactions(token, known, version))
        yield call

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
        # Checked before any request: values that cannot be encoded would make the whole transaction fail.
        if not isinstance(offsets, Mapping):
            raise TransactionMisuse(f"offsets={shown(offsets)} cannot be committed; give {_OFFSETS_ALLOWED}")
        rows = tuple(_offset_row(place, offset) for place, offset in offsets.items())
        _check_member(group_id, generation, member_id, group_instance_id)
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
            # Another thread may have asked for the other end since the first check.
            self._check_unheard(name)
            call = self._unheard
            if call is None:
                token, call = self._make(name)
                event = EndTransaction(token, committed)
                self._driver.gate.begin_to_end(token, committed)
                # Ctrl+C cannot interrupt between these two statements: Python runs signal handlers only after a call,
                # and `flush_before` is compiled. Otherwise, a repeated call would wait for an answer that never comes.
                self._unheard = call
                self._driver.flush_before(event)
        yield call
        if committed is False:
            # `flush` need not report the records that an abort took back.
            self._driver.books.forget_not_acked()

    def _check(self, name: str) -> None:
        driver = self._driver
        if driver.settings.transactional_id is None:
            raise TransactionMisuse(f"{name}() needs a producer with transactional_id; give one to ottla.Producer")
        driver.refuse_own_thread(f"{name}()")
        driver.gate.check_usable()
        self._check_unheard(name)

    def _check_unheard(self, name: str) -> None:
        unheard = self._unheard
        if unheard is not None and unheard.name != name:
            raise TransactionMisuse(
                f"{name}() is not possible now: {unheard.name}() has no answer yet; call {unheard.name}() again first"
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
                driver.waits.wait_for(self.has_ended(call), driver.settings.max_block_ms / 1000)
            self.hear(call)

    def has_ended(self, call: Call) -> Callable[[], bool]:
        """A function that says whether there is an answer, or never will be one."""
        return lambda: call.answered or self._driver.is_over

    def hear(self, call: Call) -> None:
        """Take the answer, and raise it if it is an error; TransactionUnfinished where there is none."""
        driver = self._driver
        if not call.answered:
            max_block_ms = driver.settings.max_block_ms
            if driver.is_over:
                driver.gate.check_usable()
            raise TransactionUnfinished(
                f"{call.name}() has no answer after max.block.ms ({max_block_ms} ms): "
                f"{driver.core.transaction_problem()}; it goes on by itself, call {call.name}() again to wait for it"
            )
        if self._unheard is call:
            self._unheard = None
        if call.error is not None:
            raise call.error.with_traceback(None)

    # ---- the I/O thread ---------------------------------------------------------------------------------------------

    def perform(self, output: TransactionAnswered | TransactionChanged) -> None:
        """Keep an answer for the thread that waits for it, and open or shut the gate."""
        if isinstance(output, TransactionChanged):
            self._driver.gate.transaction_changed(output.error)
        else:
            self._driver.gate.answered(output.token)
            call = self._calls.pop(output.token)
            call.error = output.error
            call.answered = True


def _offset_row(place: Any, offset: Any) -> tuple[str, int, int, int, str]:
    """(topic, partition, offset, leader epoch, metadata)."""
    given: tuple[Any, ...] = offset if isinstance(offset, tuple) else (offset,)
    is_place = isinstance(place, tuple) and len(place) == 2 and _is_text(place[0]) and _is_whole(place[1], INT32_MAX)
    if is_place and 1 <= len(given) <= 3:
        # Fill what was left out at the end: metadata "" and leader epoch -1.
        next_offset, metadata, leader_epoch = given + ("", -1)[len(given) - 1 :]
        is_epoch = _is_whole(leader_epoch, INT32_MAX, -1)
        if _is_whole(next_offset, INT64_MAX) and _is_text(metadata) and is_epoch:
            return place[0], place[1], next_offset, leader_epoch, metadata
    raise TransactionMisuse(f"{_told(place)}: {_told(offset)} is no offset to commit; give {_OFFSETS_ALLOWED}")


def _check_member(group_id: Any, generation: Any, member_id: Any, group_instance_id: Any) -> None:
    """TransactionMisuse for values that cannot be encoded in a request."""
    for name, given in (("group_id", group_id), ("member_id", member_id), ("group_instance_id", group_instance_id)):
        if not _is_text(given) and not (given is None and name == "group_instance_id"):
            raise TransactionMisuse(
                f"{name}={_told(given)} cannot be sent; it is text of at most {TEXT_BYTES_MAX} bytes in UTF-8"
            )
    if not group_id:
        raise TransactionMisuse("group_id is empty; give the name of the group whose offsets these are")
    if not _is_whole(generation, INT32_MAX, -1):
        raise TransactionMisuse(
            f"generation={_told(generation)} cannot be used; it is a whole number from 0 on, or -1 for no generation"
        )


def checked_identity(given: Any) -> TransactionIdentity:
    """The identity given, which may be a list, as from JSON; TransactionMisuse for anything else."""
    is_identity = isinstance(given, tuple | list) and len(given) == 3 and _is_text(given[0])
    if not is_identity or not _is_whole(given[1], INT64_MAX) or not _is_whole(given[2], _INT16_MAX):
        raise TransactionMisuse(
            f"identity={shown(given)} is not an identity; give what Admin.fence_producers or prepare_transaction "
            "returned, (transactional_id, producer id, epoch)"
        )
    return TransactionIdentity(*given)


def _is_whole(value: Any, most: int, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_text(value: Any) -> bool:
    try:
        return isinstance(value, str) and len(value.encode()) <= TEXT_BYTES_MAX
    except UnicodeEncodeError:
        return False


def _told(value: Any) -> str:
    if isinstance(value, tuple) and len(value) <= 3:
        return f"({', '.join(shown(each, is_private=False) for each in value)})"
    return shown(value, is_private=False)
