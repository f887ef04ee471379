"""Declarative pipelines: a sink of the format ottla is the end of a flow, exactly once, run after run."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.client.tables import read_table
from ottla.spark.java import find_java, lay_java_home

from ..needs import lacking

if TYPE_CHECKING:
    from ottla.cluster.cluster import Cluster

pytestmark = pytest.mark.spark

PATIENCE_S = 240
SPEC = """\
name: copy
storage: STORAGE
libraries:
  - glob:
      include: transformations/**
"""
FLOW = """\
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

servers = {"kafka.bootstrap.servers": "localhost:9092"}
dp.create_sink("copied", "ottla", {**servers, "topic": "copied-orders"})


@dp.append_flow(target="copied")
def copy():
    orders = SparkSession.active().readStream.format("ottla")
    return orders.options(**servers, subscribe="orders", startingOffsets="earliest").load().select("key", "value")
"""
PAGE = Path(__file__).parents[2] / "docs" / "spark-migration.md"


@pytest.mark.usefixtures("find_java")
def test_a_pipeline_ends_in_a_topic_and_goes_on_where_it_was(kafka_cluster: Cluster, tmp_path: Path) -> None:
    for module in ("grpc", "yaml"):
        if importlib.util.find_spec(module) is None:
            lacking("spark", f"pipelines need {module}: pip install 'pyspark[pipelines]'")
    assert FLOW in PAGE.read_text()
    servers = kafka_cluster.bootstrap_servers
    for topic in ("orders", "copied-orders"):
        kafka_cluster.create_topic(topic, partitions=2)
    try:
        (tmp_path / "spark-pipeline.yml").write_text(SPEC.replace("STORAGE", (tmp_path / "storage").as_uri()))
        (tmp_path / "transformations").mkdir()
        (tmp_path / "transformations" / "copy.py").write_text(FLOW.replace("localhost:9092", servers))
        for first in (0, 10):
            with ottla.Producer(servers) as producer:
                for number in range(first, first + 10):
                    producer.send("orders", f"order {number}", f"{number}")
            run_pipeline(tmp_path)
            found = read_table(servers, "copied-orders", isolation_level="read_committed")["value"].to_pylist()
            assert sorted(found) == sorted(b"order %d" % number for number in range(first + 10))
    finally:
        for topic in ("orders", "copied-orders"):
            kafka_cluster.delete_topic(topic)


def run_pipeline(folder: Path) -> None:
    spark = importlib.util.find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    home = Path(spark.origin).parent
    java, version = find_java()
    java_home = folder / "java"
    environment = {
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(java_home if java_home.exists() else lay_java_home(java, version, java_home)),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [home / "bin" / "spark-pipelines", "run", "--spec", folder / "spark-pipeline.yml"],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-5000:]
