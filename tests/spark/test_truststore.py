"""TLS with a truststore in JKS, as Spark's users have it, through `format("ottla")`: source and sink."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.needs import lacking
from tests.papers import Papers
from tests.spark.slow_start import started_again

import ottla
from ottla import Listener
from ottla.errors import UserMistake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_PASSWORD = "store-5150"


@pytest.fixture(scope="module")
def cluster(papers: Papers) -> Iterator[ottla.Cluster]:
    listeners = {"PLAINTEXT": Listener(), "SSL": Listener(protocol="SSL", certificate=papers.server)}
    with ottla.Cluster(brokers=1, listeners=listeners) as cluster:
        yield cluster


def truststore(authority: Path, store: Path) -> Path:
    """A JKS store, made by Java's own keytool, that believes this authority."""
    from ottla.spark.java import find_java

    try:
        keytool = find_java()[0].resolve().with_name("keytool")
    except UserMistake as reason:
        lacking("spark", reason)
    if not keytool.exists():
        lacking("spark", f"{keytool} is not there")
    what = ["-importcert", "-noprompt", "-alias", "ca", "-file", str(authority)]
    where = ["-keystore", str(store), "-storetype", "JKS", "-storepass", _PASSWORD]
    done = subprocess.run([str(keytool), *what, *where], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    # Of Java's own format, not PKCS12.
    assert store.read_bytes()[:4] == b"\xfe\xed\xfe\xed"
    return store


def test_sink_and_source_believe_whom_a_jks_truststore_names(
    spark: SparkSession, cluster: ottla.Cluster, papers: Papers, kafka_name: str, tmp_path: Path
) -> None:
    cluster.create_topic(kafka_name)
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers_of("SSL"),
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.location": str(truststore(papers.ca, tmp_path / "trust.jks")),
        "kafka.ssl.truststore.password": _PASSWORD,
    }
    rows = spark.createDataFrame([("a", "1"), ("b", "2")], "key string, value string")
    write = rows.write.format("ottla").mode("append").options(topic=kafka_name, **options)
    write.options(**{"delivery": "exactly-once", "write.id": kafka_name}).save()
    source = spark.readStream.format("ottla").options(subscribe=kafka_name, startingOffsets="earliest", **options)
    copied = source.load().select("key", "value").writeStream.format("memory").queryName("believed")

    def copy() -> None:
        # A new folder: a query with the memory sink cannot go on from an old checkpoint.
        copying = copied.option("checkpointLocation", tempfile.mkdtemp(dir=tmp_path))
        copying.trigger(availableNow=True).start().awaitTermination()

    started_again(copy)
    found = spark.table("believed").collect()
    assert sorted((bytes(row.key), bytes(row.value)) for row in found) == [(b"a", b"1"), (b"b", b"2")]

    # The store is what lets them in.
    other = truststore(papers.other_ca, tmp_path / "other.jks")
    read = spark.read.format("ottla").options(subscribe=kafka_name, **options)
    with pytest.raises(Exception, match=r"ssl\.truststore\.location"):
        read.option("kafka.ssl.truststore.location", str(other)).load().collect()
    write = rows.write.format("ottla").mode("append").options(topic=kafka_name, **options)
    with pytest.raises(Exception, match=r"ssl\.truststore\.location"):
        write.option("kafka.ssl.truststore.location", str(other)).save()
