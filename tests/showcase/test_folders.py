"""A run's folders: numbered, removed when the run does not end well, and never anybody else's."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.interrupting import interrupted_after

from ottla.errors import UserMistake
from ottla.showcase.folders import make_folders, temporary_folder


def contents(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_each_run_takes_the_next_number(tmp_path: Path) -> None:
    (tmp_path / "run-7").mkdir()
    (tmp_path / "run-away").mkdir()
    for number in (8, 9):
        with make_folders(tmp_path) as folders:
            folders.keep()
        assert folders.kept_in == tmp_path / f"run-{number}"
        assert folders.run_id == f"run-{number}"
        assert folders.brokers is not None
        assert folders.brokers.is_dir()
        assert folders.ledgers.is_dir()


def test_run_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), make_folders(tmp_path / "a" / "b"):
        raise RuntimeError
    assert contents(tmp_path) == []


def test_run_that_fails_leaves_other_files_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(RuntimeError), make_folders(tmp_path):
        raise RuntimeError
    assert contents(tmp_path) == ["mine.txt"]


def test_temporary_place_is_gone_at_the_end_even_when_kept(tmp_path: Path) -> None:
    with make_folders(None) as folders:
        folders.keep()
        ledgers = folders.ledgers
        assert ledgers.is_dir()
    assert folders.kept_in is None
    assert not ledgers.parent.exists()


def test_file_in_the_way_of_the_data_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(UserMistake, match="file/below cannot hold the run's files"),
        make_folders(tmp_path / "file/below"),
    ):
        pass
    assert contents(tmp_path) == ["file"]


class Size(NamedTuple):
    """Stands for records of which only the size matters."""

    size_bytes: int

    def compressed_bytes_estimate(self) -> int:
        return self.size_bytes


def test_disk_without_room_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with make_folders(tmp_path) as folders:
        folders.check_room(Size(1))  # type: ignore[arg-type]
        with pytest.raises(UserMistake, match=r"MiB free, and the run would write about .* make room"):
            folders.check_room(Size(shutil.disk_usage(tmp_path).total))  # type: ignore[arg-type]


def test_temporary_folder_is_gone_after_its_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with temporary_folder() as folder:
        (folder / "something").write_text("of a run")
        assert folder.parent == tmp_path
        assert folder.stat().st_mode & 0o777 == 0o700
    assert contents(tmp_path) == []


@pytest.mark.parametrize("folder", [temporary_folder(), make_folders(None)], ids=["temporary folder", "folders"])
def test_folder_is_gone_where_ctrl_c_comes_just_when_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: AbstractContextManager[object]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(KeyboardInterrupt), interrupted_after(os.mkdir), folder:
        pass
    assert contents(tmp_path) == []
