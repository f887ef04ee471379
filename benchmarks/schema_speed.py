"""Orders sent and read with a schema registry: ottla beside confluent-kafka, and beside its own `send` of bytes.

One embedded broker and one embedded registry serve all. In each round every client sends the same orders, one after the
other in a process of its own (`schema_worker.py`), until all are acknowledged; then what was sent is read. Rates are by
the clock, and the best of all rounds counts: other work on the machine only ever adds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import ottla

CONFLUENT_MUST = 5
RAW_MUST = 0.5
_RECORDS = {"raw": 1_000_000, "ottla": 500_000, "confluent": 50_000, "ottla-read": 100_000, "confluent-read": 50_000}
_PARTITIONS = 6
_TIMEOUT_S = 300


def measure(rounds: int) -> dict[str, Any]:
    """Records per second of each, and the ratios with their targets."""
    rates: dict[str, list[float]] = {client: [] for client in _RECORDS}
    with ottla.Cluster(brokers=1) as cluster, ottla.Registry(cluster.bootstrap_servers) as registry:
        for number in range(3 * rounds):
            for client, records in _RECORDS.items():
                topic = f"{client.removesuffix('-read')}-{number}"
                if not client.endswith("-read"):
                    cluster.create_topic(topic, partitions=_PARTITIONS)
                command = [sys.executable, "-m", "benchmarks.schema_worker", client, cluster.bootstrap_servers]
                more = [registry.url, topic, str(records)]
                told = json.loads(subprocess.check_output([*command, *more], timeout=_TIMEOUT_S))
                rates[client].append(told["records"] / told["s"])
    ours = rates["ottla"]
    return {
        "send": {
            "ottla_records_per_s": round(max(ours)),
            "confluent": _beside(ours, rates["confluent"], CONFLUENT_MUST),
            "raw": _beside(ours, rates["raw"], RAW_MUST),
        },
        "read": {
            "ottla_records_per_s": round(max(rates["ottla-read"])),
            "confluent": _beside(rates["ottla-read"], rates["confluent-read"], None),
        },
    }


def _beside(ours: list[float], theirs: list[float], must: float | None) -> dict[str, Any]:
    ratio = round(max(ours) / max(theirs), 2)
    target = {} if must is None else {"must": must, "ok": ratio >= must}
    return {"records_per_s": round(max(theirs)), "ratio": ratio, **target}
