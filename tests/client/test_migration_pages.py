"""The pages for who comes from another client: code before and after stores the same, tables say what errors say."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.client.librdkafka import properties

import ottla
from ottla.connection.foreign_settings import told_of
from ottla.producer.settings import ProducerSettings
from ottla.producer.settings_table import PRODUCER_SETTINGS

DOCS = Path(__file__).parents[2] / "docs"
PEERS = "confluent-kafka", "kafka-python", "aiokafka"
KNOWN = frozenset(row.name for row in PRODUCER_SETTINGS)


def page(peer: str) -> str:
    """The text of a peer's page."""
    return (DOCS / f"migrate-{peer}.md").read_text()


def settings_table(peer: str) -> dict[str, str]:
    """The table of settings: a name there, and what stands beside it."""
    section = page(peer).split("## Settings")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?`) \| (.*) \|$", section, flags=re.MULTILINE)
    return {name: told for names, told in rows for name in re.findall(r"`(.*?)`", names)}


def options_of(peer: str, folder: Path) -> Iterable[str]:
    """Every option of the peer's producer, as far as it tells them."""
    if peer == "kafka-python":
        from kafka import KafkaProducer

        return list(KafkaProducer.DEFAULT_CONFIG)
    if peer == "aiokafka":
        from aiokafka import AIOKafkaProducer

        return [name for name in inspect.signature(AIOKafkaProducer.__init__).parameters if name != "self"]
    return [name for name, of_whom in properties(folder).items() if of_whom != "C"]


@pytest.mark.parametrize("peer", PEERS)
def test_every_option_of_a_producer_is_in_the_table_or_the_same_here(peer: str, tmp_path: Path) -> None:
    table = settings_table(peer)
    options = list(options_of(peer, tmp_path))
    assert len(options) > 20
    assert [name for name in options if name.replace("_", ".") not in KNOWN and name not in table] == []


@pytest.mark.parametrize("peer", PEERS)
def test_the_table_says_what_errors_say(peer: str) -> None:
    for name, told in settings_table(peer).items():
        answer = told_of(name, name.replace("_", "."), KNOWN) or ""
        called = re.match(rf"{re.escape(name)} is called (\S+)", answer)
        if called is None:
            with pytest.raises(ottla.ConfigError):
                ottla.Producer.from_config({"bootstrap.servers": "localhost:1", name: "1"})
        else:
            assert told.replace("_", ".").startswith(f"`{called[1]}`".replace("_", ".")), name


@pytest.mark.parametrize(
    ("name", "theirs", "ours"),
    [
        ("acks", 2, -1),
        ("delivery.timeout.ms", 0, 2**31 - 1),
        ("connections.max.idle.ms", 0, -1),
        ("ssl.endpoint.identification.algorithm", "none", ""),
    ],
)
def test_values_of_librdkafka_that_mean_nothing_here_are_refused(name: str, theirs: object, ours: object) -> None:
    assert f"`{name}`" in page("confluent-kafka").split("Of the same name")[1]
    with pytest.raises(ottla.ConfigError, match=name):
        ProducerSettings({"bootstrap.servers": "localhost:1", name: theirs})
    assert ProducerSettings({"bootstrap.servers": "localhost:1", name: ours})


@pytest.mark.prove
@pytest.mark.parametrize("peer", PEERS)
def test_code_before_and_after_stores_the_same(peer: str) -> None:
    pytest.importorskip(peer.replace("-python", "").replace("-", "_"))
    before, after = re.findall(r"^```python\n(.*?)^```", page(peer), flags=re.DOTALL | re.MULTILINE)
    stored = []
    with ottla.Cluster(brokers=1) as cluster:
        for code in (before, after):
            cluster.create_topic("orders", partitions=3)
            exec(compile(code.replace("localhost:9092", cluster.bootstrap_servers), peer, "exec"), {"__name__": peer})
            table = ottla.read_table(cluster.bootstrap_servers, "orders")
            records = table.select(["partition", "key", "value"]).to_pylist()
            cluster.delete_topic("orders")
            # Records without a key may go anywhere.
            stored.append(
                sorted((row["key"] or b"", row["value"], row["partition"] if row["key"] else -1) for row in records)
            )
    assert stored[0] == stored[1]
    assert stored[0]
