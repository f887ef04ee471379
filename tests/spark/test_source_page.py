"""docs/spark-source.md: its code runs, and its table of options is the one the code reads by."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

import ottla

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "spark-source.md").read_text()


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("spark_options", ROOT / "tools" / "generate_spark_options.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_options_is_what_the_code_reads_by(tool: ModuleType) -> None:
    assert tool.write_page(PAGE) == PAGE, "run tools/generate_spark_options.py"
    for row in tool.OPTIONS:
        assert f"| `{row.name}` |" in PAGE


@pytest.mark.spark
@pytest.mark.sample
def test_the_code_of_the_page_reads_a_batch_and_a_stream(spark: SparkSession) -> None:
    batch, stream = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    with ottla.Cluster(brokers=1) as cluster:
        for topic in ("flights", "flights-2013"):
            cluster.create_topic(topic)
            with ottla.Producer(cluster.bootstrap_servers) as producer:
                producer.send(topic, topic)
        scene: dict[str, Any] = {"spark": spark}
        for block in (batch, stream):
            exec(compile(block.replace("localhost:9092", cluster.bootstrap_servers), "spark-source.md", "exec"), scene)
        assert scene["flights"].columns == ["value", "timestamp"]
        assert tuple(scene["by_size"]) == (1, len("flights"))
        read = spark.table("arrivals").orderBy("flight").collect()
        assert [row.flight for row in read] == ["flights", "flights-2013"]
        assert scene["lag"] == {"flights": {"0": 0}, "flights-2013": {"0": 0}}
