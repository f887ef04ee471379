"""The business question that each topic has to answer, beside the truth computed from the file.

For the flights: how many, and how late, by origin and hour. For any other input: how many records of each key, for the
keys with most records, all others taken together. Spark computes the answers from the topics in one query; the truth
comes from the Arrow table by pyarrow alone, so that nothing is shared between the two but the words of the labels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla.inputs.source import Source
from ottla.inputs.table import key_strings
from ottla.printable import printable
from ottla.showcase.outcome import Answer, Group

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.showcase.values import Values

KEYS_ASKED = 30
_NO_KEY = "records without a key"
_OTHER_KEYS = "all other keys together"

Figures = dict[str, tuple[int, float | None]]
"""{label: (count, mean)}"""


class Question(ABC):
    """One question: its words, the truth, and how to ask it of stored records."""

    words: str
    truth: Figures

    @abstractmethod
    def ask(self, stored: DataFrame, values: Values) -> dict[str, Figures]:
        """{topic: answer} computed by Spark from records with the columns `topic`, `key` and `value`."""


class DelayByOriginAndHour(Question):
    """Flights and mean departure delay by origin and scheduled hour; a flight without a departure has no delay."""

    words = "how many flights, and how late, by origin and hour?"

    def __init__(self, table: pa.Table) -> None:
        grouped = table.group_by(["origin", "hour"]).aggregate([([], "count_all"), ("dep_delay", "mean")])
        self.truth = {
            _origin_and_hour(row["origin"], row["hour"]): (row["count_all"], row["dep_delay_mean"])
            for row in grouped.to_pylist()
        }

    def ask(self, stored: DataFrame, values: Values) -> dict[str, Figures]:
        from pyspark.sql import functions as F  # noqa: N812

        flight = values.fields("origin string, hour int, dep_delay double")
        rows = (
            stored.select("topic", flight.alias("flight"))
            .groupBy("topic", "flight.origin", "flight.hour")
            .agg(F.count(F.lit(1)).alias("flights"), F.avg("flight.dep_delay").alias("delay"))
            .collect()
        )
        answers: dict[str, Figures] = {}
        for row in rows:
            answers.setdefault(row.topic, {})[_origin_and_hour(row.origin, row.hour)] = (row.flights, row.delay)
        return answers


class RecordsByKey(Question):
    """Records of each of the `KEYS_ASKED` most frequent keys, of all other keys together, and of those without one."""

    def __init__(self, table: pa.Table, source: Source) -> None:
        self.words = f"how many records by {printable(source.key)}?"
        keys = key_strings(table, source)
        counted: Any = pc.value_counts(keys)
        counts = {pair["values"]: pair["counts"] for pair in counted.to_pylist()}
        without = counts.pop(None, 0)
        self._asked = sorted(counts, key=lambda key: (-counts[key], key))[:KEYS_ASKED]
        self._labels = _key_labels(source.key, self._asked)
        self.truth = {self._labels[key]: (counts[key], None) for key in self._asked}
        others = sum(counts.values()) - sum(counts[key] for key in self._asked)
        if others:
            self.truth[_OTHER_KEYS] = (others, None)
        if without:
            self.truth[_NO_KEY] = (without, None)

    def ask(self, stored: DataFrame, values: Values) -> dict[str, Figures]:
        from pyspark.sql import functions as F  # noqa: N812

        key = F.col("key").cast("string")
        asked = F.when(key.isNull() | key.isin(self._asked), key).otherwise(F.lit(None))
        rows = (
            stored.select("topic", asked.alias("asked"), key.isNull().alias("missing"))
            .groupBy("topic", "asked", "missing")
            .count()
            .collect()
        )
        answers: dict[str, Figures] = {}
        for row in rows:
            found = self._labels[row.asked] if row.asked is not None else _OTHER_KEYS
            answers.setdefault(row.topic, {})[_NO_KEY if row.missing else found] = (row["count"], None)
        return answers


def question_for(source: Source, table: pa.Table) -> Question:
    """The flights' own question for the flights, the general one for everything else."""
    return DelayByOriginAndHour(table) if source.is_flights else RecordsByKey(table, source)


def ask_topics(
    spark: SparkSession,
    bootstrap_servers: str,
    topics: Mapping[str, str],
    question: Question,
    values: Values,
    **options: str,
) -> tuple[Answer, ...]:
    """Ask all topics in one query; `topics` is {guarantee: topic}, and so ordered are the answers.

    `options` are more of Spark's source, such as its user.
    """
    given = {"kafka.bootstrap.servers": bootstrap_servers, "subscribe": ",".join(topics.values()), **options}
    stored = spark.read.format("ottla").options(**given).option("columns", "topic,key,value")
    found = question.ask(stored.load(), values)
    return tuple(compare(guarantee, question.truth, found.get(topic, {})) for guarantee, topic in topics.items())


def compare(guarantee: str, truth: Figures, found: Figures) -> Answer:
    """The answer of one topic beside the truth, group by group, groups of either side included."""
    nothing: tuple[int, Any] = (0, None)
    labels = sorted({*truth, *found})
    return Answer(
        guarantee,
        tuple(
            Group(
                label,
                truth_count=truth.get(label, nothing)[0],
                count=found.get(label, nothing)[0],
                truth_mean=truth.get(label, nothing)[1],
                mean=found.get(label, nothing)[1],
            )
            for label in labels
        ),
    )


def _origin_and_hour(origin: str | None, hour: int | None) -> str:
    return f"{origin} {hour}h"


def _key_labels(column: str, keys: Sequence[str]) -> dict[str, str]:
    """A label for each key: cut short where that is long, and whole where two would be cut to the same."""
    short = {key: printable(key if len(key) <= 40 else key[:39] + "…") for key in keys}
    uses = Counter(short.values())
    return {key: f"{printable(column)} {word if uses[word] == 1 else repr(key)}" for key, word in short.items()}
