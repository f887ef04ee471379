"""A run in which all went well, made by hand, and the ways to spoil it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ottla.audit.chronicles.case import Case
from ottla.audit.chronicles.chronicle import (
    BatchSeen,
    BrokerEnd,
    Chronicle,
    Committed,
    ControlSeen,
    FaultSeen,
    InstanceSeen,
    Leadership,
    ProducerPromise,
    ReadSeen,
    RecordSeen,
    ReplicaSeen,
    SentRecord,
    TopicPromise,
    TransactionSeen,
    Watermark,
)
from ottla.audit.findings import Finding


def seen(number: int, offset: int, **details: int) -> RecordSeen:
    """Record `number` as it was sent, read or lying at `offset`."""
    return replace(RecordSeen(offset, number, 1000 + number, 2000 + number, 7000 + number, 3000 + number), **details)


def batch(first: int, numbers: list[int], *, producer_id: int = 1, epoch: int = 0, sequence: int = 0) -> BatchSeen:
    """A batch of these records from offset `first` on; transactional where it is producer 2's."""
    records = [seen(number, first + index) for index, number in enumerate(numbers)]
    last = first + len(records) - 1
    return BatchSeen(first, last, 0, producer_id, epoch, sequence, producer_id == 2, False, None, True, records)


def marker(offset: int, *, commits: bool, epoch: int = 0) -> BatchSeen:
    """A control batch of producer 2."""
    return BatchSeen(offset, offset, 0, 2, epoch, -1, True, True, commits, True, [])


class Scene:
    """A run in which all went well, to be spoilt: topic `t` of two partitions, brokers 0, 1, 2, of which 0 leads.

    Producer `p` (idempotent) sent 0, 1, 2 to t-0. Producer `x` (transactional id) sent 10 to t-0 and 11 to t-1 in
    transaction 0, which was committed with offset 7 for group `g`, and 12 to t-0 in transaction 1, which was aborted.
    t-0: 0 1 2 | 10 | commit | 12 | abort; t-1: 11 | commit.
    """

    def __init__(self) -> None:
        c = self.chronicle = Chronicle(
            topics=[TopicPromise("t", 2, 3, 2)],
            producers=[
                ProducerPromise("p", -1, True, None, 5_000),
                ProducerPromise("x", -1, True, "tx", 5_000),
            ],
            first_fault_us=5_000,
            healed_us=5_000,
            ended_us=9_000,
            faults=[FaultSeen("kill", 1)],
            controls=[ControlSeen("idempotence", ("duplicated",), {"duplicated": 2})],
            trace_hashes=("a", "a"),
            instances=[InstanceSeen("p", 1, 100), InstanceSeen("x", 1, 100)],
            group_offsets={("g", "t", 0): 7},
            broker_ends=[],
            produced=[],
        )
        c.sent = [self.sent(n, "p", 0, n, 1_000, 2_000) for n in range(3)]
        c.sent += [
            self.sent(10, "x", 0, 3, 3_000, 3_600, 0),
            self.sent(11, "x", 1, 0, 3_000, 3_600, 0),
            self.sent(12, "x", 0, 5, 4_100, 4_600, 1),
        ]
        c.transactions = [
            TransactionSeen(0, "x", 1, "committed", 2_900, 3_900, True, False, ("g", "t", 0, 7), True, 3_700),
            TransactionSeen(1, "x", 1, "aborted", 4_000, 4_700),
        ]
        c.leaderships = [Leadership(100, "t", index, 0, 0, (0, 1, 2), False) for index in (0, 1)]
        c.watermarks, c.commits = [], []
        self.let_pass(0, 1_500, 0, 3)
        self.let_pass(0, 3_500, 3, 5)
        self.let_pass(1, 3_500, 0, 2)
        self.let_pass(0, 4_500, 5, 7)
        c.replicas = []
        for broker in range(3):
            first = [
                batch(0, [0, 1, 2]),
                batch(3, [10], producer_id=2),
                marker(4, commits=True),
                batch(5, [12], producer_id=2, sequence=1),
                marker(6, commits=False),
            ]
            c.replicas.append(ReplicaSeen(broker, "t", 0, 0, 7, 7, 42, first))
            second = [batch(0, [11], producer_id=2), marker(1, commits=True)]
            c.replicas.append(ReplicaSeen(broker, "t", 1, 0, 2, 2, 43, second))
        c.reads = [
            self.read("r", 0, 1_700, 1_800, 3, [(0, 0), (1, 1), (2, 2)], committed=False),
            self.read("r", 0, 3_950, 4_000, 5, [(0, 0), (1, 1), (2, 2), (10, 3)]),
            self.read("final", 0, 8_000, 8_100, 7, [(0, 0), (1, 1), (2, 2), (10, 3), (12, 5)], committed=False),
            self.read("final", 0, 8_000, 8_100, 7, [(0, 0), (1, 1), (2, 2), (10, 3)]),
            self.read("final", 1, 8_000, 8_100, 2, [(11, 0)], committed=False),
            self.read("final", 1, 8_000, 8_100, 2, [(11, 0)]),
        ]

    @staticmethod
    def sent(
        number: int, producer: str, partition: int, offset: int, sent_us: int, told_us: int, transaction: int = -1
    ) -> SentRecord:
        return SentRecord(
            number, producer, 1, "t", partition, 1000 + number, 2000 + number, "acked", offset, None, transaction,
            sent_us, told_us, headers_crc=3000 + number,
        )  # fmt: skip

    @staticmethod
    def read(
        reader: str, partition: int, began: int, ended: int, end: int, found: list[tuple[int, int]],
        *, committed: bool = True,
    ) -> ReadSeen:  # fmt: skip
        level = "read_committed" if committed else "read_uncommitted"
        records = [seen(number, offset) for number, offset in found]
        return ReadSeen(reader, level, "t", partition, began, ended, 0, end, records, is_final=reader == "final")

    def let_pass(self, partition: int, at_us: int, first: int, end: int, *, leader: int = 0, epoch: int = 0) -> None:
        """All three replicas take up to `end`, then the high watermark passes it."""
        for broker in range(3):
            self.mark(partition, at_us - 100, broker, first, end, leader=leader, epoch=epoch)
        self.mark(partition, at_us, leader, end, end, leader=leader, epoch=epoch)
        self.chronicle.commits.append(Committed(at_us, "t", partition, leader, epoch, first, end, (0, 1, 2), (1,)))

    def mark(
        self, partition: int, at_us: int, broker: int, high_watermark: int, end: int,
        *, start: int = 1, leader: int = 0, epoch: int = 0, log_start: int = 0,
    ) -> None:  # fmt: skip
        mark = Watermark(
            at_us,
            broker,
            start,
            "t",
            partition,
            epoch,
            broker == leader,
            high_watermark,
            high_watermark,
            end,
            log_start,
        )
        self.chronicle.watermarks.append(mark)
        self.chronicle.watermarks.sort(key=lambda each: each.at_us)

    def elect(
        self, at_us: int, leader: int, epoch: int, isr: tuple[int, ...],
        *, unclean: bool = False, replicas: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        """The controller decides about t-0."""
        self.chronicle.leaderships.append(Leadership(at_us, "t", 0, leader, epoch, isr, unclean, replicas))

    def fall(self, at_us: int, broker: int, kind: str, cut: int | None = None) -> None:
        """A broker goes down; of t-0 it has what lies below `cut` afterwards."""
        self.chronicle.broker_ends.append(BrokerEnd(at_us, broker, kind, {} if cut is None else {("t", 0): cut}))

    def forget_transactions(self, at_us: int) -> None:
        """A power cut takes all that coordinators had written, from the last replica that had it."""
        for decided_us, isr in ((100, (0, 1, 2)), (at_us - 50, (1,))):
            self.chronicle.leaderships.append(Leadership(decided_us, "__transaction_state", 0, 1, 0, isr, False))
        self.chronicle.broker_ends.append(BrokerEnd(at_us, 1, "power_off", {("__transaction_state", 0): 0}))

    def record(self, number: int) -> SentRecord:
        return next(each for each in self.chronicle.sent if each.number == number)

    def final(self, partition: int = 0, *, committed: bool = False) -> ReadSeen:
        level = "read_committed" if committed else "read_uncommitted"
        return next(
            each
            for each in self.chronicle.reads
            if each.is_final and each.partition == partition and each.isolation_level == level
        )

    def lose(self, number: int) -> None:
        """Nobody can read the record any more, nor was it ever read."""
        for read in self.chronicle.reads:
            read.records = [each for each in read.records if each.number != number]

    def give_aborted(self) -> None:
        """A read_committed reader was given record 12, whose transaction was aborted."""
        self.chronicle.reads.insert(0, self.read("r", 0, 4_550, 4_600, 7, [(12, 5)]))

    def batches(self, broker: int = 0, partition: int = 0) -> list[BatchSeen]:
        return self.replica(broker, partition).batches

    def replica(self, broker: int = 0, partition: int = 0) -> ReplicaSeen:
        return next(
            each for each in self.chronicle.replicas if each.broker_id == broker and each.partition == partition
        )

    def blind(self) -> None:
        """What brokers show to nobody was not seen."""
        c = self.chronicle
        c.replicas = c.watermarks = c.leaderships = c.commits = c.broker_ends = c.instances = c.group_offsets = None
        c.trace_hashes = c.controls = c.produced = None

    def ask(self, check: Callable[[Case], Finding]) -> Finding:
        """What a checker finds in it."""
        return check(Case(self.chronicle))
