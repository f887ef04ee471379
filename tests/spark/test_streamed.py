"""The streaming job of `ottla run`: killed while it writes it loses nothing, and what goes wrong in it is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.cluster.cluster import Cluster
from ottla.errors import OttlaError
from ottla.showcase.kafka import EmbeddedKafka
from ottla.showcase.result import JsonResult
from ottla.showcase.streamed import StreamingDriver, finish, stream_and_kill
from ottla.showcase.streaming_job import Job

pytestmark = pytest.mark.spark


def test_a_job_that_fails_says_why_and_leaves_no_process(spark: SparkSession, tmp_path: Path) -> None:
    with (
        Cluster(brokers=1) as cluster,
        StreamingDriver(tmp_path, 10) as driver,
        pytest.raises(OttlaError, match=r"job ended with status 1: .* topic 'absent', which does not exist"),
    ):
        stream_and_kill(driver, spark, EmbeddedKafka(cluster), "absent", "result", 10, 1, JsonResult())


def test_a_job_that_cannot_be_finished_says_why_and_leaves_the_session_as_it_was(
    spark: SparkSession, tmp_path: Path
) -> None:
    before = spark.conf.get("spark.sql.codegen.wholeStage")
    with Cluster(brokers=1) as cluster:
        job = Job(cluster.bootstrap_servers, "absent", "result", "unfinished", str(tmp_path / "checkpoint"), 10)
        with pytest.raises(OttlaError, match=r"the streaming job failed: .* topic 'absent', which does not exist"):
            finish(job, spark)
    assert spark.conf.get("spark.sql.codegen.wholeStage") == before
    assert not spark.streams.active
