"""CHANGELOG.md is made of the fragments in changes/, and a version is written in one way everywhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from tools.changelog import FILE, HEAD, without_draft

import ottla

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DRAFT = "## 2.0 (draft)"


def test_every_fragment_is_of_a_kind_that_the_changelog_has() -> None:
    kinds = "|".join(each["directory"] for each in PROJECT["tool"]["towncrier"]["type"])
    names = {path.name for path in (ROOT / "changes").iterdir()} - {"README.md"}
    assert [name for name in names if not re.fullmatch(rf"[\w-]+\.({kinds})\.md", name)] == []


def test_every_place_tells_the_same_version() -> None:
    version = PROJECT["project"]["version"]
    assert ottla.__version__ == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert FILE.read_text().startswith(f"{HEAD}\n## {version} (")


@pytest.mark.parametrize("older", ["", "## 1.0 (2026-01-01)\n\n- first\n"], ids=["the first", "one of many"])
def test_a_draft_is_replaced_and_versions_stay(older: str) -> None:
    text = f"{HEAD}\n{DRAFT}\n\n### Added\n\n- more\n\n{older}"
    assert without_draft(text, DRAFT).split() == f"{HEAD}{older}".split()
    assert without_draft(f"{HEAD}\n{older}", DRAFT) == f"{HEAD}\n{older}"
