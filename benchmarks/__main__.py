"""`make bench`: run every benchmark, or those named, and keep the figures in benchmarks/results.json.

make bench                              everything
make bench ARGS="producer --repeat 5"   one of them
make bench ARGS="cluster --only start,produce"   parts of one

Exit status 1 says that a target was missed; which ones stands in the last lines, when all is measured and kept.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks import (
    bench_acks,
    bench_async,
    bench_audit,
    bench_avro,
    bench_cluster,
    bench_console,
    bench_paced,
    bench_producer,
    bench_protobuf,
    bench_proxy,
    bench_registry,
    bench_run,
    bench_simulate,
    bench_spark,
    bench_start,
    sink_scale,
)
from benchmarks.parts import missed_targets

BENCHMARKS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "start": bench_start.run,
    "cluster": bench_cluster.run,
    "console": bench_console.run,
    "producer": bench_producer.run,
    "paced": bench_paced.run,
    "async": bench_async.run,
    "acks": bench_acks.run,
    "protobuf": bench_protobuf.run,
    "proxy": bench_proxy.run,
    "registry": bench_registry.run,
    "run": bench_run.run,
    "audit": bench_audit.run,
    "avro": bench_avro.run,
    "spark": bench_spark.run,
    "simulate": bench_simulate.run,
    "sink": sink_scale.run,
}
RESULTS = Path(__file__).with_name("results.json")


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """`new`, and what only `old` has, in every dict of dicts."""
    both = {
        name: merged(old[name], value) if isinstance(value, dict) and isinstance(old.get(name), dict) else value
        for name, value in new.items()
    }
    return {**old, **both}


def main() -> int:
    """Measure what was asked for; the exit status."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[[], *BENCHMARKS], help="which (default: all)")
    parser.add_argument("--repeat", type=int, default=3, help="rounds; medians are printed (default 3)")
    parser.add_argument("--records", type=int, default=3_000_000, help="records per run (default 3,000,000)")
    parser.add_argument(
        "--sizes", default="0.1,1,10", help="of `audit`, in millions of records, separated by commas (default 0.1,1,10)"
    )
    parser.add_argument(
        "--only",
        help="parts of `audit`, `avro`, `cluster`, `console`, `producer`, `paced`, `protobuf`, `proxy`, `registry`, "
        "`run`, `sink`, `spark` (default: all)",
    )
    parser.add_argument("--clients", help="clients of `producer` and `paced`, separated by commas (default: all)")
    parser.add_argument("--seconds", type=float, default=4, help="that each client of `paced` sends (default 4)")
    parser.add_argument("--gigabytes", type=int, default=20, help="written by `cluster` with retention on (default 20)")
    arguments = parser.parse_args()
    # An installed package comes with its bytecode, as Java's with theirs: what starts more than once may keep it.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    missed: list[str] = []
    for name in arguments.names or BENCHMARKS:
        print(f"\n== {name}")
        measured = BENCHMARKS[name](arguments)
        missed += missed_targets(measured, name)
        told = {
            "date": date.today().isoformat(),
            "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
            "python": platform.python_version(),
            **measured,
        }
        # Parts and clients that were left out keep the figures they had.
        kept = results.get(name, {})
        results[name] = merged(kept, told) if arguments.clients else {**kept, **told} if arguments.only else told
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    print(f"\nkept in {RESULTS.name}")
    for line in missed:
        print(f"target missed: {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
