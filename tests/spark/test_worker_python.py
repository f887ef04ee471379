"""Which Python Spark's workers run if a virtual environment is used without being activated."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ottla
from ottla.spark.worker_python import name_this_python

_PATIENCE_S = 300
_JOB = """\
import sys
import ottla.spark
from pyspark.sql import SparkSession

session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = session.range(0, 3, 1, 1).selectExpr("cast(id as string) value")
rows.write.format("ottla").mode("append").option("kafka.bootstrap.servers", sys.argv[1]).option("topic", "t").save()
session.stop()
"""


def python_that_lacks_ottla(folder: Path) -> str:
    """A PATH of which `python3` is one that sees no installed package."""
    folder.mkdir()
    other = folder / "python3"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    other.chmod(0o755)
    return f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin"


@pytest.mark.spark
def test_a_job_runs_in_an_environment_that_is_not_activated(find_java: None, tmp_path: Path) -> None:
    from ottla.spark.java import find_java as find
    from ottla.spark.java import lay_java_home

    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    environment["JAVA_HOME"] = str(lay_java_home(*find(), tmp_path / "java"))
    environment["PATH"] = python_that_lacks_ottla(tmp_path / "bin")
    environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    job = tmp_path / "job.py"
    job.write_text(_JOB)
    with ottla.Cluster() as cluster:
        cluster.create_topic("t")
        done = subprocess.run(
            [sys.executable, job, cluster.bootstrap_servers],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert ottla.read_table(cluster.bootstrap_servers, "t")["value"].to_pylist() == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    "said",
    [
        {"PYSPARK_PYTHON": "./environment/bin/python"},
        {"PYSPARK_DRIVER_PYTHON": "python"},
        {"PYSPARK_GATEWAY_PORT": "4711"},
        {"PATH": os.pathsep.join((str(Path(sys.executable).parent), "/usr/bin"))},
    ],
)
def test_what_somebody_has_said_stays(said: dict[str, str], tmp_path: Path) -> None:
    environment = {"PATH": python_that_lacks_ottla(tmp_path / "bin"), **said}
    before = dict(environment)
    name_this_python(environment)
    assert environment == before


def test_where_nobody_has_said_it_is_this_one(tmp_path: Path) -> None:
    for path in (python_that_lacks_ottla(tmp_path / "bin"), str(tmp_path), ""):
        environment = {"PATH": path}
        name_this_python(environment)
        assert environment == {"PATH": path, "PYSPARK_PYTHON": sys.executable}
