"""One Produce request that was handed to the connection, and which answer belongs to which of its batches."""

from __future__ import annotations

from typing import Any

from ottla.producer.batch import Batch


class InFlightRequest:
    """The batches of one request, in their order in it: at most one per partition.

    `others` is how many requests to the node were in flight when it was sent.
    """

    __slots__ = ("batches", "node_id", "others", "sent_us")

    def __init__(self, node_id: int, batches: list[Batch], sent_us: int, others: int) -> None:
        self.node_id = node_id
        self.others = others
        self.batches = batches
        self.sent_us = sent_us

    def answers(self, response: Any) -> list[tuple[Batch, Any]]:
        """Return every batch with its part of the ProduceResponse, None where the broker left it out."""
        batches = self.batches
        if len(response.responses) == 1:
            # Most requests are about one topic, and brokers name its partitions in the request's order.
            topic = response.responses[0]
            name, parts = topic.name, topic.partition_responses
            if len(parts) == len(batches):
                found = []
                for batch, part in zip(batches, parts, strict=True):
                    queue = batch.queue
                    if part.index != queue.partition or name != queue.topic:
                        break
                    found.append((batch, part))
                else:
                    return found
        named = {(topic.name, part.index): part for topic in response.responses for part in topic.partition_responses}
        return [(batch, named.get((batch.queue.topic, batch.queue.partition))) for batch in batches]
