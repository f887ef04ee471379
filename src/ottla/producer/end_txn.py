"""The end of one transaction, EndTxn: the same request is sent again until an answer says how it went.

A producer ends its own transaction so (`transactions.py`), and whoever was told its identity a prepared one
(`transaction_endings.py`). Each of them waits and looks for the coordinator in its own way.
"""

from __future__ import annotations

from ottla.connection.request import Answer
from ottla.producer.transaction_answers import LEAVES_OPEN, Reaction, RequestKind, reaction_to
from ottla.producer.transaction_states import TransactionIdentity
from ottla.protocol.messages.end_txn import EndTxnRequest


class EndTxn:
    """Commit or abort; `is_doubted` where it was asked for, and may be carried out although no answer said so."""

    __slots__ = ("committed", "is_doubted")

    def __init__(self, committed: bool) -> None:
        self.committed = committed
        self.is_doubted = False

    def request(self, identity: TransactionIdentity) -> EndTxnRequest:
        """Ask for it."""
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
        """Return what this error code asks for, in this transaction version; BREAK where it does not tell the end."""
        self.is_doubted = self.is_doubted or code in LEAVES_OPEN
        reaction = reaction_to(RequestKind.END, code)
        if not (self.committed and self.is_doubted):
            return reaction
        # In version 1 a commit leaves the epoch as it is. An InitProducerId that arrives twice, the second time after
        # the commit, makes the state Empty in that epoch, and the commit that is asked for again is refused.
        may_be_done = reaction is Reaction.RENEW or (reaction is Reaction.GONE and version == 1)
        return Reaction.BREAK if may_be_done else reaction
