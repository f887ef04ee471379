"""What a batch of the exactly-once sink costs against the number of its tasks and of Kafka partitions they write to.

`make bench ARGS="sink"` runs all cells, `--only 100x1000,1000x100` some (tasks x partitions). There is no Spark:
`sink_cell.py` plans, prepares in threads and commits on an embedded cluster of three brokers. Each task writes one row
to each partition, but to no more than 100 of them: what the rows cost is not the question. The plan that is measured is
the next batch's, which finds the transactional ids of the first one.

The sizes are of messages for tasks that write to every partition, made by hand: the worst there is. A cell that takes
longer than `LIMIT_S` is stopped: steps that had not ended say so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from benchmarks.parts import chosen

TASKS = (10, 100, 1_000)
PARTITIONS = (100, 1_000, 10_000)
CELLS = {f"{tasks}x{partitions}": (tasks, partitions) for tasks in TASKS for partitions in PARTITIONS}
LIMIT_S = float(os.environ.get("OTTLA_BENCH_CELL_S", "300"))
_STEPS = ("sizes", "prepare", "commit", "plan")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """The cells asked for, a line each as they come."""
    results: dict[str, Any] = {}
    for name in chosen("sink", CELLS, arguments.only):
        results[name] = _cell(*CELLS[name])
        print(f"{name:>12}  {_line(results[name])}", flush=True)
    return results


def _cell(tasks: int, partitions: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.sink_cell", str(tasks), str(partitions)]
    cell = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
    late = threading.Event()

    def stop() -> None:
        late.set()
        cell.kill()

    timer = threading.Timer(LIMIT_S, stop)
    timer.start()
    assert cell.stdout is not None
    found: dict[str, Any] = {}
    for line in cell.stdout:
        found.update(json.loads(line))
    status = cell.wait()
    timer.cancel()
    if late.is_set():
        found.update({step: f"not ended after {LIMIT_S:.0f} s" for step in _STEPS if step not in found})
    elif status:
        raise SystemExit(f"the cell of {tasks} tasks and {partitions} partitions ended with status {status}")
    return found


def _line(found: dict[str, Any]) -> str:
    return "  ".join(f"{step}: {found[step]}" for step in _STEPS if step in found)


if __name__ == "__main__":
    from benchmarks.__main__ import main

    sys.argv.insert(1, "sink")
    sys.exit(main())
