"""Fallen high watermark: a leader had shown something as committed, or as stable, and later showed less.

Promise: as long as one broker leads one epoch, its log start offset, its last stable offset and its high watermark only
grow, and always last stable offset <= high watermark <= log end offset; retention takes nothing that is not committed,
so a leader's log never starts behind its high watermark. (A new leader may know less for a moment: it learns the high
watermark anew, and offsets it cannot vouch for yet are not told to readers, KIP-207.)

Not observable with foreign brokers.
"""

from __future__ import annotations

from ottla.audit.chronicles.case import Case, Place
from ottla.audit.chronicles.chronicle import Watermark
from ottla.audit.findings import EVIDENCE_MAX, WATERMARK, Finding, Findings


def check_watermarks(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Marks of a leader that fell, and marks of any replica that stand in the wrong order."""
    found = Findings(WATERMARK, evidence_max)
    if case.chronicle.watermarks is None:
        found.not_seen("the high watermarks")
    for place, marks in case.marks.items():
        before: dict[tuple[int, int, int], Watermark] = {}
        for mark in marks:
            if not mark.last_stable_offset <= mark.high_watermark <= mark.log_end_offset:
                _add(
                    found,
                    place,
                    mark,
                    f"has last stable offset {mark.last_stable_offset}, high watermark {mark.high_watermark} and log "
                    f"end offset {mark.log_end_offset}",
                )
            if not mark.is_leader:
                continue
            if mark.log_start_offset > mark.high_watermark:
                starts = f"starts at {mark.log_start_offset}, behind its high watermark {mark.high_watermark}"
                _add(found, place, mark, starts)
            key = mark.broker_id, mark.broker_start, mark.leader_epoch
            earlier = before.get(key)
            before[key] = mark
            if earlier is None:
                continue
            if mark.high_watermark < earlier.high_watermark:
                fell = f"high watermark from {earlier.high_watermark} to {mark.high_watermark}"
            elif mark.last_stable_offset < earlier.last_stable_offset:
                fell = f"last stable offset from {earlier.last_stable_offset} to {mark.last_stable_offset}"
            elif mark.log_start_offset < earlier.log_start_offset:
                fell = f"log start offset from {earlier.log_start_offset} to {mark.log_start_offset}"
            else:
                continue
            _add(found, place, mark, f"let fall its {fell} while it led epoch {mark.leader_epoch}")
    return found.finding()


def _add(found: Findings, place: Place, mark: Watermark, what: str) -> None:
    found.add(
        f"broker {mark.broker_id} {what}",
        place=place,
        offsets=(mark.high_watermark,),
        brokers=(mark.broker_id,),
        at_us=mark.at_us,
    )
