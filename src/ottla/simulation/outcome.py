"""The outcome of a run, as JSON and in few words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ottla.audit.findings import Anomaly, Finding


@dataclass(slots=True)
class Outcome:
    """The outcome of a run; `findings` are those that found something, `crashed` is the traceback of an exception.

    `fired`: how often each kind of fault fired; `missed`: why faults never fired, with how many. `states`: the states
    that the run went through, see `states.py`. `unseen`: the kinds of findings whose checkers could not see everything.
    """

    seed: int
    trace_hash: str
    findings: list[Finding] = field(default_factory=list)
    crashed: str | None = None
    messages: int = 0
    records: int = 0
    simulated_us: int = 0
    fired: dict[str, int] = field(default_factory=dict)
    states: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    missed: dict[str, int] = field(default_factory=dict)

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not self.findings and self.crashed is None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "seed": self.seed,
            "trace_hash": self.trace_hash,
            "clean": self.is_clean,
            "findings": [finding.to_dict() for finding in self.findings],
            "crashed": self.crashed,
            "messages": self.messages,
            "records": self.records,
            "simulated_us": self.simulated_us,
            "fired": dict(sorted(self.fired.items())),
            "missed": dict(sorted(self.missed.items())),
            "states": list(self.states),
            "unseen": list(self.unseen),
        }


def kinds_of(outcome: Outcome) -> list[str]:
    """What was found, in few words: first the exception and the function that raised it, then kinds of findings."""
    crashes = [] if outcome.crashed is None else [_crash(outcome.crashed)]
    return [*crashes, *[finding.kind for finding in outcome.findings]]


def summary_of(outcome: Outcome) -> str:
    """What was found and how often, in one line; "clean" where nothing was."""
    crashes = [] if outcome.crashed is None else [_crash(outcome.crashed)]
    return ", ".join([*crashes, *[f"{finding.count} {finding.kind}" for finding in outcome.findings]]) or "clean"


def evidence_of(outcome: Outcome) -> Iterator[tuple[Anomaly, str]]:
    """Every piece of evidence, with a text that describes it."""
    for finding in outcome.findings:
        for piece in finding.evidence:
            place = f" ({piece.topic}-{piece.partition})" if piece.topic else ""
            yield piece, f"{finding.kind}: {piece.detail}{place}"


def _crash(trace: str) -> str:
    """The kind of an exception and the function that raised it, without what differs from run to run."""
    lines = trace.strip().splitlines()
    raised = lines[-1].split(":")[0].rpartition(".")[2]
    places = [line.strip() for line in lines if line.strip().startswith("File ")]
    if not places:
        return lines[-1]
    path, _, function = places[-1].partition(", line ")
    name = path.removeprefix('File "').removesuffix('"').rpartition("/")[2]
    return f"{raised} in {name}, {function.partition(' in ')[2]}"
