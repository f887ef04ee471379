"""One client, measured in a process of its own: `python -m ottla.bench.worker` with an `Order` as JSON on stdin.

warm up -> send as fast as it goes, flush -> send at a pace, flush -> a `Measured` as JSON on stdout
"""

from __future__ import annotations

import json
import sys
import time
from random import Random

from ottla.bench.clients import CLIENTS, Client, Records, library_version
from ottla.bench.order import ACKS_PER_S, LINGER_MS, RECORDS_MAX, Measured, Order

_DISTINCT = 5_000
_STRETCH = 500
_WARM_UP = 1_000


def measure(order: Order) -> Measured:
    """Send as ordered; at first some records that do not count, for connections and first requests."""
    records = _made(order.record_bytes)
    kind = CLIENTS[order.client]
    client: Client = kind(order.bootstrap_servers, order.topic, LINGER_MS, order.settings)
    piece = len(records) if not kind.tells_each else _STRETCH
    client.send_all(records[: _WARM_UP if kind.tells_each else piece])
    client.flush()
    warm = client.acked
    began = time.perf_counter()
    until = began + order.seconds
    at = 0
    while time.perf_counter() < until and at < RECORDS_MAX:
        begin = at % len(records)
        client.send_all(records[begin : begin + piece])
        at += piece
    client.flush()
    took_s = time.perf_counter() - began
    acked, fast = client.acked, client.acked - warm
    client.close()
    latencies: list[float] = []
    if kind.tells_each:
        paced: Client = kind(order.bootstrap_servers, order.topic, 0, order.settings)
        latencies = _paced(paced, records, order.seconds)
        acked += paced.acked
        paced.close()
    return Measured(
        library_version(order.client),
        acked,
        fast,
        took_s,
        _percentile(latencies, 50),
        _percentile(latencies, 99),
    )


def _paced(client: Client, records: Records, seconds: float) -> list[float]:
    """Milliseconds from each send to its acknowledgement; the first ones, which connect, are left out."""
    latencies: list[float] = []
    client.send_all(records[:1])
    client.flush()
    count = max(1, int(ACKS_PER_S * seconds))
    began = time.perf_counter()
    for number in range(count):
        ahead_s = began + number / ACKS_PER_S - time.perf_counter()
        if ahead_s > 0:
            client.wait(ahead_s)
        key, value = records[number % len(records)]
        sent = time.perf_counter()
        client.send_one(key, value, lambda sent=sent: latencies.append((time.perf_counter() - sent) * 1000))  # type: ignore[misc]
    client.flush()
    return latencies


def _percentile(values: list[float], percent: int) -> float | None:
    if not values:
        return None
    return round(sorted(values)[min(len(values) - 1, len(values) * percent // 100)], 3)


def _made(record_bytes: int) -> Records:
    """Keys of 8 bytes, and values that do not compress."""
    rng = Random(1)
    return [(b"%08d" % number, rng.randbytes(record_bytes)) for number in range(_DISTINCT)]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(Order(*json.load(sys.stdin)))))
