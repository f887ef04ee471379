"""Sends the first record to each of many topics, in its own process: prints the seconds until all have an outcome.

python -m benchmarks.topics_worker CLIENT BOOTSTRAP TOPICS

The seconds are printed as JSON. The client is connected before: it has sent a record to another topic.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

VALUE = b"v" * 100
WARM_UP_TOPIC = "first-of-all"
_TIMEOUT_S = 120


def topic_name(number: int) -> str:
    """The name of the n-th topic."""
    return f"first-{number:04}"


def ottla(bootstrap: str) -> tuple[Callable[[str], object], Callable[[], None]]:
    import ottla

    producer = ottla.Producer(bootstrap)
    return lambda topic: producer.send(topic, VALUE), lambda: producer.flush(_TIMEOUT_S)


def confluent(bootstrap: str) -> tuple[Callable[[str], object], Callable[[], None]]:
    from confluent_kafka import Producer

    # ottla's defaults, where its own differ.
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 0})
    failed: list[Any] = []

    def delivered(error: Any, _message: Any) -> None:
        if error is not None:
            failed.append(error)

    def flush() -> None:
        left = producer.flush(_TIMEOUT_S)
        assert not left, f"{left} records have no outcome"
        assert not failed, failed[0]

    return lambda topic: producer.produce(topic, VALUE, on_delivery=delivered), flush


CLIENTS = {"ottla": ottla, "confluent": confluent}


def main() -> None:
    client, bootstrap, topics = sys.argv[1], sys.argv[2], int(sys.argv[3])
    send, flush = CLIENTS[client](bootstrap)
    send(WARM_UP_TOPIC)
    flush()
    begin = time.perf_counter()
    for number in range(topics):
        send(topic_name(number))
    sent = time.perf_counter()
    flush()
    end = time.perf_counter()
    print(json.dumps({"send_s": sent - begin, "all_s": end - begin}))


if __name__ == "__main__":
    main()
