"""Which of a producer's metrics are pushed to a broker, under which names, and what was pushed before (KIP-714).

Names follow Kafka's convention for group and name: `producer-node-metrics` and `request-latency-avg` give
`org.apache.kafka.producer.node.request.latency.avg`. As in Java's producer, totals are sums, all else are gauges, and
averages and maxima of nothing are NaN. `client-id` is left out: each request's header has it. Figures that Kafka does
not have (`ottla-...`) are not pushed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.producer.figures import Metrics
from ottla.producer.metric_table import GROUPS, Kind
from ottla.producer.otlp import Point, attributes, metrics_data

_PREFIX = "org.apache.kafka"


class Chosen(NamedTuple):
    """A metric that the broker wants: `grows` says that its value is a total."""

    name: str
    attributes: bytes
    value: float
    grows: bool


def _pushed_names() -> dict[tuple[str, str], tuple[str, bool]]:
    found = {}
    for group, rows in GROUPS.items():
        room = group.removesuffix("-metrics").replace("-", ".")
        for row in rows:
            if not row.name.startswith("ottla-"):
                name = f"{_PREFIX}.{room}.{row.name.replace('-', '.')}"
                found[group, row.name] = name, row.kind is Kind.TOTAL
    return found


class PushedMetrics:
    """Chooses metrics and encodes them; keeps the totals that a broker took last."""

    def __init__(self) -> None:
        self._names = _pushed_names()
        # (name, attributes) -> (total, Unix time) that a broker has taken, and those in a push without an answer.
        self._told: dict[tuple[str, bytes], tuple[float, int]] = {}
        self._telling: dict[tuple[str, bytes], tuple[float, int]] = {}

    def choose(self, metrics: Metrics, prefixes: tuple[str, ...]) -> list[Chosen]:
        """Return those whose names begin with one of `prefixes`: the producer's, then each node's and each topic's."""
        chosen = []
        labels: dict[str, str] = {}
        encoded = b""
        for name, group, tags, value in metrics.all():
            known = self._names.get((group, name))
            if known is None or not known[0].startswith(prefixes):
                continue
            if tags is not labels:
                labels = tags
                told = {tag.replace("-", "_"): of for tag, of in tags.items() if tag != "client-id"}
                encoded = attributes(told)
            chosen.append(Chosen(known[0], encoded, value, known[1]))
        return chosen

    def encode(
        self, chosen: Sequence[Chosen], resource: dict[str, str], time_ns: int, began_ns: int, *, delta: bool
    ) -> bytes:
        """Return them as MetricsData; with `delta`, a total's value is what it grew since it was last `taken`."""
        points = []
        telling = {}
        for name, labels, value, grows in chosen:
            if not grows:
                points.append(Point(name, labels, value, None))
                continue
            key = name, labels
            before, since_ns = self._told.get(key, (0.0, began_ns)) if delta else (0.0, began_ns)
            points.append(Point(name, labels, value - before, since_ns))
            telling[key] = value, time_ns
        self._telling = telling
        return metrics_data(points, resource, time_ns, delta=delta)

    def taken(self) -> None:
        """Note that a broker has taken what was encoded last."""
        self._told.update(self._telling)
        self._telling = {}

    def forget(self) -> None:
        """Begin again: the next deltas are those since the producer was made."""
        self._told.clear()
        self._telling = {}
