"""Mechanical mutants that nobody can kill, or nobody need: each with the reason.

`python -m tools.mutate mutants` has drawn them, and neither simulation nor tests have found them. A survivor that got a
test is not here. If the text of a row is no longer in the source, its reason must be thought over
(`tests/simulation/test_mutation.py`).
"""

from __future__ import annotations

from typing import NamedTuple

from tools.mutation.source import Edit


class Survivor(NamedTuple):
    """A change, and why it may live."""

    edit: Edit
    reason: str


SURVIVORS: list[Survivor] = []


def reason_for(file: str, text: str, changed: str) -> str:
    """Why this change of a file may live; "" if nobody has said so."""
    known = (each for each in SURVIVORS if each.edit.file == file)
    return next((each.reason for each in known if each.edit.apply(text) == changed), "")
