"""`Metrics`: what `Producer.metrics()` returns, the figures of one moment.

It maps Kafka's names to values for the producer as a whole; `nodes` and `topics` have such a mapping for each broker
and each topic. `all` lists every figure with group and tags, as Kafka's own reporters get them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Metric(NamedTuple):
    """One figure under Kafka's name, group (`producer-metrics`, ...) and tags (`client-id`, `node-id`, `topic`)."""

    name: str
    group: str
    tags: dict[str, str]
    value: float


class Metrics(Mapping[str, float]):
    """A producer's figures at one moment, by Kafka's names; averages and maxima of nothing are NaN.

    `metrics["record-send-rate"]` is the producer's, `metrics.nodes[1]["request-latency-avg"]` the broker's with id 1,
    `metrics.topics["flights"]["byte-rate"]` the topic's. `nodes` has the brokers that the producer has tried to connect
    to. A broker of which only the bootstrap address is known has a negative id, as in Java. The page "Metrics" of the
    documentation says what each name means.
    """

    __slots__ = ("_client", "_client_id", "nodes", "topics")

    def __init__(
        self,
        client_id: str,
        client: dict[str, float],
        nodes: dict[int, dict[str, float]],
        topics: dict[str, dict[str, float]],
    ) -> None:
        self._client_id = client_id
        self._client = client
        self.nodes: Mapping[int, Mapping[str, float]] = nodes
        self.topics: Mapping[str, Mapping[str, float]] = topics

    def __getitem__(self, name: str) -> float:
        return self._client[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._client)

    def __len__(self) -> int:
        return len(self._client)

    def all(self) -> list[Metric]:
        """Every figure with its group and tags: the producer's, then each node's, then each topic's."""
        mine = {"client-id": self._client_id}
        found = [Metric(name, "producer-metrics", mine, value) for name, value in self._client.items()]
        for node_id, figures in self.nodes.items():
            tags = {**mine, "node-id": f"node-{node_id}"}
            found += [Metric(name, "producer-node-metrics", tags, value) for name, value in figures.items()]
        for topic, figures in self.topics.items():
            tags = {**mine, "topic": topic}
            found += [Metric(name, "producer-topic-metrics", tags, value) for name, value in figures.items()]
        return found

    def __str__(self) -> str:
        """One line per figure, as Kafka's own tools print them."""
        lines = []
        for name, group, tags, value in self.all():
            told = ", ".join(f"{tag}={of}" for tag, of in tags.items())
            lines.append(f"{group}:{name}:{{{told}}} : {value:.3f}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"<Metrics of {self._client_id!r}: {len(self._client)} figures, "
            f"{len(self.nodes)} nodes, {len(self.topics)} topics>"
        )
