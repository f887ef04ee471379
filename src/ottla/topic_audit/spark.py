"""The audit of a topic on PySpark: the ledger and the records as DataFrames, of any size and on any master.

The ledger is checked first, in one pass of sums: whether each row can be used, and whether each record number is there.
Only if a sum is wrong, its row is looked for. Right sums prove nothing: the verdict counts again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.audit.ledgers.spark import audit_topics
from ottla.errors import OttlaError, UserMistake
from ottla.ledger import schema
from ottla.ledger.files import number_mistake, partition_mistake, repeated_mistake
from ottla.ledger.pieces import (
    GIVEN_SCHEMA,
    KEY,
    NEEDED,
    VALUE,
    Piece,
    find_lines,
    is_about,
    is_json,
    judged_columns,
    pieces_of,
    read_piece,
)
from ottla.spark.progress import watching
from ottla.topic_audit.stored import stored_frame

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from ottla.audit.ledgers.partition import Audit
    from ottla.audit.ledgers.tables import TopicTraits
    from ottla.screen import Steps
    from ottla.topic_audit.topic import TopicSeen

_CORRUPT = "_corrupt_record"
_FILE, _ROW, _TOLD = "file", "row", "told"
_FOUND = "found"
_SPARK_TYPES = {"string": "string", "int32": "int", "int64": "long", "binary": "binary"}
_KINDS = {field.name: str(field.type) for field in GIVEN_SCHEMA} | {_FILE: "int32", _ROW: "int64", _TOLD: "string"}
_COLUMNS = (
    *(schema.PARTITION, schema.OFFSET, schema.SEQUENCE, schema.OUTCOME, schema.KEY_CRC, schema.VALUE_CRC),
    *(schema.GUARANTEE, _FILE, _ROW, _TOLD),
)


def ledger_frame(spark: SparkSession, files: tuple[Path, ...], topic: str) -> DataFrame:
    """The rows about one topic in files of this machine, and where each stands; read as `ledger.files` reads them.

    A piece that cannot be read is one row that says why.
    """
    from pyspark.sql import functions as F  # noqa: N812

    pieces = [piece for path in files for piece in pieces_of(path)]

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers: list[Any] = batch.column(0).to_pylist()
            for number in numbers:
                yield from _rows_of(pieces[number], number, topic)

    columns = ", ".join(f"{name} {_SPARK_TYPES[_KINDS[name]]}" for name in _COLUMNS)
    rows = spark.range(0, len(pieces), 1, max(1, len(pieces))).mapInArrow(read, columns)
    # Workers return the number of each row's piece: its path would take more bytes than all the rest.
    paths = F.array(*(F.lit(os.fsencode(piece.path)) for piece in pieces))
    return rows.withColumns({schema.TOPIC: F.lit(topic), _FILE: F.get(paths, F.col(_FILE))})


def _rows_of(piece: Piece, number: int, topic: str) -> Iterator[pa.RecordBatch]:
    """The rows of one piece, with its number in place of the file's path."""
    import numpy as np
    import pyarrow as pa

    path, first = piece.path, piece.first
    try:
        for given in read_piece(piece):
            count = given.num_rows
            rows = pa.nulls(count, pa.int64()) if is_json(path) else pa.array(np.arange(first, first + count))
            first += count
            wanted = given.append_column(_ROW, rows).filter(is_about(given, topic))
            columns = judged_columns(wanted, path)
            for name in (schema.GUARANTEE, _ROW):
                columns = columns.append_column(name, wanted.column(name))
            columns = columns.append_column(_FILE, pa.repeat(pa.scalar(number, pa.int32()), columns.num_rows))
            columns = columns.append_column(_TOLD, pa.nulls(columns.num_rows, pa.string()))
            yield from columns.select(list(_COLUMNS)).to_batches()
    except (UserMistake, OSError) as error:
        told = str(error)
        if isinstance(error, OSError):
            told = f"{path} cannot be read by Spark ({error.strerror or error}): it has to be there on each machine."
        # A name of a file need not be UTF-8.
        told = told.encode(errors="backslashreplace").decode()
        row = [{**dict.fromkeys(_COLUMNS), _FILE: number, _TOLD: told}]
        yield pa.RecordBatch.from_pylist(row, pa.schema({name: getattr(pa, _KINDS[name])() for name in _COLUMNS}))


def ledger_at(spark: SparkSession, address: str, topic: str) -> DataFrame:
    """The same of a ledger at an address that Spark alone can read (`s3a://...`), as Spark reads it."""
    from pyspark.sql import functions as F  # noqa: N812

    rows = _read_json(spark, address) if is_json(address) else _read_parquet(spark, address)
    return (
        rows.withColumn(schema.TOPIC, F.coalesce(schema.TOPIC, F.lit(topic)))
        .where(F.col(schema.TOPIC) == topic)
        .withColumns(
            {
                schema.PARTITION: F.coalesce(schema.PARTITION, F.lit(schema.NO_PARTITION)),
                schema.OFFSET: F.coalesce(schema.OFFSET, F.lit(schema.NO_OFFSET).cast("long")),
                schema.KEY_CRC: _crc(schema.KEY_CRC, KEY),
                schema.VALUE_CRC: _crc(schema.VALUE_CRC, VALUE),
            }
        )
    )


class LedgerSeen(NamedTuple):
    """What one look over a ledger tells: the guarantees it says were claimed, and how many rows `check_places` refuses.

    Of more than two guarantees these are the first and the last one.
    """

    claims: tuple[str, ...]
    misplaced: int


def check_ledger(rows: DataFrame, topic: str, partitions: int) -> LedgerSeen:
    """UserMistake where the ledger cannot be used, which says where; the topic has so many partitions."""
    from pyspark.sql import functions as F  # noqa: N812

    number, guarantee = F.col(schema.SEQUENCE), F.col(schema.GUARANTEE)
    is_wrong = _is_wrong()
    exact = number.cast("decimal(19)")
    sums = rows.agg(
        F.count(F.lit(1)),
        F.count_if(is_wrong),
        F.max(number),
        F.try_sum(exact),
        F.try_sum(exact * exact),
        F.count_if(_is_misplaced(partitions)),
        F.min(guarantee),
        F.max(guarantee),
    )
    ((count, wrong, highest, total, squares, misplaced, *claims),) = sums.collect()
    if not count:
        raise UserMistake(f"The ledger holds no row about the topic {topic}.")
    if wrong:
        # Rows that cannot be read are reported before rows that were read and are wrong.
        raise _wrong_row(rows.where(F.col(_TOLD).isNotNull()).first() or rows.where(is_wrong).first())
    due = highest + 1
    if (count, total, squares) != (due, due * (due - 1) // 2, due * (due - 1) * (2 * due - 1) // 6):
        raise _wrong_numbers(rows, highest)
    return LedgerSeen(tuple(dict.fromkeys(claim for claim in claims if claim is not None)), misplaced)


def check_places(rows: DataFrame, topic: str, partitions: int) -> None:
    """UserMistake, which says where, for a row whose partition cannot be in a topic of so many partitions."""
    wrong = rows.where(_is_misplaced(partitions)).first()
    if wrong is not None:
        [where] = _places([wrong])
        raise partition_mistake(where, wrong[schema.PARTITION], topic, partitions)


def _is_misplaced(partitions: int) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    partition = F.col(schema.PARTITION)
    is_missing = (partition == schema.NO_PARTITION) & (F.col(schema.OUTCOME) != schema.ACKED)
    return ~(is_missing | partition.between(0, partitions - 1))


def audit_on_spark(
    spark: SparkSession,
    rows: DataFrame,
    bootstrap_servers: str,
    seen: TopicSeen,
    traits: TopicTraits,
    settings: dict[str, Any],
    steps: Steps,
    **how: int,
) -> Audit:
    """Read the topic and judge it; `settings` are keywords of a reader, `how`: see `audit_topics`."""
    bounds = {seen.name: seen.bounds}
    stored = stored_frame(spark, bootstrap_servers, bounds, settings)
    rows = _placed(rows, stored)
    with steps.step("PySpark audits the topic", unit="tasks") as step, watching(spark, step):
        return audit_topics(
            rows,
            stored,
            bounds,
            transactional=(seen.name,) if traits.is_transactional else (),
            compacted=(seen.name,) if traits.is_compacted else (),
            answered=(seen.name,) if traits.is_answered else (),
            **how,
        )[seen.name]


@contextmanager
def told_in_a_sentence() -> Iterator[None]:
    """OttlaError for what Spark could not do in this block; what a Python of ours did wrong keeps its trace."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException, PythonException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        # The message of an error of ours on a worker is the last line of a trace of a hundred.
        ours = re.findall(r"^ottla\.errors\.\w+: (.*)", text, flags=re.MULTILINE)
        if isinstance(error, PythonException) and not ours:
            raise
        if "Python worker exited unexpectedly" in text:
            ours = ["a Python worker ended, killed perhaps because memory was short"]
        causes = ours or re.findall(r"^(?:Caused by: |: )(?:[\w$]+\.)+[\w$]+: (.+)", text, flags=re.MULTILINE)
        raise OttlaError(f"Spark could not do it: {causes[-1] if causes else text.partition(chr(10))[0]}") from error


def _placed(rows: DataFrame, stored: DataFrame) -> DataFrame:
    """The ledger's rows; those without a partition have that in which their record is stored, if it is.

    Many clients do not say for which partition an unknown record was. Only where there are such rows the topic is read
    once more.
    """
    from pyspark.sql import functions as F  # noqa: N812

    is_without = F.col(schema.PARTITION) < 0
    without = rows.where(is_without)
    if without.first() is None:
        return rows
    wanted = stored.join(without.select(schema.SEQUENCE), schema.SEQUENCE, "left_semi")
    found = wanted.groupBy(schema.SEQUENCE).agg(F.min(schema.PARTITION).alias(_FOUND))
    placed = without.join(found, schema.SEQUENCE, "left").withColumn(
        schema.PARTITION, F.coalesce(_FOUND, schema.PARTITION)
    )
    return rows.where(~is_without).unionByName(placed.select(rows.columns))


def _read_json(spark: SparkSession, address: str) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    columns = ", ".join(f"{field.name} {_SPARK_TYPES[str(field.type)]}" for field in GIVEN_SCHEMA)
    reader = spark.read.schema(f"{columns}, {_CORRUPT} string").option("columnNameOfCorruptRecord", _CORRUPT)
    # By default Spark also takes text that is not JSON, such as names in single quotes, and NaN.
    rows = reader.option("allowSingleQuotes", False).option("allowNonNumericNumbers", False).json(address)
    told = F.concat(
        F.col("_metadata.file_path"), F.lit(" holds a line that is no row of a ledger: "), F.left(_CORRUPT, F.lit(60))
    )
    return rows.withColumns({_FILE: F.col("_metadata.file_path"), _ROW: F.lit(None).cast("long"), _TOLD: told})


def _read_parquet(spark: SparkSession, address: str) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    rows = spark.read.option("mergeSchema", True).parquet(address)
    missing = [name for name in NEEDED if name not in rows.columns]
    if missing:
        raise UserMistake(f"{address} is not a ledger: it lacks the column {' and the column '.join(missing)}.")
    columns = []
    for field in GIVEN_SCHEMA:
        is_there = field.name in rows.columns
        column = F.col(field.name) if is_there else F.lit(None)
        is_bytes = is_there and field.name in (KEY, VALUE)
        columns.append((column if is_bytes else column.cast(_SPARK_TYPES[str(field.type)])).alias(field.name))
    return rows.select(
        *columns,
        F.col("_metadata.file_path").alias(_FILE),
        F.col("_metadata.row_index").alias(_ROW),
        F.lit(None).cast("string").alias(_TOLD),
    )


def _crc(given: str, source: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.coalesce(F.col(given), F.crc32(F.col(source).cast("binary")), F.lit(schema.NO_CRC).cast("long"))


def _is_wrong() -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    number, outcome = F.col(schema.SEQUENCE), F.col(schema.OUTCOME)
    wrong = F.col(_TOLD).isNotNull() | number.isNull() | (number < 0)
    return wrong | outcome.isNull() | ~outcome.isin(list(schema.OUTCOMES))


def _wrong_row(row: Any) -> UserMistake:
    if row[_TOLD] is not None:
        return UserMistake(row[_TOLD])
    number, outcome = row[schema.SEQUENCE], row[schema.OUTCOME]
    [where] = _places([row])
    if number is None or number < 0:
        told_number = "missing" if number is None else str(number)
        return UserMistake(f"{schema.SEQUENCE} in {where} is {told_number}, and has to be a number from 0 on.")
    told_outcome = "missing" if outcome is None else repr(outcome)
    allowed = ", ".join(schema.OUTCOMES)
    return UserMistake(f"{schema.OUTCOME} in {where} is {told_outcome}, and has to be one of {allowed}.")


def _wrong_numbers(rows: DataFrame, highest: int) -> UserMistake:
    from pyspark.sql import functions as F  # noqa: N812

    counts = rows.groupBy(schema.SEQUENCE).count()
    again = counts.where("count > 1").agg(F.min(schema.SEQUENCE), F.sum("count")).first()
    if again is not None and again[0] is not None:
        twice = rows.where(F.col(schema.SEQUENCE) == again[0]).limit(2).collect()
        return repeated_mistake(int(again[0]), " and ".join(f"in {each}" for each in _places(twice)))
    different = counts.count()
    # Of so many numbers the first that is missing cannot be higher.
    everyone = rows.sparkSession.range(different + 1).withColumnRenamed("id", schema.SEQUENCE)
    ((first,),) = everyone.join(counts, schema.SEQUENCE, "left_anti").agg(F.min(schema.SEQUENCE)).collect()
    before = rows.where(F.col(schema.SEQUENCE) == first - 1).limit(1).collect()
    where = "".join(f"; number {first - 1:,} stands in {each}" for each in _places(before))
    return number_mistake(highest + 1 - different, highest, int(first), where)


def _places(rows: list[Any]) -> list[str]:
    """Where rows of one record number stand; lines of JSON are found by reading the file again, where it is here."""
    places: list[str] = []
    lines: dict[Path, list[str]] = {}
    for row in rows:
        path = _local_path(row[_FILE])
        if row[_ROW] is None and path is not None:
            found = lines.setdefault(path, list(find_lines(path, row[schema.SEQUENCE])))
            places.append(found.pop(0) if found else _where(row))
        else:
            places.append(_where(row))
    return places


def _where(row: Any) -> str:
    path = _local_path(row[_FILE]) or row[_FILE]
    return f"{path}" if row[_ROW] is None else f"row {row[_ROW] + 1:,} of {path}"


def _local_path(file: str | bytes) -> Path | None:
    """A file of this machine is named by its bytes, one that Spark has read by its address."""
    return None if isinstance(file, str) else Path(os.fsdecode(bytes(file)))
