"""All that was seen of one run of a cluster: what was sent and told, read, led, replicated, and what lies in the logs.

A witness writes it (that of the simulation sees everything, that of foreign brokers less), and the checkers read
nothing else. A list that is None was not observable: its checkers say so instead of passing.

Times are microseconds of the run's own clock; `number` is a record's own number (the header `ottla.sequence`), -1 where
it carries none; CRCs as in the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True, frozen=True)
class TopicPromise:
    """What a topic's settings promise; `cleanup` says whether records may go by retention, compaction or deletion.

    `is_compacted`: brokers compact it, and refuse records without a key.
    """

    topic: str
    partitions: int
    replication_factor: int
    min_insync_replicas: int = 1
    unclean_leader_election: bool = False
    cleanup: bool = False
    is_compacted: bool = False


@dataclass(slots=True, frozen=True)
class ProducerPromise:
    """What one producer's settings promise; `acks` is 0, 1 or -1, and `delivery_timeout_ms` -1 where nobody told it.

    `max_in_flight`: `max.in.flight.requests.per.connection`, which keeps order by itself only where it is 1.
    `linger_ms` is -1 if it is not known. `batch_records`: one batch holds at least so many of its records.
    `transaction_timeout_ms`: how long a transaction may be open before its coordinator aborts it. `retries` is -1 where
    nobody told it: as many as fit into `delivery_timeout_ms`.
    """

    producer: str
    acks: int
    idempotent: bool
    transactional_id: str | None = None
    delivery_timeout_ms: int = -1
    max_in_flight: int = 5
    linger_ms: int = -1
    batch_records: int = 1
    transaction_timeout_ms: int = 60_000
    retries: int = -1


@dataclass(slots=True)
class InstanceSeen:
    """One life of a producer; `died_us` is -1 where it was closed in order, or lived to the end of the run."""

    producer: str
    instance: int
    born_us: int
    died_us: int = -1


@dataclass(slots=True)
class SentRecord:
    """A record that was handed to a producer, and what became of it as far as that producer was told.

    `instance` counts the starts of the producer; `transaction` is the number of a `TransactionSeen`, -1 for none.
    `outcome`, `offset` as in the ledger; `partition` -1 where none was chosen. `told_us` is -1 where nothing was.
    `chosen_partition`: the one its sender asked for, -1 for none; `hashed_key`: the key by which the default
    partitioner was to choose; `headers_crc`: of all its headers but the number, None where nobody took it.
    """

    number: int
    producer: str
    instance: int
    topic: str
    partition: int
    key_crc: int
    value_crc: int
    outcome: str
    offset: int
    error: str | None = None
    transaction: int = -1
    sent_us: int = 0
    told_us: int = -1
    chosen_partition: int = -1
    hashed_key: bytes | None = None
    headers_crc: int | None = None


@dataclass(slots=True)
class TransactionSeen:
    """A transaction and its outcome: "committed", "aborted" or "unknown"; `offsets`: (group, topic, partition, offset).

    `commit_asked`: whether its producer ever asked for a commit, at `commit_asked_us` for the first time. `is_zombie`:
    whether its instance had been replaced by another one before the end was asked for.
    """

    number: int
    producer: str
    instance: int
    outcome: str = "unknown"
    began_us: int = 0
    ended_us: int = -1
    commit_asked: bool = False
    is_zombie: bool = False
    offsets: tuple[str, str, int, int] | None = None
    offsets_taken: bool = False
    commit_asked_us: int = -1


@dataclass(slots=True, frozen=True)
class RecordSeen:
    """A record as a reader got it, or as it lies in a log."""

    offset: int
    number: int
    key_crc: int
    value_crc: int
    timestamp_ms: int
    headers_crc: int | None = None


@dataclass(slots=True)
class ReadSeen:
    """One round of a reader over one partition, from `start` up to `end` (exclusive), in the order it came.

    `start` and `end` are -1 where the reader was not told; `error` is what ended the round early, if anything did.
    `is_final`: begun after everything had healed and settled.
    """

    reader: str
    isolation_level: str
    topic: str
    partition: int
    began_us: int
    ended_us: int
    start: int
    end: int
    records: list[RecordSeen]
    error: str | None = None
    is_final: bool = False


@dataclass(slots=True)
class BatchSeen:
    """A batch as it lies in a replica's log; `commits` only for control batches.

    In the coordinators' own topics nobody looks at `records` and `commits`, and both stay empty.
    """

    base_offset: int
    last_offset: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    is_control: bool
    commits: bool | None
    crc_is_right: bool
    records: list[RecordSeen]


@dataclass(slots=True)
class ReplicaSeen:
    """A replica's log at the end of the run; `bytes_crc` is over all its batches as they lie there."""

    broker_id: int
    topic: str
    partition: int
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    bytes_crc: int
    batches: list[BatchSeen]

    def undeleted(self) -> Iterator[BatchSeen]:
        """The batches that are not wholly below the log start: those are deleted, and lie there until their file goes.

        Replicas need not have the same batches down there, and a leader that starts learns nothing from them.
        """
        return (batch for batch in self.batches if batch.last_offset >= self.log_start_offset)


@dataclass(slots=True)
class Watermark:
    """A replica's marks when one of them changed; `broker_start` counts the starts of that broker.

    Not frozen, as a run has thousands, and a frozen one takes three times as long to make.
    """

    at_us: int
    broker_id: int
    broker_start: int
    topic: str
    partition: int
    leader_epoch: int
    is_leader: bool
    high_watermark: int
    last_stable_offset: int
    log_end_offset: int
    log_start_offset: int = 0


@dataclass(slots=True, frozen=True)
class Leadership:
    """What the controller decided about a partition; `is_unclean`: the leader was not in sync before.

    `replicas`: who is to hold it, none where nobody saw; they change where replicas are moved (KIP-455).
    """

    at_us: int
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    is_unclean: bool
    replicas: tuple[int, ...] = ()


@dataclass(slots=True, frozen=True)
class Committed:
    """The leader's high watermark passed these offsets: which replicas held them then, and which had them synced.

    A broker that was down but would have them once it is started again counts.
    """

    at_us: int
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    first_offset: int
    end_offset: int
    held_by: tuple[int, ...]
    synced_by: tuple[int, ...]


@dataclass(slots=True, frozen=True)
class RecordsDeleted:
    """Somebody asked for the records of a partition below `before_offset` to be deleted (DeleteRecords, KIP-107)."""

    at_us: int
    topic: str
    partition: int
    before_offset: int


@dataclass(slots=True, frozen=True)
class BrokerEnd:
    """A broker that went down: "kill", "power_off" or "corrupt"; `cut`: (topic, partition) -> end of what survived."""

    at_us: int
    broker_id: int
    kind: str
    cut: dict[tuple[str, int], int]


@dataclass(slots=True, frozen=True)
class FaultSeen:
    """A fault that was planned, and how often it really fired; `must_fire`: without it the run proves nothing.

    `missed`: why one that need not fire had nothing to apply to, if that is known.
    """

    kind: str
    fired: int
    detail: str = ""
    must_fire: bool = False
    missed: str = ""


@dataclass(slots=True)
class ProduceSeen:
    """A Produce request: when it left its producer, when it reached its broker, and when the answer left the broker.

    -1 for what never happened; `is_refused`: the answer had an error in it.
    """

    producer: str
    broker_id: int
    sent_us: int
    came_us: int
    answered_us: int = -1
    is_refused: bool = False


@dataclass(slots=True, frozen=True)
class ControlSeen:
    """A run beside this one with `guarantee` switched off, and how often the judge found each kind of anomaly in it.

    `expected`: the kinds of which at least one has to be found there.
    """

    guarantee: str
    expected: tuple[str, ...]
    found: dict[str, int]


@dataclass(slots=True)
class Chronicle:
    """One run. `healed_us`: when the last fault was over; `ended_us`: when everything was settled, -1 if it never was.

    `transaction_version`: that of the feature, 1 before each transaction had an epoch of its own (KIP-890).
    `producer_id_expiration_ms`: how long partitions remember a producer that writes nothing. `severity` is "mild" where
    nothing happened that Kafka does not survive without a sync, otherwise "severe". `stuck` names what had not ended
    when the time limit was over. `trace_hashes`: the fingerprints of runs of the same seed. `produced`: the Produce
    requests with acks, in the order of sending; empty if no broker needed time for them. `first_fault_us`: when the
    first fault was due, -1 where there was none. `redeliveries`: how many requests the network has delivered twice.
    `is_cut_short`: something broke in the middle, so that nothing is held to what comes at the end of a run.
    """

    topics: list[TopicPromise] = field(default_factory=list)
    producers: list[ProducerPromise] = field(default_factory=list)
    sent: list[SentRecord] = field(default_factory=list)
    transactions: list[TransactionSeen] = field(default_factory=list)
    reads: list[ReadSeen] = field(default_factory=list)
    group_offsets: dict[tuple[str, str, int], int] | None = None
    hanging_transactions: list[str] = field(default_factory=list)
    replicas: list[ReplicaSeen] | None = None
    watermarks: list[Watermark] | None = None
    leaderships: list[Leadership] | None = None
    commits: list[Committed] | None = None
    broker_ends: list[BrokerEnd] | None = None
    deletions: list[RecordsDeleted] = field(default_factory=list)
    instances: list[InstanceSeen] | None = None
    produced: list[ProduceSeen] | None = None
    first_fault_us: int = -1
    trace_hashes: tuple[str, ...] | None = None
    controls: list[ControlSeen] | None = None
    faults: list[FaultSeen] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    healed_us: int = 0
    ended_us: int = -1
    transaction_version: int = 2
    producer_id_expiration_ms: int = 86_400_000
    severity: str = "mild"
    redeliveries: int = 0
    is_cut_short: bool = False
