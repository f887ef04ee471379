"""What can be set on a broker and on a topic: Kafka's names, types, defaults and ranges in one table each.

`BrokerSettings` holds the broker's settings as attributes; `check_topic_configs` judges the settings that come with a
new topic. A topic setting that would change what the broker does and is not implemented is refused, never ignored.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.errors import ConfigError

INT32_MAX = (1 << 31) - 1

# Attribute (Kafka's name with underscores), default, least, most. Figures are bytes or milliseconds as the name says.
_BROKER_SETTINGS: tuple[tuple[str, int, int, int], ...] = (
    ("log_segment_bytes", 1 << 30, 1024, INT32_MAX),
    ("log_index_interval_bytes", 4096, 0, INT32_MAX),
    ("message_max_bytes", 1048588, 0, INT32_MAX),
    ("min_insync_replicas", 1, 1, 1000),
    ("num_partitions", 1, 1, 10_000),
    # 0: three replicas, or one for each broker where there are fewer.
    ("default_replication_factor", 0, 0, 1000),
    ("fetch_max_bytes", 55 << 20, 1024, INT32_MAX),
    ("replica_fetch_max_bytes", 1 << 20, 0, INT32_MAX),
    ("replica_fetch_response_max_bytes", 10 << 20, 0, INT32_MAX),
    ("replica_fetch_wait_max_ms", 500, 0, INT32_MAX),
    ("replica_fetch_backoff_ms", 50, 0, INT32_MAX),
    # Kafka's default is 50 partitions, for clusters that coordinate thousands of groups. Each is a log on every replica
    # here; three spread the groups over three brokers.
    ("offsets_topic_num_partitions", 3, 1, 10_000),
    ("offsets_commit_timeout_ms", 5000, 1, INT32_MAX),
    ("offset_metadata_max_bytes", 4096, 0, 32_767),
    ("group_min_session_timeout_ms", 6000, 0, INT32_MAX),
    ("group_max_session_timeout_ms", 1_800_000, 0, INT32_MAX),
    # Kafka's default of 3000 spares big applications rebalances while they start; a test would wait for it each time.
    ("group_initial_rebalance_delay_ms", 0, 0, INT32_MAX),
    # Ours: how many bytes of appended batches a broker keeps in memory for followers that have not fetched them yet.
    ("recent_batches_bytes", 4 << 20, 0, INT32_MAX),
)
BROKER_SETTING_NAMES = tuple(row[0] for row in _BROKER_SETTINGS)

# Topic setting -> the broker setting that stands in for it where a topic says nothing.
_TOPIC_INTEGERS = {
    "segment.bytes": "log_segment_bytes",
    "index.interval.bytes": "log_index_interval_bytes",
    "max.message.bytes": "message_max_bytes",
    "min.insync.replicas": "min_insync_replicas",
}
# Topic settings accepted with these values only, since they say what is done anyway.
_TOPIC_CONSTANTS = {
    "cleanup.policy": ("delete",),
    "compression.type": ("producer",),
    "message.timestamp.type": ("CreateTime",),
    "retention.bytes": ("-1",),
    "retention.ms": ("-1",),
    "unclean.leader.election.enable": ("false",),
}


class BrokerSettings:
    """A broker's settings; keywords are Kafka's names with underscores, raises ConfigError."""

    __slots__ = BROKER_SETTING_NAMES

    log_segment_bytes: int
    log_index_interval_bytes: int
    message_max_bytes: int
    min_insync_replicas: int
    num_partitions: int
    default_replication_factor: int
    fetch_max_bytes: int
    replica_fetch_max_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_fetch_backoff_ms: int
    offsets_topic_num_partitions: int
    offsets_commit_timeout_ms: int
    offset_metadata_max_bytes: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    recent_batches_bytes: int

    def __init__(self, **given: int) -> None:
        for name, default, least, most in _BROKER_SETTINGS:
            value = given.pop(name, default)
            if type(value) is not int or not least <= value <= most:
                raise ConfigError(f"broker setting {name}={value!r} must be an integer from {least} to {most}")
            setattr(self, name, value)
        for name in given:
            raise ConfigError(f"broker setting {name!r} is unknown; known are {', '.join(BROKER_SETTING_NAMES)}")

    def topic_integer(self, configs: Iterable[tuple[str, str]], name: str) -> int:
        """The topic setting `name` out of a topic's (checked) configs, or the broker's own figure."""
        for key, value in configs:
            if key == name:
                return int(value)
        figure: int = getattr(self, _TOPIC_INTEGERS[name])
        return figure


def check_topic_configs(configs: Iterable[tuple[str, str | None]]) -> str | None:
    """None where a new topic may have these settings, otherwise one sentence saying why not."""
    limits = {row[0]: row for row in _BROKER_SETTINGS}
    for name, value in configs:
        if name in _TOPIC_CONSTANTS:
            allowed = _TOPIC_CONSTANTS[name]
            if value not in allowed:
                return f"{name}={value} is not supported by this broker; only {' or '.join(allowed)} is"
            continue
        if name not in _TOPIC_INTEGERS:
            known = ", ".join(sorted((*_TOPIC_INTEGERS, *_TOPIC_CONSTANTS)))
            return f"topic setting {name} is not supported by this broker; supported are {known}"
        _, _, least, most = limits[_TOPIC_INTEGERS[name]]
        digits = value is not None and value.isascii() and value.isdigit() and len(value) <= 10
        if not digits or not least <= int(value or "") <= most:
            return f"{name}={value} must be an integer from {least} to {most}"
    return None
