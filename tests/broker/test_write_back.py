"""What a power cut leaves: what was synced, what the system's flusher had written, and perhaps a torn rest."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.write_back import WriteBack

INTERVAL_US = 30_000_000


def test_what_was_never_synced_is_lost_or_torn() -> None:
    kept = set()
    for seed in range(200):
        write_back = WriteBack()
        write_back.wrote("a", 100, 200)
        for path, size in write_back.survivors(Random(seed)):
            assert path == "a"
            assert 100 <= size < 200
            kept.add(size)
    assert 100 in kept
    assert len(kept) > 20


def test_what_was_synced_stays() -> None:
    write_back = WriteBack()
    write_back.wrote("a", 0, 200)
    write_back.synced("a")
    assert write_back.synced_bytes("a", 200) == 200
    assert write_back.survivors(Random(1)) == []


def test_the_flusher_syncs_what_is_old_enough() -> None:
    write_back = WriteBack()
    write_back.wrote("a", 0, 100)
    write_back.now_us = INTERVAL_US - 1
    write_back.wrote("a", 100, 150)
    assert write_back.synced_bytes("a", 150) == 0
    write_back.now_us = INTERVAL_US
    assert write_back.synced_bytes("a", 150) == 100
    write_back.now_us = 2 * INTERVAL_US
    assert write_back.synced_bytes("a", 150) == 150


def test_names_and_cuts_are_followed() -> None:
    write_back = WriteBack()
    write_back.wrote("t-0/1.swap", 0, 100)
    write_back.wrote("t-1/0.log", 0, 100)
    write_back.renamed("t-0/1.swap", "t-0/1.log")
    write_back.removed("t-1")
    write_back.cut("t-0/1.log", 40)
    [(path, size)] = write_back.survivors(Random(3))
    assert path == "t-0/1.log"
    assert size < 40
    assert write_back.survivors(Random(3)) == []


@given(st.lists(st.tuples(st.integers(0, INTERVAL_US), st.sampled_from(["write", "sync", "cut"]), st.integers(1, 50))))
def test_it_never_promises_more_than_a_plain_list_of_writes(steps: list[tuple[int, str, int]]) -> None:
    """The model knows when each byte was written; `synced_bytes` may lag by a step, never lead."""
    write_back = WriteBack()
    written_us: list[int] = []
    floor = 0
    for pause_us, what, amount in steps:
        write_back.now_us += pause_us
        size = len(written_us)
        if what == "write":
            written_us += [write_back.now_us] * amount
            write_back.wrote("a", size, len(written_us))
        elif what == "sync":
            write_back.synced("a")
            floor = size
        else:
            del written_us[max(0, size - amount) :]
            write_back.cut("a", len(written_us))
            floor = min(floor, len(written_us))
        old = sum(when <= write_back.now_us - INTERVAL_US for when in written_us)
        surely_old = sum(when <= write_back.now_us - INTERVAL_US - INTERVAL_US // 16 for when in written_us)
        assert max(floor, surely_old) <= write_back.synced_bytes("a", len(written_us)) <= max(floor, old)


class SeenPath(str):
    """A path that notes when it is looked at."""

    __slots__ = ("seen",)
    seen: list[str]

    def startswith(self, *given: Any) -> bool:
        self.seen.append(str(self))
        return super().startswith(*given)


@pytest.mark.parametrize("folders", [2, 500])
def test_the_end_of_a_folder_takes_no_look_at_others(folders: int) -> None:
    write_back, seen = WriteBack(), list[str]()
    for number in range(folders):
        for name in ("a.log", "a.index", "b.log"):
            path = SeenPath(f"t-{number}/{name}")
            path.seen = seen
            write_back.wrote(path, 0, 10)
    write_back.removed("t-0/a.log")
    write_back.renamed("t-0/b.log", "t-0/b.log.deleted")
    write_back.renamed("t-0", "t-0-stray")
    assert write_back.synced_bytes("t-0-stray/b.log.deleted", 10) == 0
    write_back.removed("t-0-stray")
    assert [path for path in seen if not path.startswith("t-0/")] == []
    assert sorted(path for path, _ in write_back.survivors(Random(1)) if path.startswith("t-0")) == []
    assert write_back.synced_bytes("t-1/a.log", 10) == 10


@given(st.lists(st.tuples(st.sampled_from("wrxns"), st.sampled_from("abc"), st.sampled_from("123")), max_size=40))
def test_files_are_followed_wherever_they_go(steps: list[tuple[str, str, str]]) -> None:
    """Against a plain dictionary of paths: written, renamed, removed as files and as folders."""
    write_back, known = WriteBack(), dict[str, None]()
    for what, folder, name in steps:
        path = f"{folder}/{name}"
        if what == "w":
            write_back.wrote(path, 0, 10)
            known[path] = None
        elif what == "r":
            write_back.removed(path)
            known.pop(path, None)
        elif what == "x":
            write_back.removed(folder)
            known = {each: None for each in known if not each.startswith(folder)}
        elif what == "n" and path in known:
            write_back.renamed(path, f"{folder}/9")
            del known[path]
            known[f"{folder}/9"] = None
        elif what == "s":
            write_back.synced(path)
            known.pop(path, None)
    left = {f"{f}/{n}" for f in "abc" for n in "1239" if write_back.synced_bytes(f"{f}/{n}", 10) == 0}
    assert left == set(known)
