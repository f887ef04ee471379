"""Not repeatable: two runs of the same seed left different traces.

Promise: a run is decided by its seed alone, so that a finding can be run again. Not observable for fewer than two runs,
nor for anything but the simulation.
"""

from __future__ import annotations

from ottla.audit.chronicles.case import Case
from ottla.audit.findings import EVIDENCE_MAX, UNREPEATABLE, Finding, Findings


def check_repeatability(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Traces that differ from the first one."""
    found = Findings(UNREPEATABLE, evidence_max)
    hashes = case.chronicle.trace_hashes or ()
    if len(hashes) < 2:
        found.not_seen("a second run of the same seed")
    for number, other in enumerate(hashes[1:], 2):
        if other != hashes[0]:
            found.add(f"run {number} left the trace {other}, and the first one {hashes[0]}")
    return found.finding()
