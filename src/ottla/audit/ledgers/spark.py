"""Runs the judge at scale: Spark brings each slice's ledger rows and stored records together, checkers judge them.

The stored side holds numbers only, what the checkers read (`STORED_COLUMNS`): keys and values stay where they were
read. The two sides are cogrouped by slice (`slices`) of a partition; each group is one
`PartitionHistory` of bounded size, and only figures and a few pieces of evidence come back.

Invariant: a slice for which nothing was read, or of which the ledger has no row, is judged like any other: the missing
side is empty, and the group is never left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.audit.findings import EVIDENCE_MAX
from ottla.audit.ledgers.partition import Audit, add_audits
from ottla.audit.ledgers.slices import SLICE_NUMBERS, FirstCopy, SliceAudit, add_slices, audit_slice, look_again
from ottla.audit.ledgers.tables import SENT_COLUMNS, STORED_COLUMNS, TopicTraits, history_of, nothing_of
from ottla.errors import ConfigError
from ottla.ledger import schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

Bounds = Mapping[str, Mapping[int, tuple[int, int]]]
"""{topic: {partition: (first offset, end offset)}}, as the brokers say; the end is exclusive."""

_GROUP = "slice"


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
    groups = _Groups(bounds)
    number = groups.column([topic for topic in bounds if traits[topic].is_compacted], slice_numbers)
    topics = list(bounds)
    sides = (
        ledger.where(ledger[schema.TOPIC].isin(topics)).select(number, *SENT_COLUMNS),
        stored.where(stored[schema.TOPIC].isin(topics)).select(number, *STORED_COLUMNS),
    )
    found: dict[str, dict[int, dict[int, SliceAudit]]] = {
        topic: {partition: {} for partition in bounds[topic]} for topic in topics
    }
    _judge_slices(sides, groups, _judge_group(groups, traits, {}, evidence_max), found)
    later = {
        groups.number(topic, partition, number): beginning
        for topic, partitions in found.items()
        for partition, slices in partitions.items()
        for number, beginning in look_again(slices).items()
    }
    if later:
        again = (_only(sides[0], later), _only(sides[1], later))
        _judge_slices(again, groups, _judge_group(groups, traits, later, evidence_max), found)
    audits = {}
    gaps = _FirstGaps(stored, bounds)
    for topic, partitions in found.items():
        parts = []
        for partition in sorted(partitions):
            within = bounds[topic].get(partition, (0, 0))
            nothing = nothing_of((topic, partition), within, traits[topic])
            first_gap = partial(gaps.first, topic, partition)
            parts.append(add_slices(nothing, partitions[partition], first_gap, evidence_max))
        audits[topic] = add_audits(parts, evidence_max)
    return audits


class _Groups:
    """One number for each slice of each partition: Spark sorts by one number faster than by three columns.

    Records that failed before they had a partition are in the groups of partition -1, where nothing can be stored.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._topics = list(bounds)
        self._width = 2 + max((partition for each in bounds.values() for partition in each), default=0)
        self._places = len(self._topics) * self._width

    def number(self, topic: str, partition: int, number: int) -> int:
        """The group of a slice."""
        return number * self._places + self._topics.index(topic) * self._width + partition + 1

    def slice_of(self, group: int) -> tuple[str, int, int]:
        """Topic, partition and number of the slice."""
        number, place = divmod(group, self._places)
        topic, partition = divmod(place, self._width)
        return self._topics[topic], partition - 1, number

    def column(self, compacted: list[str], slice_numbers: int) -> Column:
        """The same in Spark, of a row's topic, partition, sequence and offset; a partition that is not there fails."""
        from pyspark.sql import functions as F  # noqa: N812

        number = F.expr(
            f"CASE WHEN {schema.SEQUENCE} >= 0 THEN {schema.SEQUENCE} div {slice_numbers} "
            f"ELSE -1 - {schema.OFFSET} div {slice_numbers} END"
        )
        if compacted:
            number = F.when(F.col(schema.TOPIC).isin(compacted), F.lit(0)).otherwise(number)
        begins = F.lit(0)
        for index, topic in enumerate(self._topics[1:], 1):
            begins = F.when(F.col(schema.TOPIC) == topic, F.lit(index * self._width)).otherwise(begins)
        partition = F.col(schema.PARTITION)
        known = F.when(partition.between(-1, self._width - 2), partition).otherwise(
            F.raise_error(F.concat(F.lit("there is no partition "), partition))
        )
        return (number.cast("long") * self._places + begins + known + 1).alias(_GROUP)


def _only(side: DataFrame, groups: Collection[int]) -> DataFrame:
    """The rows of these slices."""
    return side.where(side[_GROUP].isin(list(groups)))


def _judge_slices(
    sides: tuple[DataFrame, DataFrame],
    groups: _Groups,
    judge_group: Callable[[Any, pa.Table, pa.Table], pa.Table],
    found: dict[str, dict[int, dict[int, SliceAudit]]],
) -> None:
    """Put each slice's audit where it belongs in `found`."""
    sent, stored = sides
    judged = (
        sent.groupBy(_GROUP)
        .cogroup(stored.groupBy(_GROUP))
        .applyInArrow(judge_group, f"{_GROUP} long, audit string")
        .collect()
    )
    for group, text in judged:
        answer = json.loads(text)
        if "refused" in answer:
            raise ConfigError(answer["refused"])
        topic, partition, number = groups.slice_of(group)
        found[topic].setdefault(partition, {})[number] = SliceAudit.from_dict(answer)


def _judge_group(
    groups: _Groups, traits: Mapping[str, TopicTraits], later: Mapping[int, FirstCopy], evidence_max: int
) -> Callable[[Any, pa.Table, pa.Table], pa.Table]:
    def judge_group(key: tuple[Any, ...], sent: pa.Table, stored: pa.Table) -> pa.Table:
        import pyarrow as pa

        group = key[0].as_py()
        topic, partition, _ = groups.slice_of(group)
        within = groups.bounds[topic].get(partition, (0, 0))
        try:
            history = history_of((topic, partition), sent, stored, within, traits[topic], later.get(group))
            answer = audit_slice(history, evidence_max).to_dict()
        except ConfigError as error:
            # One that is raised in Spark's worker comes back as a trace of a hundred lines.
            answer = {"refused": str(error)}
        return pa.table({_GROUP: pa.array([group], pa.int64()), "audit": pa.array([json.dumps(answer)], pa.string())})

    return judge_group


class _FirstGaps:
    """The first offset of each partition that was not read: found for all at once, the first time one is asked for."""

    def __init__(self, stored: DataFrame, bounds: Bounds) -> None:
        self._stored, self._bounds = stored, bounds
        self._read_to: dict[tuple[str, int], int] | None = None

    def first(self, topic: str, partition: int) -> int:
        """Of one partition."""
        if self._read_to is None:
            self._read_to = self._read()
        start = self._bounds[topic].get(partition, (0, 0))[0]
        return self._read_to.get((topic, partition), start - 1) + 1

    def _read(self) -> dict[tuple[str, int], int]:
        """The last offset of each partition that stands where it would without a gap."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F  # noqa: N812

        starts = [(topic, number, begin) for topic, each in self._bounds.items() for number, (begin, _) in each.items()]
        begins = self._stored.sparkSession.createDataFrame(
            starts, f"{schema.TOPIC} string, {schema.PARTITION} int, start long"
        )
        place = [schema.TOPIC, schema.PARTITION]
        offset, start = F.col(schema.OFFSET), F.col("start")
        read = self._stored.select(*place, schema.OFFSET).join(F.broadcast(begins), place).where(offset >= start)
        row = F.row_number().over(Window.partitionBy(*place).orderBy(offset)) - 1
        in_place = read.distinct().withColumn("row", row).where(offset == start + F.col("row"))
        last = in_place.groupBy(*place).agg(F.max(offset)).collect()
        return {(topic, partition): int(offset) for topic, partition, offset in last}
