"""Places where a test can hold a process, or kill it: one in front of each step of the mechanism.

`reach` does nothing unless the environment variable OTTLA_SINK_BARRIERS names a folder. Then it leaves the file
`<name>.<pid>.reached` there, so that a test can prove that a place was reached. Where there is a file `<name>.hold`, it
leaves `<name>.<pid>.held`, too, and waits until the hold is gone; a number in that file is how many times this process
may pass before it is held, counted while there is such a file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

BARRIERS_FOLDER = "OTTLA_SINK_BARRIERS"
_LOOK_AGAIN_S = 0.005


class Barrier(StrEnum):
    """The places by name, in the order in which a batch comes to them; last those of one that is given up."""

    PLAN_FENCE = "plan-before-fence"
    PLAN_READ = "plan-before-reading-the-decision"
    PLAN_LOOK = "plan-before-looking-for-transactions"
    PLAN_ROLL = "plan-before-roll-forward"
    PLAN_SWEEP = "plan-before-sweep"
    PLAN_LANDED = "plan-before-writing-that-all-has-landed"
    PLAN_END = "plan-before-return"
    TASK_IDENTITY = "task-before-identity"
    TASK_ROWS = "task-before-rows"
    TASK_MARKER = "task-before-marker"
    TASK_PREPARE = "task-before-prepare"
    TASK_END = "task-before-return"
    COMMIT_CHECK = "commit-before-check"
    COMMIT_DECISION = "commit-before-decision"
    COMMIT_ASKED = "commit-before-decision-is-committed"
    COMMIT_APPLY = "commit-before-apply"
    COMMIT_BETWEEN = "commit-between-two-ends"
    COMMIT_LANDED = "commit-before-writing-that-all-has-landed"
    COMMIT_SWEEP = "commit-before-sweep"
    COMMIT_END = "commit-before-return"
    ABORT_FENCE = "abort-before-fence"
    ABORT_END = "abort-before-ends"
    ABORT_RETURN = "abort-before-return"


_passed: dict[Barrier, int] = {}
_Step = TypeVar("_Step")


def reach(barrier: Barrier) -> None:
    """Say that this place is reached, and wait while a test holds whoever comes here."""
    folder = os.environ.get(BARRIERS_FOLDER)
    if folder is None:
        return
    Path(folder, f"{barrier}.{os.getpid()}.reached").touch()
    held_by = Path(folder, f"{barrier}.hold")
    try:
        passing = int(held_by.read_text())
    except FileNotFoundError:
        _passed.pop(barrier, None)
        return
    _passed[barrier] = passed = _passed.get(barrier, 0) + 1
    if passed <= passing:
        return
    Path(folder, f"{barrier}.{os.getpid()}.held").touch()
    while held_by.exists():
        time.sleep(_LOOK_AGAIN_S)
    _passed.pop(barrier, None)


def hold(folder: Path, barrier: Barrier | str, passing: int = 0) -> Path:
    """Have whoever comes there be held, once it has passed so often; who is held goes on when this file is gone."""
    # In one step: whoever comes there meanwhile must not read half of it.
    written = Path(folder, f"{barrier}.hold.new")
    written.write_text(str(passing))
    return written.rename(Path(folder, f"{barrier}.hold"))


def steps(all_at_once: Sequence[_Step], between: Barrier) -> Iterator[Sequence[_Step]]:
    """What is done at the same time; one after the other, with a barrier between any two, where there are barriers."""
    if os.environ.get(BARRIERS_FOLDER) is None:
        yield all_at_once
        return
    for number, each in enumerate(all_at_once):
        if number:
            reach(between)
        yield [each]
