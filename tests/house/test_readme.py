"""What the README shows works as it stands: each Python block is run against an embedded cluster."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
GUIDE = (ROOT / "docs" / "embedded-cluster.md").read_text()
FAULTS = (ROOT / "docs" / "faults.md").read_text()
ASYNCIO = (ROOT / "docs" / "asyncio.md").read_text()
TABLES = (ROOT / "docs" / "tables.md").read_text()
DELIVERY = (ROOT / "docs" / "delivery.md").read_text()
SIMULATION = (ROOT / "docs" / "simulation.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
COLUMNS = {"tailnum": ["N14228", "N24211"], "origin": ["EWR", "LGA"], "dest": ["IAH", "IAH"]}


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What a reader of the README has at hand: a cluster with a topic, a file of flights, a table, an application."""
    polars = pytest.importorskip("polars")
    monkeypatch.chdir(tmp_path)
    table = polars.DataFrame(COLUMNS)
    table.write_csv("flights.csv")
    with ottla.Cluster() as cluster:
        cluster.create_topic("flights", partitions=3)

        def send_five(bootstrap_servers: str, topic: str = "orders") -> None:
            with ottla.Producer(bootstrap_servers) as producer:
                for number in range(5):
                    producer.send(topic, b"order %d" % number).result(30)

        yield {
            "bootstrap_servers": cluster.bootstrap_servers,
            "kafka_cluster": cluster,
            "my_application": send_five,
            "ottla": ottla,
            "place_order": send_five,
            "producer": ottla.Producer(cluster.bootstrap_servers),
            "sent": 5,
            "stored": lambda cluster, topic: ottla.read_table(cluster.bootstrap_servers, topic).num_rows,
            "table": table,
        }


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL), ids=range(5))
def test_a_block_of_the_guide_to_the_cluster_runs(block: str) -> None:
    exec(compile(block, "embedded-cluster.md", "exec"), {})


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", FAULTS, flags=re.DOTALL), ids=range(2))
def test_a_block_of_the_page_on_faults_runs(block: str) -> None:
    exec(compile(block, "faults.md", "exec"), {})


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", ASYNCIO, flags=re.DOTALL), ids=range(3))
def test_a_block_of_the_guide_to_asyncio_runs(block: str) -> None:
    exec(compile(block, "asyncio.md", "exec"), {})


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", TABLES, flags=re.DOTALL), ids=range(4))
def test_a_block_of_the_guide_to_tables_runs(block: str) -> None:
    exec(compile(block, "tables.md", "exec"), {})


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", DELIVERY, flags=re.DOTALL), ids=range(2))
def test_a_block_of_the_guide_to_delivery_runs(block: str) -> None:
    exec(compile(block, "delivery.md", "exec"), {})


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", SIMULATION, flags=re.DOTALL), ids=range(2))
def test_a_block_of_the_guide_to_the_simulation_runs(block: str) -> None:
    exec(compile(block, "simulation.md", "exec"), {})


def test_the_page_on_faults_names_every_one_there_is() -> None:
    from ottla.faults.fault import KINDS

    assert [kind for kind in KINDS if f"`{kind}`" not in FAULTS] == []


def test_the_readme_has_its_examples() -> None:
    assert len(BLOCKS) >= 6


def test_every_file_that_the_readme_links_to_is_there() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert "docs/verdict.svg" in links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_words_under_the_picture_of_the_verdict_say_what_it_shows() -> None:
    words = next(line for line in README.splitlines() if line.endswith("(docs/verdict.svg)"))
    figures = re.findall(r"\d+,\d+", words)
    picture = (ROOT / "docs" / "verdict.svg").read_text()
    assert len(figures) == 3
    assert [figure for figure in figures if figure not in picture] == []


@pytest.mark.parametrize("block", [b for b in BLOCKS if "spark." not in b], ids=lambda b: b.split("\n")[0][:40])
def test_a_block_of_the_readme_runs(block: str, scene: dict[str, Any]) -> None:
    cluster = scene["kafka_cluster"]
    code = block.replace("localhost:9092", cluster.bootstrap_servers)
    exec(compile(code, "README.md", "exec"), scene)
    for name, function in list(scene.items()):
        if name.startswith("test_"):
            cluster.create_topic("orders")
            function(cluster, "orders")
    scene["producer"].close()


@pytest.mark.spark
@pytest.mark.parametrize("block", [b for b in BLOCKS if "spark." in b], ids=lambda b: b.split("\n")[0][:40])
def test_a_spark_block_of_the_readme_runs(block: str, scene: dict[str, Any], tmp_path: Path) -> None:
    from pyspark import SparkContext

    from ottla.spark.session import local_session

    servers = scene["bootstrap_servers"]
    ottla.write_table(servers, "flights", scene["table"], key="tailnum", value=["origin", "dest"], value_format="json")
    scene["kafka_cluster"].create_topic("lga", partitions=2)
    is_shared = SparkContext._active_spark_context is not None
    scene["spark"] = spark = local_session("README")
    try:
        code = block.replace(".load()", '.option("startingOffsets", "earliest").load()', 1)
        # A JVM that other tests have started is in another folder.
        code = code.replace('"lga.cp"', repr(str(tmp_path / "lga.cp")))
        exec(compile(code.replace("localhost:9092", servers), "README.md", "exec"), scene)
        scene["query"].processAllAvailable()
        scene["query"].stop()
    finally:
        # Other tests of this process may have one that they still need.
        if not is_shared:
            spark.stop()
    written = ottla.read_table(servers, "lga", isolation_level="read_committed")
    assert written.column("key").to_pylist() == [b"N24211"]


@pytest.mark.parametrize("told", [README, DELIVERY, str(ottla.Producer.send.__doc__)], ids=["README", "page", "help"])
def test_what_send_waits_for_is_told_where_it_is_shown(told: str) -> None:
    """`tests/client/test_producer.py` shows it: a topic that is not there is waited for, and only for so long."""
    told = " ".join(told.split())
    assert "return at once" not in told
    assert "returns at once" not in told
    assert re.search(r"first record of a topic.{,500}max\.block\.ms", told)


# What docs/settings.md shows connects to nothing.
@pytest.mark.parametrize(
    "page", sorted({*ROOT.glob("docs/*.md")} - {ROOT / "docs" / "settings.md"}), ids=lambda p: p.name
)
def test_a_page_whose_examples_need_a_kafka_says_how_to_start_one(page: Path) -> None:
    text = page.read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    if any("localhost:9092" in block for block in blocks):
        assert "`ottla serve --topic " in text


def test_the_page_on_an_index_has_no_link_into_the_repository() -> None:
    assert re.search(r"\]\((?!https?:)", README)
    page = runpy.run_path(str(ROOT / "setup.py"))["index_page"]()
    assert re.findall(r"\[[^\]]+\]\((?!https?:)[^)]+\)", page) == []
    assert "settings, security (TLS, SASL), web services" in " ".join(page.split())


def test_the_links_of_the_readme_lead_to_files() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert len(links) > 30
    assert [link for link in links if not (ROOT / link).exists()] == []
