"""What must not be loaded: numpy and pyarrow cost a third of a second and 90 MiB."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import ottla


def loaded_after(code: str) -> set[str]:
    """The top-level modules a fresh interpreter has loaded after running `code`."""
    script = f"{code}\nimport sys, json; print(json.dumps(sorted({{m.split('.')[0] for m in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return set(json.loads(done.stdout.splitlines()[-1]))


HEAVY = {"numpy", "pyarrow", "pandas", "pyspark", "typer", "rich"}


def test_import_ottla_loads_nothing_heavy() -> None:
    assert not loaded_after("import ottla") & (HEAVY | {"asyncio"})


def test_a_producer_that_sends_loads_neither_numpy_nor_pyarrow() -> None:
    code = """
import ottla
with ottla.Cluster(brokers=1) as cluster:
    cluster.create_topic("flights")
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        assert producer.send("flights", b"value", b"key").result(10).offset == 0
"""
    assert not loaded_after(code) & HEAVY


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's /proc to look into a process")
def test_brokers_that_serve_have_neither_numpy_nor_pyarrow_in_memory() -> None:
    with ottla.Cluster() as cluster:
        cluster.create_topic("flights")
        with ottla.Producer(cluster.bootstrap_servers) as producer:
            producer.send("flights", b"value").result(10)
        maps = Path(f"/proc/{cluster.pid}/maps").read_text()
    assert "crc32c" in maps  # the control: what is loaded does show
    assert "numpy" not in maps
    assert "pyarrow" not in maps


def test_every_public_name_resolves() -> None:
    for name in ottla.__all__:
        assert getattr(ottla, name) is not None
    assert set(ottla.__all__) <= set(dir(ottla))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Prodcuer"):
        ottla.Prodcuer  # type: ignore[attr-defined]  # noqa: B018
