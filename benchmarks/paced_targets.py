"""The targets of a paced cell, each with `ok`; a target exists only if what it compares with was measured."""

from __future__ import annotations

from typing import Any

from benchmarks.paced_cells import Cell

P99_OF_PEER = 1.2
P99_CHANCE_MS = 2.0
GROWTH = 1.5
THROUGHPUT_OF_JAVA = 0.95
ALLOWED_MIB = 64
_MIB = 1 << 20

Figures = dict[str, Any]


def targets(cell: Cell, found: dict[str, Figures]) -> dict[str, Figures]:
    """The targets of the cell by name; {} if ottla was not measured."""
    if "ottla" not in found:
        return {}
    ours, peers = found["ottla"], {name: each for name, each in found.items() if name != "ottla"}
    return (_beyond if cell.is_beyond else _below)(cell, ours, peers)


def _below(cell: Cell, ours: Figures, peers: dict[str, Figures]) -> dict[str, Figures]:
    most_ms = GROWTH * ours["first_quarter_p99_ms"] + cell.service_ms + P99_CHANCE_MS
    held = {
        "every record stored once": _all_told(ours),
        "does not grow": _at_most(ours["last_quarter_p99_ms"], most_ms),
    }
    # If records have no outcome yet, the measured times are too short.
    held["does not grow"] |= {"all_told": ours["flushed"], "ok": held["does not grow"]["ok"] and ours["flushed"]}
    if peers:
        better_ms = min(each["p99_ms"] for each in peers.values())
        held["p99_ms"] = _at_most(ours["p99_ms"], max(P99_OF_PEER * better_ms, better_ms + P99_CHANCE_MS))
    if "java" in peers:
        java = peers["java"]
        # Per record sent: one of the two may not have sent all.
        held["requests"] = _at_most(ours["requests"], java["requests"] * ours["sent"] / java["sent"])
    return held


def _beyond(cell: Cell, ours: Figures, peers: dict[str, Figures]) -> dict[str, Figures]:
    held = {
        "every record stored once": _all_told(ours),
        "grown_mib": _at_most(ours["grown_mib"], cell.buffer_memory / _MIB + ALLOWED_MIB),
    }
    if "java" in peers:
        must = round(THROUGHPUT_OF_JAVA * peers["java"]["stored_per_s"])
        found = ours["stored_per_s"]
        held["stored_per_s"] = {"found": found, "must": must, "ok": found >= must}
    return held


def _all_told(ours: Figures) -> Figures:
    left = {name: ours[name] for name in ("failed", "unknown", "not_told")}
    stored = {"sent": ours["sent"], "stored": ours["stored"]}
    return {**stored, **left, "ok": ours["flushed"] and ours["sent"] == ours["stored"] and not any(left.values())}


def _at_most(found: float, must: float) -> Figures:
    return {"found": found, "must_be_below": round(must, 2), "ok": found <= must}
