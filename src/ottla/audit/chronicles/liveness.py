"""Stuck: once every fault has healed, everything must come to an end.

The witness names what had not ended when the time limit was over. A run that never settled is stuck even if the witness
cannot name anything.
"""

from __future__ import annotations

from ottla.audit.chronicles.case import Case
from ottla.audit.findings import EVIDENCE_MAX, STUCK, Finding, Findings


def check_liveness(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """What had not ended when the time limit was over."""
    found = Findings(STUCK, evidence_max)
    for detail in case.chronicle.stuck:
        found.add(detail, at_us=case.chronicle.ended_us)
    if not case.chronicle.stuck and not case.is_settled:
        found.add(f"the run healed at {case.chronicle.healed_us} us and never settled")
    return found.finding()
