"""Transactions where the coordinator cannot give a producer its next epoch: brokers before 2.5 (KIP-360)."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.errors import KafkaError, TransactionError
from ottla.producer.events import BatchAcked, CommitOffsets
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest

from .test_transactions import VERSIONS, Coordinated, headers

OFFSETS = (("flights", 0, 5, -1, ""),)


@pytest.fixture
def world() -> Coordinated:
    world = Coordinated(1)
    world.spoken = {**VERSIONS, 22: (0, 2)}
    world.begin()
    return world


def sent(world: Coordinated, *values: str, partition: int = 0) -> list[Any]:
    batches = [world.send(value, partition=partition) for value in values]
    world.run_until(lambda: world.produces)
    return batches


def only_asked_for_an_identity_once(world: Coordinated) -> bool:
    asked = [t.message.producer_id for t in world.asked if isinstance(t.message, InitProducerIdRequest)]
    return asked == [-1]


def test_what_is_certainly_not_stored_leaves_its_numbers_to_what_comes_after_the_abort(world: Coordinated) -> None:
    sent(world, "a", "b")
    world.ack()
    world.run_until(lambda: world.produces)
    world.answer(ErrorCode.INVALID_RECORD)
    assert isinstance(world.refusal, TransactionError)
    assert world.outcome_of(world.end(False)) is None
    world.begin()
    (batch,) = sent(world, "c")
    world.ack()
    assert isinstance(world.outcome(batch), BatchAcked)
    assert world.outcome_of(world.end()) is None
    assert headers(world) == [(1, 0, True), (1, 1, True), (1, 1, True)]
    assert world.stored() == ["a", "c"]
    assert only_asked_for_an_identity_once(world)


def test_each_partition_goes_on_by_itself(world: Coordinated) -> None:
    for partition in (0, 1):
        sent(world, f"a{partition}", partition=partition)
    while world.produces:
        world.answer(ErrorCode.INVALID_RECORD) if len(world.produces) == 1 else world.ack()
    assert world.outcome_of(world.end(False)) is None
    world.begin()
    batches = [sent(world, f"b{partition}", partition=partition)[0] for partition in (0, 1)]
    world.settle()
    assert all(isinstance(world.outcome(batch), BatchAcked) for batch in batches)


def test_a_leader_that_has_forgotten_the_producer_gets_the_number_0(world: Coordinated) -> None:
    sent(world, "a")
    world.ack()
    sent(world, "b")
    world.answer(ErrorCode.UNKNOWN_PRODUCER_ID)
    assert world.outcome_of(world.end(False)) is None
    world.log().producers.clear()
    world.begin()
    (batch,) = sent(world, "c")
    assert headers(world)[-1] == (1, 0, True)
    world.ack()
    assert isinstance(world.outcome(batch), BatchAcked)


def test_what_may_be_stored_ends_the_producer_once_the_transaction_is_aborted(world: Coordinated) -> None:
    sent(world, "a")
    world.lose_ack()
    world.down.add(1)
    world.pass_ms(130_000)
    world.down.clear()
    error = world.outcome_of(world.end(False))
    assert world.last(EndTxnRequest).committed is False
    assert isinstance(error, KafkaError)
    assert error.fatal
    assert error.name == "UNSUPPORTED_VERSION"
    assert "records that may be stored" in str(error)
    assert "make a new producer" in str(error)
    assert only_asked_for_an_identity_once(world)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING])
def test_a_coordinator_that_has_forgotten_the_producer_ends_it(world: Coordinated, code: int) -> None:
    world.codes["AddOffsetsToTxn"] = [code]
    token = world.verb(CommitOffsets, "group", OFFSETS)
    error = world.outcome_of(token)
    assert isinstance(error, KafkaError)
    assert error.code == code
    assert world.refusal is error
    assert only_asked_for_an_identity_once(world)


def test_an_unanswered_request_does_not_ask_for_an_epoch(world: Coordinated) -> None:
    sent(world, "a")
    world.ack()
    world.codes["EndTxn"] = ["lost"]
    assert world.outcome_of(world.end()) is None
    world.begin()
    (batch,) = sent(world, "b")
    world.ack()
    assert isinstance(world.outcome(batch), BatchAcked)
    assert only_asked_for_an_identity_once(world)


def test_a_coordinator_that_moves_to_an_old_broker_is_not_asked_what_it_cannot_read() -> None:
    world = Coordinated(1)
    world.begin()
    sent(world, "a")
    world.spoken = {**VERSIONS, 22: (0, 2)}
    world.answer(ErrorCode.INVALID_RECORD)
    world.codes["EndTxn"] = ["lost"]  # and with the new connection comes an old broker
    assert world.outcome_of(world.end(False)) is None
    assert only_asked_for_an_identity_once(world)
    world.begin()
    (batch,) = sent(world, "b")
    world.ack()
    assert isinstance(world.outcome(batch), BatchAcked)
