"""Runs one paced client (`paced_worker.py`, in a process of its own) against one broker, and returns its figures."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from tools import kafka_jars
from tools.apache_kafka import Java

import ottla
from benchmarks.apache_kafka import resident_bytes
from benchmarks.paced_brokers import Place
from benchmarks.paced_cells import IN_FLIGHT, VALUE_BYTES, Cell

SAMPLES_PER_S = 5_000
# How long outcomes are waited for after the last send; records without one then count with their wait so far.
DRAIN_S = 3.0
DRAIN_BEYOND_S = 10.0
# Warm-up records to one partition, before answers are late: enough for Java to compile its loops.
WARM_UP_RECORDS = 10_000
WARM_UP_PER_TICK = 20
_PATIENCE_S = 60
_HEAP_MB = 512
_SOURCE = Path(__file__).with_name("PacedSender.java")
_QUARTER = 4

Figures = dict[str, Any]


def task(cell: Cell, bootstrap: str, topic: str, seconds: float) -> dict[str, Any]:
    """The task of a client, as paced_worker.Task reads it."""
    return {
        "bootstrap": bootstrap,
        "topic": topic,
        "rate": cell.rate,
        "seconds": seconds,
        "keyed": cell.keyed,
        "value_bytes": VALUE_BYTES,
        "every": max(1, cell.rate // SAMPLES_PER_S),
        "warm_up_records": WARM_UP_RECORDS,
        "warm_up_per_tick": WARM_UP_PER_TICK,
        "drain_s": DRAIN_BEYOND_S if cell.is_beyond else DRAIN_S,
        "settings": {
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": cell.linger_ms,
            "batch.size": cell.batch_size,
            "max.in.flight.requests.per.connection": IN_FLIGHT,
            "compression.type": "none",
            "max.request.size": cell.max_request_size,
            "buffer.memory": cell.buffer_memory,
        },
    }


def measure(client: str, what: dict[str, Any], place: Place) -> Figures:
    """Run a client's task; the broker is slow once the client has warmed up."""
    with subprocess.Popen(_command(client, what), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        watch = threading.Timer(_PATIENCE_S + what["seconds"] + what["drain_s"], process.kill)
        watch.daemon = True
        watch.start()
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise SystemExit(f"{client} did not come to send anything")
        resident, before = resident_bytes(process.pid), place.produce_requests()
        with place.slowed():
            process.stdin.write("go\n")
            process.stdin.flush()
            line = process.stdout.readline()
        if not line:
            raise SystemExit(f"{client} did not tell what it measured")
        requests, peak = place.produce_requests() - before, _peak_bytes(process.pid)
        process.stdin.close()
        process.wait()
        watch.cancel()
    with ottla.Admin(what["bootstrap"]) as admin:
        stored = sum(admin.end_offsets(what["topic"]).values()) - WARM_UP_RECORDS
    found = _figures(json.loads(line), what)
    found |= {"stored": stored, "stored_per_s": round(stored / found["all_s"])}
    return found | {"requests": requests, "grown_mib": round((peak - resident) / (1 << 20), 1)}


def _command(client: str, what: dict[str, Any]) -> list[str]:
    if client == "java":
        return [*_java(), json.dumps(what)]
    return [sys.executable, "-m", "benchmarks.paced_worker", client, json.dumps(what)]


@functools.cache
def _java() -> list[str]:
    """The command line of PacedSender.java, compiled once: each JVM would take longer to compile it than to start."""
    folder = tempfile.mkdtemp(prefix="paced-sender-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    command = Java(()).command("PacedSender", heap_mb=_HEAP_MB)
    jars = os.pathsep.join(str(jar) for jar in kafka_jars.fetch().glob("*.jar"))
    compiler = [command[0], "-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", folder, "-cp", jars]
    subprocess.run([*compiler, str(_SOURCE)], check=True)
    command[command.index("-cp") + 1] += os.pathsep + folder
    return command


def _figures(told: dict[str, Any], what: dict[str, Any]) -> Figures:
    took_us: list[int] = told["took_us"]
    quarter = max(1, len(took_us) // _QUARTER)
    every = what["every"]
    sent = told["sent"]
    return {
        "p50_ms": _quantile_ms(took_us, 0.5),
        "p99_ms": _quantile_ms(took_us, 0.99),
        "max_ms": _quantile_ms(took_us, 1),
        "first_quarter_p99_ms": _quantile_ms(took_us[:quarter], 0.99),
        "last_quarter_p99_ms": _quantile_ms(took_us[-quarter:], 0.99),
        "sent": sent,
        "flushed": told["flushed"],
        "failed": told["failed"] * every,
        "unknown": told["unknown"] * every,
        "not_told": min(sent, told["not_told"] * every),
        "records_per_s": round(sent / what["seconds"]),
        "all_s": round(told["all_s"], 3),
        "behind_ms": round(told["behind_ms"], 1),
    }


def _quantile_ms(took_us: list[int], share: float) -> float:
    ordered = sorted(took_us)
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] / 1000, 2)


def _peak_bytes(pid: int) -> int:
    """The most memory that a process ever had in use (Linux)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024
