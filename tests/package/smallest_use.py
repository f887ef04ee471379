"""The smallest use of what is installed: `python smallest_use.py [EXTRA ...]`.

It runs where ottla was installed from a wheel: in test_wheel.py, and in the release workflow. Without arguments it
looks for what a wheel has, and sends two records to an embedded broker. An extra that is named is used, too. `audit`
needs two of them: cli and arrow.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import ottla

FOLDER = Path(ottla.__file__).parent
COMPILED = "ottla.records.append", "ottla.producer.sender", "ottla.broker.core"
BESIDES_MODULES = "py.typed", "docs/settings.md", "console/static/index.html", "records/append.pyi", "records/append.py"
ORDER = 'syntax = "proto3"; message Order { string item = 1; }'


def use_base(servers: str) -> None:
    assert "site-packages" in FOLDER.parts, f"{FOLDER}: ottla was not installed from a wheel"
    assert importlib.metadata.version("ottla") == ottla.__version__
    missing = [name for name in BESIDES_MODULES if not (FOLDER / name).is_file()]
    assert missing == []
    for name in COMPILED:
        assert str(importlib.import_module(name).__file__).endswith(".so"), f"{name} is not compiled"
    with ottla.Producer(servers, compression_type="zstd") as producer:
        assert producer.send("orders", b"value", b"key").result(60).offset == 0
        assert producer.send("orders", b"other", b"key").result(60).offset == 1


def use_arrow(servers: str) -> None:
    pa = importlib.import_module("pyarrow")
    ottla.write_table(servers, "tables", pa.table({"key": ["a", "b"], "value": ["1", "2"]}), key="key", value="value")
    assert ottla.read_table(servers, "tables").column("value").to_pylist() == [b"1", b"2"]
    fruits = pa.table({"item": ["tea", "plum"]})
    with ottla.Registry(servers) as registry:
        avro = {"value_format": "avro", "registry": registry.url}
        ottla.write_table(servers, "fruits", fruits, **avro)
        values = ottla.read_table(servers, "fruits", **avro).column("value").to_pylist()
    assert values == [{"item": "tea"}, {"item": "plum"}]


def use_cli(servers: str) -> None:
    assert "orders" in command("topics", "list", "-b", servers)
    assert command("docs", "faults").startswith("# Faults")


def use_audit(servers: str) -> None:
    """All that the audit of a topic needs is what `cli` and `arrow` bring."""
    command("produce", "audited", "--random", "10", "--ledger", "sent.parquet", "-b", servers)
    assert "exactly-once" in command("audit", "--ledger", "sent.parquet", "--topic", "audited", "-b", servers)


def use_console(servers: str) -> None:
    from ottla.console.console import Console
    from ottla.console.server import ConsoleServer

    with Console(servers) as looked_at, ConsoleServer(looked_at, "127.0.0.1", 0) as server:
        page = urllib.request.urlopen(server.url, timeout=60).read()
    assert b"<html" in page


def use_sasl(servers: str) -> None:
    listener = ottla.Listener(protocol="SASL_PLAINTEXT", users={"ada": "lovelace"})
    with ottla.Cluster(brokers=1, listeners={"SASL": listener}) as cluster:
        cluster.create_topic("orders")
        with ottla.Producer(
            cluster.bootstrap_servers_of("SASL"),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-512",
            sasl_username="ada",
            sasl_password="lovelace",
        ) as producer:
            assert producer.send("orders", b"value").result(60).offset == 0


def use_schemas(servers: str) -> None:
    with ottla.Registry(servers) as registry:
        serializer = ottla.ProtobufSerializer(registry.url, ORDER, message="Order")
        with ottla.Producer(servers, value_serializer=serializer) as producer:
            assert producer.send("messages", {"item": "tea"}).result(60).offset == 0


def use_otel(servers: str) -> None:
    with ottla.Producer(servers) as producer:
        ottla.observe_metrics(producer)


def use_aws(servers: str) -> None:
    assert callable(importlib.import_module("ottla.client.aws_msk").iam_token)


def use_spark(servers: str) -> None:
    from ottla.spark.session import local_session

    spark = local_session("smallest use", cores=1)
    rows = spark.createDataFrame([("a", "1"), ("b", "2")], "key string, value string")
    kafka = {"kafka.bootstrap.servers": servers}
    rows.write.format("ottla").options(**kafka, topic="spark").mode("append").save()
    assert spark.read.format("ottla").options(**kafka, subscribe="spark").load().count() == 2
    spark.stop()


def command(*arguments: str) -> str:
    """What the installed command prints."""
    done = subprocess.run(
        [Path(sys.executable).with_name("ottla"), *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


USES: dict[str, Callable[[str], None]] = {
    "arrow": use_arrow,
    "audit": use_audit,
    "aws": use_aws,
    "cli": use_cli,
    "console": use_console,
    "otel": use_otel,
    "sasl": use_sasl,
    "schemas": use_schemas,
    "spark": use_spark,
}


def main() -> None:
    with ottla.Cluster(brokers=1) as cluster:
        for topic in ("orders", "tables", "fruits", "audited", "messages", "spark"):
            cluster.create_topic(topic)
        use_base(cluster.bootstrap_servers)
        for extra in sys.argv[1:]:
            USES[extra](cluster.bootstrap_servers)
    sys.stdout.write(f"used: {' '.join(['ottla', *sys.argv[1:]])}\n")


# The embedded brokers run in processes of their own.
if __name__ == "__main__":
    main()
