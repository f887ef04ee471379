"""Transactions while brokers are killed under them: the coordinator, a leader; whole or not there, on both clusters."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.client.in_time import ahead

import ottla
from ottla.connection.request import ANY_NODE
from ottla.producer.transaction_states import TransactionIdentity
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest

from ..markers import await_markers
from ..papers import Papers
from .sides import Side
from .ways_in import settings_for

_TRANSACTIONS = 40
_KILLED_AT = 12
_STARTED_AT = 28
_PATIENCE_S = 60


def coordinator(side: Side, transactional_id: str) -> int:
    give_up_s = time.monotonic() + _PATIENCE_S
    with ottla.Admin(side.bootstrap_servers) as admin:
        while True:
            answer = admin._driver.ask(FindCoordinatorRequest(key=transactional_id, key_type=1), ANY_NODE).message
            if answer.error_code == 0:
                return int(answer.node_id)
            # A broker that does not know of the last election yet answers that there is no coordinator.
            assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert time.monotonic() < give_up_s


@pytest.mark.parametrize("way", [("PLAINTEXT", ""), ("SASL_SSL", "SCRAM-SHA-256")], ids="-".join)
@pytest.mark.parametrize("victim", ["leader", "coordinator"])
def test_a_transaction_is_whole_or_not_there_when_a_broker_is_killed(
    side: Side, papers: Papers, kafka_name: str, victim: str, way: tuple[str, str]
) -> None:
    side.create_topic(kafka_name, 3, 3, min_insync_replicas="2")
    kept = []
    settings = settings_for(papers, *way) | {"transactional_id": kafka_name, "linger_ms": 0}
    with ottla.Producer(side.bootstrap_servers_of(way[0]), **settings) as producer:
        producer.init_transactions()
        killed = side.leader(kafka_name, 0) if victim == "leader" else coordinator(side, kafka_name)
        for number in range(_TRANSACTIONS):
            producer.begin_transaction()
            for partition in range(3):
                producer.send(kafka_name, b"%d-%d" % (number, partition), partition=partition)
            if number == _KILLED_AT:
                side.kill(killed)
            elif number == _STARTED_AT:
                side.start(killed)
            if number % 4 == 3:
                producer.abort_transaction()
                continue
            producer.commit_transaction()
            kept.append(number)
    side.await_in_sync(kafka_name, 3)
    await_markers(side.bootstrap_servers, kafka_name)
    found = ottla.read_table(side.bootstrap_servers, kafka_name, isolation_level="read_committed")
    rows = sorted(
        zip(found["partition"].to_pylist(), found["offset"].to_pylist(), found["value"].to_pylist(), strict=True)
    )
    assert [(partition, value) for partition, _, value in rows] == [
        (partition, b"%d-%d" % (number, partition)) for partition in range(3) for number in kept
    ]


def send_in_time(producer: ottla.Producer, topic: str) -> None:
    """Send a record in a transaction of its own; again in a new one if that was held up past its timeout."""
    for left in reversed(range(5)):
        try:
            with producer.transaction():
                producer.send(topic, b"in time", partition=0)
            return
        except ottla.TransactionError as error:
            if not error.abortable or not left:
                raise


def test_a_transaction_that_lasts_longer_than_its_timeout_is_aborted_and_says_so(
    side: Side, topic: str, kafka_name: str
) -> None:
    settings: Any = {"transactional_id": kafka_name, "transaction_timeout_ms": 3000}
    with ottla.Producer(side.bootstrap_servers, **settings) as producer:
        producer.begin_transaction()
        producer.send(topic, b"too long", partition=0).result(_PATIENCE_S)
        give_up_s = time.monotonic() + _PATIENCE_S
        with ottla.Admin(side.bootstrap_servers) as admin:
            while (state := admin.describe_transactions([kafka_name])[kafka_name].state) != "CompleteAbort":
                assert time.monotonic() < give_up_s, state
        with pytest.raises(ottla.TransactionError, match=r"INVALID_TXN_STATE.*abort_transaction\(\)") as caught:
            producer.commit_transaction()
        assert caught.value.abortable
        producer.abort_transaction()
        send_in_time(producer, topic)
    await_markers(side.bootstrap_servers, topic)
    found = ottla.read_table(side.bootstrap_servers, topic, isolation_level="read_committed")
    assert found["value"].to_pylist() == [b"in time"]


def test_an_end_whose_answer_is_lost_is_asked_for_again_and_counts_once(
    side: Side, topic: str, kafka_name: str
) -> None:
    with ottla.Producer(side.noted_servers, transactional_id=kafka_name, retry_backoff_ms=10) as producer:
        for number in range(6):
            producer.begin_transaction()
            producer.send(topic, b"%d" % number, partition=0)
            with side.proxy.lose(every=1, times=1, api_key=EndTxnRequest.API_KEY) as losses:
                if number % 2:
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
            assert losses.fired == 1
    await_markers(side.bootstrap_servers, topic)
    found = ottla.read_table(side.bootstrap_servers, topic, isolation_level="read_committed")
    assert found["value"].to_pylist() == [b"0", b"2", b"4"]


def test_a_commit_that_nobody_answers_is_unfinished_and_goes_on(side: Side, topic: str, kafka_name: str) -> None:
    clock = ottla.Clock()
    with ottla.Producer(side.noted_servers, transactional_id=kafka_name, clock=clock) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"stored", partition=0).result(_PATIENCE_S)
        with side.proxy.hold(coordinator(side, kafka_name)) as await_held:
            with (
                ahead(clock, 60, await_held),
                pytest.raises(ottla.TransactionUnfinished, match="commit_transaction") as caught,
            ):
                producer.commit_transaction()
            assert caught.value.retriable
            # The end was asked for: it cannot be turned into the other one.
            with pytest.raises(ottla.TransactionMisuse, match=r"now: commit_transaction\(\) has no answer yet"):
                producer.abort_transaction()
        producer.commit_transaction()
        with producer.transaction():
            producer.send(topic, b"next", partition=0)
    await_markers(side.bootstrap_servers, topic)
    found = ottla.read_table(side.bootstrap_servers, topic, isolation_level="read_committed")
    assert found["value"].to_pylist() == [b"stored", b"next"]


def test_an_identity_is_confirmed_once_no_newer_one_was_given(side: Side, kafka_name: str) -> None:
    """The tickets of the sink: EndTxn without a transaction gives the newest identity an epoch, and no other."""
    with ottla.Admin(side.bootstrap_servers) as admin:
        first, second = (admin.fence_producers([kafka_name])[kafka_name] for _ in range(2))

        def is_newest(identity: TransactionIdentity) -> bool:
            error = ottla.end_transactions([identity], False, side.bootstrap_servers)[identity]
            assert error is None or isinstance(error, ottla.ProducerFenced)
            return error is None

        assert not is_newest(first)
        assert is_newest(second)
        assert admin.describe_transactions([kafka_name])[kafka_name].producer_epoch == second.producer_epoch + 1
        third = admin.fence_producers([kafka_name])[kafka_name]
        assert not is_newest(second)
        assert is_newest(third)
