"""The main job from end to end: wall time, the memory of all its processes together, and of the largest one.

`flights` is the job as it is; `ten-times` the same with ten times the flights, as a file of one's own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.parts import chosen
from ottla.inputs.source import open_source
from ottla.inputs.table import read_source

_TIMES = {"flights": 1, "ten-times": 10}
_MUST_TAKE_S = {"flights": 60.0, "ten-times": 150.0}
_MUST_HOLD_MIB = 2048
_SAMPLE_S = 0.5


def resident_bytes(root: int) -> list[int]:
    """Resident memory of a process and each of its descendants, shared pages counted once among them (PSS)."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    held, open_ = [], [root]
    while open_:
        pid = open_.pop()
        open_ += parents.get(pid, [])
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        held.append(sum(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:")))
    return held


def tree_resident_bytes(root: int) -> int:
    """Resident memory of a process and all its descendants together, shared pages counted once."""
    return sum(resident_bytes(root))


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Each part that was asked for: one whole `ottla run`, its memory looked at every half second."""
    wanted = chosen("run", _TIMES, arguments.only)
    if not Path("/proc/self/smaps_rollup").exists():
        print("skipped: needs Linux's /proc")
        return {}
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="bench-run-") as scratch:
        for part in wanted:
            input_ = (
                [] if part == "flights" else ["--input", str(_flights(_TIMES[part], Path(scratch))), "--key", "tailnum"]
            )
            results[part] = _measured(input_, _MUST_TAKE_S[part])
            print(f"{part}: {results[part]}", flush=True)
    return results


def _flights(times: int, folder: Path) -> Path:
    """The flights so many times, as a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "flights.parquet"
    pq.write_table(pa.concat_tables([read_source(open_source(None, None))] * times), path)
    return path


def _measured(options: list[str], must_take_s: float) -> dict[str, Any]:
    with tempfile.TemporaryFile() as output:
        begin = time.perf_counter()
        command = [str(Path(sys.executable).with_name("ottla")), "run", *options]
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        peak = largest = 0
        while process.poll() is None:
            held = resident_bytes(process.pid)
            peak, largest = max(peak, sum(held)), max(largest, *held, 0)
            time.sleep(_SAMPLE_S)
        wall_s = time.perf_counter() - begin
        output.seek(0)
        if process.returncode:
            raise SystemExit(output.read().decode())
    return {
        "wall_s": round(wall_s, 1),
        "must_take_s": must_take_s,
        "peak_resident_mib": round(peak / 2**20),
        "largest_process_mib": round(largest / 2**20),
        "must_hold_mib": _MUST_HOLD_MIB,
        "ok": wall_s <= must_take_s and largest < _MUST_HOLD_MIB * 2**20,
    }
