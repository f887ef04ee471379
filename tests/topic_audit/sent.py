"""Records sent with their numbers, and the ledger of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ottla
from ottla.ledger.schema import SEQUENCE_HEADER, pack_sequence


def send_numbered(
    cluster: ottla.Cluster | ottla.Proxy,
    topic: str,
    ledger: Path,
    records: int,
    *,
    partitions: int = 2,
    one_by_one: bool = False,
    **settings: Any,
) -> None:
    """Send records to the partitions in turns, all acknowledged, and write down what was learned of each.

    `one_by_one`: a request for each record.
    """
    settings = {"linger_ms": 0, "retry_backoff_ms": 5, **settings}
    deliveries = []
    with ottla.Producer(cluster.bootstrap_servers, **settings) as producer:
        for number in range(records):
            header = (SEQUENCE_HEADER, pack_sequence(number))
            delivery = producer.send(
                topic, f"value {number}", f"key-{number % 5}", headers=[header], partition=number % partitions
            )
            deliveries.append(delivery)
            if one_by_one:
                delivery.result(120)
    with ledger.open("w") as book:
        for number, delivery in enumerate(deliveries):
            told = delivery.result(0)
            row = {"sequence": number, "outcome": "acked", "partition": told.partition, "offset": told.offset}
            book.write(json.dumps({**row, "key": f"key-{number % 5}", "value": f"value {number}"}) + "\n")
