"""Fault that did not strike: a run whose faults missed proves nothing about them.

Faults that were meant to strike (`must_fire`) and did not make the run void. Faults drawn by chance that found nothing
to strike are tallied, with the reason where it is known: a broker that is dead already cannot be killed.
"""

from __future__ import annotations

from ottla.audit.chronicles.case import Case
from ottla.audit.findings import EVIDENCE_MAX, FAULTLESS, Finding, Findings


def check_fired_faults(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Faults that had to strike and never did."""
    found = Findings(FAULTLESS, evidence_max)
    for fault in case.chronicle.faults:
        if fault.fired:
            found.tally(f"{fault.kind} struck", fault.fired)
        elif fault.must_fire:
            found.add(f"{fault.kind} never struck: {fault.detail}")
        else:
            found.tally(f"{fault.kind} did not strike{f': {fault.missed}' if fault.missed else ''}")
    return found.finding()
