"""Stuck: once every fault has healed, everything must come to an end."""

from __future__ import annotations

from ottla.audit.chronicle import Chronicle
from ottla.audit.findings import EVIDENCE_MAX, STUCK, Anomaly, Finding


def check_liveness(chronicle: Chronicle, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """What had not ended when patience did."""
    evidence = tuple(Anomaly(STUCK, "", -1, -1, (), detail) for detail in chronicle.stuck[:evidence_max])
    return Finding(STUCK, len(chronicle.stuck), evidence)
