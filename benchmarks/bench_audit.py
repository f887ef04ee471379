"""`ottla audit` of ledgers of growing size: seconds, time for each record, and the memory of all its processes.

`make bench ARGS="audit"` runs all sizes here and on Spark; `--only process` one engine, `--sizes 1,10` other sizes,
in millions of records. Topic (three partitions, one broker of the embedded cluster) and ledger are written once a
size, by the producer itself, and removed afterwards. The clean ones are audited: what was found in addition would cost
the same for each record.

"processor_s" is the processor time of the command with all its processes, from start to end; "audit_s" is what the
command itself says: from the first row of the ledger to the verdict, Spark's start not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import ottla
from benchmarks.bench_run import tree_resident_bytes
from benchmarks.parts import chosen

TOPIC = "bench-audit"
PARTITIONS = 3
CHUNK = 500_000
SPARK_MUST_S = 35.0
_SAMPLE_S = 0.5
_MILLION = 1_000_000
_IN_PROCESS_MAX = 20


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Every size asked for, with every engine asked for."""
    engines = chosen("audit", {"process": None, "spark": None}, arguments.only)
    sizes = [float(each) for each in arguments.sizes.split(",")]
    figures: dict[str, Any] = {engine: {} for engine in engines}
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="bench-audit-") as scratch:
            folder = Path(scratch)
            (folder / "brokers").mkdir()
            with ottla.Cluster(1, data_dir=folder / "brokers") as cluster:
                cluster.create_topic(TOPIC, partitions=PARTITIONS)
                write_topic_and_ledger(cluster.bootstrap_servers, folder / "ledger.parquet", int(size * _MILLION))
                for engine in engines:
                    if engine == "process" and size > _IN_PROCESS_MAX:
                        continue
                    found = audit(cluster.bootstrap_servers, folder / "ledger.parquet", engine)
                    if engine == "spark" and size == 10:
                        found |= {"must_be_below": SPARK_MUST_S, "ok": found["audit_s"] < SPARK_MUST_S}
                    figures[engine][f"{size:g} million"] = found
                    print(f"{engine}, {size:g} million: {found}", flush=True)
    return figures


def write_topic_and_ledger(servers: str, ledger: Path, records: int) -> None:
    """So many records of about 100 bytes, with their numbers, and what was learned of them."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from ottla.ledger.checksum import crc_column
    from ottla.ledger.schema import ACKED, SEQUENCE_HEADER
    from ottla.ledger.writer import LedgerWriter

    with LedgerWriter(ledger, run_id="bench", guarantee="exactly-once", topic=TOPIC) as book:
        for first in range(0, records, CHUNK):
            numbers = np.arange(first, min(first + CHUNK, records))
            text: Any = pa.array(numbers).cast(pa.string())
            keys = pc.binary_join_element_wise("key", text, "-")
            values = pc.utf8_rpad(pc.binary_join_element_wise("value", text, " "), 80, "x")
            packed: Any = pa.Array.from_buffers(
                pa.binary(8), len(numbers), [None, pa.py_buffer(numbers.astype(">i8").tobytes())]
            )
            pairs = pa.StructArray.from_arrays(
                [pa.repeat(SEQUENCE_HEADER, len(numbers)), packed.cast(pa.binary())], names=["key", "value"]
            )
            each: Any = pa.array(np.arange(len(numbers) + 1, dtype=np.int32))
            table = pa.table({"key": keys, "value": values, "headers": pa.ListArray.from_arrays(each, pairs)})
            told = ottla.write_table(servers, TOPIC, table, key="key", value="value", headers="headers").result()
            book.add(
                sequence=numbers,
                partition=told.column("partition"),
                key_crc=crc_column(keys),
                value_crc=crc_column(values),
                outcome=pa.repeat(ACKED, len(numbers)),
                offset=told.column("offset"),
            )


def audit(servers: str, ledger: Path, engine: str) -> dict[str, Any]:
    """One `ottla audit`, its memory looked at twice a second."""
    command = [str(Path(sys.executable).with_name("ottla")), "audit", "--ledger", str(ledger), "--topic", TOPIC]
    with tempfile.TemporaryFile() as output:
        began = time.perf_counter()
        process = subprocess.Popen(
            [*command, "--bootstrap-servers", servers, "--engine", engine, "--json"], stdout=output
        )
        processor_s: dict[int, float] = {}
        peak = 0
        while process.poll() is None:
            peak = max(peak, tree_resident_bytes(process.pid))
            _note_processor_s(process.pid, processor_s)
            time.sleep(_SAMPLE_S)
        wall_s = time.perf_counter() - began
        output.seek(0)
        text = output.read()
    if process.returncode:
        raise SystemExit(f"ottla audit ended with status {process.returncode}: {text.decode()[-2000:]}")
    outcome = json.loads(text)
    return {
        "wall_s": round(wall_s, 1),
        "audit_s": round(outcome["seconds"], 1),
        "us_per_record": round(outcome["seconds"] * 1e6 / outcome["figures"]["sent"], 2),
        "processor_s": round(sum(processor_s.values()), 1),
        "peak_resident_mib": round(peak / 2**20),
    }


def _note_processor_s(root: int, seen: dict[int, float]) -> None:
    """Keep of each process of a tree how much processor time it has had by now."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        pid = int(stat.parent.name)
        parents[pid] = int(fields[1])
        used[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    for pid in used:
        above = pid
        while above not in (root, 0):
            above = parents.get(above, 0)
        if above == root:
            seen[pid] = used[pid]
