"""Millions of small records through one producer: its resident memory must not grow.

    python -m benchmarks.soak_producer                        200 million records of one byte (about 2 GB of log)
    python -m benchmarks.soak_producer --records 10000000     a try

The embedded cluster stands in a process of its own and deletes what is old, so the figures are those of the producer
alone. Each of twenty steps ends with a flush, so that the buffer is empty when memory is looked at. The first two fill
what is kept for good (types, the window of the metrics); nothing may grow after them. How full the buffer was at its
fullest, a matter of who else was at work, says how much free memory the C library keeps; so that is given back before
each look, and the peak has a bound of its own. Exits 1 where memory went up by more than `--allowed-mib`, where its
peak passed `buffer.memory` by more than 64 MiB and the imports, or where a record was not acked.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
from pathlib import Path

import ottla

_STEPS = 20
_WARM_STEPS = 2
_MIB = 1 << 20
_RETENTION = {"retention.bytes": str(64 * _MIB), "segment.bytes": str(32 * _MIB)}


def resident_bytes(which: str = "VmRSS") -> int:
    """Resident memory of this process now, or ("VmHWM") at its peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(which):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {which}")


def held_bytes() -> int:
    """Resident memory of this process without what the C library keeps for later."""
    ctypes.CDLL(None).malloc_trim(0)
    return resident_bytes()


def send(producer: ottla.Producer, topic: str, count: int) -> None:
    """Send records that differ in nothing, every fourth with a key; their deliveries are dropped."""
    give = producer.send
    for _ in range(count // 4):
        give(topic, b"a")
        give(topic, b"b", b"key")
        give(topic, b"c")
        give(topic, b"d")


def soak(records: int, partitions: int, settings: dict[str, str]) -> list[int]:
    """Send them all in equal steps; resident bytes after each."""
    seen: list[int] = []
    with ottla.Cluster(brokers=1, settings={"log_retention_check_interval_ms": 10_000}) as cluster:
        cluster.create_topic("soak", partitions=partitions, configs=_RETENTION)
        with ottla.Producer.from_config({"bootstrap.servers": cluster.bootstrap_servers, **settings}) as producer:
            began = time.perf_counter()
            for step in range(1, _STEPS + 1):
                send(producer, "soak", records // _STEPS)
                producer.flush()
                seen.append(held_bytes())
                metrics = producer.metrics()
                sent, spent_s = step * (records // _STEPS), time.perf_counter() - began
                print(
                    f"{sent:>12,} records  {sent / spent_s:>10,.0f} /s  {seen[-1] / _MIB:>7.1f} MiB held  "
                    f"{metrics['batch-size-avg']:>7.0f} bytes a batch  {metrics['request-latency-avg']:.1f} ms",
                    flush=True,
                )
            acked = producer.metrics()["ottla-record-acked-total"]
        if acked != records // _STEPS // 4 * 4 * _STEPS:
            sys.exit(f"only {acked:,.0f} records were acked")
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=200_000_000)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--allowed-mib", type=float, default=4, help="growth that is let pass (default 4)")
    parser.add_argument("--setting", action="append", default=[], help="name=value of the producer's, several times")
    arguments = parser.parse_args()
    settings = dict(each.split("=", 1) for each in arguments.setting)
    _ = ottla.Producer
    imports = resident_bytes()
    seen = soak(arguments.records, arguments.partitions, settings)
    grown = max(seen[_WARM_STEPS:]) - max(seen[:_WARM_STEPS])
    above = resident_bytes("VmHWM") - imports - int(settings.get("buffer.memory", 32 * _MIB))
    print(f"grown after the warm-up: {grown / _MIB:.1f} MiB; peak above imports and buffer: {above / _MIB:.1f} MiB")
    if grown > arguments.allowed_mib * _MIB:
        sys.exit(f"memory grew by {grown / _MIB:.1f} MiB; allowed are {arguments.allowed_mib}")
    if above > 64 * _MIB:
        sys.exit(f"the peak was {above / _MIB:.1f} MiB above imports and buffer.memory; allowed are 64")


if __name__ == "__main__":
    main()
