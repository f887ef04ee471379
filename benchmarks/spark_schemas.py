"""Parts of `make bench ARGS=spark` about values with a schema: orders in Avro, as fastavro writes them.

- `from_avro`: `ottla.spark.from_avro` over a column that Spark has in memory, against the JVM's `from_avro` over
  `substring(value, 6)`, which knows no header.
- `value_format`: a topic read with `value.format=avro`, against Spark's own Kafka connector and the same function.

Every field of every row is made, for Spark's format `noop`. Both sides' sums are compared before they are measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ottla
from benchmarks.avro_payloads import PREFIX, SCHEMA, framed, orders
from benchmarks.producer_speed import log_folder, touch_memory
from benchmarks.wire import create_topics, delete_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from benchmarks.bench_spark import Bench

EXPRESSION_MUST = {"ottla": 0.7}
SOURCE_MUST = {"ottla": 1.0}
# So many orders differ; they come again and again.
_ORDERS = 50_000
_TOPIC = "bench-spark-avro"


def from_avro(bench: Bench) -> dict[str, Any]:
    """Rows per second of the function alone, over a column in Spark's memory."""
    from benchmarks.bench_spark import TASKS, against_spark

    with _Schemas(bench) as schemas:
        few = bench.spark.createDataFrame(schemas.table().to_pandas())
        times = -(-bench.records // _ORDERS)
        rows = few.crossJoin(bench.spark.range(times)).select("value").limit(bench.records).repartition(TASKS).cache()
        assert rows.count() == bench.records
        sides = {"spark": schemas.by_spark(rows), "ottla": schemas.by_ottla(rows)}
        _check(sides)
        figures = against_spark(bench.in_turns(_measured(sides)), EXPRESSION_MUST)
        rows.unpersist()
        return figures


def value_format(bench: Bench) -> dict[str, Any]:
    """Rows per second from Kafka to the fields."""
    from benchmarks.bench_spark import against_spark

    with _Schemas(bench) as schemas:
        schemas.fill()
        given = {"kafka.bootstrap.servers": bench.servers, "subscribe": _TOPIC, "startingOffsets": "earliest"}
        stored = bench.spark.read.format("kafka").options(**given).load()
        decoded = bench.spark.read.format("ottla").options(
            **given, registry=schemas.url, columns="value", **{"value.format": "avro"}
        )
        sides = {"spark": schemas.by_spark(stored), "ottla": decoded.load().withColumnRenamed("value", "v")}
        _check(sides)
        figures = against_spark(bench.in_turns(_measured(sides)), SOURCE_MUST)
        delete_topic(bench.servers, _TOPIC)
        return figures


class _Schemas:
    """Orders in Avro, and a registry that has their schema under the id that stands in front of them."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._cluster = ottla.Cluster(brokers=1)
        self._registry: ottla.Registry | None = None
        self.url = ""

    def __enter__(self) -> _Schemas:
        import json

        self._cluster.__enter__()
        self._registry = ottla.Registry(self._cluster.bootstrap_servers)
        self.url = self._registry.__enter__().url
        self._text = json.dumps(SCHEMA)
        with ottla.RegistryClient(self.url) as client:
            assert client.register(f"{_TOPIC}-value", self._text).id.to_bytes(4, "big") == PREFIX[1:]
        return self

    def __exit__(self, *error: object) -> None:
        assert self._registry is not None
        self._registry.__exit__(None, None, None)
        self._cluster.__exit__(None, None, None)

    def table(self) -> Any:
        """Values of orders that differ."""
        import fastavro
        import pyarrow as pa

        values = framed(list(orders(_ORDERS)), fastavro.parse_schema(SCHEMA))
        return pa.table({"value": pa.array(values, pa.binary())})

    def fill(self) -> None:
        """As many of them in the topic as the bench has records."""
        from benchmarks.bench_spark import PARTITIONS

        bench, table = self._bench, self.table()
        touch_memory(log_folder(), bench.records * (table.nbytes // table.num_rows + 20))
        create_topics(bench.servers, [_TOPIC], PARTITIONS, 1)
        left = bench.records
        with ottla.Producer(bench.servers) as producer:
            while left:
                part = table.slice(0, min(left, table.num_rows))
                producer.send_table(_TOPIC, part, value="value")
                left -= part.num_rows

    def by_spark(self, frame: DataFrame) -> DataFrame:
        """`v`, made by the JVM's function."""
        from pyspark.sql.avro.functions import from_avro as decode
        from pyspark.sql.functions import expr

        return frame.select(decode(expr(f"substring(value, {len(PREFIX) + 1})"), self._text).alias("v"))

    def by_ottla(self, frame: DataFrame) -> DataFrame:
        """`v`, made by ours."""
        from ottla.spark import from_avro as decode

        return frame.select(decode("value", registry=self.url, subject=f"{_TOPIC}-value").alias("v"))


def _check(sides: dict[str, DataFrame]) -> None:
    sums = "sum(v.id)", "sum(v.quantity)", "count(v.note)", "sum(length(v.address.city))", "sum(size(v.tags))"
    found = {name: tuple(frame.selectExpr(*sums).collect()[0]) for name, frame in sides.items()}
    assert len(set(found.values())) == 1, found


def _measured(sides: dict[str, DataFrame]) -> dict[str, Callable[[], float]]:
    def took(frame: DataFrame) -> Callable[[], float]:
        def run() -> float:
            began = time.perf_counter()
            frame.write.format("noop").mode("overwrite").save()
            return time.perf_counter() - began

        return run

    return {name: took(frame) for name, frame in sides.items()}
