"""Members of groups by kafka-python."""

from __future__ import annotations

from typing import Any

from kafka import KafkaConsumer


def member(topic: str, **settings: Any) -> KafkaConsumer:
    """A consumer of this topic that knows its partitions before it joins the group.

    3.0.12 takes the answer to a question it asked before it knew its topics for one about them. Then it asks again in
    five minutes, and leads its group without any partitions until then.
    """
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", **settings)
    assert consumer.partitions_for_topic(topic)
    return consumer
