"""docs/schema-registry.md: its example runs, and what it lists is what there is."""

from __future__ import annotations

import re
from pathlib import Path

from ottla.embedded_registry.api import PATHS
from ottla.registry.settings import REGISTRY_SETTINGS

PAGE = (Path(__file__).parents[2] / "docs" / "schema-registry.md").read_text()


def test_its_example_runs() -> None:
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(code, "docs/schema-registry.md", "exec"), {})


def test_every_path_is_listed() -> None:
    section = PAGE.partition("### What it answers")[2].partition("###")[0]
    rows = re.findall(r"^\| (`/.*?) \|", section, re.MULTILINE)
    listed = {path for row in rows for path in re.findall(r"`/([^`]+)`", row)}
    assert {re.sub(r"\{\w*\}", "{}", path) for path in listed} == {path for path in PATHS if path}


def test_every_setting_is_listed() -> None:
    for row in REGISTRY_SETTINGS:
        assert row.name.startswith("ssl.") or f"`{row.name}`" in PAGE, row.name
