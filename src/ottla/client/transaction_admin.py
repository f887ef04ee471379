"""Lists and describes transactions by their coordinators (KIP-664), and fences producers.

An id's coordinator is the broker that leads its partition of `__transaction_state`. It is kept, and looked up again
when it has moved or cannot be reached. Listing asks all brokers at the same time; again those that did not answer or
are still loading, and all again if the set of brokers has changed. An id that moves to another broker meanwhile may be
missing from a list: only `describe` can say that an id does not exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.client.admin_driver import AdminDriver, unanswered
from ottla.connection.request import ANY_NODE, Answer
from ottla.errors import OttlaError, Unreachable
from ottla.producer.coordinator import coordinators_in, search
from ottla.producer.transaction_answers import Reaction, RequestKind, reaction_to
from ottla.producer.transaction_requests import add_partitions, initialize, partition_codes
from ottla.producer.transaction_states import TransactionIdentity, version_in
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.reader.settings import ReaderSettings

# The first pause is short: most often the end of the transaction before is waited for.
_PAUSE_MS = 20
# After so long, the coordinator of a broker's ids is looked up again: it was not reached, or did not answer.
_REACH_MS, _ANSWER_MS = 1_000, 10_000


@dataclass(slots=True, frozen=True)
class ListedTransaction:
    """A transactional id as its coordinator lists it; `state` is Kafka's word: "Empty", "Ongoing", "CompleteCommit"."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


@dataclass(slots=True, frozen=True)
class TransactionDescription:
    """A coordinator's state of a transactional id; `started_ms` (since 1970, its clock) is None before the first.

    `started_ms` keeps its value after the transaction: `state` says whether one is open. `partitions` are the (topic,
    partition)s of the transaction.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_ms: int | None
    partitions: tuple[tuple[str, int], ...]
    coordinator_id: int


class TransactionAdmin:
    """The calls of `Admin` about transactions."""

    def __init__(self, driver: AdminDriver, settings: ReaderSettings) -> None:
        self._driver = driver
        self._settings = settings
        # Whether brokers can be asked for many coordinators at once (KIP-699); False once a broker could not.
        self._takes_many = True
        self._coordinators: dict[str, int] = {}

    def listed(self, prefix: str, states: Iterable[str] = ()) -> list[ListedTransaction]:
        """All transactional ids with this prefix, in these states (none: in any), sorted."""
        found: dict[int, list[ListedTransaction]] = {}
        asked: list[int] = []
        filters = list(states)
        # Whether brokers can list ids by a pattern (KIP-1152): a request that one cannot take is never sent.
        by_pattern = bool(prefix)

        def attempt() -> OttlaError | None:
            nonlocal by_pattern
            brokers = self._driver.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False), ANY_NODE)
            broker_ids = sorted(broker.node_id for broker in brokers.message.brokers)
            if broker_ids != asked:
                # Ids of a broker that is gone have another coordinator now: all brokers are asked again.
                found.clear()
                asked[:] = broker_ids
            left = [broker_id for broker_id in broker_ids if broker_id not in found]
            pattern = re.escape(prefix) + ".*" if by_pattern else None
            question = ListTransactionsRequest(state_filters=filters, transactional_id_pattern=pattern)
            answers = self._ask_all([(question, broker_id) for broker_id in left], may_be_unsendable=by_pattern)
            if any(answer.unsendable for answer in answers):
                by_pattern = False
                return attempt()
            last_error = None
            for broker_id, answer in zip(left, answers, strict=True):
                error = _failure(answer, "ListTransactions", broker_id)
                if error is not None:
                    last_error = error
                    continue
                found[broker_id] = [
                    ListedTransaction(each.transactional_id, each.producer_id, each.transaction_state, broker_id)
                    for each in answer.message.transaction_states
                    if each.transactional_id.startswith(prefix)
                ]
            return last_error

        self._driver.until_well(attempt, first_pause_ms=_PAUSE_MS)
        return sorted((each for of_broker in found.values() for each in of_broker), key=lambda it: it.transactional_id)

    def describe(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """See `Admin.describe_transactions`."""
        found: dict[str, TransactionDescription] = {}

        def ask(ids: Sequence[str]) -> Any:
            return DescribeTransactionsRequest(transactional_ids=list(ids))

        def take(answer: Answer, ids: Sequence[str]) -> dict[str, int]:
            codes = {}
            for told in answer.message.transaction_states:
                if told.transactional_id not in ids:
                    continue
                codes[told.transactional_id] = told.error_code
                if told.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    codes[told.transactional_id] = 0
                elif not told.error_code:
                    found[told.transactional_id] = _described(told, answer)
            return codes

        self._at_coordinators(list(dict.fromkeys(transactional_ids)), ask, take, "DescribeTransactions")
        return dict(sorted(found.items()))

    def forget_coordinators(self, transactional_ids: Iterable[str]) -> None:
        """Look up the coordinators of these ids again before the next request."""
        for transactional_id in transactional_ids:
            self._coordinators.pop(transactional_id, None)

    def fence(
        self,
        transactional_ids: Iterable[str],
        transaction_timeout_ms: int,
        expected: TransactionIdentity | None = None,
    ) -> dict[str, TransactionIdentity]:
        """Give each of these ids its next identity; see `Admin.fence_producers`.

        If an id has another identity than `expected`, PRODUCER_FENCED is raised (KIP-360). If only the epoch is another
        one, brokers abort an open transaction of the id before that; otherwise nothing is changed. An id that does not
        exist is made in any case.
        """
        found: dict[str, TransactionIdentity] = {}
        known = (-1, -1) if expected is None else (expected.producer_id, expected.producer_epoch)
        wanted = list(dict.fromkeys(transactional_ids))
        self._find(wanted)
        for transactional_id in wanted:

            def ask(ids: Sequence[str]) -> Any:
                return initialize(ids[0], transaction_timeout_ms, known)

            def take(answer: Answer, ids: Sequence[str]) -> dict[str, int]:
                told = answer.message
                if not told.error_code:
                    found[ids[0]] = TransactionIdentity(ids[0], told.producer_id, told.producer_epoch)
                return {ids[0]: told.error_code}

            self._at_coordinators([transactional_id], ask, take, "InitProducerId")
        return found

    def begin(self, identity: TransactionIdentity, topic: str, partition: int) -> None:
        """Begin a transaction of exactly this identity with this partition; do nothing if it has begun.

        Raises PRODUCER_FENCED or INVALID_PRODUCER_ID_MAPPING, and changes nothing, if the id has another identity now.
        """

        def ask(ids: Sequence[str]) -> Any:
            return add_partitions(identity, [(topic, partition)])

        def take(answer: Answer, ids: Sequence[str]) -> dict[str, int]:
            code = partition_codes(answer.message).get((topic, partition))
            return {} if code is None else {ids[0]: code}

        kind = RequestKind.ADD_PARTITIONS
        self._at_coordinators([identity.transactional_id], ask, take, "AddPartitionsToTxn", kind)

    @property
    def version(self) -> int:
        """The cluster's transaction version (KIP-890), 1 or 2; 1 until a broker has sent it."""
        return version_in(self._driver.features)

    # ---- asking -------------------------------------------------------------------------------------------------

    def _ask_all(
        self, questions: Sequence[tuple[Any, int]], version: int = -1, *, may_be_unsendable: bool = False
    ) -> list[Answer]:
        """One `Answer` for each; its message is None where none came."""
        answers = self._driver.ask_all(
            questions, _ANSWER_MS, reach_ms=_REACH_MS, version=version, may_be_unsendable=may_be_unsendable
        )
        late = f"no answer within {_ANSWER_MS} ms"
        return [Answer(None, None, late, True, None) if answer is None else answer for answer in answers]

    def _at_coordinators(
        self,
        ids: Sequence[str],
        ask: Callable[[Sequence[str]], Any],
        take: Callable[[Answer, Sequence[str]], Mapping[str, int]],
        what: str,
        kind: RequestKind = RequestKind.INITIALIZE,
    ) -> None:
        """Ask the coordinators of these ids until each has an answer; an error that does not pass is raised."""
        left = list(ids)

        def attempt() -> OttlaError | None:
            last_error = None
            by_node: dict[int, list[str]] = {}
            for transactional_id, node_id in self._find(left).items():
                by_node.setdefault(node_id, []).append(transactional_id)
            places = list(by_node.items())
            answers = self._ask_all([(ask(asked), node_id) for node_id, asked in places])
            for (node_id, asked), answer in zip(places, answers, strict=True):
                if answer.message is None:
                    last_error = _failure(answer, what, node_id)
                    for transactional_id in asked:
                        del self._coordinators[transactional_id]
                    continue
                codes = take(answer, asked)
                for transactional_id in asked:
                    code = codes.get(transactional_id)
                    if code is None:
                        left_out = f"{what} of transactional id {transactional_id!r}: the broker's answer leaves it out"
                        last_error = Unreachable(left_out, broker_id=node_id)
                        continue
                    if not code:
                        left.remove(transactional_id)
                        continue
                    error = kafka_error(code, f"{what} of transactional id {transactional_id!r}", broker_id=node_id)
                    reaction = reaction_to(kind, code)
                    if reaction is Reaction.LOOK:
                        del self._coordinators[transactional_id]
                    elif reaction is not Reaction.AGAIN:
                        raise error
                    last_error = error
            return last_error

        if left:
            self._driver.until_well(attempt, first_pause_ms=_PAUSE_MS)

    def _find(self, ids: Sequence[str]) -> dict[str, int]:
        """{transactional id: node id of its coordinator}, all asked for in one request."""
        known = self._coordinators

        def attempt() -> OttlaError | None:
            left = [each for each in ids if each not in known]
            if not left:
                return None
            asked = [left] if self._takes_many else [[each] for each in left]
            version = search(asked[0])[1]
            answers = self._ask_all([(search(keys)[0], ANY_NODE) for keys in asked], version)
            last_error: OttlaError | None = None
            for keys, answer in zip(asked, answers, strict=True):
                if len(keys) > 1 and answer.unsupported:
                    self._takes_many = False
                    return attempt()
                told = {} if answer.message is None else coordinators_in(answer.message, keys)
                for key in keys:
                    what = f"FindCoordinator of transactional id {key!r}"
                    error = _failure(answer, what, ANY_NODE)
                    code, node_id = told.get(key, (None, -1))
                    if error is None and code is None:
                        error = Unreachable(f"{what}: the broker's answer leaves it out")
                    elif error is None and code:
                        error = kafka_error(code, what)
                    if error is None:
                        known[key] = node_id
                    elif last_error is None or not error.retriable:
                        last_error = error
            return last_error

        self._driver.until_well(attempt, first_pause_ms=_PAUSE_MS)
        return {each: known[each] for each in ids}


def _failure(answer: Answer, what: str, broker_id: int) -> OttlaError | None:
    """The error of a request to one broker; None where there is none."""
    known = broker_id if broker_id >= 0 else None
    if answer.message is None:
        return unanswered(what, answer, broker_id)
    code = getattr(answer.message, "error_code", 0)
    return kafka_error(code, what, broker_id=known) if code else None


def _described(told: Any, answer: Answer) -> TransactionDescription:
    return TransactionDescription(
        told.transactional_id,
        told.producer_id,
        told.producer_epoch,
        told.transaction_state,
        told.transaction_timeout_ms,
        told.transaction_start_time_ms if told.transaction_start_time_ms >= 0 else None,
        tuple((topic.topic, partition) for topic in told.topics for partition in topic.partitions),
        -1 if answer.node_id is None else answer.node_id,
    )
