"""docs/exactly-once-sink.md names for each schedule the tests that show what happens: they are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "exactly-once-sink.md").read_text()
_HEADER = "| case | what happens | tests |\n|---|---|---|\n"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.partition(_HEADER)[2].partition("\n\n")[0].splitlines()
]
_NAME = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_the_page_has_the_table() -> None:
    assert len(ROWS) > 20


@pytest.mark.parametrize("row", ROWS, ids=[row[0][:40] for row in ROWS])
def test_each_schedule_names_tests_that_exist(row: list[str]) -> None:
    _, _, tests = row
    found = [re.fullmatch(_NAME, name) for name in tests.split(", ")]
    assert found
    for name in found:
        assert name is not None, tests
        path, test = name.groups()
        assert f"def {test}(" in (ROOT / path).read_text(), f"{path} has no {test}"
