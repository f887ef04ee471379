"""Checks the topic to write to when a write is planned, so that a bad topic gives one error, not one for each task.

The process that commits and aborts does not check it. Spark starts that process anew after a minute without work, and a
topic that has become unusable by then must not prevent an abort.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ottla.errors import TOPIC_NAMES, KafkaError, UserMistake
from ottla.spark.sink_options import SinkOptions

if TYPE_CHECKING:
    from ottla.client.producer import Producer

# How long a plan waits for an unknown topic, unless kafka.max.block.ms is given. Brokers that create topics may need
# this long. Kafka's own minute is too long to wait if the name is mistyped.
_UNKNOWN_TOPIC_MS = 5_000
_known_topics: set[tuple[str, str]] = set()


def check_topic(options: SinkOptions) -> None:
    """Ask for the topic that the option names, once in this process; UserMistake for an unknown or forbidden one.

    Where brokers make topics that are asked for, this makes it. It is waited for `kafka.max.block.ms`, 5 s by default.
    """
    from ottla.client.admin import Admin
    from ottla.sink.settings import settings_for_reading
    from ottla.sink.topics import check_authorized

    topic = options.topic
    if topic is None:
        return
    place = (options.bootstrap_servers, topic)
    if place in _known_topics:
        return
    block_ms = options.settings.get("max.block.ms", str(_UNKNOWN_TOPIC_MS))
    with open_producer(options, {"max.block.ms": block_ms}) as producer:
        try:
            producer.partitions_for(topic)
            with Admin(options.bootstrap_servers, **settings_for_reading(options.settings)) as admin:
                check_authorized(admin, topic, {"WRITE"})
        except KafkaError as error:
            why = {
                "TOPIC_AUTHORIZATION_FAILED": "which this user may not write to: have it granted Describe and Write "
                "on the topic.",
                "UNKNOWN_TOPIC_OR_PARTITION": "which does not exist: check its name, or create it first (waited for "
                f"{block_ms} ms; kafka.max.block.ms says how long).",
                "INVALID_TOPIC_EXCEPTION": f"which cannot be a topic's name: allowed are {TOPIC_NAMES}.",
            }.get(error.name)
            if why is None:
                raise
            raise UserMistake(f"The topic to write to is {topic!r}, {why}", topic=topic) from None
    _known_topics.add(place)


def open_producer(options: SinkOptions, settings: Mapping[str, Any] = {}) -> Producer:
    """A producer of these options, with these settings before theirs."""
    from ottla.client.producer import Producer

    return Producer.from_config({"bootstrap.servers": options.bootstrap_servers, **options.settings, **settings})
