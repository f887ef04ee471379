"""How commands print: into a pipe that closes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TIMEOUT_S = 60


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("run", "--help"),
        ("simulate", "--first-seed", "0", "--seeds", "2"),
        ("simulate", "--seed", "0", "--json", "-"),
        ("inspect", "00000000000000000000.index"),
    ],
)
def test_a_reader_that_has_seen_enough_is_no_failure(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.index").write_bytes(bytes(8))
    nobody, ours = os.pipe()
    os.close(nobody)
    done = subprocess.run(
        [sys.executable, "-m", "ottla.cli", *arguments],
        cwd=tmp_path,
        stdout=ours,
        stderr=subprocess.PIPE,
        timeout=TIMEOUT_S,
        check=False,
    )
    os.close(ours)
    assert (done.returncode, done.stderr) == (141, b"")
