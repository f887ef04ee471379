"""One record at a time, clients in turn: p50 and p99 from `send` to the outcome, median of five rounds at least.

Once in a program that does nothing else, once beside a thread that computes in Python all the while.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from statistics import median
from typing import Any

from benchmarks.parts import interval_of_median
from benchmarks.producer_speed import PEER, broker, with_peer
from benchmarks.wire import create_topics

CLIENTS = (PEER, "send", "async", "aiokafka", "kafka-python")
OURS = ("send", "async")
ROUNDS_MIN = 5
RECORDS = {"quiet": 3000, "busy": 300}
MUST = {"p50_ms": 2.0, "p99_ms": 1.5}
_TIMEOUT_S = 120
_WARM_UPS = 3


def measure(client: str, bootstrap: str, mode: str) -> dict[str, float]:
    """One client process; its quantiles."""
    busy = ["busy"] if mode == "busy" else []
    command = [sys.executable, "-m", "benchmarks.latency_worker", client, bootstrap, "latency", str(RECORDS[mode])]
    done = subprocess.run([*command, *busy], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode:
        raise SystemExit(f"{client} failed:\n{done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def latency(arguments: argparse.Namespace, side: str) -> dict[str, Any]:
    """Both programs against one broker; `send` and `async` beside their targets."""
    rounds_count = max(ROUNDS_MIN, arguments.repeat)
    results: dict[str, Any] = {"rounds": rounds_count}
    clients = with_peer(CLIENTS, arguments)
    with broker(side) as bootstrap:
        create_topics(bootstrap, ["latency"], 1, 1)
        # The first 20,000 requests of a broker in Java are slower: it compiles its code meanwhile.
        for _ in range(_WARM_UPS):
            for client in clients:
                measure(client, bootstrap, "quiet")
        for mode in RECORDS:
            rounds = [{client: measure(client, bootstrap, mode) for client in clients} for _ in range(rounds_count)]
            for client in clients:
                for figure, must in MUST.items():
                    ratios = [one[client][figure] / one[PEER][figure] for one in rounds]
                    found = median(ratios)
                    row: dict[str, Any] = {
                        "ms": round(median(one[client][figure] for one in rounds), 3),
                        "of_confluent": round(found, 2),
                        **interval_of_median(ratios, digits=2),
                    }
                    if client in OURS:
                        row |= {"must_be_below": must, "ok": found <= must}
                    results[f"{mode}, {client}, {figure[:3]}"] = row
    return results
