"""AsyncProducer against aiokafka, on the same embedded cluster, in turn: every acknowledgement is awaited.

A record is an 8-byte key and a 92-byte value. Both are asked for the same: acks=all, idempotent, batches of 16 KiB
that linger 5 ms. `at once`: fifty thousand records are sent, then their acknowledgements awaited one after the other,
by one coroutine. `tasks`: a hundred coroutines, each of which sends five hundred records and awaits theirs.

    python -m benchmarks.bench_async CLIENT PATTERN BOOTSTRAP TOPIC RECORDS    one client, in a process of its own
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

CLIENTS = ("aiokafka", "ottla")
PATTERNS = ("at once", "tasks")
PARTITIONS = 6
ROUND = 50_000
TASKS = 100
RECORDS = [(b"%092d" % i, b"%08d" % (i * 7919 % 100_000_000)) for i in range(ROUND)]
# aiokafka needs ten times as long; a fraction of the records tells as much.
SHARE_OF_AIOKAFKA = 10

Send = Callable[..., Awaitable[Awaitable[Any]]]


async def at_once(send: Send, topic: str) -> None:
    """Send a round of records, then await each acknowledgement."""
    deliveries = [await send(topic, value, key) for value, key in RECORDS]
    for delivery in deliveries:
        await delivery


async def in_tasks(send: Send, topic: str) -> None:
    """The same, by a hundred coroutines at a time."""

    async def some(first: int) -> None:
        deliveries = [await send(topic, value, key) for value, key in RECORDS[first : first + ROUND // TASKS]]
        for delivery in deliveries:
            await delivery

    await asyncio.gather(*[some(first) for first in range(0, ROUND, ROUND // TASKS)])


async def timed(send: Send, pattern: str, topic: str, records: int) -> dict[str, float]:
    """What `records` took, from the first send to the last acknowledgement; connecting is outside."""
    work = at_once if pattern == "at once" else in_tasks
    await (await send(topic, b"warm", b"up"))
    before, begun = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    for _ in range(records // ROUND):
        await work(send, topic)
    wall_s, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return {"records_per_s": records / wall_s, "cpu_us_per_record": cpu_s / records * 1e6}


async def work(client: str, pattern: str, bootstrap: str, topic: str, records: int) -> dict[str, float]:
    """One client's figures."""
    if client == "ottla":
        import ottla

        async with ottla.AsyncProducer(bootstrap, batch_size=16_384, linger_ms=5) as producer:
            return await timed(producer.send, pattern, topic, records)
    from aiokafka import AIOKafkaProducer

    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, max_batch_size=16_384, linger_ms=5
    ) as peer:
        return await timed(peer.send, pattern, topic, records)


def measure(client: str, pattern: str, bootstrap: str, topic: str, records: int) -> dict[str, float]:
    """One client in a fresh process."""
    records = max(ROUND, records // (SHARE_OF_AIOKAFKA if client == "aiokafka" else 1) // ROUND * ROUND)
    command = [sys.executable, "-m", "benchmarks.bench_async", client, pattern, bootstrap, topic, str(records)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise SystemExit(f"{client} failed:\n{done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Medians over the rounds, and the ratios round by round."""
    import ottla

    results: dict[str, Any] = {"records": arguments.records, "rounds": arguments.repeat}
    table = Table(title=f"asyncio, 100-byte records, every acknowledgement awaited, median of {arguments.repeat}")
    for heading in ("pattern", "client", "records/s", "CPU us/record", "x aiokafka", "CPU of aiokafka"):
        table.add_column(heading, justify="left" if heading in ("pattern", "client") else "right")
    with ottla.Cluster(brokers=1) as cluster:
        cluster.create_topic("bench", partitions=PARTITIONS)
        for pattern in PATTERNS:
            rounds = [
                {
                    client: measure(client, pattern, cluster.bootstrap_servers, "bench", arguments.records)
                    for client in CLIENTS
                }
                for _ in range(arguments.repeat)
            ]
            results[pattern] = summary = {client: summed_up(rounds, client) for client in CLIENTS}
            for client, row in summary.items():
                table.add_row(
                    pattern,
                    client,
                    f"{row['records_per_s']:,}",
                    f"{row['cpu_us_per_record']:.2f}",
                    f"{row['records_per_s_of_aiokafka']:.1f}x",
                    f"1/{1 / row['cpu_us_per_record_of_aiokafka']:.1f}",
                )
    Console(width=120).print(table)
    return results


def summed_up(rounds: list[dict[str, dict[str, float]]], client: str) -> dict[str, float]:
    """One client's medians, and the medians of its ratios to aiokafka within each round."""
    return {
        "records_per_s": round(median(one[client]["records_per_s"] for one in rounds)),
        "cpu_us_per_record": round(median(one[client]["cpu_us_per_record"] for one in rounds), 3),
    } | {
        f"{figure}_of_aiokafka": round(median(one[client][figure] / one["aiokafka"][figure] for one in rounds), 3)
        for figure in ("records_per_s", "cpu_us_per_record")
    }


if __name__ == "__main__":
    given = sys.argv[1:]
    print(json.dumps(asyncio.run(work(given[0], given[1], given[2], given[3], int(given[4])))))
