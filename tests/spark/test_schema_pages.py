"""What the pages on source, sink and schemas show of values with a schema runs as it stands there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.slow_start import started_again

import ottla

pytestmark = pytest.mark.spark

DOCS = Path(__file__).parents[2] / "docs"
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "price", "type": "double"}],
}


@pytest.fixture
def places() -> Iterator[dict[str, str]]:
    """What the pages call Kafka and the registry, and where they are."""
    with ottla.Cluster(brokers=1) as cluster, ottla.Registry(cluster.bootstrap_servers) as registry:
        for topic in ("orders", "prices"):
            cluster.create_topic(topic)
        yield {"localhost:9092": cluster.bootstrap_servers, "http://localhost:8081": registry.url}


def send_an_order(places: dict[str, str]) -> None:
    servers, url = places.values()
    serializer = ottla.AvroSerializer(url, json.dumps(ORDER))
    with ottla.Producer(servers, value_serializer=serializer) as producer:
        producer.send("orders", {"id": 1, "price": 2.5}, "ada")


def run(page: str, places: dict[str, str], **scene: Any) -> dict[str, Any]:
    """Run the page's blocks of this kind one after the other, and return what they have defined."""
    blocks = re.findall(r"^```py\n(.*?)^```", (DOCS / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        for shown, there in places.items():
            block = block.replace(shown, there)
        exec(compile(block, page, "exec"), scene)
    return scene


def read(places: dict[str, str], topic: str) -> list[tuple[Any, Any]]:
    servers, url = places.values()
    with ottla.Reader(servers, topic, value_deserializer=ottla.AvroDeserializer(url)) as reader:
        return [(record.key, record.value) for record in reader.records()]


def test_the_source_reads_values_and_those_that_cannot_be_decoded(spark: SparkSession, places: dict[str, str]) -> None:
    send_an_order(places)
    with ottla.Producer(places["localhost:9092"]) as producer:
        producer.send("orders", b"no order", "bob")
    scene = run("spark-source.md", places, spark=spark)
    assert scene["prices"].columns == ["key", "id", "price"]
    writing = scene["letters"].writeStream.format("memory").queryName("letters").trigger(availableNow=True)
    started_again(lambda: writing.start().awaitTermination())
    found = [(bytes(row.key), bytes(row.value)) for row in spark.table("letters").collect()]
    assert found == [(b"bob", b"no order")]


def test_the_sink_writes_values(spark: SparkSession, places: dict[str, str]) -> None:
    orders = spark.createDataFrame([("eve", 7, 0.5)], "customer string, id long, price double")
    run("spark-sink.md", places, orders=orders)
    assert read(places, "orders") == [(b"eve", {"id": 7, "price": 0.5})]


def test_columns_are_decoded_and_encoded(spark: SparkSession, places: dict[str, str]) -> None:
    send_an_order(places)
    scene = run("schemas.md", places, spark=spark)
    (decoded,) = scene["decoded"].collect()
    assert (decoded.order.id, decoded.order.price) == (1, 2.5)
    (encoded,) = scene["encoded"].collect()
    assert bytes(encoded[0])[:1] == b"\0"
    assert read(places, "prices") == [(None, {"id": 1, "price": 2.5})]
