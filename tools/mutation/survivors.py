"""Mechanical mutants that nobody can kill, or nobody need: each with the reason.

`python -m tools.mutate mutants` has drawn them, and neither simulation nor tests have found them. A survivor that got a
test is not here. If the text of a row is no longer in the source, its reason must be thought over
(`tests/simulation/test_mutation.py`).
"""

from __future__ import annotations

from typing import NamedTuple

from tools.mutation.source import Edit, replace


class Survivor(NamedTuple):
    """A change, and why it may live."""

    edit: Edit
    reason: str


_ASKED = (
    "it says how often a commit without an answer is asked for again; what became of it is read from the log after that"
)
_SLOTS = "slots save memory, and nobody asks for an object's dict"
_FROZEN = "nobody assigns to it; it is frozen so that nobody begins to"

SURVIVORS: list[Survivor] = [
    Survivor(
        replace(
            "broker/log/log.py",
            "and segment.next_offset < end_offset\n            and segment.ends_before(offset)",
            "and segment.next_offset <= end_offset\n            and segment.ends_before(offset)",
        ),
        "where the segment ends at `end_offset`, the next one has nothing below it: what is found is the same nothing",
    ),
    Survivor(
        replace("broker/partition.py", "self.log_start_offset = -1", "self.log_start_offset = -2"),
        "a follower has not said yet where its log begins: no deletion waits for an offset below 0",
    ),
    Survivor(
        replace("broker/partition.py", "self.epoch_start_offset = 0", "self.epoch_start_offset = (-1)"),
        "it is set again with the first leader epoch, before this replica can lead",
    ),
    Survivor(
        replace("sink/commit.py", "plan = known[0].plan", "plan = known[(-1)].plan"),
        "all messages of a batch name the same plan",
    ),
    Survivor(
        replace("sink/commit.py", "reach(Barrier.COMMIT_CHECK)", "pass"),
        "the tests that hold a driver at every barrier run in `make prove` (tests/sink/test_kills.py)",
    ),
    Survivor(
        replace(
            "sink/commit.py",
            '_log.warning("it is not known yet whether %s is decided; the next start finds out", batch or "a write")',
            "pass",
        ),
        "it only tells what the next start finds out; what is done is the same",
    ),
    Survivor(replace("sink/deciding.py", "_ASKED_TIMES = 3", "_ASKED_TIMES = 4"), _ASKED),
    Survivor(replace("sink/deciding.py", "_ASKED_TIMES = 3", "_ASKED_TIMES = 2"), _ASKED),
    Survivor(
        replace("sink/applying.py", "session.port.pause()", "pass"),
        "it looks again at once, which costs requests; what it finds, and when it gives up, is the same",
    ),
    Survivor(
        replace(
            "audit/chronicles/durability.py",
            "offset: int, since_us: int = 0, shown",
            "offset: int, since_us: int = 1, shown",
        ),
        "nothing is committed in the first microsecond of a run",
    ),
    Survivor(
        replace(
            "audit/ledgers/tables.py",
            "@dataclass(slots=True, frozen=True)\nclass TopicTraits:",
            "@dataclass(slots=True, frozen=False)\nclass TopicTraits:",
        ),
        _FROZEN,
    ),
    Survivor(
        replace("audit/chronicles/case.py", "self.chronicle.ended_us >= 0", "self.chronicle.ended_us > 0"),
        "no run is over at the moment at which it begins",
    ),
    Survivor(
        replace(
            "audit/chronicles/case.py", "replica.batches[-1].last_offset + 1", "replica.batches[-1].last_offset - 1"
        ),
        "logs are only sorted by it, and those without a batch are left out",
    ),
    *(
        Survivor(
            replace(
                "audit/chronicles/chronicle.py",
                f"@dataclass(slots=True{frozen})\nclass {name}:",
                f"@dataclass(slots=False{frozen})\nclass {name}:",
            ),
            _SLOTS,
        )
        for name, frozen in (("Committed", ", frozen=True"), ("ControlSeen", ", frozen=True"), ("Chronicle", ""))
    ),
    Survivor(
        replace("audit/chronicles/readings.py", "slots=True)\nclass Shown:", "slots=False)\nclass Shown:"), _SLOTS
    ),
    Survivor(
        replace(
            "audit/findings.py",
            "slots=True, frozen=True)\nclass Property:",
            "slots=False, frozen=True)\nclass Property:",
        ),
        _SLOTS,
    ),
    Survivor(replace("audit/properties.py", "slots=True, frozen=True", "slots=True, frozen=False"), _FROZEN),
    Survivor(replace("audit/ledgers/partition.py", "slots=True, frozen=True", "slots=True, frozen=False"), _FROZEN),
    Survivor(
        replace("audit/chronicles/corruption.py", "end = -1", "end = -0"),
        "no batch begins below offset 0, so that the first one is in front of neither",
    ),
    *(
        Survivor(
            replace("audit/chronicles/deadlines.py", "record.told_us < 0", changed),
            "what was told at 0 us was sent then, too, and is not late",
        )
        for changed in ("record.told_us <= 0", "record.told_us < 1")
    ),
    *(
        Survivor(
            replace("audit/chronicles/failures.py", "RECOVERED_US = 300_000_000", f"RECOVERED_US = {changed}"),
            "it is so long that nothing happens at its very end; tests take it from here",
        )
        for changed in (299_999_999, 300_000_001)
    ),
    *(
        Survivor(
            replace("audit/chronicles/failures.py", f"[(0, {end})]", f"[((-1), {end})]"),
            "nothing begins before a run does",
        )
        for end in ("FOREVER", "min(disturbed_us)")
    ),
    *(
        Survivor(
            replace("audit/chronicles/failures.py", "promise.delivery_timeout_ms < 0", changed),
            "no producer has a delivery timeout of 0 ms",
        )
        for changed in ("promise.delivery_timeout_ms <= 0", "promise.delivery_timeout_ms < 1")
    ),
    Survivor(
        replace("audit/chronicles/fencing.py", "batch.producer_id < 0", "batch.producer_id < (-1)"),
        "batches without a producer id have no epoch either: -1 in all of them, and none is older than another",
    ),
    Survivor(
        replace(
            "audit/chronicles/losses.py",
            "elif len(case.sent[record.number]) > 1:",
            "elif len(case.sent[record.number]) > 0:",
        ),
        "of a record that was sent once and stands at least once, no sending is missing: the lines below say so, too",
    ),
    Survivor(
        replace(
            "audit/chronicles/polls.py",
            "range(min((r.start for r in ends), default=0)",
            "range(min((r.start for r in ends), default=(-1))",
        ),
        "offsets below 0 are asked of nobody",
    ),
    *(
        Survivor(
            replace("audit/chronicles/truncation.py", "{Watermark: 0, Committed: 1,", changed),
            "of events with the same rank, the stream that is named first comes first: marks are, before commits",
        )
        for changed in ("{Watermark: 1, Committed: 1,", "{Watermark: 0, Committed: 0,")
    ),
    Survivor(
        replace("audit/chronicles/waiting.py", "role.at_us <= from_us), -1)", "role.at_us <= from_us), -2)"),
        "no broker has either id",
    ),
    Survivor(
        replace("audit/offsets.py", "sent.offset, strict=True", "sent.offset, strict=False"),
        "the columns of a ledger have the same length",
    ),
    Survivor(
        replace("audit/order.py", "highest = highest_at = -1", "highest = highest_at = -2"),
        "no record has a number below 0",
    ),
    Survivor(
        replace("audit/order.py", "if sequence > highest:", "if sequence >= highest:"),
        "each number is a first copy once, so that none is equal to one before",
    ),
]


def reason_for(file: str, text: str, changed: str) -> str:
    """Why this change of a file may live; "" if nobody has said so."""
    known = (each for each in SURVIVORS if each.edit.file == file)
    return next((each.reason for each in known if each.edit.apply(text) == changed), "")
