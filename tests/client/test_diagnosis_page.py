"""docs/diagnosis.md names every finding, and its code shows what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ottla
from ottla.producer.diagnosis import Diagnosis, Limit

PAGE = Path(__file__).parents[2] / "docs" / "diagnosis.md"


def test_the_page_has_a_row_for_each_finding() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \|", PAGE.read_text(), flags=re.MULTILINE)
    assert rows == [limit.name for limit in Limit]


def test_the_code_of_the_page_waits_for_each_record_and_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    with ottla.Cluster(brokers=1) as cluster:
        cluster.create_topic("flights", partitions=6)
        scene: dict[str, object] = {}
        exec(compile(block.replace("localhost:9092", cluster.bootstrap_servers), PAGE.name, "exec"), scene)
    diagnosis = scene["diagnosis"]
    assert isinstance(diagnosis, Diagnosis)
    assert [finding.limit for finding in diagnosis.findings] == [Limit.ONE_BY_ONE]
    assert "The application waits for each record before it sends the next" in capsys.readouterr().out
