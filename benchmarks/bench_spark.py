"""`format("ottla")` against Spark's own Kafka connector: one Spark, one node of Apache Kafka 4.3, on the same cores.

`make bench ARGS="spark"` runs all parts, `--only source,sink` some of them. Both formats live in the same session of
`local[2]` and take turns within a round; the first round is not counted. Every run makes its DataFrame anew, since
Spark keeps what one DataFrame has shuffled. Logs lie in memory, as in the other benchmarks.

- `source`: `count` and `sum(length(value))` over a topic of six partitions, all columns and, by the option `columns`,
  `value` alone (Spark's own source has no such option and reads all of them).
- `partitions`: the same over a topic of 2,000 partitions with 50 records each.
- `sink`: rows that Spark makes as it goes, written to a fresh topic; Spark's own sink is at-least-once.
- `micro_batches`: a stream of small batches (4 tasks, 6 partitions), what one takes when warm, at-least-once and
  exactly-once in turns.
- `memory`: the largest Python worker while one task reads, and while one writes, all of it.
- `from_avro`, `value_format`: values with a schema (`spark_schemas.py`).

Every figure that has a target stands beside it: `must` says the target, `ok` whether it was reached.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from tools.kafka_jars import fetch_spark_avro, fetch_spark_connector

import ottla
from benchmarks import spark_schemas
from benchmarks.apache_kafka import measured_kafka, resident_bytes
from benchmarks.parts import chosen, interval_of_median, run_parts
from benchmarks.payload import records as payload
from benchmarks.producer_speed import log_folder, touch_memory
from benchmarks.wire import create_topics, delete_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 6
TASKS = 4
RECORD_BYTES = 100
MIB = 1 << 20
SOURCE_MUST = {"columns": 4, "all_columns": 1.3}
PARTITIONS_MUST = {"columns": 1, "all_columns": 1}
SINK_MUST = {"at_least_once": 1.4, "exactly_once": 1.3}
EXACTLY_ONCE_COST_MUST_MS = 150
WORKER_MUST_MIB = 400
_MANY_PARTITIONS, _RECORDS_PER_PARTITION = 2_000, 50
# Micro-batches of one stream: so many until it is warm, and so many that count.
_COLD, _WARM, _ROWS_PER_BATCH = 5, 12, 4_000
_SAMPLE_S = 0.02

Sides = dict[str, Callable[[], float]]


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """The parts asked for; those left out keep the figures they had."""
    wanted = chosen("spark", PARTS, arguments.only)
    from ottla.spark.session import local_session

    folder = log_folder()
    folders = fetch_spark_connector(), fetch_spark_avro()
    jars = ",".join(str(path) for each in folders for path in sorted(each.glob("*.jar")))
    with tempfile.TemporaryDirectory() as scratch, measured_kafka(1, folder) as apache:
        spark = local_session("ottla-bench", settings={"spark.jars": jars})
        bench = Bench(spark, apache.bootstrap_servers, arguments.records, arguments.repeat, Path(scratch))
        try:
            figures = run_parts(PARTS, wanted, bench)
        finally:
            spark.stop()
    return {"records": arguments.records, "rounds": arguments.repeat, **figures}


class Bench:
    """What every part needs."""

    def __init__(self, spark: SparkSession, servers: str, records: int, rounds: int, scratch: Path) -> None:
        self.spark, self.servers, self.records, self.rounds, self.scratch = spark, servers, records, rounds, scratch
        self._numbers = itertools.count()

    def in_turns(self, sides: Sides) -> list[dict[str, float]]:
        """Rows per second of each side, round by round, the first round aside."""
        rounds = [{name: self.records / side() for name, side in sides.items()} for _ in range(self.rounds + 1)]
        return rounds[1:]

    def new_name(self) -> str:
        return f"bench-{os.getpid()}-{next(self._numbers)}"

    @contextmanager
    def fresh_topic(self, records: int, partitions: int = PARTITIONS) -> Iterator[str]:
        """An empty topic, and as much memory touched as its log will take."""
        topic = self.new_name()
        touch_memory(log_folder(), records * (RECORD_BYTES + 20))
        create_topics(self.servers, [topic], partitions, 1)
        yield topic
        delete_topic(self.servers, topic)

    def stored(self, topic: str) -> int:
        with ottla.Admin(self.servers) as admin:
            return sum(admin.end_offsets(topic).values())

    def rows(self) -> DataFrame:
        """Keys and values of 100 bytes together, made by Spark as they are asked for."""
        return self.spark.range(0, self.records, 1, TASKS).selectExpr(
            "cast(id as string) as key", f"rpad(concat('value ', id), {RECORD_BYTES - 8}, 'x') as value"
        )


# ---- source -----------------------------------------------------------------------------------------------------


def source(bench: Bench) -> dict[str, Any]:
    """Records per second of `count` and `sum(length(value))`."""
    with _filled(bench, PARTITIONS, bench.records) as sides:
        return against_spark(bench.in_turns(sides), SOURCE_MUST)


def partitions(bench: Bench) -> dict[str, Any]:
    """The same where what each partition costs decides; one round, of which Spark's own source takes minutes."""
    records = _MANY_PARTITIONS * _RECORDS_PER_PARTITION
    with _filled(bench, _MANY_PARTITIONS, records) as sides:
        return against_spark([{name: records / side() for name, side in sides.items()}], PARTITIONS_MUST)


@contextmanager
def _filled(bench: Bench, partitions: int, records: int) -> Iterator[Sides]:
    """What each side does with a topic that has so many records."""
    with bench.fresh_topic(records, partitions) as topic:
        _fill(bench, topic, records)
        yield {
            "spark": lambda: _read(bench, topic, records, "kafka"),
            "columns": lambda: _read(bench, topic, records, "ottla", columns="value"),
            "all_columns": lambda: _read(bench, topic, records, "ottla"),
        }


def _fill(bench: Bench, topic: str, records: int) -> None:
    import pyarrow as pa

    keys, values = payload(RECORD_BYTES, keyed=True)
    table = pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
    with ottla.Producer(bench.servers) as producer:
        left = records
        while left:
            part = table.slice(0, min(left, table.num_rows))
            producer.send_table(topic, part, key="key", value="value")
            left -= part.num_rows


def _read(bench: Bench, topic: str, records: int, name: str, **options: str) -> float:
    given = {"kafka.bootstrap.servers": bench.servers, "subscribe": topic, **options}
    began = time.perf_counter()
    frame = bench.spark.read.format(name).options(**given).load()
    ((count, nbytes),) = frame.selectExpr("count(*)", "sum(length(value))").collect()
    took_s = time.perf_counter() - began
    assert count == records, f"{name} read {count} of {records} records"
    assert nbytes == records * (RECORD_BYTES - 8)
    return took_s


# ---- sink -------------------------------------------------------------------------------------------------------


def sink(bench: Bench) -> dict[str, Any]:
    """Rows per second, from `save()` until it returns."""
    exactly_once = {"delivery": "exactly-once", "sink.id": "bench"}
    sides: Sides = {
        "spark": lambda: _write(bench, "kafka"),
        "at_least_once": lambda: _write(bench, "ottla", delivery="at-least-once"),
        "exactly_once": lambda: _write(bench, "ottla", **exactly_once, **{"write.id": bench.new_name()}),
    }
    return against_spark(bench.in_turns(sides), SINK_MUST)


def _write(bench: Bench, name: str, **options: str) -> float:
    with bench.fresh_topic(bench.records) as topic:
        given = {"kafka.bootstrap.servers": bench.servers, "topic": topic, **options}
        rows = bench.rows()
        began = time.perf_counter()
        rows.write.format(name).options(**given).mode("append").save()
        took_s = time.perf_counter() - began
        stored = bench.stored(topic)
        # Markers of transactions have offsets, too: one a task and partition at most.
        assert bench.records <= stored <= bench.records + TASKS * PARTITIONS, f"{name} stored {stored}"
    return took_s


def against_spark(rounds: list[dict[str, float]], must: dict[str, float]) -> dict[str, Any]:
    figures: dict[str, Any] = {"spark": {"rows_per_s": round(median(one["spark"] for one in rounds))}}
    for name, target in must.items():
        ratios = [one[name] / one["spark"] for one in rounds]
        figures[name] = {
            "rows_per_s": round(median(one[name] for one in rounds)),
            "ratio": round(median(ratios), 2),
            **interval_of_median(ratios, digits=2),
            "ratios": [round(ratio, 2) for ratio in ratios],
            "must": target,
            "ok": median(ratios) >= target,
        }
    return figures


# ---- micro-batches ----------------------------------------------------------------------------------------------


def micro_batches(bench: Bench) -> dict[str, Any]:
    """Milliseconds of a warm micro-batch of some thousand rows, by what it promises; what exactly-once adds."""
    took: dict[str, list[float]] = {"at-least-once": [], "exactly-once": []}
    for _ in range(bench.rounds):
        for delivery, each in took.items():
            each.append(_stream(bench, delivery))
    cost_ms = median(b - a for a, b in zip(*took.values(), strict=True))
    return {
        **{f"{name}_ms": round(median(each)) for name, each in took.items()},
        "cost_of_exactly_once": {
            "ms": round(cost_ms),
            "must_be_below": EXACTLY_ONCE_COST_MUST_MS,
            "ok": cost_ms < EXACTLY_ONCE_COST_MUST_MS,
        },
    }


def _stream(bench: Bench, delivery: str) -> float:
    """The median duration of a stream's warm micro-batches."""
    name = bench.new_name()
    options = {"delivery": delivery, "sink.id": name, "checkpointLocation": str(bench.scratch / name)}
    with bench.fresh_topic(0) as topic:
        stream = bench.spark.readStream.format("rate-micro-batch").options(
            rowsPerBatch=str(_ROWS_PER_BATCH), numPartitions=str(TASKS)
        )
        rows = stream.load().selectExpr("cast(value as string) as key", "repeat('x', 92) as value")
        writing = rows.writeStream.format("ottla").trigger(processingTime="0 seconds")
        query = writing.options(**options, **{"kafka.bootstrap.servers": bench.servers, "topic": topic}).start()
        durations: dict[int, float] = {}
        try:
            while len(durations) < _COLD + _WARM:
                if query.exception() is not None:
                    raise SystemExit(f"the stream ended: {query.exception()}")
                for progress in query.recentProgress:
                    if progress["numInputRows"]:
                        durations[progress["batchId"]] = progress["durationMs"]["triggerExecution"]
                time.sleep(_SAMPLE_S)
        finally:
            query.stop()
    return median(durations[number] for number in sorted(durations)[_COLD:])


# ---- memory -----------------------------------------------------------------------------------------------------


def memory(bench: Bench) -> dict[str, Any]:
    """Resident memory of the largest Python worker, where one task has everything to do."""
    touch_memory(log_folder(), bench.records * (RECORD_BYTES + 20))
    figures: dict[str, Any] = {}
    with bench.fresh_topic(bench.records) as topic:
        options = {"kafka.bootstrap.servers": bench.servers}

        def write() -> None:
            given = {**options, "topic": topic, "delivery": "exactly-once", "sink.id": topic, "write.id": topic}
            rows = bench.rows().coalesce(1).selectExpr("*", "0 as partition")
            rows.write.format("ottla").options(**given).mode("append").save()

        def read() -> None:
            frame = bench.spark.read.format("ottla").options(**options, subscribe=topic).load()
            ((count,),) = frame.selectExpr("count(value)").collect()
            assert count == bench.records

        for name, work in (("writing", write), ("reading", read)):
            mib = _peak_of_workers(work) / MIB
            figures[name] = {"mib": round(mib), "must_be_below": WORKER_MUST_MIB, "ok": mib < WORKER_MUST_MIB}
    return figures


def _peak_of_workers(work: Callable[[], None]) -> int:
    """The most that any Python process of Spark had in use while `work` ran."""
    over, peak = threading.Event(), 0

    def watch() -> None:
        nonlocal peak
        while not over.wait(_SAMPLE_S):
            peak = max([peak, *_sizes_of_workers()])

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work()
    finally:
        over.set()
        watcher.join()
    return peak


def _sizes_of_workers() -> list[int]:
    """Resident memory of the processes that `pyspark.daemon` has forked."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if b"pyspark.daemon" in (folder / "cmdline").read_bytes():
                    found.append(resident_bytes(int(folder.name)))
            except OSError:
                continue  # It has ended meanwhile.
    return found


PARTS: dict[str, Callable[[Bench], dict[str, Any]]] = {
    "source": source,
    "partitions": partitions,
    "sink": sink,
    "micro_batches": micro_batches,
    "memory": memory,
    "from_avro": spark_schemas.from_avro,
    "value_format": spark_schemas.value_format,
}
