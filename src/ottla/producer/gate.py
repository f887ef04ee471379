"""Whether `send` takes records now, and if not, why.

Each producer has one gate before its appender. It is shut when the process was forked, the I/O thread died, the
producer is closed, the transaction's state does not allow records, or a call to end the transaction is under way. Any
thread that detects one of these reports it here. The appender's `refusal` is always the first of them in this order,
or None.

Invariants
- Fork, crash and close shut the gate for good.
- After a call to end a transaction, no record is taken before the answer to that call. Answers to other calls do not
  open the gate.
- Threads may report at the same time: `_changed` repeats until `refusal` fits all that was reported.
"""

from __future__ import annotations

from typing import Protocol

from ottla.connection.standing import Standing
from ottla.errors import OttlaError, TransactionMisuse

_ENDED_BY = {True: "committed", False: "aborted", None: "prepared"}


class Refusing(Protocol):
    """The appender: `refusal` says why no record is taken."""

    refusal: BaseException | None


class Gate(Standing):
    """The gate of one producer; it sets the appender's `refusal`."""

    __slots__ = ("_appender", "_ending", "_ending_token", "_transaction")

    def __init__(self, appender: Refusing, transaction: OttlaError | None = None) -> None:
        """`transaction` is why a transactional producer takes no records yet; None for others."""
        super().__init__()
        self._appender = appender
        self._transaction = transaction
        # Set from the call that ends a transaction until its answer.
        self._ending: OttlaError | None = None
        self._ending_token = 0
        self._changed()

    @property
    def why_shut(self) -> OttlaError | None:
        """Why no record is taken now; None when records are taken."""
        return self.why_over or self._transaction or self._ending

    def transaction_changed(self, refusal: OttlaError | None) -> None:
        """Take from the core why the transaction takes no records; None when it does."""
        self._transaction = refusal
        self._changed()

    def begin_to_end(self, token: int, committed: bool | None) -> None:
        """Shut the gate for a call that ends the transaction, until `answered` is called with this token."""
        self._ending_token = token
        self._ending = TransactionMisuse(f"the transaction is being {_ENDED_BY[committed]}")
        self._changed()

    def answered(self, token: int) -> None:
        """Open the gate again if it was shut for the call with this token, which the core has answered."""
        if self._ending is not None and token == self._ending_token:
            self._ending = None
            self._changed()

    def _changed(self) -> None:
        # Another thread may report something between the two reads.
        while True:
            why = self.why_shut
            self._appender.refusal = why
            if self.why_shut is why:
                return
