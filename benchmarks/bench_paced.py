"""Paced senders: the time from `send` to the acknowledgement, at rates below and above a broker's capacity.

`make bench ARGS="paced"` runs all cells (paced_cells.py says what they are), `--only r1000-s20` those whose name begins
so; `--clients ottla,java` and `--seconds 2` narrow it further. In each cell the clients take turns, each in a process
of its own, with the same settings: acks=all, idempotence, five requests in flight, no compression, the cell's linger,
batch.size, max.request.size and buffer.memory. The brokers are those of paced_brokers.py. Another part, `topics`, is
the first `send` to each of many topics (first_sends.py).

The targets of a cell below the capacity: ottla's p99 is at most 1.2 times the better peer's, or 2 ms more. Its last
quarter's p99 is at most 1.5 times the first quarter's, plus one answer's time and 2 ms for chance. It sends no more
Produce requests per record than Java's client. Every record is stored once. Above the capacity: memory grows by at most
`buffer.memory` and 64 MiB, at least 0.95 times as many records a second are stored as by Java's client, and every
record has an outcome.
"""

from __future__ import annotations

import argparse
from itertools import groupby
from typing import Any

from benchmarks.first_sends import first_sends
from benchmarks.paced_brokers import Place, late_broker, slow_followers
from benchmarks.paced_cells import APACHE, APACHE_CELLS, BELOW_CELLS, BEYOND_CELLS, FAR_CELLS, Cell
from benchmarks.paced_run import Figures, measure, task
from benchmarks.paced_targets import targets
from benchmarks.parts import chosen_clients

CLIENTS = ("ottla", "confluent", "java")
# Apache Kafka first: if it does not start, no other measurement is lost.
CELLS = {cell.name: cell for cell in (*APACHE_CELLS, *BELOW_CELLS, *BEYOND_CELLS, *FAR_CELLS)}
TOPICS = "topics"
_COLUMNS = {
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "max_ms": "max ms",
    "first_quarter_p99_ms": "first p99",
    "last_quarter_p99_ms": "last p99",
    "requests": "requests",
    "sent": "sent",
    "stored": "stored",
    "records_per_s": "sent/s",
    "stored_per_s": "stored/s",
    "behind_ms": "behind ms",
    "grown_mib": "grown MiB",
}
_WIDTH = 11


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure the cells that were asked for; the others keep the figures they had."""
    names, clients = wanted(arguments.only), chosen_clients("paced", CLIENTS, arguments.clients)
    results: dict[str, Any] = {}

    def one(cell: Cell, place: Place) -> None:
        # The order is reversed for the next cell, so that no client is always first.
        first = len(results) % len(clients)
        found = measured(cell, place, clients[first:] + clients[:first], arguments.seconds, cell.name)
        results[cell.name] = {"seconds": arguments.seconds, **judged(cell, found)}

    cells = [CELLS[name] for name in names if name in CELLS]
    for is_apache, group in groupby(cells, lambda cell: cell.kind == APACHE):
        if is_apache:
            with slow_followers() as place:
                # A Java broker compiles what it does often; that is not counted.
                measured(APACHE_CELLS[0], place, ["confluent"], 1, "uncounted")
                for cell in group:
                    one(cell, place)
        else:
            for cell in group:
                with late_broker(cell) as place:
                    one(cell, place)
    if TOPICS in names:
        print(f"\n-- {TOPICS}")
        results[TOPICS] = first_sends(arguments)
    return results


def wanted(only: str | None) -> list[str]:
    """The parts whose names begin as asked, in their order."""
    parts = [*CELLS, TOPICS]
    asked = only.split(",") if only else [""]
    unknown = [each for each in asked if not any(name.startswith(each) for name in parts)]
    if unknown:
        raise SystemExit(f"paced has no part {unknown[0]!r}; there are {', '.join(parts)}")
    return [name for name in parts if any(name.startswith(each) for each in asked)]


def measured(cell: Cell, place: Place, clients: list[str], seconds: float, topic: str) -> dict[str, Figures]:
    """The figures of each client, one after the other, each with a topic of its own."""
    found: dict[str, Figures] = {}
    for client in clients:
        what = task(cell, place.bootstrap, f"{topic}-{client}", seconds)
        place.create(what["topic"], cell.partitions)
        found[client] = measure(client, what, place)
    return found


def judged(cell: Cell, found: dict[str, Figures]) -> dict[str, Any]:
    """The figures of the clients, and the targets of the cell; both are shown."""
    print(f"\n-- {cell.name}: {cell.share:.0%} of {cell.capacity:,.0f} records/s, batch.size {cell.batch_size:,}")
    print(f"{'':{_WIDTH}}" + "".join(f"{head:>{_WIDTH}}" for head in _COLUMNS.values()))
    for client in (each for each in CLIENTS if each in found):
        figures = found[client]
        print(f"{client:{_WIDTH}}" + "".join(f"{figures[name]:>{_WIDTH},}" for name in _COLUMNS))
    held = targets(cell, found)
    for name, target in held.items():
        told = "  ".join(f"{key}={value:,}" for key, value in target.items() if key != "ok")
        print(f"{'met' if target['ok'] else 'MISSED':{_WIDTH}} {name}: {told}", flush=True)
    settings = {"batch_size": cell.batch_size, "max_request_size": cell.max_request_size}
    return {"share_of_capacity": round(cell.share, 3), **settings, "clients": found, "targets": held}
