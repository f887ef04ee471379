"""Failing plans as files: what was run, what was found, by which version, and how to run it again.

`ottla simulate --keep` writes them, `ottla simulate --plan` runs them, and those in tests/regressions are run by every
build. A bare plan (`Plan.to_dict`) is read as well. A plan of another format is refused: replaying something else
would be worse than replaying nothing.
"""

from __future__ import annotations

import json
import reprlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla import __version__
from ottla.errors import ConfigError, UserMistake
from ottla.simulation.outcome import Outcome
from ottla.simulation.plan import Plan
from ottla.whole_file import write_whole

_GIVE = "give --plan a file that --keep wrote"


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
        return _kept(path, _content(path))
    except RecursionError:
        raise UserMistake(f"{path} is nested too deep for a plan: {_GIVE}") from None


def _content(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UserMistake(f"{path} cannot be read ({why}): {_GIVE}") from None
    except json.JSONDecodeError as error:
        raise UserMistake(f"{path} is not JSON ({error}): {_GIVE}") from None
    except ValueError:
        # Python reads no number of more than 4300 digits.
        raise UserMistake(f"{path} has a number of thousands of digits, and no plan has one: {_GIVE}") from None


def _kept(path: Path, content: Any) -> Kept:
    """What `keep` has written, or a plan alone."""
    trace_hash = version = None
    if isinstance(content, dict) and "plan" in content:
        found = content.get("found") or {}
        if not isinstance(found, dict):
            raise UserMistake(f"{path}: found is {reprlib.repr(found)} and must be an object: {_GIVE}")
        version, trace_hash = content.get("ottla"), found.get("trace_hash")
        for name, value in (("ottla", version), ("found.trace_hash", trace_hash)):
            if not (value is None or (isinstance(value, str) and value.isprintable())):
                raise UserMistake(f"{path}: {name} is {reprlib.repr(value)} and must be a text: {_GIVE}")
        content = content["plan"]
    try:
        return Kept(Plan.from_dict(content), trace_hash, version)
    except ConfigError as error:
        wrote = f" (written by ottla {version})" if version else ""
        raise UserMistake(f"{path}{wrote}: {error}") from None
