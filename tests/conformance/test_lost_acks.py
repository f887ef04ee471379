"""Acknowledgements that are lost: one copy in order with idempotence, nothing missing without."""

from __future__ import annotations

from typing import Any

import pytest

import ottla
from ottla.errors import DeliveryUnknown

from .sides import Side

_RECORDS = 3000


def send_all(side: Side, topic: str, **settings: Any) -> tuple[list[Any], int]:
    """Numbered records to three partitions in small batches; their deliveries, and how many answers were lost."""
    with (
        ottla.Producer(side.lossy_servers, batch_size=400, linger_ms=1, retry_backoff_ms=10, **settings) as producer,
        side.losing_acks(topic, every=7, times=5) as losses,
    ):
        sent = [producer.send(topic, b"%d" % number, partition=number % 3) for number in range(_RECORDS)]
        # Who has looked at every delivery hears nothing of it from `flush` again.
        for delivery in sent:
            delivery.exception(60)
        producer.flush()
        return sent, losses.fired


@pytest.mark.parametrize("in_flight", [1, 5])
def test_idempotent_retries_after_lost_acks_store_one_copy_in_order(
    side: Side, topic: str, in_flight: int, reading: Any
) -> None:
    sent, lost = send_all(side, topic, max_in_flight_requests_per_connection=in_flight)
    assert lost > 0
    stored = reading.records(side, topic)
    assert [one.value for one in stored] == [b"%d" % n for part in range(3) for n in range(part, _RECORDS, 3)]
    told = {(place.partition, place.offset): b"%d" % n for n, place in enumerate(one.result(0) for one in sent)}
    assert {(one.partition, one.offset): one.value for one in stored} == told


def test_without_idempotence_lost_acks_duplicate_and_nothing_is_missing_or_out_of_order(
    side: Side, topic: str, reading: Any
) -> None:
    sent, lost = send_all(side, topic, enable_idempotence=False, max_in_flight_requests_per_connection=1)
    assert lost > 0
    assert all(delivery.exception(0) is None for delivery in sent)
    values = reading.values(side, topic)
    assert sum(map(len, values.values())) > _RECORDS
    for partition, found in values.items():
        first_seen = list(dict.fromkeys(found))
        assert first_seen == [b"%d" % number for number in range(partition, _RECORDS, 3)]


def test_without_retries_a_lost_ack_is_unknown_and_nothing_is_there_twice(side: Side, topic: str, reading: Any) -> None:
    sent, lost = send_all(side, topic, enable_idempotence=False, retries=0, max_in_flight_requests_per_connection=1)
    assert lost > 0
    acked = {b"%d" % number for number, delivery in enumerate(sent) if delivery.exception(0) is None}
    unknown = {b"%d" % n for n, each in enumerate(sent) if isinstance(each.exception(0), DeliveryUnknown)}
    assert unknown
    stored = [value for values in reading.values(side, topic).values() for value in values]
    assert len(set(stored)) == len(stored)
    assert acked <= set(stored)
    # Nothing failed: the only faults were answers that were lost.
    assert len(acked) + len(unknown) == _RECORDS
