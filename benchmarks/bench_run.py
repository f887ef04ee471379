"""The main job from end to end: wall time, and the memory of all its processes together."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def tree_resident_bytes(root: int) -> int:
    """Resident memory of a process and all its descendants, shared pages counted once each (PSS)."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    total, open_ = 0, [root]
    while open_:
        pid = open_.pop()
        open_ += parents.get(pid, [])
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))
    return total


def run(_arguments: argparse.Namespace) -> dict[str, Any]:
    """One whole `ottla run`, its memory looked at every half second."""
    if not Path("/proc/self/smaps_rollup").exists():
        print("skipped: needs Linux's /proc")
        return {}
    with tempfile.TemporaryFile() as output:
        begin = time.perf_counter()
        command = [str(Path(sys.executable).with_name("ottla")), "run"]
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        peak = 0
        while process.poll() is None:
            peak = max(peak, tree_resident_bytes(process.pid))
            time.sleep(0.5)
        wall_s = time.perf_counter() - begin
        output.seek(0)
        if process.returncode:
            raise SystemExit(output.read().decode())
    results = {"wall_s": round(wall_s, 1), "peak_resident_mib": round(peak / 2**20)}
    print(f"ottla run: {results['wall_s']} s, {results['peak_resident_mib']} MiB at its peak")
    return results
