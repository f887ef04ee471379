"""The embedded cluster against Apache Kafka on the same cores, and what it must hold: start, memory, speed, limits.

`make bench ARGS="cluster"` runs all parts, `--only start,produce` some of them. Where there is a peer the two take
turns, and a ratio is the median of the ratios within each round; both have their logs in memory, touched beforehand,
for the reasons given in bench_producer. The peer is Apache Kafka 4.3 of one node or of three, each controller and
broker in one, left running (idle) while the embedded cluster has its turn, and the other way round.

Every figure that has a target stands beside it: `must` says the target, `ok` whether it was reached.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from benchmarks import cluster_limits, cluster_replication, cluster_speed
from benchmarks.parts import chosen, run_parts

PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "start": cluster_limits.start,
    "memory": cluster_limits.idle_memory,
    "produce": cluster_speed.produce,
    "fetch": cluster_speed.fetch,
    "topics": cluster_limits.many_topics,
    "connections": cluster_limits.idle_connections,
    "retention": cluster_limits.retention,
    "replication": cluster_replication.replication,
}


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """The parts asked for; those left out keep the figures they had."""
    return run_parts(PARTS, chosen("cluster", PARTS, arguments.only), arguments)
