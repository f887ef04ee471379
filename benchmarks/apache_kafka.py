"""Java's performance tools, and Apache Kafka as it is measured: Kafka's own start options, a heap of 1 GiB.

The nodes themselves are those of `tools/apache_kafka.py`, which the tests use too.
"""

from __future__ import annotations

import os
import re
import time

from tools.apache_kafka import SERVER_OPTIONS, ApacheKafka, Java

_HEAP_MB = 1024
_TOOL_HEAP_MB = 512
_TIMEOUT_S = 300


def measured_kafka(nodes: int, folder: str | None = None) -> ApacheKafka:
    """Nodes as an operator would start them, to be entered by `with` or started by hand."""
    options = (f"-Xms{_HEAP_MB}m", *SERVER_OPTIONS)
    # Of internal topics one copy, as before: what is measured is what clients ask for.
    settings = {
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        # Deleted topics give their memory back before the next run wants it.
        "log.segment.delete.delay.ms": 1000,
    }
    return ApacheKafka(nodes, folder=folder, heap_mb=_HEAP_MB, options=options, settings=settings)


def run_java(main_class: str, *arguments: str) -> str:
    """What one of Kafka's tools prints; SystemExit with its own words where it fails."""
    java = Java(("-XX:+UseG1GC",))
    try:
        return java.run(main_class, *arguments, heap_mb=_TOOL_HEAP_MB, timeout_s=_TIMEOUT_S).decode()
    except RuntimeError as error:
        raise SystemExit(str(error)) from None


def producer_performance(
    bootstrap: str, topic: str, records: int, record_bytes: int | None = None, *, values: str = "", codec: str = "none"
) -> float:
    """Records per second of Java's ProducerPerformance with default settings (acks=all, idempotent).

    It sends random records of `record_bytes`, or the lines of the file `values` over and over.
    """
    what = ("--payload-file", values) if values else ("--record-size", str(record_bytes))
    said = run_java(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records), *what),
        *("--throughput", "-1", "--producer-props", f"compression.type={codec}"),
    )
    found = re.findall(rf"^{records} records sent, ([\d.]+) records/sec", said, re.MULTILINE)
    if not found:
        raise SystemExit(f"ProducerPerformance did not send everything:\n{said}")
    return float(found[-1])


def consumer_performance(bootstrap: str, topic: str, records: int) -> float:
    """Records per second of Java's ConsumerPerformance from the first record to the last, joining the group aside."""
    said = run_java(
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records), "--hide-header"),
        *("--group", f"bench-{time.monotonic_ns()}", "--timeout", "30000"),
    )
    row = [field.strip() for field in said.strip().splitlines()[-1].split(",")]
    if len(row) != 10 or int(row[4]) < records:
        raise SystemExit(f"ConsumerPerformance did not read everything:\n{said}")
    return float(row[9])


def resident_bytes(pid: int) -> int:
    """The memory a process has in use now (Linux)."""
    with open(f"/proc/{pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
