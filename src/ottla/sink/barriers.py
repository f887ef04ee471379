"""Barriers: points at which a test can stop a process, or kill it. There is one before each step of the sink.

`reach` does nothing unless the environment variable OTTLA_SINK_BARRIERS names a folder. Then it creates the file
`<name>.<pid>.reached` there, so that a test can prove that the process came to this barrier. If there is a file
`<name>.hold`, it also creates `<name>.<pid>.held`, and waits until the hold file is gone. A number in the hold file
says how many times this process may pass before it must wait. Passes are counted while the file exists.
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
    """The barriers by name, in the order in which a batch reaches them; the last ones are those of an abort."""

    PLAN_FENCE = "plan-before-fence"
    PLAN_READ = "plan-before-reading-the-decision"
    PLAN_LOOK = "plan-before-looking-for-transactions"
    PLAN_ROLL = "plan-before-roll-forward"
    PLAN_SWEEP = "plan-before-sweep"
    PLAN_LANDED = "plan-before-writing-that-all-has-landed"
    PLAN_END = "plan-before-return"
    TASK_IDENTITY = "task-before-identity"
    TASK_ROWS = "task-before-rows"
    TASK_RECEIPT = "task-before-receipt"
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
    """Note that this barrier is reached, and wait while a test holds it."""
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
    """Have a process wait here after it has passed `passing` times; it goes on when the returned file is gone."""
    # Renamed in one step, so that no process reads half of the file.
    written = Path(folder, f"{barrier}.hold.new")
    written.write_text(str(passing))
    return written.rename(Path(folder, f"{barrier}.hold"))


def steps(all_at_once: Sequence[_Step], between: Barrier) -> Iterator[Sequence[_Step]]:
    """All of these at the same time; if barriers are in use, one after the other with a barrier between any two."""
    if os.environ.get(BARRIERS_FOLDER) is None:
        yield all_at_once
        return
    for number, each in enumerate(all_at_once):
        if number:
            reach(between)
        yield [each]
