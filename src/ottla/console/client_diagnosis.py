"""What limits a client that pushes its metrics (KIP-714), by the diagnosis that ottla's producers make of themselves.

Pushed are Kafka's metrics, of ottla's producer and of Java's alike: totals as what they grew since the last push, else
averages of the last samples. They do not contain all that a producer knows of itself, and none of its settings.
`batch.size` and `linger.ms` are taken for Kafka's defaults, unless larger batches were seen; the diagnosis says so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ottla.producer.diagnosis import NodeSeen, Observed, diagnose
from ottla.producer.settings import ProducerSettings

_PRODUCER = "org.apache.kafka.producer."
_NODE, _TOPIC = f"{_PRODUCER}node.", f"{_PRODUCER}topic."
_NODE_ID = re.compile(r"node-([0-9]{1,10})")
_NS = 1e9
# A compressed batch is smaller than its records.
_COMPRESSED = 0.999

Points = Iterable[Mapping[str, Any]]


def diagnosis(points: Points, partitions_of: Callable[[str], int]) -> dict[str, Any] | None:
    """What a producer's last push says of it; None for what is no producer's, or has no totals.

    `sentence` and `findings` as of `Producer.diagnosis()`, `seconds` that it is about, and `assumed`: the settings that
    are not known. `partitions_of`: how many partitions a topic has.
    """
    pushed = _Pushed(points)
    if not pushed.seconds:
        return None
    settings = _settings(pushed)
    found = diagnose(_observed(pushed, partitions_of), settings)
    return {
        "sentence": found.sentence,
        "is_certain": found.is_certain,
        "findings": [
            {"limit": each.limit.value, "sentence": each.sentence, "setting": each.setting, "value": each.value}
            for each in found.findings
        ],
        "seconds": round(pushed.seconds, 3),
        "assumed": {"batch.size": settings.batch_size, "linger.ms": settings.linger_ms},
    }


class _Pushed:
    """The figures of one push, by the ends of their names: the producer's, and each node's and topic's."""

    def __init__(self, points: Points) -> None:
        self._client: dict[str, float] = {}
        self.nodes: dict[str, dict[str, float]] = {}
        self.topics: dict[str, dict[str, float]] = {}
        self.seconds = 0.0
        for point in points:
            name, value = point["name"], _number(point["value"])
            if name.startswith(_NODE):
                self.nodes.setdefault(str(point["attributes"].get("node_id")), {})[name.removeprefix(_NODE)] = value
            elif name.startswith(_TOPIC):
                self.topics.setdefault(str(point["attributes"].get("topic")), {})[name.removeprefix(_TOPIC)] = value
            elif name.startswith(_PRODUCER):
                self._client[name.removeprefix(_PRODUCER)] = value
                if name == f"{_PRODUCER}record.send.total" and point["kind"] == "sum":
                    self.seconds = max(0.0, (point["time_ns"] - point["start_ns"]) / _NS)

    def __getitem__(self, name: str) -> float:
        return self._client.get(name, 0.0)

    def all(self, beginning: str, ending: str) -> float:
        """The sum of all figures that are called so."""
        names = [name for name in self._client if name.startswith(beginning) and name.endswith(ending)]
        return sum(self._client[name] for name in names)


def _number(value: Any) -> float:
    """A figure; averages of nothing are no number, and count for nothing."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0


def _settings(pushed: _Pushed) -> ProducerSettings:
    defaults = ProducerSettings({"bootstrap_servers": "localhost:9092"})
    is_compressed = 0 < pushed["compression.rate.avg"] < _COMPRESSED
    return ProducerSettings(
        {
            "bootstrap_servers": "localhost:9092",
            "buffer_memory": int(pushed["buffer.total.bytes"]) or defaults.buffer_memory,
            "batch_size": max(defaults.batch_size, int(pushed["batch.size.max"])),
            "compression_type": "lz4" if is_compressed else "none",
        }
    )


def _observed(pushed: _Pushed, partitions_of: Callable[[str], int]) -> Observed:
    records = pushed["record.send.total"]
    size = sum(each.get("byte.total", 0.0) for each in pushed.topics.values()) or pushed["outgoing.byte.total"]
    batches = _per(size, pushed["batch.size.avg"])
    nodes = {}
    for name, each in pushed.nodes.items():
        # Brokers that were sent no records have no latency: coordinators, and those that metadata were asked of.
        number, latency_ms = _NODE_ID.fullmatch(name), each.get("request.latency.avg", 0.0)
        if number is not None and latency_ms:
            answers = each.get("response.total", 0.0)
            throttle_ms = answers * pushed["produce.throttle.time.avg"]
            nodes[int(number[1])] = NodeSeen(int(answers), answers * latency_ms, throttle_ms)
    sent_to = [name for name, each in pushed.topics.items() if each.get("record.send.total")]
    return Observed(
        seconds=pushed.seconds,
        requests=int(_per(records, pushed["records.per.request.avg"])),
        batches=int(batches),
        records=int(records),
        bytes=int(size),
        queue_ms_total=batches * pushed["record.queue.time.avg"],
        partitions=sum(map(partitions_of, sent_to)),
        nodes=nodes,
        retried=int(pushed["record.retry.total"]),
        buffer_wait_s=pushed["bufferpool.wait.time.ns.total"] / _NS,
        flush_s=pushed["flush.time.ns.total"] / _NS,
        transaction_s=pushed.all("txn.", ".time.ns.total") / _NS,
        callers_waiting=int(pushed["waiting.threads"]),
        buffer_available=int(pushed["buffer.available.bytes"]),
    )


def _per(total: float, average: float) -> float:
    return total / average if average else 0.0
