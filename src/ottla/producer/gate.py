"""Whether `send` takes records now, and if not, why.

Each producer has one gate before its appender. It is shut when the process was forked, the I/O thread died, the
producer is closed, the transaction's state does not allow records, or somebody has asked to end the transaction. Any
thread that learns of one of these reports it here. The appender's `refusal` is always the first of them in this order,
or None.

Invariants
- Fork, crash and close shut the gate for good.
- Once somebody has asked to end a transaction, no record is taken before the answer to that call. Answers to other
  calls do not open the gate, whatever they say and whenever they come.
- Threads may report at the same time: `_set` repeats until `refusal` fits all that was reported.
"""

from __future__ import annotations

from typing import Protocol

from ottla.errors import OttlaError, TransactionMisuse, fresh

_ENDED_BY = {True: "committed", False: "aborted", None: "prepared"}


class Refusing(Protocol):
    """Where records are appended: `refusal` says why none is taken."""

    refusal: BaseException | None


class Gate:
    """The gate of one producer; it sets the appender's `refusal`."""

    __slots__ = ("_appender", "_closed", "_crash", "_ending", "_ending_token", "_fork", "_transaction")

    def __init__(self, appender: Refusing, transaction: OttlaError | None = None) -> None:
        """`transaction` is why a transactional producer takes no records yet; None for others."""
        self._appender = appender
        self._fork: OttlaError | None = None
        self._crash: OttlaError | None = None
        self._closed: OttlaError | None = None
        self._transaction = transaction
        # Set from the call that ends a transaction until its answer.
        self._ending: OttlaError | None = None
        self._ending_token = 0
        self._set()

    @property
    def why_over(self) -> OttlaError | None:
        """Why no record will ever be taken again; None while some may be."""
        return self._fork or self._crash or self._closed

    @property
    def why_shut(self) -> OttlaError | None:
        """Why no record is taken now; None when records are taken."""
        return self.why_over or self._transaction or self._ending

    @property
    def has_forked(self) -> bool:
        """Whether this is a child of the process whose producer it is."""
        return self._fork is not None

    @property
    def crash(self) -> OttlaError | None:
        """Why the I/O thread died; None while it has not."""
        return self._crash

    @property
    def is_closing(self) -> bool:
        """Whether the producer is closed, or about to be."""
        return self._closed is not None

    def check_usable(self) -> None:
        """Raise if no record will ever be taken again."""
        why = self.why_over
        if why is not None:
            raise fresh(why)

    def fork(self, error: OttlaError) -> None:
        """This is a child process: the producer belongs to its parent."""
        self._fork = error
        self._set()

    def die(self, error: OttlaError) -> None:
        """The I/O thread has died."""
        self._crash = error
        self._set()

    def close(self, error: OttlaError) -> None:
        """Somebody closes the producer."""
        self._closed = error
        self._set()

    def transaction_changed(self, refusal: OttlaError | None) -> None:
        """The core says why the transaction takes no records; None when it does."""
        self._transaction = refusal
        self._set()

    def begin_to_end(self, token: int, committed: bool | None) -> None:
        """Somebody is about to end the transaction: shut until `answered` is called with this token."""
        self._ending_token = token
        self._ending = TransactionMisuse(f"the transaction is being {_ENDED_BY[committed]}")
        self._set()

    def answered(self, token: int) -> None:
        """The core has answered the call with this token."""
        if self._ending is not None and token == self._ending_token:
            self._ending = None
            self._set()

    def _set(self) -> None:
        # Another thread may report something between the two reads.
        while True:
            why = self.why_shut
            self._appender.refusal = why
            if self.why_shut is why:
                return
