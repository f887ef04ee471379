"""A file is written whole or not at all, whatever ends the writing."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from ottla.errors import UserMistake
from ottla.whole_file import check_path, write_whole, writing_whole


def writing(path: Path) -> AbstractContextManager[Path]:
    return writing_whole(path, what="the story", option="--story")


def test_what_is_interrupted_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "story.html"
    path.write_text("before")

    def interrupted() -> None:
        with writing(path) as place:
            place.write_text("half of it")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_behind_a_link_it_is_the_file_that_is_replaced(tmp_path: Path) -> None:
    path, link = tmp_path / "story.html", tmp_path / "latest.html"
    link.symlink_to(path)
    write_whole(link, "a story ◀", what="the story", option="--story")
    assert link.is_symlink()
    assert path.read_text(encoding="utf-8") == "a story ◀"
    assert sorted(tmp_path.iterdir()) == [link, path]


def test_links_that_go_in_circles_are_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "story.html"
    path.symlink_to(path)
    check_path(path, what="the story", option="--story")
    write_whole(path, "a story", what="the story", option="--story")
    assert path.read_text() == "a story"


def test_a_device_is_written_to() -> None:
    write_whole(Path("/dev/null"), "a story", what="the story", option="--story")
    assert Path("/dev/null").is_char_device()


def test_a_place_is_checked_before_the_work(tmp_path: Path) -> None:
    def check(path: Path) -> None:
        check_path(path, what="the figures", option="--json")

    check(tmp_path / "figures.json")
    check(Path("/dev/null"))
    with pytest.raises(UserMistake, match="it is a folder"):
        check(tmp_path)
    with pytest.raises(UserMistake, match="there is no folder"):
        check(tmp_path / "absent" / "figures.json")
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_is_written_to_though_it_has_no_name_of_its_own() -> None:
    read_end, write_end = os.pipe()
    path = Path(f"/dev/fd/{write_end}")
    check_path(path, what="the figures", option="--json")
    write_whole(path, "a story", what="the figures", option="--json")
    os.close(write_end)
    with open(read_end) as reader:
        assert reader.read() == "a story"


def test_a_file_that_the_block_cannot_read_is_not_taken_for_the_one_it_writes(tmp_path: Path) -> None:
    def reading() -> None:
        with writing(tmp_path / "story.html"):
            (tmp_path / "missing").read_text()

    with pytest.raises(FileNotFoundError, match="missing"):
        reading()
    with pytest.raises(UserMistake, match=r"the story cannot be written to .*absent.*: give --story another path"):
        write_whole(tmp_path / "absent" / "story.html", "", what="the story", option="--story")
    assert list(tmp_path.iterdir()) == []
