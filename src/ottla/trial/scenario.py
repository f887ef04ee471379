"""A scenario: what is sent, what goes wrong meanwhile, which guarantee is claimed, and what has to be seen.

It is a TOML file that people read and write: `scenario_file.py` reads it. A scenario has *sides*: the same records
and the same faults under different settings, each with its own topic on a cluster of its own. At least one side must
show something that exactly-once forbids: it is the control, without which a trial that finds nothing proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.faults.fault import Fault

KEPT, BROKEN = "kept", "broken"
ROLES = LEADER, FIRST_FOLLOWER, SECOND_FOLLOWER = "leader", "first follower", "second follower"
COORDINATOR = "coordinator"
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
TOPIC, TRANSACTIONAL_ID = "trial", "trial"
LISTENERS = PLAINTEXT, SSL = "PLAINTEXT", "SSL"
FIRST_PARTITION, SENDFILE, AGAIN = "first_partition_records", "sendfile_bytes", "records_sent_again"
COUNTS = (FIRST_PARTITION, SENDFILE, AGAIN)
"""What a side may count: records stored in partition 0; bytes that brokers gave to `sendfile` for clients; how often
the application sent a record once more."""
NO_GROUP = ""
GROUPS = CLASSIC, CONSUMER = "classic", "consumer"
"""The protocols that a group's members speak; `consumer` is that of KIP-848."""
OFFSETS = OFFSETS_WITH_METADATA, OFFSETS_WITHOUT_METADATA, OFFSETS_APART = (
    "with the group's metadata", "without the group's metadata", "apart from the transaction",
)  # fmt: skip
"""How an application with transactions commits what it has read."""
RECORDS_MAX = 200_000


@dataclass(slots=True, frozen=True)
class TimedFault:
    """A fault in force from when `after` records were handed over until `until` were (None: until all are settled).

    `sides`: the names of those that have it; () for all. `role`: its broker is the one with this role for the trial's
    first partition when it begins; "" for the one it names. `in_sync`: when it has begun, the next record waits until
    that partition has so many replicas in sync.
    """

    fault: Fault
    after: int = 0
    until: int | None = None
    role: str = ""
    in_sync: int | None = None
    sides: tuple[str, ...] = ()


@dataclass(slots=True, frozen=True)
class Side:
    """One way to send: settings of the producer and of the topic, the guarantee claimed, and what is expected.

    `expect`: whether the guarantee is kept or broken. `shows`: kinds of anomaly that have to be found. `errors`: the
    names of all errors that have to be told, () for none, None where it does not matter. `attempts`: how often each
    batch that failed was sent, None where it does not matter. `settings`: of the brokers. 0 stands for: as usual
    (`replicas`), as fast as it can (`records_per_second`), never (`transaction_records`, `notes_every`). `new_id`: each
    start of the application takes a `transactional.id` of its own.

    `least`, `most`: what has to be counted (`COUNTS`), and how often. `control`: this side counts as a control, by what
    it counts. `listener`: by which one the trial reads, PLAINTEXT or SSL.

    `group`: the application reads what it sends as a member of a group, by this protocol. It commits what it has read
    after every `notes_every` records, or with its transactions, as `offsets` says.
    """

    name: str
    claims: str
    producer: Mapping[str, Any]
    topic: Mapping[str, str]
    expect: str = KEPT
    shows: tuple[str, ...] = ()
    errors: tuple[str, ...] | None = None
    attempts: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    replicas: int = 0
    records_per_second: int = 0
    transaction_records: int = 0
    new_id: bool = False
    notes_every: int = 0
    isolation_level: str = UNCOMMITTED
    least: Mapping[str, int] = field(default_factory=dict)
    most: Mapping[str, int] = field(default_factory=dict)
    control: bool = False
    listener: str = PLAINTEXT
    group: str = NO_GROUP
    offsets: str = OFFSETS_WITH_METADATA

    @property
    def is_control(self) -> bool:
        """Whether it expects something that does not appear without a fault."""
        return self.control or self.expect == BROKEN or bool(self.shows) or bool(self.errors)

    def faults_of(self, scenario: Scenario) -> tuple[TimedFault, ...]:
        """The faults that this side has."""
        return tuple(each for each in scenario.faults if not each.sides or self.name in each.sides)


@dataclass(slots=True, frozen=True)
class Scenario:
    """All of a trial. `teaches`: what it shows, in a paragraph. `flush_every`: 0 for never.

    `restart_at`: before this record the application ends without warning and is started again; with `zombie` the old
    one goes on when the new one has sent everything. `abort_at`: before this record it aborts its open transaction.
    `chooses_partition`: records have no key, and the producer chooses the partition of each.
    """

    name: str
    title: str
    teaches: str
    sides: tuple[Side, ...]
    faults: tuple[TimedFault, ...]
    records: int
    value_bytes: int
    partitions: int
    brokers: int
    flush_every: int
    restart_at: int | None = None
    zombie: bool = False
    abort_at: int | None = None
    chooses_partition: bool = False
