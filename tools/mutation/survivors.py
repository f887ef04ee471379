"""Mechanical mutants that nobody can kill, or nobody need: each with the reason.

`python -m tools.mutate mutants` has drawn them, and neither simulation nor tests have found them. A survivor that got a
test is not here. If the text of a row is no longer in the source, its reason must be thought over
(`tests/simulation/test_mutation.py`).
"""

from __future__ import annotations

from typing import NamedTuple

from tools.mutation.source import Edit, replace


class Survivor(NamedTuple):
    """A change, and why it may live."""

    edit: Edit
    reason: str


_ASKED = (
    "it says how often a commit without an answer is asked for again; what became of it is read from the log after that"
)

SURVIVORS: list[Survivor] = [
    Survivor(
        replace("sink/commit.py", "plan = known[0].plan", "plan = known[(-1)].plan"),
        "all messages of a batch name the same plan",
    ),
    Survivor(replace("sink/deciding.py", "_ASKED_TIMES = 3", "_ASKED_TIMES = 4"), _ASKED),
    Survivor(replace("sink/deciding.py", "_ASKED_TIMES = 3", "_ASKED_TIMES = 2"), _ASKED),
    Survivor(
        replace("sink/applying.py", "session.pause()", "pass"),
        "it looks again at once, which costs requests; what it finds, and when it gives up, is the same",
    ),
]


def reason_for(file: str, text: str, changed: str) -> str:
    """Why this change of a file may live; "" if nobody has said so."""
    known = (each for each in SURVIVORS if each.edit.file == file)
    return next((each.reason for each in known if each.edit.apply(text) == changed), "")
