"""A cluster that exists on paper alone: random runs in which all goes well, as a witness would write them down.

It knows Kafka's rules by itself and shares no code with the brokers or the judge: logs by partition, sequence numbers,
epochs, transactions with markers, the last stable offset, elections, deletions. Whoever wants a history in which one
thing is wrong takes a sound one and spoils it (`planted.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

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
    RecordsDeleted,
    RecordSeen,
    ReplicaSeen,
    SentRecord,
    TopicPromise,
    TransactionSeen,
    Watermark,
)
from ottla.ledger.schema import ACKED, FAILED, UNKNOWN

Place = tuple[str, int]
BROKERS = (0, 1, 2)
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"


@dataclass
class Log:
    """A partition: its batches, who leads it, and which transactions are open in it (producer id -> first offset)."""

    batches: list[BatchSeen] = field(default_factory=list)
    end: int = 0
    start: int = 0
    leader: int = 0
    epoch: int = 0
    in_sync: tuple[int, ...] = BROKERS
    open: dict[int, int] = field(default_factory=dict)
    sequences: dict[tuple[int, int], int] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)

    @property
    def stable(self) -> int:
        return min(self.open.values(), default=self.end)


@dataclass
class Client:
    """A producer in one of its lives."""

    promise: ProducerPromise
    producer_id: int
    epoch: int = 0
    instance: int = 1
    transaction: TransactionSeen | None = None
    touched: dict[Place, list[int]] = field(default_factory=dict)


class Model:
    """One random run; `chronicle` is what was seen of it."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.now = 1_000
        self.number = 0
        version = self.chance.choice((1, 2))
        topics = [TopicPromise("a", self.chance.randint(1, 3), 3, 2), TopicPromise("b", 1, 3, 2)]
        promises = [
            ProducerPromise("p", -1, True, None, 5_000),
            ProducerPromise("q", self.chance.choice((-1, 1)), False, None, 5_000, 1),
            ProducerPromise("r", 0, False, None, 5_000),
            ProducerPromise("x", -1, True, "tx", 5_000),
            ProducerPromise("y", -1, True, "ty", 5_000),
        ]
        self.chronicle = c = Chronicle(
            topics=topics,
            producers=promises,
            faults=[FaultSeen("kill", 1)],
            controls=[ControlSeen("idempotence", ("duplicated",), {"duplicated": 1})],
            trace_hashes=("one", "one"),
            transaction_version=version,
            replicas=[],
            watermarks=[],
            leaderships=[],
            commits=[],
            broker_ends=[],
            instances=[],
            produced=[],
            group_offsets={},
        )
        self.logs = {(t.topic, index): Log() for t in topics for index in range(t.partitions)}
        assert c.leaderships is not None
        assert c.instances is not None
        c.leaderships += [Leadership(100, *place, 0, 0, BROKERS, False) for place in self.logs]
        self.starts = dict.fromkeys(BROKERS, 1)
        self.clients = {each.producer: Client(each, index + 1) for index, each in enumerate(promises)}
        c.instances += [InstanceSeen(name, 1, 500) for name in self.clients]
        # Before the first fault nothing fails.
        c.first_fault_us = self.chance.randint(self.now, 90_000)

    def run(self, steps: int = 60) -> Chronicle:
        """All of it, up to the final reads."""
        acts = [self.send, self.send, self.transact, self.transact, self.transact, self.read, self.read]
        rare = [self.elect, self.delete, self.replace]
        for _ in range(steps):
            self.now += self.chance.randint(10, 3_000)
            self.chance.choice(rare if self.chance.random() < 0.08 else acts)()
        self.finish()
        return self.chronicle

    # ---- what producers do --------------------------------------------------------------------------------------

    def send(self) -> None:
        client = self.clients[self.chance.choice("pqr")]
        place = self.chance.choice(list(self.logs))
        acks = client.promise.acks
        fate = self.chance.random() if self.now >= self.chronicle.first_fault_us else 0.0
        outcome = UNKNOWN if acks == 0 or fate > 0.95 else FAILED if fate > 0.9 else ACKED
        is_stored = outcome == ACKED or (outcome == UNKNOWN and fate < 0.975)
        sent = [self.new_record(client, place, outcome) for _ in range(self.chance.randint(1, 4))]
        if is_stored:
            self.append(client, place, sent)
        for record in sent:
            record.told_us = self.tick()

    def new_record(self, client: Client, place: Place, outcome: str, transaction: int = -1) -> SentRecord:
        number = self.number
        self.number += 1
        record = SentRecord(
            number, client.promise.producer, client.instance, *place, 10_000 + number, 20_000 + number, outcome, -1,
            None if outcome == ACKED else "timed out", transaction, self.now, headers_crc=30_000 + number,
        )  # fmt: skip
        self.chronicle.sent.append(record)
        return record

    def append(self, client: Client, place: Place, sent: list[SentRecord]) -> None:
        log = self.logs[place]
        key = client.producer_id, client.epoch
        is_idempotent = client.promise.idempotent
        sequence = log.sequences.get(key, 0) if is_idempotent else -1
        records = [seen(record.number, log.end + index) for index, record in enumerate(sent)]
        is_transactional = client.promise.transactional_id is not None
        batch = BatchSeen(
            log.end,
            log.end + len(sent) - 1,
            log.epoch,
            client.producer_id if is_idempotent else -1,
            client.epoch if is_idempotent else -1,
            sequence,
            is_transactional,
            False,
            None,
            True,
            records,
        )  # fmt: skip
        log.batches.append(batch)
        if is_transactional:
            log.open.setdefault(client.producer_id, log.end)
        for index, record in enumerate(sent):
            if record.outcome == ACKED:
                record.offset = log.end + index
        log.sequences[key] = sequence + len(sent)
        self.grow(place, len(sent))

    def grow(self, place: Place, count: int) -> None:
        """The leader has so much more, then the followers, then the high watermark passes it."""
        log = self.logs[place]
        first, log.end = log.end, log.end + count
        stable = min(log.stable, first)
        for broker in (log.leader, *(each for each in log.in_sync if each != log.leader)):
            self.mark(place, broker, first, stable, log.end)
        self.mark(place, log.leader, log.end, log.stable, log.end)
        commits = self.chronicle.commits
        assert commits is not None
        commits.append(Committed(self.now, *place, log.leader, log.epoch, first, log.end, log.in_sync, (log.leader,)))

    def mark(self, place: Place, broker: int, high: int, stable: int, end: int) -> None:
        log = self.logs[place]
        marks = self.chronicle.watermarks
        assert marks is not None
        is_leader = broker == log.leader
        mark = Watermark(
            self.tick(),
            broker,
            self.starts[broker],
            *place,
            log.epoch,
            is_leader,
            high,
            stable if is_leader else high,
            end,
            log.start,
        )  # fmt: skip
        marks.append(mark)

    def tick(self) -> int:
        self.now += self.chance.randint(1, 50)
        return self.now

    def transact(self) -> None:
        """Begin a transaction, go on with the one that is open, or end it."""
        client = self.clients[self.chance.choice("xy")]
        open_ = client.transaction
        if open_ is None:
            number = len(self.chronicle.transactions)
            open_ = TransactionSeen(number, client.promise.producer, client.instance, began_us=self.tick())
            self.chronicle.transactions.append(open_)
            client.transaction, client.touched = open_, {}
        if self.chance.random() < 0.7 or not client.touched:
            place = self.chance.choice(list(self.logs))
            sent = [self.new_record(client, place, ACKED, open_.number) for _ in range(self.chance.randint(1, 3))]
            self.append(client, place, sent)
            client.touched.setdefault(place, []).extend(record.offset for record in sent)
            for record in sent:
                record.told_us = self.tick()
            return
        if open_.offsets is None and self.chance.random() < 0.4:
            stands = self.chance.randint(1, 1_000)
            open_.offsets, open_.offsets_taken = ("g-" + open_.producer, "b", 0, stands), True
        self.end(client, commits=self.chance.random() < 0.6)

    def end(self, client: Client, *, commits: bool, outcome: str | None = None) -> None:
        open_ = client.transaction
        assert open_ is not None
        if commits:
            open_.commit_asked, open_.commit_asked_us = True, self.tick()
        if self.chronicle.transaction_version >= 2 and outcome is not None:
            client.epoch += 1
        for place, offsets in client.touched.items():
            log = self.logs[place]
            marker = BatchSeen(
                log.end, log.end, log.epoch, client.producer_id, client.epoch, -1, True, True, commits, True, []
            )
            log.batches.append(marker)
            log.open.pop(client.producer_id, None)
            if not commits:
                log.aborted.update(offsets)
            self.grow(place, 1)
        if self.chronicle.transaction_version >= 2:
            client.epoch += 1
        open_.outcome = outcome or ("committed" if commits else "aborted")
        open_.ended_us = self.tick()
        if commits and open_.offsets is not None and open_.outcome != "aborted":
            group_offsets = self.chronicle.group_offsets
            assert group_offsets is not None
            group_offsets[open_.offsets[:3]] = open_.offsets[3]
        client.transaction, client.touched = None, {}

    def replace(self) -> None:
        """Another instance takes over: what the old one has open is aborted."""
        client = self.clients[self.chance.choice("xy")]
        if client.transaction is not None:
            self.end(client, commits=False, outcome=UNKNOWN)
        instances = self.chronicle.instances
        assert instances is not None
        next(each for each in reversed(instances) if each.producer == client.promise.producer).died_us = self.tick()
        client.instance += 1
        client.epoch += 1
        instances.append(InstanceSeen(client.promise.producer, client.instance, self.tick()))

    # ---- what else happens --------------------------------------------------------------------------------------

    def elect(self) -> None:
        """A broker is killed, and comes back in sync when others lead what it led."""
        broker = self.chance.choice(BROKERS)
        ends, roles = self.chronicle.broker_ends, self.chronicle.leaderships
        assert ends is not None
        assert roles is not None
        ends.append(BrokerEnd(self.tick(), broker, "kill", {}))
        self.starts[broker] += 1
        for place, log in self.logs.items():
            rest = tuple(each for each in log.in_sync if each != broker)
            if log.leader == broker:
                log.leader = self.chance.choice(rest)
            log.epoch += 1
            roles.append(Leadership(self.tick(), *place, log.leader, log.epoch, rest, False))
            self.mark(place, log.leader, log.end, log.stable, log.end)
            roles.append(Leadership(self.tick(), *place, log.leader, log.epoch, BROKERS, False))
            for each in BROKERS:
                if each != log.leader:
                    self.mark(place, each, log.end, log.stable, log.end)

    def delete(self) -> None:
        """Somebody asks for the first records of a partition to be deleted, below all that is open there."""
        place = self.chance.choice(list(self.logs))
        log = self.logs[place]
        borders = [each.base_offset for each in log.batches if log.start < each.base_offset <= log.stable]
        if not borders:
            return
        log.start = self.chance.choice(borders)
        self.chronicle.deletions.append(RecordsDeleted(self.tick(), *place, log.start))
        log.batches = [each for each in log.batches if each.base_offset >= log.start]
        for broker in BROKERS:
            self.mark(place, broker, log.end, log.stable, log.end)

    def read(self) -> None:
        place = self.chance.choice(list(self.logs))
        level = self.chance.choice((COMMITTED, UNCOMMITTED))
        self.take_round(f"reader {level}", place, level)

    def take_round(self, reader: str, place: Place, level: str, *, is_final: bool = False) -> None:
        log = self.logs[place]
        end = log.stable if level == COMMITTED else log.end
        records = [
            seen(record.number, record.offset)
            for batch in log.batches
            if not batch.is_control
            for record in batch.records
            if record.offset < end and not (level == COMMITTED and record.offset in log.aborted)
        ]
        began = self.tick()
        self.chronicle.reads.append(
            ReadSeen(reader, level, *place, began, self.tick(), log.start, end, records, is_final=is_final)
        )

    def finish(self) -> None:
        for client in self.clients.values():
            if client.transaction is not None:
                self.end(client, commits=self.chance.random() < 0.5)
        self.now = max(self.now, self.chronicle.first_fault_us)
        self.chronicle.healed_us = self.tick()
        replicas = self.chronicle.replicas
        assert replicas is not None
        for place, log in self.logs.items():
            for level in (UNCOMMITTED, COMMITTED):
                self.take_round("final", place, level, is_final=True)
            for broker in BROKERS:
                batches = [copied(batch) for batch in log.batches]
                replicas.append(ReplicaSeen(broker, *place, log.start, log.end, log.end, hash(place), batches))
        self.chronicle.ended_us = self.tick()


def seen(number: int, offset: int) -> RecordSeen:
    """A record as it was sent."""
    return RecordSeen(offset, number, 10_000 + number, 20_000 + number, 1_000_000 + number, 30_000 + number)


def copied(batch: BatchSeen) -> BatchSeen:
    """A batch of one replica alone."""
    return BatchSeen(
        batch.base_offset, batch.last_offset, batch.leader_epoch, batch.producer_id, batch.producer_epoch,
        batch.base_sequence, batch.is_transactional, batch.is_control, batch.commits, batch.crc_is_right,
        list(batch.records),
    )  # fmt: skip
