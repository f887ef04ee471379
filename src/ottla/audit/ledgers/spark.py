"""Runs the judge at scale: Spark brings each slice's ledger rows and stored records together, checkers judge them.

The stored side holds numbers only, what the checkers read (`STORED_COLUMNS`): keys and values stay where they were
read. The two sides are cogrouped by topic, partition and slice (`slices`); each group is one
`PartitionHistory` of bounded size, and only figures and a few pieces of evidence come back.

Invariant: a partition nobody read anything of, and a ledger nobody found anything for, are judged like any other: what
is missing on one side is an empty side, never a missing group.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.audit.findings import EVIDENCE_MAX
from ottla.audit.ledgers.partition import Audit, add_audits
from ottla.audit.ledgers.slices import SLICE_NUMBERS, Place, SliceAudit, add_slices, audit_slice, look_again
from ottla.audit.ledgers.tables import SENT_COLUMNS, TopicTraits, history_of, nothing_of
from ottla.errors import ConfigError
from ottla.ledger import schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

Bounds = Mapping[str, Mapping[int, tuple[int, int]]]
"""{topic: {partition: (first offset, end offset)}}, as the brokers say; the end is exclusive."""

_SLICE = "slice"
_PARTITION = [schema.TOPIC, schema.PARTITION]
_GROUP = [*_PARTITION, _SLICE]
_Key = tuple[str, int, int]


def audit_topics(
    ledger: DataFrame,
    stored: DataFrame,
    bounds: Bounds,
    *,
    transactional: Collection[str] = (),
    compacted: Collection[str] = (),
    answered: Collection[str] = (),
    slice_numbers: int = SLICE_NUMBERS,
    evidence_max: int = EVIDENCE_MAX,
) -> dict[str, Audit]:
    """Judge every topic of `bounds` in one pass: ledger rows against stored records, and both against the offsets.

    `ledger`: rows of `ledger.schema` (`spark.read.parquet(...)`); `stored`: topic, partition and `STORED_COLUMNS`, see
    `topic_audit.stored`. `bounds` must hold every partition of every topic judged. `transactional` names the topics
    that transactions were written to, `compacted` those with cleanup.policy=compact, `answered` those whose producer
    asks for answers. Slices out of order take a second pass over their own records, and a first offset that was not
    read another one. Raises ConfigError for an outcome that is none.
    """
    traits = {topic: TopicTraits(topic in transactional, topic in compacted, topic in answered) for topic in bounds}
    numbers = _slice_numbers([topic for topic in bounds if traits[topic].is_compacted], slice_numbers)
    topics = list(bounds)
    sent = ledger.select(*_PARTITION, *SENT_COLUMNS).where(ledger[schema.TOPIC].isin(topics))
    sides = (
        sent.withColumn(_SLICE, numbers),
        stored.where(stored[schema.TOPIC].isin(topics)).withColumn(_SLICE, numbers),
    )
    found: dict[str, dict[int, dict[int, SliceAudit]]] = {
        topic: {partition: {} for partition in bounds[topic]} for topic in topics
    }
    _judge_slices(sides, _judge_group(bounds, traits, {}, evidence_max), found)
    later = {
        (topic, partition, number): beginning
        for topic, partitions in found.items()
        for partition, slices in partitions.items()
        for number, beginning in look_again(slices).items()
    }
    if later:
        again = (_only(sides[0], later), _only(sides[1], later))
        _judge_slices(again, _judge_group(bounds, traits, later, evidence_max), found)
    audits = {}
    for topic, partitions in found.items():
        parts = []
        for partition in sorted(partitions):
            within = bounds[topic].get(partition, (0, 0))
            nothing = nothing_of((topic, partition), within, traits[topic])
            first_gap = partial(_first_gap, stored, topic, partition, within[0])
            parts.append(add_slices(nothing, partitions[partition], first_gap, evidence_max))
        audits[topic] = add_audits(parts, evidence_max)
    return audits


def _slice_numbers(compacted: list[str], size: int) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    number = F.expr(
        f"CASE WHEN {schema.SEQUENCE} >= 0 THEN {schema.SEQUENCE} div {size} ELSE -1 - {schema.OFFSET} div {size} END"
    )
    return F.when(F.col(schema.TOPIC).isin(compacted), F.lit(0)).otherwise(number).cast("long") if compacted else number


def _only(side: DataFrame, keys: Mapping[_Key, Any]) -> DataFrame:
    """The rows of these slices."""
    from pyspark.sql import functions as F  # noqa: N812

    wanted = [F.struct(F.lit(t), F.lit(p).cast("int"), F.lit(n).cast("long")) for t, p, n in keys]
    return side.where(F.struct(*_GROUP).isin(wanted))


def _judge_slices(
    sides: tuple[DataFrame, DataFrame],
    judge_group: Callable[[Any, pa.Table, pa.Table], pa.Table],
    found: dict[str, dict[int, dict[int, SliceAudit]]],
) -> None:
    """Put each slice's audit where it belongs in `found`."""
    sent, stored = sides
    judged = (
        sent.groupBy(*_GROUP)
        .cogroup(stored.groupBy(*_GROUP))
        .applyInArrow(judge_group, "topic string, partition int, slice long, audit string")
        .collect()
    )
    for topic, partition, number, text in judged:
        answer = json.loads(text)
        if "refused" in answer:
            raise ConfigError(answer["refused"])
        found[topic].setdefault(partition, {})[number] = SliceAudit.from_dict(answer)


def _judge_group(
    bounds: Bounds, traits: Mapping[str, TopicTraits], later: Mapping[_Key, Place], evidence_max: int
) -> Callable[[Any, pa.Table, pa.Table], pa.Table]:
    def judge_group(key: tuple[Any, ...], sent: pa.Table, stored: pa.Table) -> pa.Table:
        import pyarrow as pa

        topic, partition, number = (each.as_py() for each in key)
        # Records that failed before they had a partition are grouped under -1, where nothing can be stored.
        within = bounds[topic].get(partition, (0, 0))
        beginning = later.get((topic, partition, number))
        try:
            history = history_of((topic, partition), sent, stored, within, traits[topic], beginning)
            answer = audit_slice(history, evidence_max).to_dict()
        except ConfigError as error:
            # One that is raised in Spark's worker comes back as a trace of a hundred lines.
            answer = {"refused": str(error)}
        return pa.table(
            {
                "topic": pa.array([topic], pa.string()),
                "partition": pa.array([partition], pa.int32()),
                "slice": pa.array([number], pa.int64()),
                "audit": pa.array([json.dumps(answer)], pa.string()),
            }
        )

    return judge_group


def _first_gap(stored: DataFrame, topic: str, partition: int, start: int) -> int:
    """The first offset from `start` on that was not read of a partition."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    offset = F.col(schema.OFFSET)
    of_partition = stored.where((F.col(schema.TOPIC) == topic) & (F.col(schema.PARTITION) == partition))
    offsets = of_partition.where(offset >= start).select(offset).distinct()
    row = F.row_number().over(Window.orderBy(offset)) - 1
    # The last offset of those that stand where they would without a gap.
    ((last,),) = offsets.withColumn("row", row).where(offset == start + F.col("row")).agg(F.max(offset)).collect()
    return start if last is None else int(last) + 1
