"""Spark's own Kafka connector, Java's clients inside, against the embedded cluster: batch reads and batch writes.

In a process of its own: the connector must be on the class path when Spark's Java starts, and no other test wants it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.spark.sink_driver import QUICK_START

import ottla
from ottla.cluster.cluster import Cluster

from ..needs import lacking

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

_PATIENCE_S = 180
_ROWS = 2000
# Writes rows to one topic, reads them and another one, and prints what it read.
_PROGRAM = """
import json
import sys

from ottla.errors import UserMistake
from ottla.spark.session import local_session

servers, settings = sys.argv[1:]
try:
    spark = local_session("ottla-tests", settings=json.loads(settings))
except UserMistake as reason:
    print(json.dumps({"missing": str(reason)}))
    sys.exit()

def reading(topic, **options):
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic, **options}
    return spark.read.format("kafka").options(**given).load()

rows = spark.range(ROWS).selectExpr(
    "cast(id % 7 as string) as key",
    "concat('value ', id) as value",
    "array(named_struct('key', 'by', 'value', cast('spark' as binary))) as headers",
)
rows.write.format("kafka").options(**{"kafka.bootstrap.servers": servers, "topic": "from-spark"}).save()
read = reading("to-spark", includeHeaders="true").selectExpr(
    "cast(key as string)", "cast(value as string)", "partition", "offset",
    "cast(headers[0].value as string) as header", "timestampType",
)
since = reading("to-spark", startingOffsetsByTimestamp='{"to-spark": {"0": SINCE, "1": SINCE, "2": SINCE}}')
back = reading("from-spark").selectExpr("cast(value as string)")
told = {
    "read": sorted(map(list, read.collect())),
    "since": since.count(),
    "back": sorted(row[0] for row in back.collect()),
}
print(json.dumps(told))
spark.stop()
"""
# Retention takes what is older than a week.
_FIRST_MS = int(time.time() * 1000) - 86_400_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        for topic in ("from-spark", "to-spark"):
            cluster.create_topic(topic, partitions=3)
        yield cluster


def test_spark_reads_what_ottla_sent_and_ottla_what_spark_wrote(
    cluster: Cluster, spark_connector: list[str], exchange: Any
) -> None:
    with ottla.Producer(cluster.bootstrap_servers, compression_type="lz4") as producer:
        sent = [
            producer.send(
                "to-spark",
                f"value {number}",
                f"key {number % 9}",
                headers=[("by", b"ottla")],
                timestamp_ms=_FIRST_MS + number,
            )
            for number in range(_ROWS)
        ]
    stored = [delivery.result(0) for delivery in sent]
    program = _PROGRAM.replace("ROWS", str(_ROWS)).replace("SINCE", str(_FIRST_MS + _ROWS // 2))
    settings = QUICK_START | {"spark.jars": ",".join(spark_connector)}
    command = [sys.executable, "-c", program, cluster.bootstrap_servers, json.dumps(settings)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    if "missing" in told:
        lacking("spark", told["missing"])
    assert told["read"] == sorted(
        [f"key {number % 9}", f"value {number}", place.partition, place.offset, "ottla", 0]
        for number, place in enumerate(stored)
    )
    assert told["since"] == _ROWS // 2
    expected = sorted((b"%d" % (number % 7), b"value %d" % number) for number in range(_ROWS))
    rows = exchange.ottla_reads(cluster.bootstrap_servers, "from-spark").values()
    assert sorted((key, value) for key, value, _, _ in rows) == expected
    assert {headers for _, _, headers, _ in rows} == {(("by", b"spark"),)}
    assert told["back"] == sorted(value.decode() for _, value in expected)
