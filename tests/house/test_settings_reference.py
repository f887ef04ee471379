"""What is written out of the tables of settings is fresh, and the page's own code runs."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ottla

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "settings.md").read_text()


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_settings", ROOT / "tools" / "generate_settings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_keywords_and_reference_page_are_what_the_tables_say(tool: ModuleType) -> None:
    stale = [path.name for path, text in tool.generate().items() if path.read_text() != text]
    assert stale == [], "run tools/generate_settings.py"


def test_every_group_of_rows_is_shown(tool: ModuleType) -> None:
    for row in (*tool.PRODUCER_SETTINGS, *tool.READER_SETTINGS):
        assert f"| `{row.name}`" in PAGE


def test_the_keywords_are_not_loaded_at_run_time() -> None:
    names = "[m for m in sys.modules if 'keyword' in m]"
    code = f"import ottla, sys; ottla.Producer, ottla.Reader, ottla.Admin; print({names})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "ottla" not in done.stdout


def test_type_checkers_know_every_keyword(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        """import ottla

ottla.Producer("localhost:9092", linger_ms=5, compression_type="lz4", acks=1, enable_idempotence=None)
ottla.Reader("localhost:9092", "flights", isolation_level="read_committed")
ottla.Producer("localhost:9092", lingr_ms=5)
ottla.Producer("localhost:9092", linger_ms=0.5)
ottla.Admin("localhost:9092", linger_ms=5)
"""
    )
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(wrong)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=ROOT).stdout
    assert re.findall(r"wrong\.py:(\d+): error", said) == ["5", "6", "7"], said


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))
def test_a_block_of_the_page_runs(block: str) -> None:
    with ottla.Cluster(brokers=1) as cluster:
        scene: dict[str, Any] = {}
        for line in block.splitlines():
            exec(compile(line.replace("localhost:9092", cluster.bootstrap_servers), "settings.md", "exec"), scene)
            if "producer" in scene:
                scene.pop("producer").close()
