"""How many bad days a minute: `ottla simulate` with two processes, and what each seed is made of.

The seeds are pinned, so that two rounds measure the same work; every 20th goes through real bytes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from statistics import median
from typing import Any

SEEDS = 300
JOBS = 2
# On two cores.
MUST = {"seeds_per_minute": 1_000, "times_real_time": 500, "messages_per_seed": 1_000}


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Medians over the rounds; `must` says the target, `ok` whether it was reached."""
    command = [sys.executable, "-m", "ottla", "simulate", "--seeds", str(SEEDS), "--first-seed", "0"]
    rounds = []
    for _ in range(arguments.repeat):
        done = subprocess.run(
            [*command, "--jobs", str(JOBS), "--no-shrink", "--json"],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            timeout=1800,
        )
        rounds.append(json.loads(done.stdout))
    seconds = median(found["seconds"] for found in rounds)
    found = rounds[0]
    figures = {
        "seeds_per_minute": round(SEEDS / seconds * 60),
        "times_real_time": round(found["simulated_hours"] * 3600 / seconds),
        "messages_per_seed": round(found["messages"] / SEEDS),
    }
    results: dict[str, Any] = {}
    for name, figure in figures.items():
        results[name] = {"figure": figure, "must": MUST[name], "ok": figure >= MUST[name]}
        print(f"{name:40} {figure:8,}   must {MUST[name]:,}: {'ok' if results[name]['ok'] else 'NOT REACHED'}")
    return {**results, "records_per_seed": round(found["records"] / SEEDS), "failed": len(found["failed"])}
