"""One Produce request that was handed to the connection, and which answer belongs to which of its batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.producer.batch import Batch


class InFlightRequest:
    """The batches of one request, in the order in which they stand in it: at most one per partition."""

    __slots__ = ("batches", "node_id", "sent_us")

    def __init__(self, node_id: int, batches: list[Batch], sent_us: int) -> None:
        self.node_id = node_id
        self.batches = batches
        self.sent_us = sent_us

    def answers(self, response: Any) -> Iterator[tuple[Batch, Any]]:
        """Yield every batch with its part of the ProduceResponse, None where the broker left it out."""
        batches = self.batches
        if len(batches) == 1 and len(response.responses) == 1 and len(response.responses[0].partition_responses) == 1:
            queue = batches[0].queue
            part = response.responses[0].partition_responses[0]
            if part.index == queue.partition and response.responses[0].name == queue.topic:
                yield batches[0], part
                return
        parts = {(topic.name, part.index): part for topic in response.responses for part in topic.partition_responses}
        for batch in batches:
            yield batch, parts.get((batch.queue.topic, batch.queue.partition))
