"""The examples run as they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_example_of_a_lost_ack_runs_as_it_says() -> None:
    pytest.importorskip("confluent_kafka")
    page = (ROOT / "examples" / "lost_ack" / "test_orders.py").read_text()
    [command] = re.findall(r"Run it with `pytest ([\w/]+)`", page)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"^\d+ passed in ", done.stdout, flags=re.MULTILINE)
