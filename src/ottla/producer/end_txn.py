"""The end of one transaction, EndTxn: the same request is sent again until an answer says how it went.

A producer ends its own transactions by it (`transactions.py`). A prepared transaction can be ended by any client that
has its identity (`transaction_endings.py`). Pauses and the search for the coordinator are in those files.
"""

from __future__ import annotations

from ottla.connection.request import Answer
from ottla.producer.transaction_answers import LEAVES_OPEN, Reaction, RequestKind, reaction_to
from ottla.producer.transaction_states import TransactionIdentity
from ottla.protocol.messages.end_txn import EndTxnRequest


class EndTxn:
    """Commit or abort; `is_doubted`: a request was sent that may have been carried out, and no answer says so."""

    __slots__ = ("committed", "is_doubted")

    def __init__(self, committed: bool) -> None:
        self.committed = committed
        self.is_doubted = False

    def request(self, identity: TransactionIdentity) -> EndTxnRequest:
        """Return the request."""
        return EndTxnRequest(
            transactional_id=identity.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            committed=self.committed,
        )

    def lost(self, answer: Answer) -> None:
        """Take note of a request that was not answered."""
        self.is_doubted = self.is_doubted or answer.sent

    def reaction_to(self, code: int, version: int) -> Reaction:
        """Return what to do about this error code, in this transaction version; BREAK where the end stays unknown."""
        self.is_doubted = self.is_doubted or code in LEAVES_OPEN
        reaction = reaction_to(RequestKind.END, code)
        if not (self.committed and self.is_doubted):
            return reaction
        # In version 1 a commit does not change the epoch. If an InitProducerId arrives a second time, after the commit,
        # the state is Empty in that epoch, and a commit that is sent again is refused although it was carried out.
        may_be_done = reaction is Reaction.RENEW or (reaction is Reaction.GONE and version == 1)
        return Reaction.BREAK if may_be_done else reaction
