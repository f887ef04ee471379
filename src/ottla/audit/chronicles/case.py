"""A chronicle laid out for its checkers: what belongs to one partition, producer or transaction stands together.

Built once a judgement, so that no checker walks the whole run to find its part. Nothing is decided here but which read
speaks for the end of a partition: the last final one that reached the end it was told.
"""

from __future__ import annotations

from ottla.audit.chronicles.chronicle import (
    Chronicle,
    Committed,
    Leadership,
    ReadSeen,
    ReplicaSeen,
    SentRecord,
    TransactionSeen,
    Watermark,
)
from ottla.audit.chronicles.durability import TRANSACTION_LOG, DurabilityLedger
from ottla.audit.chronicles.readings import Readings
from ottla.audit.chronicles.reused_epochs import excuse_joining, excuse_reused_epoch

Place = tuple[str, int]
UNCOMMITTED, COMMITTED = "read_uncommitted", "read_committed"


class Case:
    """What a checker is given. `places` are all partitions of all topics promised; None lists stay None.

    `roles`, `marks`, `commits` are in the order of time; `logs` holds one replica per different content, the last
    leader's first, where there is anything; `final` the read that speaks for the end, by isolation level and partition.
    """

    def __init__(self, chronicle: Chronicle) -> None:
        self.chronicle = chronicle
        self.topics = {topic.topic: topic for topic in chronicle.topics}
        self.producers = {promise.producer: promise for promise in chronicle.producers}
        self.places: list[Place] = [(t.topic, index) for t in chronicle.topics for index in range(t.partitions)]
        self.sent: dict[int, list[SentRecord]] = {}
        self.sent_to: dict[Place, list[SentRecord]] = {}
        self.of_transaction: dict[int, list[SentRecord]] = {}
        for record in chronicle.sent:
            self.sent.setdefault(record.number, []).append(record)
            self.sent_to.setdefault((record.topic, record.partition), []).append(record)
            if record.transaction >= 0:
                self.of_transaction.setdefault(record.transaction, []).append(record)
        self.transactions: dict[int, TransactionSeen] = {each.number: each for each in chronicle.transactions}
        first: dict[tuple[str, int], int] = {}
        for each in chronicle.transactions:
            first.setdefault((each.producer, each.instance), each.number)
        self.first_transactions = dict.fromkeys(first.values())
        self.final: dict[tuple[str, Place], ReadSeen] = {
            (read.isolation_level, (read.topic, read.partition)): read
            for read in chronicle.reads
            if read.is_final and read.error is None and read.end >= 0
        }
        self.roles: dict[Place, list[Leadership]] = {}
        for role in chronicle.leaderships or ():
            self.roles.setdefault((role.topic, role.partition), []).append(role)
        self.marks: dict[Place, list[Watermark]] = {}
        for mark in chronicle.watermarks or ():
            self.marks.setdefault((mark.topic, mark.partition), []).append(mark)
        self.commits: dict[Place, list[Committed]] = {}
        for commit in chronicle.commits or ():
            self.commits.setdefault((commit.topic, commit.partition), []).append(commit)
        self.replicas: dict[Place, list[ReplicaSeen]] = {}
        for replica in chronicle.replicas or ():
            self.replicas.setdefault((replica.topic, replica.partition), []).append(replica)
        different = {place: self._different(place, found) for place, found in self.replicas.items()}
        self.logs = {place: logs for place, logs in different.items() if logs}
        self.ledger = DurabilityLedger(self.topics, self.roles, self.marks, self.commits, chronicle.broker_ends)
        self.readings = Readings(chronicle.reads)

    @property
    def is_settled(self) -> bool:
        """Whether the run came to its end."""
        return self.chronicle.ended_us >= 0

    @property
    def is_redelivered(self) -> bool:
        """Whether the network has delivered requests twice, or may have: a run cut short does not say."""
        return self.chronicle.is_cut_short or self.chronicle.redeliveries > 0

    def cleans_up(self, place: Place) -> bool:
        """Whether records may go from there by retention, compaction or deletion."""
        topic = self.topics.get(place[0])
        return topic is not None and topic.cleanup

    def shown_end(self, place: Place) -> int | None:
        """Up to where the final read with read_committed could see; None where it failed, or records go by themselves.

        A hanging transaction holds it up, and whoever asks for that is `hanging`.
        """
        read = self.final.get((COMMITTED, place))
        return None if read is None or self.cleans_up(place) else read.end

    def excuse_transaction(self, transaction: TransactionSeen) -> str | None:
        """What took markers, or the coordinator's memory of this transaction, away, if anything did that may."""
        why = self.excuse_late_end(transaction) or self.ledger.excuse_topic(TRANSACTION_LOG, transaction.began_us)
        for record in self.of_transaction.get(transaction.number, ()) if why is None else ():
            why = why or self.ledger.excuse_read((record.topic, record.partition), -1, transaction.began_us)
        return why

    def excuse_late_end(self, transaction: TransactionSeen) -> str | None:
        """What may have ended it but the request that was to.

        Before each transaction had an epoch of its own (KIP-890), a request to end one, or to write its markers, that
        comes late, when its sender has asked again and been answered, ends the next one of the same instance, and so it
        does with Kafka.
        """
        if self.chronicle.transaction_version < 2 and transaction.number not in self.first_transactions:
            return "a late request to end the transaction before it, which transaction version 1 cannot tell apart"
        return None

    def excuse_shown(self, transaction: TransactionSeen, place: Place, offset: int) -> str | None:
        """What made another marker than its own decide for the record of this transaction that lies at an offset."""
        return self.excuse_transaction(transaction) or excuse_joining(self, place, offset, transaction.began_us)

    def transactions_of(self, number: int) -> list[TransactionSeen] | None:
        """The transactions in which a record was sent; None where it was also sent outside of any, or never."""
        found = [self.transactions.get(record.transaction) for record in self.sent.get(number, ())]
        return None if not found or None in found else [each for each in found if each is not None]

    def excuse(self, record: SentRecord) -> str | None:
        """What took this acknowledged record away, if anything did that may."""
        promise = self.producers.get(record.producer)
        place = record.topic, record.partition
        if (
            promise is not None
            and promise.acks == 1
            and len({role.leader_epoch for role in self.roles.get(place, ())}) > 1
        ):
            return "another leader came before the followers had it, and acks=1 does not wait for them"
        return self.ledger.excuse(place, record.offset, record.sent_us) or excuse_reused_epoch(self, record)

    def _different(self, place: Place, replicas: list[ReplicaSeen]) -> list[ReplicaSeen]:
        leader = self.roles[place][-1].leader if self.roles.get(place) else -1
        kept: dict[int, ReplicaSeen] = {}
        for replica in sorted(replicas, key=lambda each: (each.broker_id != leader, -_end_of(each), each.broker_id)):
            if replica.batches:
                kept.setdefault(replica.bytes_crc, replica)
        return list(kept.values())


def _end_of(replica: ReplicaSeen) -> int:
    return replica.batches[-1].last_offset + 1 if replica.batches else 0
