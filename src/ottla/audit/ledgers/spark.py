"""Runs the judge at scale: Spark brings each partition's ledger rows and stored records together, checkers judge them.

The stored side is reduced first, in the JVM, to what the checkers read (`stored_columns`: numbers only), so that keys
and values never travel twice. The two sides are cogrouped by topic and partition; each group is one
`PartitionHistory`, and only figures and a few pieces of evidence come back.

Invariant: a partition nobody read anything of, and a ledger nobody found anything for, are judged like any other: what
is missing on one side is an empty side, never a missing group.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.audit.findings import EVIDENCE_MAX
from ottla.audit.history import NO_SEQUENCE, PartitionHistory, Sent, Stored
from ottla.audit.ledgers.partition import Audit, add_audits, audit_partition
from ottla.errors import ConfigError
from ottla.ledger import schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

Bounds = Mapping[str, Mapping[int, tuple[int, int]]]
"""{topic: {partition: (first offset, end offset)}}, as the brokers say; the end is exclusive."""

_GROUP = [schema.TOPIC, schema.PARTITION]
_LEDGER_COLUMNS = [schema.SEQUENCE, schema.OUTCOME, schema.KEY_CRC, schema.VALUE_CRC, schema.OFFSET]


def stored_columns(records: DataFrame) -> DataFrame:
    """What the audit needs to know of stored records: topic, partition, offset, timestamp (us), sequence, two CRCs.

    `records` has the columns of Spark's Kafka source, headers included (`includeHeaders`). `sequence` is -1 where the
    record carries none. Cache this where the records serve another question too.
    """
    from pyspark.sql import functions as F  # noqa: N812

    ours = F.get(F.filter("headers", lambda header: header["key"] == schema.SEQUENCE_HEADER), F.lit(0))["value"]
    number = F.when(F.length(ours) == 8, F.conv(F.hex(ours), 16, 10).try_cast("long"))
    return records.select(
        *_GROUP,
        schema.OFFSET,
        F.unix_micros("timestamp").alias("timestamp"),
        F.coalesce(number, F.lit(NO_SEQUENCE).cast("long")).alias(schema.SEQUENCE),
        _crc("key").alias(schema.KEY_CRC),
        _crc("value").alias(schema.VALUE_CRC),
    )


def audit_topics(
    ledger: DataFrame,
    stored: DataFrame,
    bounds: Bounds,
    *,
    transactional: Collection[str] = (),
    compacted: Collection[str] = (),
    evidence_max: int = EVIDENCE_MAX,
) -> dict[str, Audit]:
    """Judge every topic of `bounds` in one pass: ledger rows against stored records, and both against the offsets.

    `ledger`: rows of `ledger.schema` (`spark.read.parquet(...)`), `stored`: from `stored_columns`. `bounds` must hold
    every partition of every topic judged. `transactional` names the topics that transactions were written to,
    `compacted` those with cleanup.policy=compact. Raises ConfigError for an outcome that is none.
    """
    topics = list(bounds)
    kinds = _TopicKinds(tuple(transactional), tuple(compacted))
    judge_group = _judge_group(bounds, kinds, evidence_max)
    sent = ledger.select(*_GROUP, *_LEDGER_COLUMNS).where(ledger[schema.TOPIC].isin(topics))
    found = stored.where(stored[schema.TOPIC].isin(topics))
    judged = (
        sent.groupBy(*_GROUP)
        .cogroup(found.groupBy(*_GROUP))
        .applyInArrow(judge_group, "topic string, partition int, audit string")
        .collect()
    )
    parts = {(row.topic, row.partition): _audit_of(json.loads(row.audit)) for row in judged}
    for topic, partitions in bounds.items():
        for partition, (start, end) in partitions.items():
            if (topic, partition) not in parts:
                nothing = _history(topic, partition, None, None, (start, end), kinds)
                parts[topic, partition] = audit_partition(nothing, evidence_max)
    return {
        topic: add_audits((parts[key] for key in sorted(parts) if key[0] == topic), evidence_max) for topic in bounds
    }


class _TopicKinds(NamedTuple):
    """The topics that are not like others."""

    transactional: tuple[str, ...]
    compacted: tuple[str, ...]


def _audit_of(answer: dict[str, Any]) -> Audit:
    if "refused" in answer:
        raise ConfigError(answer["refused"])
    return Audit.from_dict(answer)


def _judge_group(
    bounds: Bounds, kinds: _TopicKinds, evidence_max: int
) -> Callable[[Any, pa.Table, pa.Table], pa.Table]:
    def judge_group(key: tuple[Any, ...], ledger: pa.Table, stored: pa.Table) -> pa.Table:
        import pyarrow as pa

        topic, partition = key[0].as_py(), key[1].as_py()
        # Records that failed before they had a partition are grouped under -1, where nothing can be stored.
        within = bounds[topic].get(partition, (0, 0))
        history = _history(topic, partition, ledger, stored, within, kinds)
        try:
            answer = audit_partition(history, evidence_max).to_dict()
        except ConfigError as error:
            # One that is raised in Spark's worker comes back as a trace of a hundred lines.
            answer = {"refused": str(error)}
        return pa.table(
            {
                "topic": pa.array([topic], pa.string()),
                "partition": pa.array([partition], pa.int32()),
                "audit": pa.array([json.dumps(answer)], pa.string()),
            }
        )

    return judge_group


def _history(
    topic: str,
    partition: int,
    ledger: pa.Table | None,
    stored: pa.Table | None,
    within: tuple[int, int],
    kinds: _TopicKinds,
) -> PartitionHistory:
    return PartitionHistory(
        topic,
        partition,
        _sent_of(ledger),
        _stored_of(stored),
        *within,
        is_transactional=topic in kinds.transactional,
        is_compacted=topic in kinds.compacted,
    )


def _sent_of(ledger: pa.Table | None) -> Sent:
    if ledger is None:
        return Sent([], [], [], [], [])
    outcome: list[Any] = ledger.column(schema.OUTCOME).to_pylist()
    return Sent(
        sequence=_numbers(ledger, schema.SEQUENCE),
        outcome=outcome,
        key_crc=_numbers(ledger, schema.KEY_CRC),
        value_crc=_numbers(ledger, schema.VALUE_CRC),
        offset=_numbers(ledger, schema.OFFSET),
    )


def _stored_of(stored: pa.Table | None) -> Stored:
    if stored is None:
        return Stored([], [], [], [], [])
    return Stored(
        offset=_numbers(stored, schema.OFFSET),
        sequence=_numbers(stored, schema.SEQUENCE),
        key_crc=_numbers(stored, schema.KEY_CRC),
        value_crc=_numbers(stored, schema.VALUE_CRC),
        timestamp=_numbers(stored, "timestamp"),
    )


def _numbers(table: pa.Table, name: str) -> list[int]:
    # By way of numpy, which Spark needs anyway: many times faster than a Python object per Arrow scalar.
    numbers: list[int] = table.column(name).to_numpy().tolist()
    return numbers


def _crc(column: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.coalesce(F.crc32(column), F.lit(schema.NO_CRC).cast("long"))
