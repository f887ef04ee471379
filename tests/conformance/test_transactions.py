"""Transactions while brokers are killed under them: the coordinator, a leader; whole or not there, on both clusters."""

from __future__ import annotations

import pytest

import ottla
from ottla.connection.core import ANY_NODE
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest

from ..markers import await_markers
from .sides import Side

_TRANSACTIONS = 40
_KILLED_AT = 12
_STARTED_AT = 28


def coordinator(side: Side, transactional_id: str) -> int:
    with ottla.Admin(side.bootstrap_servers) as admin:
        answer = admin._ask(FindCoordinatorRequest(key=transactional_id, key_type=1), ANY_NODE)
    assert answer.error_code == 0
    return int(answer.node_id)


@pytest.mark.parametrize("victim", ["leader", "coordinator"])
def test_a_transaction_is_whole_or_not_there_when_a_broker_is_killed(side: Side, kafka_name: str, victim: str) -> None:
    side.create_topic(kafka_name, 3, 3, min_insync_replicas="2")
    kept = []
    with ottla.Producer(side.bootstrap_servers, transactional_id=kafka_name, linger_ms=0) as producer:
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
