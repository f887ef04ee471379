"""Fault that did not fire: a run whose faults did not fire proves nothing about them.

Faults that had to fire (`must_fire`) and did not make the run void. Faults drawn by chance that had nothing to apply to
are tallied, with the reason where it is known: a broker that is down already cannot be killed.
"""

from __future__ import annotations

from ottla.audit.chronicles.case import Case
from ottla.audit.findings import EVIDENCE_MAX, FAULTLESS, Finding, Findings


def check_fired_faults(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Faults that had to fire and never did."""
    found = Findings(FAULTLESS, evidence_max)
    for fault in case.chronicle.faults:
        if fault.fired:
            found.tally(f"{fault.kind} fired", fault.fired)
        elif fault.must_fire:
            found.add(f"{fault.kind} never fired: {fault.detail}")
        else:
            found.tally(f"{fault.kind} did not fire{f': {fault.missed}' if fault.missed else ''}")
    return found.finding()
