"""What a producer has in memory while its broker is silent: never more than buffer.memory + 64 MiB + its imports.

A process of its own (`python -m benchmarks.producer_stall BOOTSTRAP TOPIC`) connects, sends a record, and then sends
until `send` finds no room within max.block.ms; the broker is frozen in between. Three kinds of records: 100 bytes,
1 KiB, and one byte, whose `Delivery` weighs more than they do: those deliveries are dropped, as a program does that
looks at `flush` only.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from typing import Any

import ottla
from benchmarks.apache_kafka import resident_bytes

MIB = 1 << 20
BUFFER_MEMORY = 32 * MIB
ALLOWED_MIB = 64
SIZES = (100, 1024, 1)
_TIMEOUT_S = 120


def stall(_arguments: argparse.Namespace) -> dict[str, Any]:
    """Resident memory beyond the imports when the buffer is full, record size by record size."""
    results: dict[str, Any] = {}
    must_mib = BUFFER_MEMORY / MIB + ALLOWED_MIB
    for nbytes in SIZES:
        with ottla.Cluster(brokers=1) as cluster:
            cluster.create_topic("stalled", partitions=6)
            command = [sys.executable, "-m", "benchmarks.producer_stall", cluster.bootstrap_servers, str(nbytes)]
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdout.readline()
                cluster.pause(1)
                process.stdin.write("\n")
                process.stdin.flush()
                told = json.loads(process.stdout.readline())
                cluster.resume(1)
                if process.wait(_TIMEOUT_S):
                    raise SystemExit(f"the producer ended with {process.returncode}")
        found = told["peak_mib"] - told["imports_mib"]
        results[f"{nbytes}-byte records, MiB beyond the imports"] = {
            "mib": round(found, 1),
            "records_held": told["records"],
            "must_be_below": must_mib,
            "ok": found <= must_mib,
        }
    return results


def main() -> None:
    bootstrap, value = sys.argv[1], b"x" * int(sys.argv[2])
    imports = resident_bytes(os.getpid())
    with ottla.Producer(bootstrap, buffer_memory=BUFFER_MEMORY, max_block_ms=3000) as producer:
        producer.send("stalled", value).result(30)
        print("ready", flush=True)
        sys.stdin.readline()
        sent = 0
        try:
            while True:
                producer.send("stalled", value)
                sent += 1
        except ottla.BufferFull:
            pass
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"records": sent, "imports_mib": imports / MIB, "peak_mib": peak / MIB}), flush=True)


if __name__ == "__main__":
    main()
