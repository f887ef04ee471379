"""What a run found out: verdicts, answers, which faults fired; and whether that makes it a success.

Plain values without pyarrow, Spark or a terminal: `run` fills them in, `report` shows them.

Invariant: every count of `verdicts` and `answers` was read from the topics.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.audit.ledgers.verdict import Verdict
from ottla.audit.properties import VIOLATED, PropertyVerdict

if TYPE_CHECKING:
    from ottla.registry.registered import RegisteredSchema

LOSE_ACK = "lose_ack"
LOSE_REQUEST = "lose_request"
KILL_DRIVER = "kill_driver"
STREAMED = "streamed on"
FAULT_WORDS = {LOSE_ACK: "answer lost after the append", LOSE_REQUEST: "request lost before the append"}


@dataclass(slots=True, frozen=True)
class Group:
    """One group of the business question: its count and mean from the file, beside those from the topic.

    `mean` and `truth_mean` are None where the question asks for counts alone, or where a group has no value.
    """

    label: str
    truth_count: int
    count: int
    truth_mean: float | None = None
    mean: float | None = None

    @property
    def deviation(self) -> float:
        """How far the count is off, as a share of the truth; 1.0 where the truth has no such group."""
        if not self.truth_count:
            return 1.0 if self.count else 0.0
        return (self.count - self.truth_count) / self.truth_count

    @property
    def is_right(self) -> bool:
        """Count and mean are those of the file (means to a thousandth: a sum of floats depends on the order)."""
        if self.count != self.truth_count:
            return False
        if self.mean is None or self.truth_mean is None:
            return self.mean is self.truth_mean
        return abs(self.mean - self.truth_mean) < 1e-3


@dataclass(slots=True, frozen=True)
class Answer:
    """The answer one topic gives to the business question, group by group."""

    guarantee: str
    groups: tuple[Group, ...]

    @property
    def wrong(self) -> tuple[Group, ...]:
        """The groups that are off, first the one with most records too many or missing."""
        wrong = [group for group in self.groups if not group.is_right]
        return tuple(sorted(wrong, key=lambda group: (-abs(group.count - group.truth_count), group.label)))


@dataclass(slots=True, frozen=True)
class Streamed:
    """What the streaming job came to: its result's verdict, and how many of its drivers were killed."""

    verdict: Verdict
    killed: int


@dataclass(slots=True, frozen=True)
class VersionRead:
    """One version of a topic's schema: how many records were sent with it, how many Spark has read, as the newest one.

    In `with_default` of these the new field was its default, which should have been so in `expected`.
    """

    guarantee: str
    subject: str
    version: int
    schema_id: int
    sent: int
    stored: int
    with_default: int
    expected: int

    @classmethod
    def of(
        cls, guarantee: str, schema: RegisteredSchema, sent: int, stored: int, with_default: int, expected: int
    ) -> VersionRead:
        """The counts of one version, `schema` as it was registered."""
        return cls(
            guarantee, schema.subject or "", schema.version or 0, schema.id, sent, stored, with_default, expected
        )

    def figures(self) -> dict[str, object]:
        """What `--json` writes of it."""
        return {
            "topic": self.guarantee,
            "subject": self.subject,
            "version": self.version,
            "id": self.schema_id,
            "sent": self.sent,
            "stored": self.stored,
            "with_default": self.with_default,
        }


@dataclass(slots=True, frozen=True)
class Schemas:
    """What was seen of a run's schemas: `registry` is the address of the user's, "" for the run's own."""

    registry: str
    field: str
    default: int
    versions: tuple[VersionRead, ...]

    @property
    def wrong(self) -> tuple[VersionRead, ...]:
        """Those of which not the right records were read with the default."""
        return tuple(each for each in self.versions if each.with_default != each.expected)

    @property
    def words(self) -> str:
        """What was done, in a sentence."""
        where = f"the registry at {self.registry}" if self.registry else "a registry of the run's own"
        read = "each old record got the default"
        if self.wrong:
            read = "not every old record, or not only those, got the default"
        return (
            f"With {where}. Half-way a second version added the field {self.field!r}, whose default is {self.default}. "
            f"PySpark read all records as the newest version: {read}."
        )

    def figures(self) -> dict[str, object]:
        """What `--json` writes."""
        return {
            "format": "avro",
            **({"registry": self.registry} if self.registry else {}),
            "field": self.field,
            "default": self.default,
            "versions": [each.figures() for each in self.versions],
        }


@dataclass(slots=True)
class RunOutcome:
    """All results of a run.

    `fired` counts, per guarantee and fault kind, how often it really fired; `offsets` holds end minus start
    offset summed over each topic's partitions, asked of the brokers and not of Spark. `examples` describes a record of
    the input by its number, for the evidence. `streamed` is about the topic that Spark made of the exactly-once one.
    `properties`: what was found of each of the properties, `looked_at` by looking at how much.
    `kafka`: where the topics were; "" for an embedded cluster. `schemas`: of a run with a schema registry.
    """

    shown: str
    records: int
    question: str
    verdicts: tuple[Verdict, ...]
    answers: tuple[Answer, ...]
    fired: dict[str, dict[str, int]]
    offsets: dict[str, int]
    streamed: Streamed
    examples: dict[int, str] = field(default_factory=dict)
    seconds: float = 0.0
    kept_in: Path | None = None
    properties: tuple[PropertyVerdict, ...] = ()
    looked_at: str = ""
    kafka: str = ""
    schemas: Schemas | None = None

    @property
    def title(self) -> str:
        """What was sent."""
        return f"{self.records:,} record{'s' * (self.records != 1)} of {self.shown}, three times"

    @property
    def judged(self) -> tuple[Verdict, ...]:
        """The verdicts of all topics, in the order in which they are shown."""
        return (*self.verdicts, self.streamed.verdict)

    @property
    def void(self) -> tuple[str, ...]:
        """Why this run proves nothing: a fault that never fired, a broken ledger. Empty for a run that counts."""
        reasons = [] if self.streamed.killed else [f"{STREAMED}: Spark's driver was not killed while it wrote"]
        reasons += [f"{each.guarantee}: {each.void}" for each in self.verdicts if each.void is not None]
        reasons += [f"{each.guarantee}: no fault fired" for each in self.verdicts if not self.fired.get(each.guarantee)]
        never: dict[str, list[str]] = {}
        for guarantee, kinds in self.fired.items():
            for kind, times in kinds.items():
                if not times:
                    never.setdefault(FAULT_WORDS.get(kind, kind), []).append(guarantee)
        reasons += [f"the fault “{words}” never fired ({', '.join(of)})" for words, of in never.items()]
        return tuple(reasons)

    @property
    def has_too_few_requests(self) -> bool:
        """Whether a fault did not fire because there were too few requests."""
        return any(not times for kinds in self.fired.values() for times in kinds.values())

    @property
    def miscounted(self) -> tuple[str, ...]:
        """Topics of which Spark did not count as many records as lie between their start and end offsets."""
        return tuple(
            f"{verdict.guarantee}: Spark read {verdict.figures.stored:,} records, "
            f"the offsets span {self.offsets[verdict.guarantee]:,}"
            for verdict in self.verdicts
            if verdict.figures.stored != self.offsets[verdict.guarantee]
        )

    @property
    def unseen(self) -> str:
        """What is not known of a run on a foreign Kafka, in a sentence."""
        return (
            f"Sent through a proxy to the Kafka at {self.kafka}. Unseen there: which replicas had a record when it was "
            "acknowledged, who led, each broker's high watermark and log. No verdict is about that."
        )

    @property
    def violated(self) -> tuple[PropertyVerdict, ...]:
        """The properties of which something was found."""
        return tuple(verdict for verdict in self.properties if verdict.word == VIOLATED)

    @property
    def exit_status(self) -> int:
        """0 where every guarantee showed exactly what it should, 1 otherwise."""
        as_expected = all(verdict.passed for verdict in self.judged) and not self.violated
        as_expected = as_expected and not (self.schemas and self.schemas.wrong)
        return 0 if as_expected and not self.void and not self.miscounted else 1

    @property
    def conclusion(self) -> str:
        """The result, in a sentence."""
        if self.void:
            return f"This run is void: {'; '.join(self.void)}."
        if self.exit_status == 0:
            took = f" in {self.seconds:.0f} s" if self.seconds else ""
            return (
                f"Every guarantee did what it promises{took}: only exactly-once stored each record once, and Spark "
                "streamed each on once, although its driver was killed."
            )
        broken = [verdict.guarantee for verdict in self.judged if not verdict.passed]
        broken += [f"property {verdict.what.number} ({verdict.what.name})" for verdict in self.violated]
        if self.schemas:
            broken += [f"{each.subject}, version {each.version}" for each in self.schemas.wrong]
        return f"Not as promised: {', '.join(broken)}." if broken else "The counts do not agree."

    def figures(self) -> dict[str, object]:
        """What `--json` writes: the table's figures under the names of `audit.ledgers.figures.Figures`."""
        ordered = sorted(self.verdicts, key=lambda verdict: verdict.guarantee != "exactly-once")
        return {
            "records": self.records,
            **({"kafka": self.kafka} if self.kafka else {}),
            "guarantees": {verdict.guarantee: verdict.figures.to_dict() for verdict in ordered},
            "streamed": {**self.streamed.verdict.figures.to_dict(), "drivers_killed": self.streamed.killed},
            "properties": {str(verdict.what.number): verdict.to_dict() for verdict in self.properties},
            **({"schema": self.schemas.figures()} if self.schemas else {}),
        }
