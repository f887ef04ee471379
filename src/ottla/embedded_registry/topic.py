"""The topic of schemas: one partition, compacted; made where it is missing, looked at where it is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.admin import Admin
from ottla.errors import ConfigError, KafkaError

DEFAULT_TOPIC = "_schemas"
# A schema's text may have 4 MiB.
_RECORD_BYTES = 8 << 20
_REPLICAS = 3


def open_topic(
    servers: str, topic: str, replication_factor: int | None, settings: Mapping[str, Any], patience_s: float
) -> int:
    """How many bytes a record of it may have; raises ConfigError for a topic that would lose schemas."""
    with Admin(servers, **settings, default_api_timeout_ms=max(1, int(1000 * patience_s))) as admin:
        try:
            description = admin.describe(topic)
        except KafkaError as error:
            if not error.name.startswith("UNKNOWN_TOPIC"):
                raise
            _make(admin, topic, replication_factor)
            description = admin.describe(topic)
        configs = {name: each.value for name, each in admin.describe_configs(topic=topic).items()}
    if len(description.partitions) != 1:
        raise ConfigError(
            f"the topic {topic} has {len(description.partitions)} partitions; schemas need a topic with one, so that "
            "their order is known: give topic= another name."
        )
    if "compact" not in (configs.get("cleanup.policy") or "").split(",") or "delete" in (
        configs.get("cleanup.policy") or ""
    ):
        raise ConfigError(
            f"the topic {topic} has cleanup.policy={configs.get('cleanup.policy')}, by which schemas would be deleted "
            "some day: set it to compact."
        )
    return int(configs.get("max.message.bytes") or 1_048_588)


def _make(admin: Admin, topic: str, replication_factor: int | None) -> None:
    brokers = len(admin.cluster().brokers)
    try:
        admin.create_topics(
            topic,
            partitions=1,
            replication_factor=replication_factor or min(_REPLICAS, brokers),
            configs={"cleanup.policy": "compact", "max.message.bytes": _RECORD_BYTES},
        )
    except KafkaError as error:
        # Another registry starts at this moment.
        if error.name != "TOPIC_ALREADY_EXISTS":
            raise
