"""What a trial came to: each side's verdict beside what was expected, the faults, and whether it proves anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.audit.findings import Anomaly
from ottla.audit.ledgers.verdict import Verdict
from ottla.faults.fault import Fault
from ottla.trial.scenario import BROKEN, KEPT, Scenario, Side


@dataclass(slots=True, frozen=True)
class FaultOutcome:
    """A fault, and how often it was really there."""

    fault: Fault
    fired: int


@dataclass(slots=True, frozen=True)
class SideOutcome:
    """What was found of one side.

    `client`: who sent, with its version. `without`: the trial's own settings that it does not have. `troubles`: why
    what it told is not whole. `impossible`: why it cannot send as the side wants it; then nothing was tried.
    """

    side: Side
    verdict: Verdict
    faults: tuple[FaultOutcome, ...]
    client: str = ""
    without: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()
    impossible: str | None = None

    @property
    def found(self) -> dict[str, int]:
        """Kind of anomaly -> how many, of those that were found."""
        return {each.kind: each.count for each in self.verdict.audit.findings if each.count}

    @property
    def broken(self) -> tuple[str, ...]:
        """The kinds that were found although the guarantee claimed forbids them."""
        return tuple(finding.kind for finding in self.verdict.breaches)

    @property
    def seen(self) -> str:
        """The guarantee that was seen: KEPT or BROKEN."""
        return BROKEN if self.broken else KEPT

    @property
    def void(self) -> tuple[str, ...]:
        """Why this side proves nothing."""
        if self.impossible is not None:
            return ()
        reasons = [f"the fault {each.fault.kind} never fired" for each in self.faults if not each.fired]
        return (*self.troubles, *reasons, *([self.verdict.void] if self.verdict.void is not None else []))

    @property
    def missing(self) -> tuple[str, ...]:
        """The kinds that had to be found and were not."""
        return () if self.impossible is not None else self.verdict.missing

    @property
    def is_as_expected(self) -> bool:
        """Whether it is void of nothing, and what was seen is what was expected; so is what cannot be tried."""
        if self.impossible is not None:
            return True
        return not self.void and not self.missing and self.seen == self.side.expect

    @property
    def evidence(self) -> tuple[Anomaly, ...]:
        """One piece for each kind that was found."""
        return self.verdict.evidence

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "side": self.side.name,
            "claims": self.side.claims,
            "expected": self.side.expect,
            "seen": self.seen,
            "as_expected": self.is_as_expected,
            "found": self.found,
            "missing": list(self.missing),
            "void": list(self.void),
            "client": self.client,
            "without": list(self.without),
            "impossible": self.impossible,
            "figures": self.verdict.figures.to_dict(),
            "faults": [{**each.fault.to_dict(), "fired": each.fired} for each in self.faults],
            "evidence": [piece.to_dict() for piece in self.evidence],
        }


@dataclass(slots=True, frozen=True)
class TrialOutcome:
    """All sides of a scenario."""

    scenario: Scenario
    sides: tuple[SideOutcome, ...]

    @property
    def is_controlled(self) -> bool:
        """Whether there was a control, and every one showed what it had to: else the trial proves nothing."""
        controls = [each for each in self.sides if each.side.is_control and each.impossible is None]
        return bool(controls) and all(each.is_as_expected for each in controls)

    @property
    def client(self) -> str:
        """Who sent, with its version; "" if it never said so."""
        return next((each.client for each in self.sides if each.client), "")

    @property
    def passed(self) -> bool:
        """Every side as expected, and a control among them."""
        return self.is_controlled and all(each.is_as_expected for each in self.sides)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "trial": self.scenario.name,
            "title": self.scenario.title,
            "client": self.client,
            "passed": self.passed,
            "controlled": self.is_controlled,
            "sides": [each.to_dict() for each in self.sides],
        }
