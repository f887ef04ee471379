"""One Spark session for all tests here; where there is no Java, they say so and are skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from tests.soak import SOAK
from tests.spark.sink_driver import QUICK_JAVA
from tests.spark.sink_engine import Brokers
from tools.apache_kafka import QUICK_FAILOVER, ApacheKafka
from tools.kafka_jars import JarsUnavailable

import ottla
from ottla.errors import UserMistake

from ..last_users import stop_behind_last
from ..needs import lacking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.spark.stream_reader import OttlaStreamReader


@pytest.fixture(scope="session")
def find_java() -> None:
    """Skips where Spark finds no Java."""
    from ottla.spark.java import find_java

    try:
        find_java()
    except UserMistake as reason:
        lacking("spark", reason)


@pytest.fixture(scope="module", params=["embedded", pytest.param("apache", marks=[pytest.mark.kafka, SOAK])])
def brokers(request: pytest.FixtureRequest) -> Iterator[Brokers]:
    """Three embedded brokers; with OTTLA_SOAK=1 three nodes of Apache Kafka after them."""
    if request.param == "embedded":
        # Leaders that the engine has moved stay where they are, however long queries are held.
        with ottla.Cluster(brokers=3, settings={"auto_leader_rebalance_enable": False}) as cluster:
            yield cluster
        return
    try:
        kafka = ApacheKafka(3, heap_mb=384, settings=QUICK_FAILOVER | {"auto.leader.rebalance.enable": "false"})
    except JarsUnavailable as missing:
        lacking("kafka", missing)
    with kafka:
        yield kafka


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> SparkSession:
    from ottla.spark.session import local_session

    try:
        session = local_session("ottla-tests", settings={"spark.driver.extraJavaOptions": QUICK_JAVA})
    except UserMistake as reason:
        lacking("spark", reason)
    stop_behind_last(request, lambda item: "spark" in getattr(item, "fixturenames", ()), lambda: _end(session))
    return session


@pytest.fixture
def stream(kafka_cluster: ottla.Cluster) -> Iterator[Callable[..., OttlaStreamReader]]:
    """Makes a reader of these options; partitions and sizes are looked for anew at every look."""
    from pyspark.sql.types import StructType

    from ottla.spark.options import read_options
    from ottla.spark.source import OttlaDataSource
    from ottla.spark.stream_reader import OttlaStreamReader

    opened: list[OttlaStreamReader] = []

    def make(**options: Any) -> OttlaStreamReader:
        given = {
            "kafka.bootstrap.servers": kafka_cluster.bootstrap_servers,
            "kafka.metadata.max.age.ms": "0",
            "startingOffsets": "earliest",
            **{name: str(value) for name, value in options.items()},
        }
        schema = OttlaDataSource(given).schema()
        assert isinstance(schema, StructType)
        opened.append(OttlaStreamReader(read_options(given, streaming=True), schema))
        return opened[-1]

    yield make
    for reader in opened:
        reader.stop()


def _end(session: SparkSession) -> None:
    """End the session, and the JVM that PySpark would keep for the next one."""
    from pyspark import SparkContext

    session.stop()
    gateway = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    # It ends with its standard input.
    gateway.proc.stdin.close()
    gateway.proc.wait()
