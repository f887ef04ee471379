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


@pytest.mark.parametrize("broker_id", [1, 3])
@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))
def test_a_block_of_the_page_runs_wherever_the_topic_is_led(block: str, broker_id: int) -> None:
    with ottla.Cluster(brokers=3) as cluster:
        cluster.create_topic("flights", partitions=1)
        if cluster.leader("flights", 0) != broker_id:
            cluster.move_leader("flights", 0, broker_id)
        # A producer that begins at the leader talks to no other broker.
        leader = cluster.bootstrap_servers.split(",")[broker_id - 1]
        exec(compile(block.replace("localhost:9092", leader), "metrics.md", "exec"), {})
