"""`ottla run --schema avro` as a user starts it: two versions of a schema, read by Spark and by foreign clients.

The kept topics and schemas are served again; confluent-kafka reads the records and fastavro decodes them.
"""

from __future__ import annotations

import io
import json
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import Consumer, TopicPartition

import ottla
from ottla.client.admin import Admin
from ottla.ledger.schema import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE
from ottla.patience import comes_within

from .test_run import ENDS_S, PROGRAM, write_orders
from .test_run import ottla as run_ottla

pytestmark = pytest.mark.spark

ROWS = 1_600


def read_values(bootstrap_servers: str, topic: str, committed: int) -> list[bytes]:
    """What librdkafka reads of a topic until so many records have come."""
    settings = {"group.id": "count", "enable.auto.commit": False, "isolation.level": "read_committed"}
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, **settings})
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    values: list[bytes] = []
    while len(values) < committed:
        message = consumer.poll(30)
        assert message is not None, "nothing more came"
        assert message.error() is None, message.error()
        values.append(message.value())
    consumer.close()
    return values


def test_half_of_the_rows_have_the_second_version_and_spark_reads_all_as_it(tmp_path: Path) -> None:
    write_orders(tmp_path, ROWS)
    ended = run_ottla(
        tmp_path,
        *("run", "--schema", "avro", "--input", "orders.csv", "--key", "customer"),
        *("--data-dir", "kept", "--json-file", "figures.json", "--report", "report.html"),
    )
    assert (ended.returncode, ended.stderr) == (0, ""), ended
    shown = " ".join(ended.stdout.split())
    for words in ("orders-exactly-once-value 2 2 800 800 0", "each old record got the default", "--registry 8081"):
        assert words in shown, words
    assert "Two versions of a schema, read as the newest one" in (tmp_path / "report.html").read_text()
    figures = json.loads((tmp_path / "figures.json").read_text())
    schema = figures["schema"]
    assert (schema["format"], schema["field"], schema["default"]) == ("avro", "row", -1)
    seen = {(each["topic"], each["version"]): each for each in schema["versions"]}
    assert [each["id"] for each in schema["versions"]] == [1, 2, 1, 2, 1, 2, 3]
    for guarantee in (AT_MOST_ONCE, AT_LEAST_ONCE, EXACTLY_ONCE):
        old, new = seen[guarantee, 1], seen[guarantee, 2]
        assert old["stored"] + new["stored"] == figures["guarantees"][guarantee]["stored"]
        assert (old["with_default"], new["with_default"]) == (old["stored"], 0)
    streamed = seen["streamed on", 1]
    assert (streamed["stored"], streamed["with_default"]) == (ROWS, ROWS // 2)

    with ottla.Cluster(data_dir=tmp_path / "kept" / "run-1" / "brokers") as cluster:
        servers = cluster.bootstrap_servers
        with ottla.Registry(servers) as registry, ottla.RegistryClient(registry.url) as client:

            def decoded(topic: str, stored: int) -> list[tuple[int, dict[str, Any]]]:
                found = []
                for value in read_values(servers, topic, stored):
                    schema_id = int.from_bytes(value[1:5], "big")
                    writer = json.loads(client.by_id(schema_id).text)
                    row: Any = fastavro.schemaless_reader(io.BytesIO(value[5:]), writer, None)
                    found.append((schema_id, row))
                return found

            least = figures["guarantees"][AT_LEAST_ONCE]["stored"]
            ids = Counter(schema_id for schema_id, _ in decoded("orders-at-least-once", least))
            assert ids == {number: seen[AT_LEAST_ONCE, number]["stored"] for number in (1, 2)}
            exactly = [row for _, row in decoded("orders-exactly-once", ROWS)]
            assert sorted(row["id"] for row in exactly) == list(range(ROWS))
            result = [row for _, row in decoded("orders-streamed", ROWS)]
            assert all(row["record"]["row"] == max(-1, _new(row["record"]["id"])) for row in result)


def _new(number: int) -> int:
    """The row's number where the second version has it."""
    return number if number >= ROWS // 2 else -1


def test_ctrl_c_leaves_no_topic_and_no_subject_behind(tmp_path: Path) -> None:
    write_orders(tmp_path, 600)
    with (
        ottla.Cluster(brokers=1) as cluster,
        ottla.Registry(cluster.bootstrap_servers) as registry,
        ottla.RegistryClient(registry.url) as client,
        Admin(cluster.bootstrap_servers) as admin,
    ):
        for given in ((), ("--registry", registry.url)):
            before = admin.list_topics()
            command = [*PROGRAM, "run", "--schema", "avro", "--input", "orders.csv", "--key", "customer", *given]
            with subprocess.Popen(
                [*command, "-b", cluster.bootstrap_servers],
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            ) as process:
                assert comes_within(ENDS_S, lambda: any("at-least-once" in topic for topic in admin.list_topics()))
                process.send_signal(signal.SIGINT)
                said, _ = process.communicate(timeout=ENDS_S)
            assert (process.returncode, said.splitlines()[-1]) == (130, "ottla: interrupted")
            assert admin.list_topics() == before
            assert client.subjects(deleted=True) == []
