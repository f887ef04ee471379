"""Control run that was not caught: with the guarantee switched off nothing was found, so a clean run means nothing.

A control is a run without the guarantee, under the same faults: there the judge must find at least one of the anomalies
that the guarantee prevents. Not observable where there was no control.
"""

from __future__ import annotations

from ottla.audit.chronicles.case import Case
from ottla.audit.findings import EVIDENCE_MAX, UNCONTROLLED, Finding, Findings


def check_controls(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Guarantees whose absence showed no anomaly."""
    found = Findings(UNCONTROLLED, evidence_max)
    if case.chronicle.controls is None:
        found.not_seen("a control run with the guarantee switched off")
    for control in case.chronicle.controls or ():
        if not any(control.found.get(kind) for kind in control.expected):
            found.add(f"without {control.guarantee}, records should be {' or '.join(control.expected)}, and none is")
    return found.finding()
