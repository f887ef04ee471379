"""The embedded cluster against Apache Kafka on the same cores, and what it must hold: start, memory, speed, limits.

`make bench ARGS="cluster"` runs all parts, `--only start,produce` some of them. Where there is a peer the two take
turns, and a ratio is the median of the ratios within each round; both have their logs in memory, touched beforehand,
for the reasons given in bench_producer. The peer is Apache Kafka 4.3 of one node or of three, each controller and
broker in one, left running (idle) while the embedded cluster has its turn, and the other way round.

Every figure with a bar to reach stands beside it: `must` says the bar, `ok` whether it was reached.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from benchmarks import cluster_limits, cluster_speed

PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "start": cluster_limits.start,
    "memory": cluster_limits.idle_memory,
    "produce": cluster_speed.produce,
    "fetch": cluster_speed.fetch,
    "topics": cluster_limits.many_topics,
    "connections": cluster_limits.idle_connections,
    "retention": cluster_limits.retention,
}


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """The parts asked for; those left out keep the figures they had."""
    wanted = arguments.only.split(",") if arguments.only else list(PARTS)
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        raise SystemExit(f"cluster has no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    results: dict[str, Any] = {}
    for name in wanted:
        print(f"\n-- {name}")
        results[name] = PARTS[name](arguments)
        for figure, value in results[name].items():
            print(f"{figure:58} {_text(value)}")
    return results


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "  ".join(f"{name}={_text(each)}" for name, each in value.items())
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
