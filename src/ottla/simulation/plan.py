"""What happens in one simulated run, spelled out: topics, who writes and reads what, and what goes wrong when.

A seed is drawn into a plan (`draw`), a plan is run (`run`). Because the plan says everything but the world's own
chance (delays, torn writes), a finding can be made smaller by leaving out parts of its plan (`shrink`), kept as a file
and run again. Plain data: `to_dict` and `from_dict` are inverse to each other, by way of JSON.

Times are simulated microseconds from the start of the run, when all topics exist. A producer's pauses say how fast
it sends: no pauses, all at once; a pause after each record, at a rate; a pause of hours, idle.

A plan of another version is run as it was meant or not at all: what is in it and not known here, or missing, is refused
by name (`plan_check`), whether its writer thought of raising FORMAT or not.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ottla.faults.fault import Fault

FORMAT = 2

# In a mild plan nothing happens that Kafka does not survive without a sync: what all acked must be there. In a severe
# one power fails anywhere, logs are spoilt and topics may elect unclean leaders: what is missing must be put down to
# that.
MILD, SEVERE = SEVERITIES = "mild", "severe"

# What a producer does, in turn.
SEND, PAUSE, FLUSH = "send", "pause", "flush"
BEGIN, OFFSETS, COMMIT, ABORT = "begin", "offsets", "commit", "abort"
# It dies where it stands, and is born again with the same settings after `pause_us`.
CRASH = "crash"
# Another instance takes over at once; the old one goes on with what it has after `pause_us`, not knowing.
REPLACE = "replace"
ACTS = (SEND, PAUSE, FLUSH, BEGIN, OFFSETS, COMMIT, ABORT, CRASH, REPLACE)


@dataclass(slots=True)
class Act:
    """One thing a producer does; `number` is the offset (OFFSETS) or the record's (SEND), the same for the same record.

    `headers`: pairs of a name and a text or None, beside the header that is the record's number.
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
    """A topic; settings under Kafka's names with underscores."""

    name: str
    partitions: int = 1
    replication_factor: int = 3
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class ProducerPlan:
    """A producer and what it does; with `transactional_id` among the settings its records lie in transactions."""

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
    """Somebody asks `at_us` for a partition's replicas to be moved (AlterPartitionReassignments, KIP-455).

    `replicas`: the brokers that are to hold it, the one that leads if it can first; None: the move that is under way is
    to stop.
    """

    topic: str
    partition: int
    replicas: list[int] | None
    at_us: int


@dataclass(slots=True)
class TimedFault:
    """A fault that begins `at_us`, and is healed `lasts_us` later."""

    fault: Fault
    at_us: int
    lasts_us: int = 0

    @property
    def kind(self) -> str:
        """The fault's kind."""
        return self.fault.kind


@dataclass(slots=True)
class ServicePlan:
    """A broker that takes from `least_us` to `most_us` for each Produce request, one after the other per connection.

    One that no plan names takes no time.
    """

    broker: int
    least_us: int
    most_us: int


@dataclass(slots=True)
class Plan:
    """All of a run."""

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
        # It checks what is made here.
        from ottla.simulation.plan_check import plan_of

        return plan_of(data)
