"""A chronicle in the form that checkers need: what belongs to one partition, producer or transaction is kept together.

It is built once for a run, so that no checker goes through the whole run to find its part. Nothing is decided here but
which read shows the end of a partition: the last final one that reached the end it was told.
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
from ottla.audit.chronicles.durability import FOREVER, TRANSACTION_LOG, Durability
from ottla.audit.chronicles.late_ends import excuse_late_commit
from ottla.audit.chronicles.readings import Readings
from ottla.audit.chronicles.reused_epochs import excuse_commit_of_another, excuse_joining, excuse_reused_epoch

Place = tuple[str, int]
UNCOMMITTED, COMMITTED = "read_uncommitted", "read_committed"


class Case:
    """What a checker is given. `places` are all partitions of all topics promised; None lists stay None.

    `roles`, `marks`, `commits` are in the order of time; `logs` holds one replica per different content, the last
    leader's first, where there is anything; `final` the read that shows the end, by isolation level and partition.
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
        self.of_instance: dict[tuple[str, int], list[TransactionSeen]] = {}
        for each in chronicle.transactions:
            self.of_instance.setdefault((each.producer, each.instance), []).append(each)
        self._standing: dict[Place, dict[int, list[int]]] = {}
        self._deleted: dict[Place, int] = {}
        for deletion in chronicle.deletions:
            place = deletion.topic, deletion.partition
            self._deleted[place] = max(deletion.before_offset, self._deleted.get(place, 0))
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
        self.durability = Durability(self.topics, self.roles, self.marks, self.commits, chronicle.broker_ends)
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

        A hanging transaction ends it early; the checker `hanging` reports that.
        """
        read = self.final.get((COMMITTED, place))
        return None if read is None or self.cleans_up(place) else read.end

    def excuse_transaction(self, transaction: TransactionSeen, until_us: int = FOREVER) -> str | None:
        """What may have taken markers, or what the coordinator stored of this transaction, before it was seen."""
        since_us = transaction.began_us
        why = self.durability.excuse_topic(TRANSACTION_LOG, since_us, until_us)
        for record in self.of_transaction.get(transaction.number, ()) if why is None else ():
            why = why or self.durability.excuse_read((record.topic, record.partition), -1, since_us, until_us)
        return why

    def excuse_shown(self, transaction: TransactionSeen, place: Place, offset: int, until_us: int) -> str | None:
        """Why another marker than its own made the record of this transaction at an offset visible by then."""
        return (
            excuse_late_commit(self, transaction)
            or self.excuse_transaction(transaction, until_us)
            or excuse_joining(self, place, offset, transaction.began_us)
            or excuse_commit_of_another(self, transaction)
        )

    def deleted_before(self, place: Place) -> int:
        """Up to where somebody asked for a partition's records to be deleted; 0 where nobody did."""
        return self._deleted.get(place, 0)

    def standing(self, place: Place) -> dict[int, list[int]]:
        """Record number -> the offsets at which it lies in the last leader's log of a partition."""
        found = self._standing.get(place)
        if found is None:
            found = self._standing[place] = {}
            for batch in self.logs[place][0].batches if place in self.logs else ():
                for record in batch.records:
                    found.setdefault(record.number, []).append(record.offset)
        return found

    def transactions_of(self, number: int) -> list[TransactionSeen] | None:
        """The transactions in which a record was sent; None where it was also sent outside of any, or never."""
        found = [self.transactions.get(record.transaction) for record in self.sent.get(number, ())]
        return None if not found or None in found else [each for each in found if each is not None]

    def excuse(self, record: SentRecord) -> str | None:
        """What took this acknowledged record away; None if nothing did that excuses its loss."""
        promise = self.producers.get(record.producer)
        place = record.topic, record.partition
        if 0 <= record.offset < self.deleted_before(place):
            return "its deletion was asked for"
        if promise is not None and promise.acks == 1:
            why = self.durability.excuse_unreplicated(record, self._epoch_at(place, record.offset))
            if why is not None:
                return why
        return self.durability.excuse(place, record.offset, record.sent_us) or excuse_reused_epoch(self, record)

    def _epoch_at(self, place: Place, offset: int) -> int | None:
        """The leader epoch of the batch at an offset in the last leader's log; None if no batch is there."""
        batches = self.logs[place][0].batches if place in self.logs else ()
        return next((each.leader_epoch for each in batches if each.base_offset <= offset <= each.last_offset), None)

    def _different(self, place: Place, replicas: list[ReplicaSeen]) -> list[ReplicaSeen]:
        leader = self.roles[place][-1].leader if self.roles.get(place) else -1
        kept: dict[int, ReplicaSeen] = {}
        for replica in sorted(replicas, key=lambda each: (each.broker_id != leader, -_end_of(each), each.broker_id)):
            if replica.batches:
                kept.setdefault(replica.bytes_crc, replica)
        return list(kept.values())


def _end_of(replica: ReplicaSeen) -> int:
    return replica.batches[-1].last_offset + 1 if replica.batches else 0
