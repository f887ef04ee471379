"""Storms over real sockets and threads: whatever is lost, delayed or refused, each record is there once and in order.

The simulated world runs thousands of these (`tests/simulation/test_storms.py`); a few here hold its drivers against
the real ones. OTTLA_SOAK=1 runs 40.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.drawn import commit_seeds

import ottla
from ottla.client.producer import Producer
from ottla.client.reader import Reader
from ottla.errors import DeliveryFailed, DeliveryUnknown
from ottla.records.plain import decode_batches

pytestmark = pytest.mark.prove

RECORDS = 900
RECORDS_MAX = 20 * RECORDS


@pytest.mark.parametrize("seed", commit_seeds(3, soak=40))
def test_each_record_is_there_once_and_in_order_and_nobody_is_told_otherwise(seed: int) -> None:
    rng = Random(seed)
    with ottla.Cluster(brokers=3) as cluster:
        cluster.create_topic("storm", partitions=3)
        # Of two faults that meet one request the first fires: no period is a multiple of another one.
        periods = rng.sample((3, 5, 7, 11, 13), 5)
        faults = [
            cluster.faults.lose_ack(topic="storm", every=periods[0]),
            cluster.faults.lose_request(topic="storm", every=periods[1]),
            cluster.faults.refuse(topic="storm", every=periods[2], error=rng.choice((6, 19, 87))),
            cluster.faults.refuse_after_append(topic="storm", every=periods[3], error=rng.choice((6, 7, 20))),
            cluster.faults.delay_ack(topic="storm", every=periods[4], times=2, delay_ms=600),
        ]
        with Producer(
            cluster.bootstrap_servers,
            batch_size=rng.choice((200, 500)),
            linger_ms=rng.choice((0, 5)),
            request_timeout_ms=400,
            delivery_timeout_ms=10_000,
            retry_backoff_ms=rng.choice((1, 20)),
            max_in_flight_requests_per_connection=rng.randint(1, 5),
            compression_type=rng.choice(("none", "lz4", "zstd")),
        ) as producer:
            sent = [producer.send("storm", b"%06d" % n, b"key %d" % (n % 30)) for n in range(RECORDS)]
            # Which requests a fault meets depends on how records fall into batches: on until each has fired.
            errors = [delivery.exception(30) for delivery in sent]
            while len(sent) < RECORDS_MAX and not all(fault.fired for fault in faults):
                sent += [producer.send("storm", b"%06d" % n, b"key %d" % (n % 30)) for n in more(sent)]
                errors += [delivery.exception(30) for delivery in sent[len(errors) :]]
        assert [fault for fault in faults if not fault.fired] == []
        assert errors.count(None) > len(sent) // 4
        for fault in faults:
            fault.heal()
        stored = read_all(cluster)
    for partition in range(3):
        mine = [n for n, delivery in enumerate(sent) if delivery.partition == partition]
        there = stored[partition]
        assert there == sorted(set(there)), "duplicated or out of order"
        for n in mine:
            if errors[n] is None:
                assert there[sent[n].result(0).offset] == n
            elif isinstance(errors[n], DeliveryFailed):
                assert n not in there
            else:
                assert isinstance(errors[n], DeliveryUnknown)
        assert set(there) <= set(mine)


def more(sent: list[ottla.Delivery]) -> range:
    return range(len(sent), len(sent) + 90)


def read_all(cluster: Any) -> dict[int, list[int]]:
    stored: dict[int, list[int]] = {0: [], 1: [], 2: []}
    with Reader(cluster.bootstrap_servers, "storm", end="latest") as reader:
        for fetched in reader.iter_raw():
            for _, records in decode_batches(fetched.records):
                stored[fetched.partition] += [int(record.value or b"") for record in records]
    return stored
