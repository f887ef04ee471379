"""The plan of one simulated run: its topics, what each client sends and reads, and which faults happen when.

A plan is drawn from a seed (`draw`) and run (`run`). It says everything except what the world draws by itself (delays,
torn writes). So a finding can be kept as a file and run again, and made smaller by leaving out parts of its plan
(`shrink`). A plan is plain data: `from_dict` is the inverse of `to_dict`, also by way of JSON.

Times are simulated microseconds from the start of the run, when all topics exist. A producer's pauses say how fast it
sends: without pauses all at once, with a pause after each record at a rate, and nothing during a pause of hours.

A plan of another version of ottla is run as it was meant, or refused: unknown and missing fields are errors that name
the field (`plan_check`), even if FORMAT is the same.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ottla.faults.fault import Fault

FORMAT = 2

# In a mild plan nothing happens that Kafka does not survive without syncs: no record that was acknowledged with
# acks=all may be missing. In a severe one power may fail at any time, logs may be corrupted, and topics may elect
# unclean leaders: every missing record must be explained by that.
MILD, SEVERE = SEVERITIES = "mild", "severe"

# What a producer does, in turn.
SEND, PAUSE, FLUSH = "send", "pause", "flush"
BEGIN, OFFSETS, COMMIT, ABORT = "begin", "offsets", "commit", "abort"
# Its process ends at once; after `pause_us` a new instance with the same settings starts.
CRASH = "crash"
# A new instance takes over at once. After `pause_us` the old one goes on with its transaction, as a zombie.
REPLACE = "replace"
ACTS = (SEND, PAUSE, FLUSH, BEGIN, OFFSETS, COMMIT, ABORT, CRASH, REPLACE)


@dataclass(slots=True)
class Act:
    """One act of a producer; `number` is an offset (OFFSETS) or the record's (SEND; a resent record keeps it).

    `headers`: pairs of a name and a text or None; the header with the record's number is added to them.
    """

    do: str
    number: int = -1
    topic: str = ""
    partition: int | None = None
    key: int | None = None
    value_bytes: int = 0
    pause_us: int = 0
    headers: list[list[str | None]] = field(default_factory=list)


@dataclass(slots=True)
class TopicPlan:
    """A topic; its settings have Kafka's names, with underscores."""

    name: str
    partitions: int = 1
    replication_factor: int = 3
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def is_compacted(self) -> bool:
        """Whether brokers compact it."""
        return "compact" in self.settings.get("cleanup_policy", "")


@dataclass(slots=True)
class ProducerPlan:
    """A producer and its acts; with `transactional_id` among the settings its records are in transactions."""

    name: str
    settings: dict[str, Any]
    acts: list[Act]


@dataclass(slots=True)
class ReaderPlan:
    """A reader that reads all partitions of a topic to their ends, again and again, `pause_us` between the rounds.

    `purges`: after each round it asks for the deletion of what it has read, as Kafka Streams does.
    """

    name: str
    topic: str
    isolation_level: str
    pause_us: int
    purges: bool = False


@dataclass(slots=True)
class MovePlan:
    """A move of a partition's replicas, requested `at_us` (AlterPartitionReassignments, KIP-455).

    `replicas`: the brokers that are to hold the partition, the preferred leader first; None: stop the move that is
    under way.
    """

    topic: str
    partition: int
    replicas: list[int] | None
    at_us: int


@dataclass(slots=True)
class TimedFault:
    """A fault that begins `at_us` and is healed `lasts_us` later."""

    fault: Fault
    at_us: int
    lasts_us: int = 0

    @property
    def kind(self) -> str:
        """The fault's kind."""
        return self.fault.kind


@dataclass(slots=True)
class ServicePlan:
    """A broker that takes from `least_us` to `most_us` for each Produce request, one at a time per connection.

    A broker without a ServicePlan takes no time.
    """

    broker: int
    least_us: int
    most_us: int


@dataclass(slots=True)
class Plan:
    """The whole plan of a run."""

    seed: int
    brokers: int
    through_bytes: bool
    settings: dict[str, Any]
    topics: list[TopicPlan]
    producers: list[ProducerPlan]
    readers: list[ReaderPlan]
    faults: list[TimedFault]
    severity: str = MILD
    service: list[ServicePlan] = field(default_factory=list)
    moves: list[MovePlan] = field(default_factory=list)
    format: int = FORMAT

    @property
    def records(self) -> int:
        """How many records are to be sent."""
        return sum(act.do == SEND for producer in self.producers for act in producer.acts)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        faults = [
            {"at_us": each.at_us, "lasts_us": each.lasts_us, "fault": each.fault.to_dict()} for each in self.faults
        ]
        return asdict(replace(self, faults=[])) | {"faults": faults}

    @classmethod
    def from_dict(cls, data: Any) -> Plan:
        """The inverse of `to_dict`; ConfigError for a plan of another version, or that cannot be carried out."""
        # Imported here, because `plan_check` imports this module.
        from ottla.simulation.plan_check import plan_of

        return plan_of(data)
