"""A cluster's folder is claimed by one cluster at a time, and one that cannot be used is named in a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cluster.data_dir import DataDir
from ottla.errors import UserMistake


def test_a_claimed_folder_is_refused_to_others_until_released(tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    claimed = DataDir(path)
    with pytest.raises(UserMistake, match=r"data_dir '.*data' is in use by another running cluster: close that one"):
        DataDir(path)
    claimed.release()
    claimed.release()
    DataDir(path).release()


_HOLD = """
import sys
from ottla.cluster.data_dir import DataDir
claimed = DataDir(sys.argv[1])
print("claimed", flush=True)
sys.stdin.read()
"""


def test_a_folder_claimed_by_another_process_is_free_again_when_that_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"claimed\n"
        with pytest.raises(UserMistake, match="in use by another running cluster"):
            DataDir(str(tmp_path))
        holder.kill()
    DataDir(str(tmp_path)).release()


def test_a_refused_folder_is_left_to_its_owner(tmp_path: Path) -> None:
    """Even where it was asked for as a temporary one."""
    claimed = DataDir(str(tmp_path / "data"))
    with pytest.raises(UserMistake):
        DataDir(str(tmp_path / "data"), temporary=True)
    assert (tmp_path / "data").exists()
    claimed.release()


def test_a_temporary_folder_is_removed_with_all_that_is_in_it(tmp_path: Path) -> None:
    claimed = DataDir(str(tmp_path / "data"), temporary=True)
    claimed.storage("broker-1").write_file("t-0/meta", b"x")
    claimed.release()
    assert list(tmp_path.iterdir()) == []


def test_a_kept_folder_is_found_again(tmp_path: Path) -> None:
    first = DataDir(str(tmp_path))
    first.storage("broker-1").write_file("meta", b"x")
    first.release()
    again = DataDir(str(tmp_path))
    assert again.storage("broker-1").read_file("meta") == b"x"
    again.release()


@pytest.mark.parametrize("was_there", [False, True])
def test_a_folder_in_which_nothing_was_stored_is_left_as_it_was(tmp_path: Path, was_there: bool) -> None:
    path = tmp_path / "new" / "data"
    if was_there:
        path.mkdir(parents=True)
    claimed = DataDir(str(path))
    claimed.storage("broker-1").open("t-0/0.log")
    claimed.storage("controller")
    claimed.release()
    assert list(tmp_path.rglob("*")) == ([tmp_path / "new", path] if was_there else [])


def test_one_byte_is_enough_for_a_folder_to_stay(tmp_path: Path) -> None:
    claimed = DataDir(str(tmp_path / "data"))
    claimed.storage("broker-1").open("t-0/0.log").append([b"x"])
    claimed.release()
    assert (tmp_path / "data" / "broker-1" / "t-0" / "0.log").read_bytes() == b"x"


def test_an_empty_file_of_somebody_elses_stays(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_bytes(b"")
    DataDir(str(tmp_path)).release()
    assert (tmp_path / "theirs").exists()


def test_a_path_below_a_file_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file", tmp_path / "file" / "data"):
        with pytest.raises(UserMistake) as caught:
            DataDir(str(path))
        assert str(caught.value) == (
            f"data_dir {str(path)!r} cannot be used (a file is in the way): "
            "name a folder on a disk with room where this user may write."
        )


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a file system that takes no files")
def test_a_file_system_that_takes_no_files_is_reported_in_one_sentence() -> None:
    with pytest.raises(UserMistake, match=r"data_dir '/proc/ottla' cannot be used"):
        DataDir("/proc/ottla")


def test_something_in_the_way_inside_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "broker-1").write_bytes(b"")
    claimed = DataDir(str(tmp_path))
    with pytest.raises(UserMistake, match="a file is in the way"):
        claimed.storage("broker-1")
    claimed.release()
