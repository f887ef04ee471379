"""docs/metrics.md is what the table of metrics says, and its code runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import ottla

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "metrics.md").read_text()
TOOL = ROOT / "tools" / "generate_metrics.py"


def test_the_page_is_what_the_table_says() -> None:
    done = subprocess.run([sys.executable, str(TOOL), "--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))
def test_a_block_of_the_page_runs(block: str) -> None:
    with ottla.Cluster(brokers=1) as cluster:
        cluster.create_topic("flights")
        exec(compile(block.replace("localhost:9092", cluster.bootstrap_servers), "metrics.md", "exec"), {})
