"""The two topics that all sinks of a cluster share: created if missing, refused if they would delete old records."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from ottla.client.admin import Admin
from ottla.client.authorized_operations import check_allowed
from ottla.errors import KafkaError, OttlaError, UserMistake
from ottla.protocol.error_codes import ErrorCode
from ottla.sink.commands import alter_command
from ottla.sink.settings import SinkSettings

_log = logging.getLogger("ottla.sink")

_REPLICATION_FACTOR_MAX = 3
_COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.1}
_RECEIPTS_SEGMENT_BYTES = 64 * 1024 * 1024
_RECEIPTS_SEGMENT_MS = 24 * 3_600_000
_DECISIONS_BYTES_MAX = 16 * 1024 * 1024
_PAUSE_S = 0.02
# Managed services restrict the settings of topics.
_SETTINGS_REFUSED = (ErrorCode.INVALID_CONFIG, ErrorCode.POLICY_VIOLATION)


def ensure(admin: Admin, settings: SinkSettings) -> None:
    """Create both topics if they are missing; UserMistake for one that deletes old records.

    Both are compacted, because a sink may be unused for any time, and then needs its last decision and its receipts.
    """
    brokers = len(admin.cluster().brokers)
    replicas = min(_REPLICATION_FACTOR_MAX, brokers)
    shared = {"min.insync.replicas": 2 if replicas >= _REPLICATION_FACTOR_MAX else 1}
    decisions = {
        **shared,
        **_COMPACTED,
        "max.message.bytes": _DECISIONS_BYTES_MAX,
        "segment.bytes": 2 * _DECISIONS_BYTES_MAX,
        "segment.ms": 600_000,
    }
    receipts = {
        **shared,
        **_COMPACTED,
        "segment.bytes": _RECEIPTS_SEGMENT_BYTES,
        "segment.ms": _RECEIPTS_SEGMENT_MS,
    }
    _ensure(admin, settings.control_topic, replicas, decisions)
    _ensure(admin, settings.receipts_topic, replicas, receipts)
    for topic in settings.topics:
        _check_cleanup(admin, settings, topic)
    for topic in settings.topics:
        check_authorized(admin, topic, {"READ", "WRITE"})


def exists(admin: Admin, topic: str) -> bool:
    """Whether the topic exists."""
    try:
        admin.describe(topic)
    except KafkaError as error:
        if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return False
        raise
    return True


def check_authorized(admin: Admin, topic: str, needed: set[str]) -> None:
    """Raise KafkaError (TOPIC_AUTHORIZATION_FAILED) if this user may describe the topic and lacks a needed right."""
    try:
        allowed = admin.describe(topic, include_authorized_operations=True).authorized_operations
    except OttlaError as error:
        # Brokers before Kafka 2.3 do not say.
        _log.info("what this user may do with %s is not known: %s", topic, error)
        return
    check_allowed(topic, allowed, needed)


def _ensure(admin: Admin, topic: str, replicas: int, configs: Mapping[str, object]) -> None:
    if exists(admin, topic):
        return
    try:
        try:
            admin.create_topics(topic, partitions=1, replication_factor=replicas, configs=configs)
        except KafkaError as error:
            if error.code not in _SETTINGS_REFUSED:
                raise
            _log.warning(
                "topic %r is made with cleanup.policy=compact alone, since the brokers refuse its other settings: "
                "%s. It may become larger before it is compacted, which makes starts of queries slower",
                topic,
                error,
            )
            admin.create_topics(topic, partitions=1, replication_factor=replicas, configs={"cleanup.policy": "compact"})
    except KafkaError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        # Another sink has just created it. This broker may not know that yet.
        while not exists(admin, topic):
            time.sleep(_PAUSE_S)


def _check_cleanup(admin: Admin, settings: SinkSettings, topic: str) -> None:
    try:
        policy = admin.describe_configs(topic=topic)["cleanup.policy"].value
    except (KafkaError, LookupError) as error:
        # This user may not be allowed to read the topic's settings; the sink works without that right.
        _log.info("whether %s is compacted is not known: %s", topic, error)
        return
    if policy != "compact":
        raise UserMistake(
            f"topic {topic!r} has cleanup.policy={policy}, which deletes records that the sink still needs; set it to "
            f"compact ({alter_command(settings, topic, 'cleanup.policy=compact')})"
        )
