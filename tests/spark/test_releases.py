"""The oldest release of PySpark that ottla is for, installed beside the one that all other tests run with.

With OTTLA_SOAK=1, for it is a download of 400 MB; uv makes the environment, with the compiled ottla that is here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import exactly_once
from tests.soak import SOAK
from tests.spark import release_job

import ottla

from ..needs import lacking

pytestmark = [pytest.mark.spark, SOAK]

RELEASE = "4.2"
NEEDED = ("pyarrow>=18", "pandas>=2.2,<3", "crc32c", "lz4", "cramjam")
MASTERS = {"local": "local[2]", "local-cluster": "local-cluster[2,1,1024]"}
ROWS = 500
KEYS = 10
PATIENCE_S = 600


@pytest.fixture(scope="module")
def python(find_java: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter of an environment with that release."""
    root = Path(__file__).parents[2]
    uv = shutil.which("uv") or shutil.which("uv", path=str(root / ".tools" / "uv" / "bin"))
    if uv is None:
        lacking("spark", f"PySpark {RELEASE} is installed with uv, and there is none on PATH")
    folder = tmp_path_factory.mktemp("release") / "venv"
    python = str(folder / "bin" / "python")
    install = [uv, "pip", "install", "--quiet", "--python", python, f"pyspark=={RELEASE}.*", *NEEDED]
    for command in ([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], install):
        subprocess.run(command, check=True, timeout=2 * PATIENCE_S)
    return python


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=3) as cluster:
        yield cluster


@pytest.mark.parametrize("place", MASTERS)
def test_every_row_is_there_once_with_the_oldest_release(
    python: str, cluster: ottla.Cluster, place: str, tmp_path: Path
) -> None:
    servers = cluster.bootstrap_servers
    for topic in (place, f"{place}-streamed", f"{place}-written"):
        cluster.create_topic(topic, partitions=3)
    with ottla.Producer(servers) as producer:
        for row in range(ROWS):
            producer.send(place, str(row), str(row % KEYS))
    source = str(Path(ottla.__file__).parents[1])
    done = subprocess.run(
        [python, release_job.__file__, servers, place, str(tmp_path / "checkpoint"), MASTERS[place]],
        env=os.environ | {"PYTHONPATH": source},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert done.stdout.splitlines()[-1].startswith(f"{RELEASE}.")
    for topic in (f"{place}-streamed", f"{place}-written"):
        exactly_once.assert_rows_once(exactly_once.visible_rows(servers, topic), ROWS, KEYS)
    assert not exactly_once.busy(servers)
