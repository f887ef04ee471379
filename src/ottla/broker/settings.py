"""The settings of a broker: Kafka's names, types, defaults and ranges in one table.

`BrokerSettings` holds them as attributes, named as in Kafka with underscores, and takes both spellings
(`log.segment.bytes`, `log_segment_bytes`), as clients do. A topic's settings are in `topic_settings.py`; where a topic
has none, its broker's value holds. Where a default differs from Kafka's, the line above it says why.
"""

from __future__ import annotations

from typing import Any

from ottla.errors import ConfigError
from ottla.nearest import nearest_name
from ottla.records.batch_header import CODECS

INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1
# `log.flush.interval.messages` and the like: never.
NEVER = INT64_MAX

# Kinds of values; a tuple of strings stands for "one of these", LIST for several of the words allowed.
INT, LONG, DOUBLE, BOOLEAN, LIST = "int", "long", "double", "boolean", "list"
Kind = str | tuple[str, ...]
Value = int | float | bool | str | tuple[str, ...]
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
COMPRESSION_TYPES = ("producer", "uncompressed", *CODECS[1:])
CLEANUP_POLICIES = ("compact", "delete")
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class Setting:
    """One line of a table: `kind` of value, `default`, range (numbers) or `words` allowed (lists)."""

    __slots__ = ("default", "kind", "least", "most", "name", "words")

    def __init__(
        self, name: str, kind: Kind, default: Value, least: float = 0, most: float = -1, words: tuple[str, ...] = ()
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.least = least
        self.most = most if most >= 0 else (INT64_MAX if kind == LONG else INT32_MAX)
        self.words = words

    @property
    def attribute(self) -> str:
        """The name as an attribute."""
        return self.name.replace(".", "_")

    def parse(self, value: Any) -> Value:
        """The typed value of a text or of an object of the right type; ValueError with what is allowed."""
        kind = self.kind
        text = value.strip() if isinstance(value, str) else value
        if kind == BOOLEAN:
            word = str(text).lower() if isinstance(text, bool | str) else ""
            if word in ("true", "false"):
                return word == "true"
        elif kind == LIST:
            parts = text.split(",") if isinstance(text, str) else list(text or ())
            words = tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))
            if text is not None and all(word in self.words for word in words):
                return words
        elif isinstance(kind, tuple):
            if text in kind:
                return str(text)
        else:
            number = _number(text, whole=kind != DOUBLE)
            if number is not None and self.least <= number <= self.most:
                return number
        raise ValueError(f"must be {self.allowed}")

    @property
    def allowed(self) -> str:
        """The values allowed, as the end of "must be ..."."""
        if self.kind == BOOLEAN:
            return "true or false"
        if self.kind == LIST:
            return f"some of {', '.join(self.words)}"
        if isinstance(self.kind, tuple):
            return f"one of {', '.join(self.kind)}"
        what = "a number" if self.kind == DOUBLE else "an integer"
        return f"{what} from {self.least} to {self.most}"


def text_of(value: Value) -> str:
    """A typed value as Kafka writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _number(value: Any, *, whole: bool) -> float | int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int) or (isinstance(value, float) and not whole):
        return value
    if not isinstance(value, str) or len(value) > 30 or not value.isascii():
        return None
    try:
        return int(value) if whole else float(value)
    except ValueError:
        return None


BROKER_SETTINGS: tuple[Setting, ...] = (
    # Logs.
    Setting("log.segment.bytes", INT, 1 << 30, 1024),
    Setting("log.roll.ms", LONG, 7 * 24 * 3600 * 1000, 1),
    Setting("log.roll.jitter.ms", LONG, 0),
    Setting("log.index.interval.bytes", INT, 4096),
    Setting("log.index.size.max.bytes", INT, 10 << 20, 4),
    Setting("log.preallocate", BOOLEAN, False),
    Setting("log.message.timestamp.type", TIMESTAMP_TYPES, "CreateTime"),
    Setting("log.message.timestamp.before.max.ms", LONG, NEVER),
    Setting("log.message.timestamp.after.max.ms", LONG, 3_600_000),
    Setting("message.max.bytes", INT, 1048588),
    Setting("compression.type", COMPRESSION_TYPES, "producer"),
    # Flushing: left to the operating system unless asked for, as in Kafka.
    Setting("log.flush.interval.messages", LONG, NEVER, 1),
    Setting("log.flush.interval.ms", LONG, NEVER),
    Setting("log.flush.scheduler.interval.ms", LONG, NEVER),
    Setting("log.flush.offset.checkpoint.interval.ms", INT, 60_000),
    # Ours: after how long the operating system writes back what it was given (Linux: dirty_expire_centisecs).
    Setting("os.flush.interval.ms", INT, 30_000, 1),
    # Retention and compaction.
    Setting("log.cleanup.policy", LIST, ("delete",), words=CLEANUP_POLICIES),
    Setting("log.retention.ms", LONG, 7 * 24 * 3600 * 1000, -1),
    Setting("log.retention.bytes", LONG, -1, -1),
    Setting("log.retention.check.interval.ms", LONG, 300_000, 1),
    Setting("log.segment.delete.delay.ms", LONG, 60_000),
    Setting("log.cleaner.enable", BOOLEAN, True),
    Setting("log.cleaner.backoff.ms", LONG, 15_000),
    Setting("log.cleaner.min.cleanable.ratio", DOUBLE, 0.5, 0, 1),
    Setting("log.cleaner.min.compaction.lag.ms", LONG, 0),
    Setting("log.cleaner.max.compaction.lag.ms", LONG, NEVER, 1),
    Setting("log.cleaner.delete.retention.ms", LONG, 24 * 3600 * 1000),
    # Replication.
    Setting("min.insync.replicas", INT, 1, 1),
    Setting("num.partitions", INT, 1, 1, 10_000),
    # 0: three replicas, or one for each broker where there are fewer.
    Setting("default.replication.factor", INT, 0, 0, 1000),
    Setting("replica.lag.time.max.ms", LONG, 30_000, 1),
    Setting("replica.fetch.max.bytes", INT, 1 << 20),
    Setting("replica.fetch.response.max.bytes", INT, 10 << 20),
    Setting("replica.fetch.wait.max.ms", INT, 500),
    # Kafka's followers wait a second after a fetch that failed; a test should not.
    Setting("replica.fetch.backoff.ms", INT, 50),
    Setting("request.timeout.ms", INT, 30_000, 1),
    Setting("replica.high.watermark.checkpoint.interval.ms", LONG, 5000, 1),
    Setting("unclean.leader.election.enable", BOOLEAN, False),
    # Empty: leaders name no replica to consumers, as where Kafka has no selector.
    Setting("replica.selector.class", ("", RACK_AWARE_SELECTOR), ""),
    Setting("auto.leader.rebalance.enable", BOOLEAN, True),
    Setting("leader.imbalance.check.interval.seconds", LONG, 300, 1),
    # Kafka waits nine seconds for a broker that has gone silent; a test should not.
    Setting("broker.session.timeout.ms", INT, 1500, 1),
    # Kafka's brokers send one every two seconds: too few for the shorter session timeout.
    Setting("broker.heartbeat.interval.ms", INT, 300, 1),
    # A mistyped topic name is to fail, so no topic comes into being by being asked for; Kafka's default is true.
    Setting("auto.create.topics.enable", BOOLEAN, False),
    Setting("delete.topic.enable", BOOLEAN, True),
    # Requests.
    Setting("fetch.max.bytes", INT, 55 << 20, 1024),
    Setting("max.incremental.fetch.session.cache.slots", INT, 1000),
    Setting("max.connections", INT, INT32_MAX),
    Setting("quota.window.num", INT, 11, 1),
    Setting("quota.window.size.seconds", INT, 1, 1),
    Setting("telemetry.max.bytes", INT, 1 << 20, 1),
    Setting("connections.max.idle.ms", LONG, 600_000, -1),
    Setting("connection.failed.authentication.delay.ms", INT, 100),
    # Ours: how many bytes of appended batches a broker keeps in memory for followers that have not fetched them yet.
    Setting("recent.batches.bytes", INT, 4 << 20),
    # Producers and transactions.
    Setting("producer.id.expiration.ms", INT, 86_400_000, 1),
    Setting("producer.id.expiration.check.interval.ms", INT, 600_000, 1),
    Setting("transactional.id.expiration.ms", INT, 604_800_000, 1),
    Setting("transaction.max.timeout.ms", INT, 900_000, 1),
    # Kafka looks every ten seconds; here it costs nothing to look when a transaction is due.
    Setting("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 1000, 1),
    Setting("transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3_600_000, 1),
    Setting("transaction.partition.verification.enable", BOOLEAN, True),
    Setting("add.partitions.to.txn.retry.backoff.ms", INT, 20, 1),
    Setting("add.partitions.to.txn.retry.backoff.max.ms", INT, 100),
    # Kafka's feature of that name (KIP-890): with 2 every transaction has an epoch of its own, with 0 and 1 not.
    Setting("transaction.version", INT, 2, 0, 2),
    # Kafka's default is 50 partitions, for clusters that coordinate thousands of groups. Each is a log on every replica
    # here; three spread groups and transactions over three brokers.
    Setting("transaction.state.log.num.partitions", INT, 3, 1, 10_000),
    # 0: as default.replication.factor has it. Kafka's default is 3, with which a smaller cluster cannot make the topic.
    Setting("transaction.state.log.replication.factor", INT, 0, 0, 1000),
    Setting("transaction.state.log.min.isr", INT, 2, 1),
    # As for transaction.state.log.num.partitions: Kafka's default is 50 partitions.
    Setting("offsets.topic.num.partitions", INT, 3, 1, 10_000),
    # 0: as default.replication.factor has it, as for the topic of transactions.
    Setting("offsets.topic.replication.factor", INT, 0, 0, 1000),
    Setting("offsets.commit.timeout.ms", INT, 5000, 1),
    Setting("offset.metadata.max.bytes", INT, 4096, 0, 32_767),
    Setting("group.min.session.timeout.ms", INT, 6000),
    Setting("group.max.session.timeout.ms", INT, 1_800_000),
    # Kafka's default of 3000 spares big applications rebalances while they start; a test would wait for it each time.
    Setting("group.initial.rebalance.delay.ms", INT, 0),
    # Kafka's feature of that name (KIP-848): with 1 there are consumer groups, with 0 classic ones only.
    Setting("group.version", INT, 1, 0, 1),
    Setting("group.consumer.session.timeout.ms", INT, 45_000, 1),
    # Kafka's members heartbeat every five seconds, and a rebalance takes several heartbeats; a test should not wait.
    Setting("group.consumer.heartbeat.interval.ms", INT, 500, 1),
    Setting("group.consumer.max.size", INT, INT32_MAX, 1),
)
BROKER_SETTING_NAMES = tuple(setting.attribute for setting in BROKER_SETTINGS)


class BrokerSettings:
    """A broker's settings by Kafka's names, with dots or underscores, typed or as text; raises ConfigError."""

    __slots__ = BROKER_SETTING_NAMES

    log_segment_bytes: int
    log_roll_ms: int
    log_roll_jitter_ms: int
    log_index_interval_bytes: int
    log_index_size_max_bytes: int
    log_preallocate: bool
    log_message_timestamp_type: str
    log_message_timestamp_before_max_ms: int
    log_message_timestamp_after_max_ms: int
    message_max_bytes: int
    compression_type: str
    log_flush_interval_messages: int
    log_flush_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    os_flush_interval_ms: int
    log_cleanup_policy: tuple[str, ...]
    log_retention_ms: int
    log_retention_bytes: int
    log_retention_check_interval_ms: int
    log_segment_delete_delay_ms: int
    log_cleaner_enable: bool
    log_cleaner_backoff_ms: int
    log_cleaner_min_cleanable_ratio: float
    log_cleaner_min_compaction_lag_ms: int
    log_cleaner_max_compaction_lag_ms: int
    log_cleaner_delete_retention_ms: int
    min_insync_replicas: int
    num_partitions: int
    default_replication_factor: int
    replica_lag_time_max_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_fetch_backoff_ms: int
    request_timeout_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    unclean_leader_election_enable: bool
    replica_selector_class: str
    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_seconds: int
    broker_session_timeout_ms: int
    broker_heartbeat_interval_ms: int
    auto_create_topics_enable: bool
    delete_topic_enable: bool
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    max_connections: int
    quota_window_num: int
    quota_window_size_seconds: int
    telemetry_max_bytes: int
    connections_max_idle_ms: int
    connection_failed_authentication_delay_ms: int
    recent_batches_bytes: int
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int
    transactional_id_expiration_ms: int
    transaction_max_timeout_ms: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_partition_verification_enable: bool
    add_partitions_to_txn_retry_backoff_ms: int
    add_partitions_to_txn_retry_backoff_max_ms: int
    transaction_version: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_min_isr: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_commit_timeout_ms: int
    offset_metadata_max_bytes: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_version: int
    group_consumer_session_timeout_ms: int
    group_consumer_heartbeat_interval_ms: int
    group_consumer_max_size: int

    def __init__(self, **given: Any) -> None:
        for setting in BROKER_SETTINGS:
            name = setting.attribute
            if setting.name != name and name in given and setting.name in given:
                raise ConfigError(f"broker setting {setting.name} is given twice, also as {name}; keep one")
            value = given.pop(name, given.pop(setting.name, setting.default))
            try:
                setattr(self, name, setting.parse(value))
            except ValueError as error:
                raise ConfigError(f"broker setting {setting.name}={value!r} {error}") from None
        for name in given:
            known = [setting.name for setting in BROKER_SETTINGS]
            near = nearest_name(name.replace("_", "."), known)
            advice = f"did you mean {near}?" if near else f"known are {', '.join(known)}"
            raise ConfigError(f"broker setting {name!r} is unknown; {advice}")
