"""A producer's transactions: its identity, which partitions and offsets take part, and how each transaction ends.

How it works. The calls of the user come in as events with a token; each token comes back in one `TransactionAnswered`.
Batches are handed over while the state is OPEN only; `transaction_parts.py` has what takes part. One request to a
coordinator is in flight at a time (`transaction_talk.py`); `work` sends the next one, which depends on the state:

    INITIALIZING            InitProducerId
    OPEN                    AddPartitionsToTxn, AddOffsetsToTxn (transaction version 1), TxnOffsetCommit
    PREPARING, COMMITTING   the same until nothing is left and every batch is stored;
                            then COMMITTING sends EndTxn(commit), and PREPARING becomes PREPARED without a request
    ABORTING                EndTxn(abort), once nothing is in flight any more

Version 2 (KIP-890, the feature `transaction.version`): brokers add partitions by themselves, and every end gives the
producer its next epoch. Version 1: the epoch stays. After an abort that leaves gaps in the sequence numbers, the
producer requests a new epoch by InitProducerId with its identity (KIP-360); if the coordinator is too old for that, see
`same_epoch.py`. If its user gave the identity, it does so when the next transaction begins: the id may be another
producer's by now, and InitProducerId aborts an open transaction of it, whatever epoch the request names. Unlike Java's
producer it also does so when a request to a coordinator was not answered: a commit that arrives late would commit the
next transaction.

Invariants. After a batch failed or is unknown, the transaction is ABORTABLE, and can only be aborted. After
EndTxn(commit) was sent, the same request is sent again until there is an answer; it never becomes an abort. If an
earlier EndTxn was not answered, and the answer to a later one does not say whether the transaction was committed, the
error is TransactionUnknown. A partition's sequence begins at 0 with each identity, when nothing of the one before is in
flight.

KIPs: 98, 360, 447 (offsets with a member's generation), 588 (fencing), 890, 1050 (kinds of errors).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.connection.core import ConnectionCore
from ottla.connection.request import Answer
from ottla.errors import OttlaError, TransactionAborted, TransactionError, TransactionMisuse, TransactionUnknown
from ottla.producer.accumulator import Accumulator
from ottla.producer.coordinator import GROUP, Coordinator
from ottla.producer.end_txn import EndTxn
from ottla.producer.events import (
    BeginTransaction,
    CommitOffsets,
    EndTransaction,
    InitializeTransactions,
    TransactionAnswered,
    TransactionChanged,
)
from ottla.producer.idempotence import Idempotence
from ottla.producer.same_epoch import BUMPS_FROM_VERSION, LostNumbers
from ottla.producer.transaction_answers import Reaction, RequestKind, most_serious, reaction_to
from ottla.producer.transaction_parts import TransactionParts
from ottla.producer.transaction_requests import (
    add_offsets,
    add_partitions,
    added_places,
    commit_offsets,
    initialize,
    offset_codes,
    partition_codes,
)
from ottla.producer.transaction_states import (
    NOT_BEGUN,
    STANDING,
    TRANSITIONS,
    VERSION_1_CAPS,
    TransactionEvent,
    TransactionIdentity,
    TransactionState,
    version_in,
)
from ottla.producer.transaction_talk import TransactionRequest, TransactionTalk
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest

if TYPE_CHECKING:
    from ottla.records.delivery import SealedBatch

_S, _V = TransactionState, TransactionEvent
# In these states nothing has to be ended before the producer closes.
_AT_REST = (_S.UNINITIALIZED, _S.INITIALIZING, _S.READY, _S.PREPARED, _S.FATAL)


class Transactions:
    """All transactions of one producer, one after the other; `outputs` are for the driver."""

    def __init__(
        self,
        transactional_id: str,
        timeout_ms: int,
        connection: ConnectionCore,
        idempotence: Idempotence,
        accumulator: Accumulator,
        backoff: Callable[[int], int],
    ) -> None:
        idempotence.transactional_id = transactional_id
        self.state = TransactionState.UNINITIALIZED
        self.outputs: list[TransactionAnswered | TransactionChanged] = []
        # Why no batch is taken; None while the transaction is open.
        self.refusal: OttlaError | None = TransactionMisuse(NOT_BEGUN)
        self._id = transactional_id
        self._timeout_ms = timeout_ms
        self._connection = connection
        self._idempotence = idempotence
        self._accumulator = accumulator
        self._backoff = backoff
        self._talk = TransactionTalk(transactional_id, connection, backoff)
        self._parts = TransactionParts(accumulator)
        # Called for every batch that is handed over.
        self.batch_added = self._parts.add
        # Of the present transaction.
        self._version = 0
        # Of all transactions of this identity, if its user said so.
        self._kept_version: int | None = None
        self._initializing: list[int] = []
        # Another producer's identity, until it is taken over.
        self._known: TransactionIdentity | None = None
        # Whether the user gave the identity. Another producer may have it, too, or a later one of the same id.
        self._is_given = False
        self._ending: int | None = None
        self._end_txn = EndTxn(committed=False)
        self._identity_unknown = False
        self._needs_epoch = False
        self._lost_numbers = LostNumbers()
        # Whether the coordinator gives the next epoch to a producer that names the one it has (KIP-360).
        self._bumps = True

    @property
    def identity(self) -> TransactionIdentity:
        """The identity of the present transaction, or of the next one."""
        return TransactionIdentity(self._id, self._idempotence.producer_id, self._idempotence.producer_epoch)

    @property
    def problem(self) -> str:
        """Why the present request has no good answer yet, for errors of calls that wait."""
        return self._talk.problem

    @property
    def may_send(self) -> bool:
        """Whether batches may be sent."""
        return self.state in (_S.OPEN, _S.PREPARING, _S.COMMITTING)

    @property
    def is_ready(self) -> bool:
        """Whether a transaction can begin at once."""
        return self.state is _S.READY

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing has to be ended."""
        return self.state in _AT_REST

    # ---- calls ------------------------------------------------------------------------------------------------------

    def receive(self, event: InitializeTransactions | BeginTransaction | CommitOffsets | EndTransaction) -> None:
        """Take in a call of the user."""
        if self.state is _S.FATAL:
            self._answer(event.token, self.refusal)
        elif isinstance(event, InitializeTransactions):
            self._initialize(event)
        elif isinstance(event, BeginTransaction):
            self._begin(event.token)
        elif isinstance(event, CommitOffsets):
            if self.state is _S.OPEN:
                self._parts.offsets.append(event)
            else:
                self._answer(event.token, self.refusal)
        else:
            self._take_end(event)

    def _initialize(self, event: InitializeTransactions) -> None:
        known = event.known
        if known is not None:
            if (self.state, _V.INITIALIZE) not in TRANSITIONS:
                said = self.refusal if self.state is _S.ABORTABLE else None
                misuse = TransactionMisuse(f"no identity can be taken over now: {self._standing()}")
                self._answer(event.token, said or misuse)
                return
            self._become(known)
            self._kept_version = event.version
        if known is not None or self.state is _S.UNINITIALIZED:
            self._is_given = known is not None
            self._move(_V.INITIALIZE)
        if self.state is _S.INITIALIZING:
            self._initializing.append(event.token)
        else:
            self._answer(event.token, None)

    def _become(self, known: TransactionIdentity) -> None:
        """Take another identity; a transaction that is prepared under the one before stays prepared."""
        self._forget()
        self._known = known
        self._bumps = True
        self._id = self._idempotence.transactional_id = known.transactional_id
        self._talk = TransactionTalk(known.transactional_id, self._connection, self._backoff)

    def _begin(self, token: int) -> None:
        if self.state is not _S.READY:
            said = self.refusal if self.state is _S.ABORTABLE else None
            self._answer(token, said or TransactionMisuse(f"no transaction can begin now: {self._standing()}"))
            return
        version = self._kept_version or version_in(self._connection.features)
        if version != self._version:
            self._version = version
            self._connection.cap_versions({} if version == 2 else VERSION_1_CAPS)
        self._parts.begin(version)
        self._move(_V.BEGIN)
        self._answer(token, None)

    def _take_end(self, event: EndTransaction) -> None:
        state, committed = self.state, event.committed
        verb = _V.PREPARE if committed is None else _V.COMMIT if committed else _V.ABORT
        if state is _S.ABORTABLE and committed is not False:
            self._answer(event.token, self.refusal)
        elif (state, verb) not in TRANSITIONS:
            what = "prepared" if committed is None else "committed" if committed else "aborted"
            self._answer(event.token, TransactionMisuse(f"nothing can be {what} now: {self._standing()}"))
        elif committed is None and self._parts.is_empty:
            self._answer(
                event.token, TransactionMisuse("nothing was sent in this transaction, so there is nothing to prepare")
            )
        else:
            self._end_by(verb, event.token)

    def close(self) -> None:
        """Abort an open transaction (not a prepared one): the producer closes, and no more calls come."""
        if (self.state, _V.ABORT) in TRANSITIONS and not self.is_at_rest:
            self._end_by(_V.ABORT, None)

    def _end_by(self, verb: TransactionEvent, token: int | None) -> None:
        if self._ending is not None:
            self._answer(self._ending, TransactionError("the transaction is being aborted"))
        self._ending = token
        self._end_txn = EndTxn(committed=verb is _V.COMMIT)
        self._move(verb)
        if verb is _V.ABORT:
            self._drop_plans(TransactionError("the transaction is being aborted"))

    def _drop_plans(self, error: OttlaError | None) -> None:
        """Add nothing to the transaction any more; calls whose offsets are dropped get this error."""
        for dropped in self._parts.drop_plans():
            self._answer(dropped.token, error)

    def _standing(self) -> str:
        return STANDING.get(self.state, str(self.refusal))

    # ---- errors -----------------------------------------------------------------------------------------------------

    def batch_lost(self, sealed: SealedBatch, error: OttlaError, *, unknown: bool) -> None:
        """Note a batch that failed, or is unknown: the transaction cannot be committed any more."""
        self._lost_numbers.lose(sealed, error, unknown=unknown)
        # A leader answers INVALID_PRODUCER_ID_MAPPING for the coordinator, which will answer the abort itself.
        if error.fatal and getattr(error, "code", None) != ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            self._break(error)
        else:
            self.fail(error)

    def batch_error(self) -> OttlaError:
        """Why the batches that wait may not be sent."""
        if self.state in (_S.ABORTABLE, _S.FATAL) and self.refusal is not None:
            return self.refusal
        return TransactionAborted("its transaction was aborted before it was sent")

    def fail(self, cause: OttlaError) -> None:
        """Have the transaction end by an abort only, if there is one that is not being aborted already."""
        if (self.state, _V.FAIL) not in TRANSITIONS:
            return
        # Some batches of it may be missing in the sequence of their partition.
        self._needs_epoch = True
        error = TransactionError(
            f"the transaction cannot be committed: {cause}; call abort_transaction(), then begin anew"
        )
        error.__cause__ = cause
        self._move(_V.FAIL, error)
        self._drop_plans(error)
        self._answer_end(error)

    def _break(self, cause: OttlaError) -> None:
        """End this producer: no call can succeed any more."""
        if self.state is _S.FATAL:
            return
        # Also an error that is retriable elsewhere ends this producer.
        cause.retriable, cause.fatal = False, True
        error = cause
        if self.state is _S.COMMITTING and self._end_txn.is_doubted:
            error = TransactionUnknown(
                f"whether the transaction was committed is not known: the commit was asked for and not answered, then "
                f"{cause}; look for its records with a read_committed reader, and close this producer"
            )
            error.__cause__ = cause
        self._move(_V.BREAK, error)
        self._drop_plans(error)
        self._answer_end(error)
        self._answer_initializing(error)

    # ---- requests ---------------------------------------------------------------------------------------------------

    def work(self, now_us: int) -> None:
        """Send the next request, unless an answer or a pause is waited for."""
        if not self._talk.may_ask(now_us):
            return
        parts = self._parts
        if self.state is _S.INITIALIZING:
            self._ask_for_identity(now_us)
        elif self.may_send:
            if parts.to_add:
                self._ask_for_parts(RequestKind.ADD_PARTITIONS, add_partitions(self.identity, parts.to_add), now_us)
            elif parts.offsets:
                self._ask_about_offsets(parts.offsets[0], now_us)
            elif self.state is not _S.OPEN and parts.is_quiet:
                self._all_is_stored(now_us)
        elif self.state is _S.ABORTING and parts.is_quiet:
            self._needs_epoch = self._needs_epoch or parts.has_hole
            if self._identity_unknown and not self._is_given:
                self._renew()
            else:
                self._ask_to_end(now_us)

    def _ask_for_identity(self, now_us: int) -> None:
        if self._known is not None and self._connection.brokers_met:
            # A broker was connected, so the transaction version in force is known.
            self._given(*self._known[1:])
            return
        node_id = self._talk.find(now_us)
        if node_id is None or self._known is not None:
            return
        known = self._idempotence.producer_id, self._idempotence.producer_epoch
        if known[0] >= 0 and self._is_too_old(node_id):
            self._break(self._too_old("another epoch is needed"))
        else:
            self._talk.ask(RequestKind.INITIALIZE, initialize(self._id, self._timeout_ms, known), now_us)

    def _all_is_stored(self, now_us: int) -> None:
        if self.state is _S.COMMITTING:
            self._ask_to_end(now_us)
        else:
            self._move(_V.STORED)
            self._answer_end(None)

    def _ask_to_end(self, now_us: int) -> None:
        if self._parts.is_begun:
            self._talk.ask(RequestKind.END, self._end_txn.request(self.identity), now_us)
        else:
            self._ended()

    def _ask_about_offsets(self, wanted: CommitOffsets, now_us: int) -> None:
        group = wanted.group_id
        # Before the group is added: FindCoordinator creates the topic of the groups' offsets if it is missing.
        coordinator = self._talk.find_group(group, now_us)
        if coordinator is None:
            return
        if self._version == 1 and not self._parts.has_group(group):
            self._ask_for_parts(RequestKind.ADD_OFFSETS, add_offsets(self.identity, group), now_us)
            return
        self._parts.add_group(group)
        self._ask_for_parts(RequestKind.COMMIT_OFFSETS, commit_offsets(self.identity, wanted), now_us, coordinator)

    def _ask_for_parts(
        self, kind: RequestKind, message: Any, now_us: int, coordinator: Coordinator | None = None
    ) -> None:
        if self._talk.ask(kind, message, now_us, coordinator):
            self._parts.is_begun = True

    def deadline_us(self) -> int | None:
        """Return when `work` can do more without any event."""
        return self._talk.deadline_us()

    # ---- answers ----------------------------------------------------------------------------------------------------

    def take_answer(self, answer: Answer, now_us: int) -> None:
        """Take in a coordinator's answer, or the answer to FindCoordinator."""
        if isinstance(answer.token, Coordinator):
            self._take_coordinator(answer.token, answer, now_us)
            return
        request: TransactionRequest = answer.token
        self._talk.hear()
        if self.state is _S.FATAL:
            return
        kind, response = request.kind, answer.message
        if response is not None and kind is not RequestKind.COMMIT_OFFSETS and answer.node_id is not None:
            self._bumps = not self._is_too_old(answer.node_id)
        if answer.unsupported:
            self._break(kafka_error(ErrorCode.UNSUPPORTED_VERSION, answer.failure or str(request)))
            return
        if answer.unsendable:
            self._take_unsendable(kind, TransactionError(f"{request}: {answer.failure}"))
            return
        if response is None:
            self._talk.problem = f"{request}: {answer.failure}"
            if kind is RequestKind.END:
                self._end_txn.lost(answer)
            if answer.sent:
                # It may still arrive, and would count for the next transaction if that had the same epoch.
                self._needs_epoch = self._needs_epoch or (self._version == 1 and self._bumps)
            request.coordinator.forget()
            self._talk.pause(now_us)
            return
        if kind is RequestKind.ADD_PARTITIONS or kind is RequestKind.COMMIT_OFFSETS:
            codes = partition_codes(response) if kind is RequestKind.ADD_PARTITIONS else offset_codes(response)
            found = most_serious(kind, codes)
        elif not response.error_code:
            found = None
        elif kind is RequestKind.END:
            found = response.error_code, self._end_txn.reaction_to(response.error_code, self._version)
        else:
            found = response.error_code, reaction_to(kind, response.error_code)
        if found is None:
            self._talk.begin_anew()
            self._take_success(request, response, now_us)
        else:
            self._react(request, *found, now_us)

    def _take_unsendable(self, kind: RequestKind, error: OttlaError) -> None:
        """Handle a request that cannot be written as bytes: to send it again would not help."""
        if kind is RequestKind.INITIALIZE or kind is RequestKind.END:
            self._break(error)
        else:
            self.fail(error)

    def _take_coordinator(self, coordinator: Coordinator, answer: Answer, now_us: int) -> None:
        if not self._talk.knows(coordinator):
            return  # looked for under an earlier identity
        error = coordinator.take_answer(answer, now_us)
        self._talk.problem = coordinator.problem
        if error is None:
            return
        if coordinator.kind == GROUP:
            self._talk.pause(now_us)
            self.fail(error)
        elif self.state is _S.INITIALIZING and self._idempotence.producer_id < 0:
            self._deny(error)
        else:
            self._break(error)

    def _take_success(self, request: TransactionRequest, response: Any, now_us: int) -> None:
        if request.kind is RequestKind.INITIALIZE:
            if self.state is _S.INITIALIZING:
                self._given(response.producer_id, response.producer_epoch)
        elif request.kind is RequestKind.END:
            # Before version 5 of EndTxn the answer has no place for an identity.
            if self._version > 1 and response.producer_id >= 0:
                self._adopt(response.producer_id, response.producer_epoch)
            self._ended()
        elif not self.may_send:
            return  # aborted meanwhile
        elif request.kind is RequestKind.ADD_PARTITIONS:
            self._parts.admit(added_places(request.message), now_us)
        elif request.kind is RequestKind.ADD_OFFSETS:
            self._parts.add_group(request.message.group_id)
        elif self._parts.offsets:
            self._answer(self._parts.offsets.popleft().token, None)

    def _react(self, request: TransactionRequest, code: int, reaction: Reaction, now_us: int) -> None:
        kind = request.kind
        detail = f"{request} of transactional.id {self._id!r}"
        if reaction is Reaction.FENCED:
            self._break(kafka_error(ErrorCode.PRODUCER_FENCED, detail))
            return
        error = kafka_error(code, detail, fatal=reaction is Reaction.BREAK or None)
        self._talk.problem = str(error)
        if reaction is Reaction.AGAIN or reaction is Reaction.LOOK:
            if reaction is Reaction.LOOK:
                request.coordinator.forget()
            self._talk.pause(now_us, is_concurrent=code == ErrorCode.CONCURRENT_TRANSACTIONS)
        elif kind is RequestKind.INITIALIZE:
            if reaction is Reaction.BREAK:
                self._break(error)
            else:
                self._deny(error)
        elif reaction is Reaction.BREAK or (reaction is Reaction.RENEW and not self._bumps):
            self._break(error)
        elif self.state is _S.ABORTING:
            self._react_to_abort(kind, reaction, error)
        else:
            self._identity_unknown = reaction is Reaction.RENEW
            self.fail(error)

    def _react_to_abort(self, kind: RequestKind, reaction: Reaction, error: OttlaError) -> None:
        """Handle an error while the transaction is being aborted."""
        if kind is not RequestKind.END:
            self._identity_unknown = self._identity_unknown or reaction is Reaction.RENEW
        elif reaction is Reaction.GONE and self._version == 1 and self._bumps:
            # The coordinator has no such transaction, or has aborted it. Requests that still arrive have an old epoch.
            self._needs_epoch = True
            self._ended()
        elif reaction is Reaction.GONE:
            self._break(error)  # it was committed, by a client that has its identity
        elif self._is_given:
            self._over(_V.RELEASE, error)
        else:
            self._renew()

    # ---- identities and ends ----------------------------------------------------------------------------------------

    def _given(self, producer_id: int, producer_epoch: int) -> None:
        self._known = None
        self._adopt(producer_id, producer_epoch)
        self._move(_V.GIVEN)
        self._forget()
        self._answer_end(None)
        self._answer_initializing(None)

    def _adopt(self, producer_id: int, producer_epoch: int) -> None:
        self._needs_epoch = False
        self._idempotence.adopt(producer_id, producer_epoch, self._accumulator.queues.values())

    def _deny(self, error: OttlaError) -> None:
        self._move(_V.DENIED)
        self._answer_end(error)
        self._answer_initializing(error)

    def _ended(self) -> None:
        """Note that the transaction is over, in the way that was requested."""
        if self._needs_epoch and not self._bumps:
            doubt = self._lost_numbers.reuse(self._accumulator.queues)
            if doubt is not None:
                detail = f"the transaction was aborted, but no other can follow records that may be stored: {doubt}"
                self._break(self._too_old(detail))
                return
            self._needs_epoch = False
        upgraded = self._version == 1 and (self._kept_version or version_in(self._connection.features)) == 2
        if not (self._needs_epoch or upgraded):
            self._over(_V.ENDED)
        elif self._is_given:
            self._over(_V.RELEASE)
        elif self.state is _S.COMMITTING:
            self._over(_V.RENEW)
        else:
            self._renew()

    def _over(self, event: TransactionEvent, error: OttlaError | None = None) -> None:
        """Forget the transaction, and answer the call that ends it."""
        self._move(event)
        self._forget()
        self._answer_end(error)

    def _is_too_old(self, node_id: int) -> bool:
        """Whether this coordinator is too old to give the next epoch (KIP-360); False if its versions are not known."""
        return 0 <= self._connection.highest_version(node_id, InitProducerIdRequest.API_KEY) < BUMPS_FROM_VERSION

    def _too_old(self, detail: str) -> OttlaError:
        """The error for a coordinator that is too old to give this producer the next epoch it needs."""
        why = f"the coordinator speaks no InitProducerId {BUMPS_FROM_VERSION} (KIP-360); make a new producer"
        return kafka_error(ErrorCode.UNSUPPORTED_VERSION, f"{detail}; {why}", fatal=True)

    def _renew(self) -> None:
        """Request a new identity after an abort; the call that aborts is answered when that has come."""
        self._move(_V.RENEW)

    def _forget(self) -> None:
        self._parts.clear()
        self._identity_unknown = self._needs_epoch = False
        self._lost_numbers.forget()

    # ---- small things -----------------------------------------------------------------------------------------------

    def _move(self, event: TransactionEvent, error: OttlaError | None = None) -> None:
        try:
            self.state = TRANSITIONS[self.state, event]
        except KeyError:
            raise RuntimeError(f"transaction: {event.name} cannot happen in {self.state.name}") from None
        is_open = self.state is _S.OPEN
        self.refusal = None if is_open else error or TransactionMisuse(self._standing())
        self.outputs.append(TransactionChanged(is_open, self.refusal))
        self._talk.begin_anew()

    def _answer(self, token: int, error: OttlaError | None) -> None:
        self.outputs.append(TransactionAnswered(token, error))

    def _answer_end(self, error: OttlaError | None) -> None:
        token, self._ending = self._ending, None
        if token is not None:
            self._answer(token, error)

    def _answer_initializing(self, error: OttlaError | None) -> None:
        for token in self._initializing:
            self._answer(token, error)
        self._initializing = []
