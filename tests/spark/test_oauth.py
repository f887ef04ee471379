"""OAUTHBEARER from `format("ottla")`, whose options are text: a token endpoint, and a function named by its place."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.slow_start import started_again
from tests.token_server import TokenServer

import ottla
from ottla import Listener

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_MODULE = """
import time
from ottla.connection.authentication import unsecured_token

def token():
    return unsecured_token({"sub": "ada"}, time.time())
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    listeners = {
        "PLAINTEXT": Listener(),
        "TOKENS": Listener(protocol="SASL_PLAINTEXT", sasl_mechanisms=["OAUTHBEARER"]),
    }
    with ottla.Cluster(brokers=1, listeners=listeners) as cluster:
        yield cluster


def test_sink_and_source_come_in_by_options_that_are_text(
    spark: SparkSession, cluster: ottla.Cluster, kafka_name: str, tmp_path: Path
) -> None:
    cluster.create_topic(kafka_name)
    address = {"kafka.bootstrap.servers": cluster.bootstrap_servers_of("TOKENS")}
    rows = spark.createDataFrame([("a", "1"), ("b", "2")], "key string, value string")
    with TokenServer() as server:
        settings = {f"kafka.{name}": text for name, text in server.settings().items()}
        write = rows.write.format("ottla").mode("append").options(**address, **settings)
        write.options(topic=kafka_name, **{"sink.id": kafka_name}).save()
        writers = len(server.asked)
        assert writers
        source = spark.readStream.format("ottla").options(**address, **settings)
        stream = source.options(subscribe=kafka_name, startingOffsets="earliest").load()
        copied = stream.select("key", "value").writeStream.format("memory").queryName("copied")

        def copy() -> None:
            # A new folder: a query with the memory sink cannot go on from an old checkpoint.
            copying = copied.option("checkpointLocation", tempfile.mkdtemp(dir=tmp_path))
            copying.trigger(availableNow=True).start().awaitTermination()

        started_again(copy)
        assert len(server.asked) > writers
    found = spark.table("copied").collect()
    assert sorted((bytes(row.key), bytes(row.value)) for row in found) == [(b"a", b"1"), (b"b", b"2")]


def test_a_function_named_by_its_place_is_found_among_the_jobs_files(
    spark: SparkSession, cluster: ottla.Cluster, kafka_name: str, tmp_path: Path
) -> None:
    cluster.create_topic(kafka_name)
    module = tmp_path / "ottla_test_spark_tokens.py"
    module.write_text(_MODULE)
    spark.sparkContext.addPyFile(str(module))
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers_of("TOKENS"),
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.token.provider": "ottla_test_spark_tokens:token",
    }
    rows = spark.createDataFrame([("a", "1"), ("b", "2")], "key string, value string")
    rows.write.format("ottla").mode("append").options(topic=kafka_name, **options).save()
    found = spark.read.format("ottla").options(subscribe=kafka_name, **options).load().collect()
    assert sorted(bytes(row.value) for row in found) == [b"1", b"2"]
