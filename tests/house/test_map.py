"""ARCHITECTURE.md and docs/map.md lead through the source: every file they name is there, and every room is on them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAP = (ROOT / "ARCHITECTURE.md").read_text() + (ROOT / "docs" / "map.md").read_text()


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:src|tests)/[\w/.]+)`", MAP))))
def test_a_step_names_a_file_that_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_every_room_is_on_the_map() -> None:
    rooms = {path.name for path in (ROOT / "src" / "ottla").iterdir() if (path / "__init__.py").exists()}
    assert not {room for room in rooms if room not in MAP}
