"""A transactional producer core before a scripted coordinator: what it asks, when, and what answers do to it."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.connection.events import Transmit, Unsendable
from ottla.errors import (
    KafkaError,
    OttlaError,
    ProducerFenced,
    TransactionError,
    TransactionMisuse,
    TransactionUnknown,
)
from ottla.producer.events import (
    BatchAcked,
    BatchFailed,
    BeginTransaction,
    CommitOffsets,
    EndTransaction,
    InitializeTransactions,
    TransactionAnswered,
    TransactionChanged,
)
from ottla.producer.same_epoch import BUMPS_FROM_VERSION
from ottla.producer.transaction_answers import Reaction, RequestKind, most_serious, reaction_to
from ottla.producer.transaction_states import TRANSITIONS, TransactionEvent, TransactionIdentity, TransactionState
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.records.plain import decode_batches

from .conftest import World

VERSIONS = {0: (3, 12), 3: (0, 12), 10: (0, 6), 18: (0, 4), 22: (0, 5), 24: (0, 5), 25: (0, 4), 26: (0, 5), 28: (0, 5)}


class Coordinated(World):
    """A `World` with a coordinator that answers as `codes` says (by request name, used up in order), else well."""

    def __init__(self, version: int = 2, **settings: Any) -> None:
        self.version = version
        self.spoken = VERSIONS
        self.asked: list[Transmit] = []
        # Name of a request -> error codes of the answers to come; "lost": no answer, the connection breaks.
        # "unsendable": it could not be written.
        self.codes: dict[str, list[int | str]] = {}
        self.epoch_given = 0
        self.answers: dict[int, OttlaError | None] = {}
        self.is_open = False
        self.refusal: OttlaError | None = None
        self._tokens = 0
        super().__init__(partitions=3, transactional_id="flow", **settings)

    def verb(self, kind: Any, *details: Any) -> int:
        self._tokens += 1
        self.core.receive(kind(self._tokens, *details), self.now_us)
        self.turn()
        return self._tokens

    def begin(self) -> None:
        token = self.verb(InitializeTransactions)
        self.run_until(lambda: token in self.answers)
        token = self.verb(BeginTransaction)
        assert self.answers[token] is None

    def end(self, committed: bool | None = True) -> int:
        return self.verb(EndTransaction, committed)

    def outcome_of(self, token: int) -> OttlaError | None:
        self.run_until(lambda: token in self.answers)
        return self.answers[token]

    def names(self) -> list[str]:
        return [type(t.message).__name__.removesuffix("Request") for t in self.asked]

    def last(self, kind: type) -> Any:
        return next(t.message for t in reversed(self.asked) if isinstance(t.message, kind))

    def _do(self, output: Any) -> None:
        if isinstance(output, TransactionAnswered):
            assert output.token not in self.answers
            self.answers[output.token] = output.error
        elif isinstance(output, TransactionChanged):
            self.is_open, self.refusal = output.is_open, output.error
        else:
            super()._do(output)

    def _serve(self, transmit: Transmit) -> None:
        message = transmit.message
        if isinstance(message, ApiVersionsRequest):
            keys = [ApiVersion(api_key=k, min_version=low, max_version=high) for k, (low, high) in self.spoken.items()]
            answer = ApiVersionsResponse(api_keys=keys, finalized_features_epoch=1)
            answer.finalized_features = [
                FinalizedFeatureKey(
                    name="transaction.version", max_version_level=self.version, min_version_level=self.version
                )
            ]
            self.reply(transmit, answer)
        elif isinstance(message, MetadataRequest):
            super()._serve(transmit)
        elif isinstance(message, ProduceRequest):
            self.asked.append(transmit)
            super()._serve(transmit)
        else:
            self.asked.append(transmit)
            self._coordinate(transmit)

    def _coordinate(self, transmit: Transmit) -> None:
        message = transmit.message
        name = type(message).__name__.removesuffix("Request")
        planned = self.codes.get(name)
        code = planned.pop(0) if planned else 0
        if code == "lost":
            self.hang_up(transmit.connection_id)
        elif code == "unsendable":
            unsendable = Unsendable(transmit.connection_id, transmit.correlation_id, "it cannot be sent: too long")
            self.core.receive(unsendable, self.now_us)
            self.turn()
        elif code != "silence":
            self.reply(transmit, self._answer_to(message, int(code)))

    def _answer_to(self, message: Any, code: int) -> Any:
        if isinstance(message, FindCoordinatorRequest):
            return FindCoordinatorResponse(error_code=code, node_id=1, host="b1", port=9092)
        if isinstance(message, InitProducerIdRequest):
            self.epoch_given += code == 0
            return InitProducerIdResponse(
                error_code=code, producer_id=-1 if code else 4000, producer_epoch=-1 if code else self.epoch_given
            )
        if isinstance(message, EndTxnRequest):
            raised = self.version == 2 and code == 0
            self.epoch_given += raised
            return EndTxnResponse(
                error_code=code,
                producer_id=4000 if raised else -1,
                producer_epoch=self.epoch_given if raised else -1,
            )
        if type(message).__name__ == "AddOffsetsToTxnRequest":
            return AddOffsetsToTxnResponse(error_code=code)
        if type(message).__name__ == "AddPartitionsToTxnRequest":
            return AddPartitionsToTxnResponse(
                results_by_topic_v3_and_below=[
                    AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                            for index in topic.partitions
                        ],
                    )
                    for topic in message.v3_and_below_topics
                ]
            )
        return TxnOffsetCommitResponse(
            topics=[
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                        for each in topic.partitions
                    ],
                )
                for topic in message.topics
            ]
        )


def headers(world: Coordinated) -> list[tuple[int, int, bool]]:
    """(epoch, base sequence, is transactional) of every batch that was sent."""
    return [
        (header.producer_epoch, header.base_sequence, header.is_transactional)
        for transmit in world.asked
        if isinstance(transmit.message, ProduceRequest)
        for topic in transmit.message.topic_data
        for data in topic.partition_data
        for header, _ in decode_batches(b"".join(data.records))
    ]


def test_what_is_not_in_the_table_of_states_cannot_happen() -> None:
    reachable = {TransactionState.UNINITIALIZED, *TRANSITIONS.values()}
    assert reachable == set(TransactionState)
    assert not [state for (state, _) in TRANSITIONS if state is TransactionState.FATAL]
    for state in TransactionState:
        broken = TRANSITIONS.get((state, TransactionEvent.BREAK))
        assert broken is (None if state is TransactionState.FATAL else TransactionState.FATAL)
    # Nothing leads from a commit to an abort but an error that says it was not committed.
    assert (TransactionState.COMMITTING, TransactionEvent.ABORT) not in TRANSITIONS


def test_version_2_asks_for_nothing_but_the_end_and_takes_the_epoch_it_is_given() -> None:
    world = Coordinated()
    for _ in range(2):
        world.begin()
        world.send("a", partition=0)
        world.ack()
        world.send("b", partition=0)
        world.ack()
        assert world.outcome_of(world.end()) is None
    assert world.names() == [
        "FindCoordinator",
        "InitProducerId",
        "Produce",
        "Produce",
        "EndTxn",
        "Produce",
        "Produce",
        "EndTxn",
    ]
    assert headers(world) == [(1, 0, True), (1, 1, True), (2, 0, True), (2, 1, True)]
    produce = world.last(ProduceRequest)
    assert produce.transactional_id == "flow"
    assert [t.version for t in world.asked if isinstance(t.message, ProduceRequest)] == [12] * 4
    assert world.last(EndTxnRequest).producer_epoch == 2


def test_version_1_adds_a_partition_before_it_is_written_to_and_keeps_the_epoch() -> None:
    world = Coordinated(1)
    for _ in range(2):
        world.begin()
        world.codes = {"AddPartitionsToTxn": [51]}
        world.send("a", partition=0)
        assert not world.produces
        world.run_until(lambda: world.produces)
        world.ack()
        world.send("b", partition=0)
        world.ack()
        assert world.outcome_of(world.end()) is None
    assert world.names()[2:7] == ["AddPartitionsToTxn", "AddPartitionsToTxn", "Produce", "Produce", "EndTxn"]
    assert headers(world) == [(1, 0, True), (1, 1, True), (1, 2, True), (1, 3, True)]
    assert {type(t.message).__name__: t.version for t in world.asked} == {
        "FindCoordinatorRequest": 3,
        "InitProducerIdRequest": 5,
        "AddPartitionsToTxnRequest": 3,
        "ProduceRequest": 11,
        "EndTxnRequest": 4,
    }


@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_in_which_nothing_was_sent_needs_no_end(version: int) -> None:
    world = Coordinated(version)
    for committed in (True, False):
        world.begin()
        assert world.outcome_of(world.end(committed)) is None
    assert "EndTxn" not in world.names()


def test_a_commit_waits_for_all_its_batches() -> None:
    world = Coordinated()
    world.begin()
    batches = [world.send("a", partition=p) for p in range(3)]
    token = world.end()
    for _ in batches:
        assert "EndTxn" not in world.names()
        assert token not in world.answers
        world.ack()
    assert world.outcome_of(token) is None
    assert all(isinstance(world.outcome(batch), BatchAcked) for batch in batches)


def test_an_abort_fails_what_waits_and_waits_for_what_is_in_flight() -> None:
    world = Coordinated()
    world.begin()
    sent, waiting = world.send("a", partition=0), world.send("b", partition=0)
    token = world.end(False)
    assert isinstance(world.outcome(waiting), BatchFailed)
    assert "aborted before it was sent" in str(world.outcome(waiting).error)
    assert "EndTxn" not in world.names()
    world.ack()
    assert isinstance(world.outcome(sent), BatchAcked)
    assert world.outcome_of(token) is None
    assert world.last(EndTxnRequest).committed is False


def test_gaps_that_an_abort_leaves_get_a_new_epoch_in_version_1() -> None:
    world = Coordinated(1)
    world.begin()
    world.send("a", partition=0)
    world.run_until(lambda: world.produces)
    world.answer(87)
    assert isinstance(world.refusal, TransactionError)
    assert world.outcome_of(world.end(False)) is None
    assert world.names()[-2:] == ["EndTxn", "InitProducerId"]
    asked = world.last(InitProducerIdRequest)
    assert (asked.producer_id, asked.producer_epoch) == (4000, 1)
    world.begin()
    world.send("b", partition=0)
    world.run_until(lambda: world.produces)
    assert headers(world)[-1] == (2, 0, True)


def begin_as_given(world: Coordinated) -> None:
    """Begin under an identity that another producer may have, too, or a later one of the same id."""
    assert world.outcome_of(world.verb(InitializeTransactions, TransactionIdentity("flow", 4000, 0))) is None
    assert world.outcome_of(world.verb(BeginTransaction)) is None


@pytest.mark.parametrize(
    ("version", "failed"),
    [
        pytest.param(1, {"Produce": 87}, id="a-gap"),
        pytest.param(1, {"AddPartitionsToTxn": 49}, id="unknown-in-version-1"),
        pytest.param(2, {"EndTxn": 49}, id="unknown-in-version-2"),
    ],
)
def test_after_an_abort_a_given_identity_is_renewed_when_the_next_transaction_begins(
    version: int, failed: dict[str, int]
) -> None:
    # InitProducerId aborts an open transaction of its id, also if it names an older epoch.
    world = Coordinated(version)
    begin_as_given(world)
    world.codes = {name: [code] for name, code in failed.items() if name != "Produce"}
    world.send("a", partition=0)
    if "AddPartitionsToTxn" in failed:
        world.codes["EndTxn"] = [49]
        world.run_until(lambda: world.refusal is not None)
    else:
        world.run_until(lambda: world.produces)
        world.answer(failed.get("Produce", 0))
    error = world.outcome_of(world.end(False))
    assert (error is None) == ("Produce" in failed)
    world.pass_ms(1000)
    assert "InitProducerId" not in world.names()
    assert world.names()[-1] == "EndTxn"
    world.begin()
    asked = world.last(InitProducerIdRequest)
    assert (asked.producer_id, asked.producer_epoch) == (4000, 0)
    world.send("b", partition=0)
    world.run_until(lambda: world.produces)
    assert headers(world)[-1] == (1, 0, True)


def test_a_batch_that_fails_keeps_the_rest_from_being_sent() -> None:
    world = Coordinated()
    world.begin()
    first, second = world.send("a", partition=0), world.send("b", partition=0)
    other = world.send("c", partition=1)
    token = world.end()
    world.answer(87)
    assert isinstance(world.outcome(first), BatchFailed)
    assert isinstance(world.outcome(second), BatchFailed)
    error = world.outcome_of(token)
    assert isinstance(error, TransactionError)
    assert "INVALID_RECORD" in str(error)
    assert error.abortable
    world.store_all()
    assert world.outcome(other) is not None
    assert "EndTxn" not in world.names()


@pytest.mark.parametrize("lost", ["lost", 15, 16, 7, -1, 51, 14])
def test_a_commit_is_asked_for_again_until_it_is_answered(lost: int | str) -> None:
    world = Coordinated()
    world.begin()
    world.send("a")
    world.ack()
    world.codes = {"EndTxn": [lost, lost, lost]}
    assert world.outcome_of(world.end()) is None
    ends = [t.message.committed for t in world.asked if isinstance(t.message, EndTxnRequest)]
    assert ends == [True] * 4
    assert ("FindCoordinator" in world.names()[3:]) == (lost in ("lost", 15, 16))


def test_closing_ends_nothing_that_is_being_committed_otherwise() -> None:
    world = Coordinated(max_block_ms=500)
    world.begin()
    world.send("a")
    world.ack()
    world.codes = {"EndTxn": ["lost"] * 1000}
    token = world.end()
    world.close(within_ms=60_000)
    world.run_until(lambda: world.closed)
    assert token not in world.answers
    assert world.now_us < 5_000_000
    assert all(t.message.committed for t in world.asked if isinstance(t.message, EndTxnRequest))


def test_closing_aborts_what_is_open() -> None:
    world = Coordinated()
    world.begin()
    world.send("a")
    world.close(within_ms=60_000)
    world.ack()
    world.run_until(lambda: world.closed)
    assert world.last(EndTxnRequest).committed is False


@pytest.mark.parametrize(
    ("codes", "kind", "what"),
    [
        ([90], ProducerFenced, "fatal"),
        ([47], ProducerFenced, "fatal"),
        (["lost", 90], TransactionUnknown, "fatal"),
        ([15, 47], TransactionUnknown, "fatal"),
        ([51, 90], ProducerFenced, "fatal"),
        ([48], TransactionError, "abortable"),
        (["lost", 48], TransactionError, "abortable"),
        ([120], TransactionError, "abortable"),
        ([49], TransactionError, "abortable"),
        (["lost", 49], TransactionUnknown, "fatal"),
        ([53], KafkaError, "fatal"),
        (["lost", 53], TransactionUnknown, "fatal"),
    ],
)
def test_what_an_answer_to_the_commit_means(codes: list[int | str], kind: type[OttlaError], what: str) -> None:
    world = Coordinated()
    world.begin()
    world.send("a")
    world.ack()
    world.codes = {"EndTxn": list(codes)}
    error = world.outcome_of(world.end())
    assert type(error) is kind
    assert getattr(error, what)
    assert not world.is_open
    if what == "abortable":
        assert world.outcome_of(world.end(False)) is None
        world.begin()
    else:
        for verb in (InitializeTransactions, BeginTransaction):
            assert type(world.outcome_of(world.verb(verb))) is kind
        assert type(world.outcome_of(world.end(False))) is kind


@pytest.mark.parametrize(("version", "kind"), [(1, TransactionUnknown), (2, TransactionError)])
def test_a_commit_that_was_not_heard_may_be_done_where_version_1_denies_it(
    version: int, kind: type[OttlaError]
) -> None:
    world = Coordinated(version)
    world.begin()
    world.send("a")
    world.run_until(lambda: world.produces)
    world.ack()
    world.codes = {"EndTxn": ["lost", 48]}
    assert type(world.outcome_of(world.end())) is kind


def test_an_abort_that_the_coordinator_knows_nothing_of_ends_with_a_new_identity() -> None:
    world = Coordinated()
    world.begin()
    world.send("a")
    world.ack()
    world.codes = {"EndTxn": [49]}
    assert world.outcome_of(world.end(False)) is None
    assert world.names()[-2:] == ["EndTxn", "InitProducerId"]
    assert world.is_open is False


@pytest.mark.parametrize(("version", "bumps", "code"), [(2, True, 48), (1, False, 48), (1, False, 59)])
def test_an_abort_that_leads_nowhere_is_fatal_and_says_so(version: int, bumps: bool, code: int) -> None:
    world = Coordinated(version)
    if not bumps:
        world.spoken = {**VERSIONS, InitProducerIdRequest.API_KEY: (0, BUMPS_FROM_VERSION - 1)}
    world.begin()
    world.send("a")
    world.run_until(lambda: world.produces)
    world.ack()
    world.codes = {"EndTxn": [code]}
    error = world.outcome_of(world.end(False))
    assert isinstance(error, KafkaError)
    assert error.code == code
    assert (error.fatal, error.abortable, error.retriable) == (True, False, False)
    assert world.outcome_of(world.verb(BeginTransaction)) is error


@pytest.mark.parametrize(
    ("codes", "is_done"), [([51, 14, 15], True), (["lost", "lost"], True), ([53], False), ([90], False), ([50], False)]
)
def test_what_an_answer_to_the_question_for_an_identity_means(codes: list[int | str], is_done: bool) -> None:
    world = Coordinated()
    world.codes = {"InitProducerId": list(codes)}
    error = world.outcome_of(world.verb(InitializeTransactions))
    assert (error is None) == is_done
    if codes == [53]:
        # Somebody may allow it meanwhile.
        assert world.outcome_of(world.verb(InitializeTransactions)) is None


def test_offsets_go_to_the_group_s_coordinator_once_the_transaction_knows_the_group() -> None:
    for version, way in ((1, ["AddOffsetsToTxn", "TxnOffsetCommit"]), (2, ["TxnOffsetCommit"])):
        world = Coordinated(version)
        world.begin()
        rows = (("flights", 0, 5, -1, ""), ("flights", 1, 7, -1, "note"))
        for _ in range(2):
            assert world.outcome_of(world.verb(CommitOffsets, "group", rows, 3, "member", None)) is None
        assert world.names()[2:] == ["FindCoordinator", *way, "TxnOffsetCommit"]
        asked = world.asked[-1].message
        assert (asked.group_id, asked.generation_id, asked.member_id) == ("group", 3, "member")
        assert world.outcome_of(world.end()) is None
        assert world.names()[-1] == "EndTxn"


@pytest.mark.parametrize("code", [22, 25, 30, 82, 120])
def test_offsets_that_are_refused_leave_nothing_but_an_abort(code: int) -> None:
    world = Coordinated()
    world.begin()
    world.codes = {"TxnOffsetCommit": [code]}
    error = world.outcome_of(world.verb(CommitOffsets, "group", (("flights", 0, 5, -1, ""),)))
    assert isinstance(error, TransactionError)
    assert isinstance(world.outcome_of(world.end()), TransactionError)
    assert world.outcome_of(world.end(False)) is None


@pytest.mark.parametrize("name", ["FindCoordinator", "AddOffsetsToTxn", "TxnOffsetCommit"])
def test_offsets_that_cannot_be_written_leave_nothing_but_an_abort(name: str) -> None:
    world = Coordinated(version=1)
    world.begin()
    world.codes = {name: ["unsendable"]}
    error = world.outcome_of(world.verb(CommitOffsets, "group", (("flights", 0, 5, -1, ""),)))
    assert "it cannot be sent" in str(error)
    assert isinstance(world.outcome_of(world.end()), TransactionError)
    assert world.outcome_of(world.end(False)) is None
    assert world.names().count(name) == (2 if name == "FindCoordinator" else 1)


def test_an_identity_that_cannot_be_asked_for_is_asked_for_once() -> None:
    world = Coordinated()
    world.codes = {"InitProducerId": ["unsendable"]}
    error = world.outcome_of(world.verb(InitializeTransactions))
    assert error is not None
    assert error.fatal
    assert world.names().count("InitProducerId") == 1


def test_a_prepared_transaction_is_left_open_by_closing() -> None:
    world = Coordinated()
    world.begin()
    assert isinstance(world.outcome_of(world.end(None)), TransactionMisuse)
    world.send("a")
    token = world.end(None)
    assert token not in world.answers
    world.ack()
    assert world.outcome_of(token) is None
    assert world.core.transaction_identity == ("flow", 4000, 1)
    world.close(within_ms=1000)
    assert world.closed
    assert "EndTxn" not in world.names()


def test_a_cluster_that_moves_to_version_2_gets_a_new_epoch_in_between() -> None:
    world = Coordinated(1)
    world.begin()
    world.send("a")
    world.run_until(lambda: world.produces)
    world.ack()
    world.version = 2
    world.core._connection.features["transaction.version"] = 2
    world._answer_to = lambda message, code, answer=world._answer_to: _without_epoch(answer(message, code))  # type: ignore[method-assign]
    assert world.outcome_of(world.end()) is None
    world.begin()
    assert world.names()[-2:] == ["EndTxn", "InitProducerId"]
    world.send("b")
    assert [t.version for t in world.asked if isinstance(t.message, ProduceRequest)] == [11, 12]
    assert headers(world)[-1] == (3, 0, True)


def _without_epoch(answer: Any) -> Any:
    """EndTxn 4 tells no epoch."""
    if isinstance(answer, EndTxnResponse):
        answer.producer_id = answer.producer_epoch = -1
    return answer


def test_of_many_errors_the_most_serious_counts() -> None:
    kind = RequestKind.ADD_PARTITIONS
    assert most_serious(kind, {("a", 0): 0, ("a", 1): 0}) is None
    assert most_serious(kind, {("a", 0): 3, ("a", 1): 55}) in ((3, Reaction.AGAIN), (55, Reaction.AGAIN))
    assert most_serious(kind, {("a", 0): 29, ("a", 1): 55}) == (29, Reaction.ABORT)
    assert most_serious(kind, {("a", 0): 29, ("a", 1): 90}) == (90, Reaction.FENCED)
    assert reaction_to(RequestKind.END, 48) is Reaction.GONE
