"""The settings of a topic: Kafka's names, types and ranges, and the broker setting that is each one's default.

`TopicSettings` holds what is in force for one topic: its own settings, and its broker's where it has none.
`topic_config_fault` checks settings before a topic gets them. A setting that would change what the broker does and is
not implemented is refused, never ignored.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.settings import (
    BOOLEAN,
    BROKER_SETTINGS,
    CLEANUP_POLICIES,
    COMPRESSION_TYPES,
    DOUBLE,
    INT,
    LIST,
    LONG,
    NEVER,
    TIMESTAMP_TYPES,
    BrokerSettings,
    Setting,
)
from ottla.nearest import nearest_name

# A topic's setting -> the broker's setting with the same meaning; its default is the broker's value.
BROKER_SYNONYMS: dict[str, str] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.type": "compression.type",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "preallocate": "log.preallocate",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
TOPIC_SETTINGS: tuple[Setting, ...] = (
    Setting("cleanup.policy", LIST, ("delete",), words=CLEANUP_POLICIES),
    Setting("compression.type", COMPRESSION_TYPES, "producer"),
    Setting("delete.retention.ms", LONG, 86_400_000),
    Setting("file.delete.delay.ms", LONG, 60_000),
    Setting("flush.messages", LONG, NEVER, 1),
    Setting("flush.ms", LONG, NEVER),
    Setting("index.interval.bytes", INT, 4096),
    Setting("max.compaction.lag.ms", LONG, NEVER, 1),
    Setting("max.message.bytes", INT, 1048588),
    Setting("message.timestamp.after.max.ms", LONG, 3_600_000),
    Setting("message.timestamp.before.max.ms", LONG, NEVER),
    Setting("message.timestamp.type", TIMESTAMP_TYPES, "CreateTime"),
    Setting("min.cleanable.dirty.ratio", DOUBLE, 0.5, 0, 1),
    Setting("min.compaction.lag.ms", LONG, 0),
    Setting("min.insync.replicas", INT, 1, 1),
    Setting("preallocate", BOOLEAN, False),
    Setting("retention.bytes", LONG, -1, -1),
    Setting("retention.ms", LONG, 604_800_000, -1),
    Setting("segment.bytes", INT, 1 << 30, 1024),
    Setting("segment.index.bytes", INT, 10 << 20, 4),
    Setting("segment.jitter.ms", LONG, 0),
    Setting("segment.ms", LONG, 604_800_000, 1),
    Setting("unclean.leader.election.enable", BOOLEAN, False),
)
TOPIC_SETTINGS_BY_NAME = {setting.name: setting for setting in TOPIC_SETTINGS}
_BROKER_ATTRIBUTES = {name: synonym.replace(".", "_") for name, synonym in BROKER_SYNONYMS.items()}
assert {*BROKER_SYNONYMS.values()} <= {setting.name for setting in BROKER_SETTINGS}


class TopicSettings:
    """The settings in force for one topic; `configs` are its own, checked ones."""

    __slots__ = tuple(setting.attribute for setting in TOPIC_SETTINGS)

    cleanup_policy: tuple[str, ...]
    compression_type: str
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    index_interval_bytes: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool

    def __init__(self, configs: Iterable[tuple[str, str]], broker: BrokerSettings) -> None:
        for setting in TOPIC_SETTINGS:
            setattr(self, setting.attribute, getattr(broker, _BROKER_ATTRIBUTES[setting.name]))
        for name, value in configs:
            setting = TOPIC_SETTINGS_BY_NAME[name]
            setattr(self, setting.attribute, setting.parse(value))


def topic_config_fault(configs: Iterable[tuple[str, str | None]]) -> str | None:
    """None where a topic may have these settings, otherwise one sentence saying why not."""
    for name, value in configs:
        setting = TOPIC_SETTINGS_BY_NAME.get(name)
        if setting is None:
            near = nearest_name(name.replace("_", "."), TOPIC_SETTINGS_BY_NAME)
            advice = f"did you mean {near}?" if near else f"supported are {', '.join(TOPIC_SETTINGS_BY_NAME)}"
            return f"topic setting {name} is not supported by this broker; {advice}"
        try:
            setting.parse(value)
        except ValueError as error:
            return f"{name}={value} {error}"
        if name == "preallocate" and setting.parse(value):
            return "preallocate=true is not supported by this broker; only false is"
    return None
