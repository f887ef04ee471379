"""Failing plans as files: what was run, what was found, by which version, and how to run it again.

`ottla simulate --keep` writes them, `ottla simulate --plan` runs them, and those in tests/regressions are run by every
build. A bare plan (`Plan.to_dict`) is read as well. A plan of another format is refused: replaying something else
would be worse than replaying nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla import __version__
from ottla.errors import ConfigError, UserMistake
from ottla.simulation.plan import Plan
from ottla.simulation.run import Outcome
from ottla.trial.whole_file import write_whole


@dataclass(slots=True)
class Kept:
    """A plan that was read; `trace_hash` and `version` are of the run that was kept, None for a bare plan."""

    plan: Plan
    trace_hash: str | None
    version: str | None


def keep(folder: Path, plan: Plan, outcome: Outcome) -> Path:
    """Write seed-N.json into `folder` and return its path."""
    path = folder / f"seed-{plan.seed}.json"
    content = {
        "ottla": __version__,
        "replay": f"ottla simulate --plan {path.name}",
        "found": outcome.to_dict(),
        "plan": plan.to_dict(),
    }
    write_whole(path, json.dumps(content, indent=1) + "\n", what="what was found", option="--keep")
    return path


def read_plan(path: Path) -> Kept:
    """A plan from its file; UserMistake where there is none that this version runs."""
    try:
        content: Any = json.loads(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UserMistake(f"{path} cannot be read ({why}): give --plan a file that --keep wrote") from None
    except json.JSONDecodeError as error:
        raise UserMistake(f"{path} is not JSON ({error}): give --plan a file that --keep wrote") from None
    is_kept = isinstance(content, dict) and "plan" in content
    found: dict[str, Any] = content.get("found") or {} if is_kept else {}
    version = content.get("ottla") if is_kept else None
    try:
        plan = Plan.from_dict(content["plan"] if is_kept else content)
    except ConfigError as error:
        wrote = f" (written by ottla {version})" if version else ""
        raise UserMistake(f"{path}{wrote}: {error}") from None
    return Kept(plan, found.get("trace_hash"), version)
