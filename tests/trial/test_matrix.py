"""Several clients in one table: what was seen, and how to see again what was not as expected."""

from __future__ import annotations

import io
import sys
from contextlib import nullcontext

from rich.console import Console

from ottla.trial.client_choice import client_by_command
from ottla.trial.matrix import Row, show_matrix
from ottla.trial.run import run_scenario
from ottla.trial.scenario_file import read_scenario
from ottla.trial.sender import Opening

TRIAL = """
title = "t"
teaches = "t"
records = 20

[[fault]]
kind = "lose_ack"
nth = 1

[[side]]
name = "control"
claims = "at-least-once"
shows = ["duplicated"]
producer = { acks = "all", "enable.idempotence" = false }

[[side]]
name = "liar"
claims = "exactly-once"
producer = { acks = "all", "enable.idempotence" = false }
"""
# It has no setting for idempotence, as it says, so it cannot send either side.
CANNOT = 'print(\'{"client": "lean", "version": "3", "without": ["enable.idempotence"]}\')'


class Silent:
    def advance(self, count: int = 1) -> None: ...


def shown(**openings: Opening | None) -> list[str]:
    scenario = read_scenario("mine", TRIAL, "mine.toml")
    outcomes = {
        name: run_scenario(scenario, lambda *_: nullcontext(Silent()), opening) for name, opening in openings.items()
    }
    out = io.StringIO()
    show_matrix(Console(file=out, width=120), [Row("my trials/mine.toml", outcomes)])
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_each_side_is_a_row_and_each_client_a_column() -> None:
    def command(program: str) -> Opening:
        return client_by_command(f"{sys.executable} -c '{program}'")

    lines = shown(ottla=None, lean=command(CANNOT.replace("'", '"""')), gone=command("pass"))
    table = [line.split() for line in lines[1:6]]
    assert table[0] == ["trial", "side", "ottla", "lean", "gone"]
    assert table[1] == ["mine", "control", "kept", "-", "void"]
    assert table[2] == ["duplicated"]
    assert table[3] == ["liar", "broken!", "-", "void"]
    assert table[4] == ["duplicated"]
    assert "lean: lean 3" in lines
    assert "gone: it never said" in lines
    broken = "ottla, mine, liar: expected kept, seen broken: "
    (wrong,) = (index for index, line in enumerate(lines) if line.startswith(broken))
    assert "duplicated" in lines[wrong]
    assert lines[wrong + 1] == "  ottla trial 'my trials/mine.toml' --client ottla"
    ended = "void: the client ended with exit status 0 before it said who it is"
    assert f"gone, mine, control: {ended}" in lines
    assert f"gone, mine, liar: {ended}" in lines
    # What is not possible is nobody's failure.
    assert not any(line.startswith("lean, ") for line in lines)
