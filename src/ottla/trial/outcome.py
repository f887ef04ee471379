"""What a trial came to: each side's verdict beside what was expected, the faults, and whether it proves anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.audit.findings import Anomaly
from ottla.audit.ledgers.verdict import Verdict
from ottla.audit.promises import PROMISES
from ottla.faults.fault import Fault
from ottla.trial.recorded import Recorded
from ottla.trial.scenario import BROKEN, KEPT, Scenario, Side

UNSEEN = (
    "which replicas had a record, and had synced it, when it was acknowledged",
    "each broker's high watermark, and who led in between",
    "what the brokers themselves did with each request",
)
"""What only brokers know, and no topic shows: it is unknown if the brokers are not ottla's own."""


@dataclass(slots=True, frozen=True)
class FaultOutcome:
    """A fault, and how often it really fired."""

    fault: Fault
    fired: int


@dataclass(slots=True, frozen=True)
class SideOutcome:
    """What was found of one side.

    `errors`: what was told of records that were not acknowledged -> of how many. `attempts`: how often batches that
    failed were sent -> how many records say so. `recorded`: what its brokers saw, where that was asked for. `client`:
    the client that sent, with its version. `without`: the trial's own settings that it does not have. `problems`: why
    what it told is not whole. `impossible`: why it cannot send as the side wants it; then nothing was tried. `counts`:
    what was counted, by the names in `scenario.COUNTS`.
    """

    side: Side
    verdict: Verdict
    faults: tuple[FaultOutcome, ...]
    errors: Mapping[str, int] = field(default_factory=dict)
    attempts: Mapping[int, int] = field(default_factory=dict)
    recorded: Recorded | None = None
    seconds: float = 0.0
    client: str = ""
    without: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    impossible: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)

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
    def guarantee_seen(self) -> str:
        """The strongest guarantee that forbids nothing of what was found; "none" where each forbids some of it."""
        in_flight = int(self.side.producer.get("max_in_flight_requests_per_connection", 5))
        for promise in reversed(PROMISES.values()):
            if not {*self.found} & {*promise.forbids(max_in_flight=in_flight, is_redelivered=False)}:
                return promise.guarantee
        return "none"

    @property
    def void(self) -> tuple[str, ...]:
        """Why this side proves nothing."""
        if self.impossible is not None:
            return ()
        reasons = [f"the fault {each.fault.kind} never fired" for each in self.faults if not each.fired]
        audit = self.verdict.audit
        # Where errors are expected, records may all have failed.
        why = self.verdict.void if not self.side.errors else audit.numbers.wrong()
        return (*self.problems, *reasons, *([why] if why is not None else []))

    @property
    def missing(self) -> tuple[str, ...]:
        """The kinds of anomaly that were expected and not found."""
        return () if self.impossible is not None else self.verdict.missing

    @property
    def counted(self) -> tuple[str, ...]:
        """The counts that this side is about."""
        if self.impossible is not None:
            return ()
        return tuple(name for name in self.counts if name in self.side.least or name in self.side.most)

    @property
    def surprises(self) -> tuple[str, ...]:
        """Errors and attempts that are not as expected, each in a sentence without its end."""
        side, found = self.side, []
        if self.impossible is not None:
            return ()
        if side.errors is not None and {*side.errors} != {*self.errors}:
            found.append(f"errors told: {_listed(self.errors)}; expected: {_listed(side.errors)}")
        if side.attempts is not None and {*self.attempts} != {side.attempts}:
            times = ", ".join(map(str, self.attempts)) or "none"
            found.append(f"attempts of each batch that failed: {times}; expected: {side.attempts}")
        for name, least in side.least.items():
            if self.counts.get(name, 0) < least:
                found.append(f"{name}: {self.counts.get(name, 0):,}; expected: {least:,} or more")
        for name, most in side.most.items():
            if self.counts.get(name, 0) > most:
                found.append(f"{name}: {self.counts[name]:,}; expected: {most:,} or less")
        return tuple(found)

    @property
    def is_as_expected(self) -> bool:
        """Whether it is not void, and what was seen is what was expected; also True for what cannot be tried."""
        if self.impossible is not None:
            return True
        return not self.void and not self.missing and not self.surprises and self.seen == self.side.expect

    @property
    def wrong(self) -> str:
        """What is not as expected; "" where all is."""
        if self.is_as_expected:
            return ""
        if self.void:
            return f"{self.side.name}: void"
        missing = "".join((*(f", nothing {kind}" for kind in self.missing), *(f", {each}" for each in self.surprises)))
        return f"{self.side.name}: expected {self.side.expect}, seen {self.seen}{missing}"

    @property
    def anomalies(self) -> tuple[Anomaly, ...]:
        """All pieces of evidence that were kept of each kind."""
        return tuple(piece for finding in self.verdict.audit.findings for piece in finding.evidence)

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
            "guarantee_seen": self.guarantee_seen,
            "as_expected": self.is_as_expected,
            "found": self.found,
            "missing": list(self.missing),
            "void": list(self.void),
            "errors": dict(self.errors),
            "attempts": {str(count): records for count, records in self.attempts.items()},
            "surprises": list(self.surprises),
            "counts": {name: self.counts[name] for name in self.counted},
            "client": self.client,
            "without": list(self.without),
            "impossible": self.impossible,
            "figures": self.verdict.figures.to_dict(),
            "faults": [{**each.fault.to_dict(), "fired": each.fired} for each in self.faults],
            "evidence": [piece.to_dict() for piece in self.evidence],
        }


@dataclass(slots=True, frozen=True)
class TrialOutcome:
    """All sides of a scenario. `kafka`: where they were sent; "" for embedded clusters."""

    scenario: Scenario
    sides: tuple[SideOutcome, ...]
    kafka: str = ""

    @property
    def unseen(self) -> tuple[str, ...]:
        """What is not known of this trial, because only an embedded cluster shows it; no verdict is about that."""
        return UNSEEN if self.kafka else ()

    @property
    def is_controlled(self) -> bool:
        """Whether there was a control, and every one showed what it had to: else the trial proves nothing."""
        controls = [each for each in self.sides if each.side.is_control and each.impossible is None]
        return bool(controls) and all(each.is_as_expected for each in controls)

    @property
    def client(self) -> str:
        """The client that sent, with its version; "" if it never gave them."""
        return next((each.client for each in self.sides if each.client), "")

    @property
    def passed(self) -> bool:
        """Every side as expected, and a control among them."""
        return self.is_controlled and all(each.is_as_expected for each in self.sides)

    @property
    def conclusion(self) -> str:
        """What it comes to, in a sentence."""
        wrong = [each.wrong for each in self.sides if each.wrong and (self.is_controlled or each.side.is_control)]
        if not self.is_controlled:
            if not wrong:
                return "This trial proves nothing: no control is possible with this client."
            return f"This trial proves nothing: a control is not as expected ({', '.join(wrong)})."
        if wrong:
            return f"Not as expected: {', '.join(wrong)}."
        left_out = [each.side.name for each in self.sides if each.impossible is not None]
        more = f" Not possible with this client: {', '.join(left_out)}." if left_out else ""
        shown = "every control shows the damage that it is to show"
        return f"As expected: {shown}, and every other side kept its guarantee.{more}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "trial": self.scenario.name,
            "title": self.scenario.title,
            "client": self.client,
            "passed": self.passed,
            "controlled": self.is_controlled,
            "kafka": self.kafka or None,
            "unseen": list(self.unseen),
            "sides": [each.to_dict() for each in self.sides],
        }


@dataclass(slots=True, frozen=True)
class LeftOut:
    """A scenario that does not run on the Kafka that was given, and `why`, in a clause. It is no failure."""

    scenario: Scenario
    why: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"trial": self.scenario.name, "title": self.scenario.title, "passed": None, "left_out": self.why}


@dataclass(slots=True, frozen=True)
class BrokenOff:
    """A scenario that an error has ended before all of its sides were judged, and `why`, in a sentence."""

    scenario: Scenario
    why: str


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "no errors"
