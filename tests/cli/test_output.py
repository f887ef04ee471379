"""How commands print: into a pipe that closes, and without colours where they are not wanted."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from .on_terminal import shown_on

TIMEOUT_S = 60


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("run", "--help"),
        ("simulate", "--first-seed", "0", "--seeds", "2"),
        ("simulate", "--seed", "0", "--json"),
        ("inspect", "00000000000000000000.index"),
    ],
)
def test_a_reader_that_has_seen_enough_is_no_failure(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.index").write_bytes(bytes(8))
    nobody, ours = os.pipe()
    os.close(nobody)
    done = subprocess.run(
        [sys.executable, "-m", "ottla", *arguments],
        cwd=tmp_path,
        stdout=ours,
        stderr=subprocess.PIPE,
        timeout=TIMEOUT_S,
        check=False,
    )
    os.close(ours)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_full_disk_is_said_in_one_sentence() -> None:
    for arguments in ("--version", "--help"):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run(
                [sys.executable, "-m", "ottla", arguments],
                stdout=full,
                stderr=subprocess.PIPE,
                timeout=TIMEOUT_S,
                check=False,
            )
        assert (done.returncode, done.stderr) == (2, b"ottla: No space left on device\n")


@pytest.mark.parametrize(
    ("arguments", "closed", "status"),
    [
        ("docs", ">&-", 0),
        ("docs nosuch", "2>&-", 2),
        ("docs nosuch", ">&-", 2),
        ("produce orders --input - --input-format csv", "<&-", 2),
        ("produce orders --input - --input-format csv", "<&- >&- 2>&-", 2),
    ],
)
def test_closed_streams_are_as_good_as_empty_ones(arguments: str, closed: str, status: int) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m ottla {arguments} {closed}', sys.executable],
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (status, b"")
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("no_color", ["", "1"])
def test_damage_is_red_unless_colours_are_not_wanted(no_color: str, tmp_path: Path) -> None:
    torn = tmp_path / "00000000000000000000.log"
    torn.write_bytes(b"\x00\x00")
    theirs, ours = pty.openpty()
    command = [sys.executable, "-m", "ottla", "inspect", str(torn)]
    environment = {**os.environ, "NO_COLOR": no_color}
    done = subprocess.run(command, stdout=ours, env=environment, timeout=TIMEOUT_S, check=False)
    os.close(ours)
    shown = shown_on(theirs)
    assert done.returncode == 1
    assert b"damaged at position 0" in shown
    assert (b"\x1b[3" in shown) == (no_color == "")
