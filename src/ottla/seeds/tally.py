"""Adds up the outcomes of many seeds."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import Any

from ottla.simulation.outcome import Outcome


@dataclass(slots=True)
class Tally:
    """The outcomes of many runs; `failed` by their seeds.

    `fired`, `missed` as in `Outcome`. `states`: by how many runs each was reached. `unseen`: in how many runs the
    checker of that kind did not see all.
    """

    runs: int = 0
    messages: int = 0
    records: int = 0
    simulated_us: int = 0
    fired: dict[str, int] = field(default_factory=dict)
    missed: dict[str, int] = field(default_factory=dict)
    states: dict[str, int] = field(default_factory=dict)
    unseen: dict[str, int] = field(default_factory=dict)
    failed: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """One more run."""
        self.runs += 1
        self.messages += outcome.messages
        self.records += outcome.records
        self.simulated_us += outcome.simulated_us
        for kind, times in outcome.fired.items():
            self.fired[kind] = self.fired.get(kind, 0) + times
        for why, times in outcome.missed.items():
            self.missed[why] = self.missed.get(why, 0) + times
        for state in outcome.states:
            self.states[state] = self.states.get(state, 0) + 1
        for kind in outcome.unseen:
            self.unseen[kind] = self.unseen.get(kind, 0) + 1
        if not outcome.is_clean:
            insort(self.failed, outcome, key=lambda each: each.seed)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "runs": self.runs,
            "messages": self.messages,
            "records": self.records,
            "simulated_hours": round(self.simulated_us / 3_600_000_000, 3),
            "fired": dict(sorted(self.fired.items())),
            "missed": dict(sorted(self.missed.items())),
            "states": dict(sorted(self.states.items())),
            "unseen": dict(sorted(self.unseen.items())),
            "failed": [outcome.to_dict() for outcome in self.failed],
        }
