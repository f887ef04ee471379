"""How often a process may pass a place before it is held there, hold after hold."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest

from ottla.sink.barriers import BARRIERS_FOLDER, Barrier, hold, reach


def is_held(folder: Path) -> bool:
    """Come to the place; whether that is where one is held. Then there is no hold any more."""
    comes = Thread(target=reach, args=(Barrier.COMMIT_BETWEEN,))
    comes.start()
    held: list[Path] = []
    while comes.is_alive() and not held:
        comes.join(0.005)
        held = list(folder.glob("*.held"))
    if held:
        (folder / f"{Barrier.COMMIT_BETWEEN}.hold").unlink()
        held[0].unlink()
        comes.join()
    return bool(held)


def test_passes_are_counted_anew_for_each_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BARRIERS_FOLDER, str(tmp_path))
    for _ in range(2):
        hold(tmp_path, Barrier.COMMIT_BETWEEN, 2)
        assert [is_held(tmp_path) for _ in range(5)] == [False, False, True, False, False]
    held_by = hold(tmp_path, Barrier.COMMIT_BETWEEN, 2)
    assert not is_held(tmp_path)
    held_by.unlink()
    assert not is_held(tmp_path)
    hold(tmp_path, Barrier.COMMIT_BETWEEN, 2)
    assert [is_held(tmp_path) for _ in range(3)] == [False, False, True]
