"""One producer of the proxy's benchmark, in a process of its own: prints its figure as JSON.

`python -m benchmarks.proxy_worker latency|throughput BOOTSTRAP TOPIC COUNT`: microseconds at the median of COUNT
records that are sent one by one, each acknowledged before the next; or megabytes per second of COUNT batches of 1 MB.
"""

from __future__ import annotations

import json
import sys
import time
from statistics import median

import ottla

BATCH_BYTES = 1_000_000
_VALUE_BYTES = 100_000
_WARM_UP = 200


def latency(bootstrap: str, topic: str, count: int) -> float:
    """Microseconds from `send` to the acknowledgement, at the median."""
    took: list[int] = []
    with ottla.Producer(bootstrap, linger_ms=0, acks="all") as producer:
        for _ in range(_WARM_UP + count):
            begin = time.perf_counter_ns()
            producer.send(topic, b"v" * 100, partition=0).result(30)
            took.append(time.perf_counter_ns() - begin)
    return median(took[_WARM_UP:]) / 1000


def throughput(bootstrap: str, topic: str, count: int) -> float:
    """Megabytes of values per second, all acknowledged at the end."""
    value = b"v" * _VALUE_BYTES
    records = count * BATCH_BYTES // _VALUE_BYTES
    settings = {"batch_size": BATCH_BYTES + 20_000, "linger_ms": 50, "max_request_size": 2 * BATCH_BYTES}
    with ottla.Producer(bootstrap, acks="all", **settings) as producer:
        producer.send(topic, value, partition=0).result(30)
        begin = time.perf_counter()
        for _ in range(records):
            producer.send(topic, value, partition=0)
        producer.flush(300)
        took_s = time.perf_counter() - begin
    return records * _VALUE_BYTES / took_s / 1e6


if __name__ == "__main__":
    measure = {"latency": latency, "throughput": throughput}[sys.argv[1]]
    print(json.dumps(measure(sys.argv[2], sys.argv[3], int(sys.argv[4]))))
