"""Failed without a cause: nothing had gone wrong, and a record or a commit failed all the same.

Promise: as long as nothing goes wrong, every record is acknowledged and every commit that is asked for is granted. All
other checkers pass a cluster that refuses everything: what failed is not stored, and nothing is stuck.

Judged are outcomes from before the first fault was due and the first broker went down. If nothing happened that Kafka
does not survive without a sync, outcomes are judged again that began long enough after all faults had ended. For an
instance this ends when its process ends or when another one takes over. The next instance is judged only long after the
one before has ended: until then requests of the earlier one may come, and the question to the coordinator that such a
request causes keeps batches of the next instance out. Where the network delivered requests twice, a transactional
instance that began before all faults had ended is not judged again: a second InitProducerId raises its epoch at the
coordinator, and the instance does not learn of it.

Not judged: records with acks=0, which get no answer; records of transactions whose commit was never asked for;
transactions that were open for longer than `transaction.timeout.ms`; records that had no answer within
`delivery.timeout.ms` from brokers that need time. Not judged either: with transaction version 1, records of a
transactional producer that has stored nothing in their partition for `producer.id.expiration.ms`. The partition has
forgotten the producer by then. All that it knows of the producer afterwards is the marker of a transaction that stored
nothing there, and the next sequence number is out of order; Apache Kafka's brokers do the same. Nor records without
retries whose partition got another leader since the producer's last record there was acknowledged: the next request
goes to the former leader. Nor records without a key for a compacted topic, which brokers refuse, and what fails with
them: the other records of their batch and of their transaction, and its commit. A commit that has no answer is for the
checker `liveness`.

Not observable: runs whose faults began at unknown times, and runs in which it is not known whether producers died.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ottla.audit.chronicles.case import Case
from ottla.audit.chronicles.chronicle import InstanceSeen, ProducerPromise, SentRecord, TransactionSeen
from ottla.audit.chronicles.durability import FOREVER
from ottla.audit.findings import EVIDENCE_MAX, UNCAUSED, Finding, Findings
from ottla.ledger.schema import ACKED, FAILED, NO_CRC

# So long after something is over nothing of it is left: sessions of idle brokers take two minutes to end.
RECOVERED_US = 300_000_000


def check_failures(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Records and commits that failed while nothing was wrong."""
    found = Findings(UNCAUSED, evidence_max)
    if case.chronicle.instances is None:
        found.not_seen("which producers died or were replaced before something failed")
    elif case.chronicle.faults and case.chronicle.first_fault_us < 0:
        found.not_seen("what failed before the first fault (the time of that is not known)")
    else:
        calm = _Calm(case)
        late = _check_records(case, calm, found)
        _check_commits(case, calm, late, found)
    return found.finding()


def _check_records(case: Case, calm: _Calm, found: Findings) -> dict[int, None]:
    """Returns the transactions that may fail because one of their records may."""
    late: dict[int, None] = {}
    refused = [record for record in case.chronicle.sent if _is_refused_without_key(case, record)]
    unkeyed = dict.fromkeys(map(_batch_of, refused))
    unkeyed_transactions = dict.fromkeys(record.transaction for record in refused if record.transaction >= 0)
    for record in case.chronicle.sent:
        promise = case.producers.get(record.producer)
        if promise is None or not promise.acks or record.outcome == ACKED or record.told_us < 0:
            continue
        transaction = case.transactions.get(record.transaction)
        if record.transaction >= 0 and (transaction is None or transaction.commit_asked_us < 0):
            continue
        began_us = record.sent_us if transaction is None else transaction.began_us
        if not calm.holds(record.producer, record.instance, began_us, record.told_us):
            continue
        if _batch_of(record) in unkeyed or record.transaction in unkeyed_transactions:
            late[record.transaction] = None
            found.tally("failed as a record without a key was sent to a compacted topic")
            continue
        if _is_forgotten(case, record):
            late[record.transaction] = None
            found.tally("failed as its partition had forgotten the producer")
            continue
        if _is_out_of_time(case, promise, record) or _is_open_too_long(promise, transaction, record.told_us):
            late[record.transaction] = None
            found.tally("failed for lack of time")
            continue
        if promise.retries == 0 and _is_led_anew(case, record):
            found.tally("failed without retries as another broker leads its partition")
            continue
        found.add(
            f"record {record.number} of {record.producer} is {record.outcome}, and nothing had gone wrong: "
            f"{record.error}",
            place=(record.topic, record.partition),
            number=record.number,
            at_us=record.told_us,
        )
    return late


def _is_refused_without_key(case: Case, record: SentRecord) -> bool:
    topic = case.topics.get(record.topic)
    return record.key_crc == NO_CRC and record.outcome == FAILED and topic is not None and topic.is_compacted


def _batch_of(record: SentRecord) -> tuple[str, int, str, int, int]:
    """The same for records of one batch that was refused: all of them are told of at once."""
    return record.producer, record.instance, record.topic, record.partition, record.told_us


def _is_forgotten(case: Case, record: SentRecord) -> bool:
    if record.transaction < 0 or case.chronicle.transaction_version >= 2:
        return False
    stored_us = [each.told_us for each in _stored_before(case, record)]
    return bool(stored_us) and record.told_us - max(stored_us) > case.chronicle.producer_id_expiration_ms * 1000


def _stored_before(case: Case, record: SentRecord) -> Iterator[SentRecord]:
    """What the same instance was told to be stored in the same partition before it sent this record."""
    place = record.producer, record.instance, record.topic, record.partition
    for each in case.chronicle.sent:
        is_same = (each.producer, each.instance, each.topic, each.partition) == place
        if is_same and each.outcome == ACKED and each.told_us < record.sent_us:
            yield each


def _is_led_anew(case: Case, record: SentRecord) -> bool:
    """Whether the leader changed since the producer heard last that it asks the right one."""
    place = record.topic, record.partition
    known_us = max((each.told_us for each in _stored_before(case, record)), default=-1)
    roles = case.roles.get(place, ())
    return any(
        role.leader != before.leader and known_us <= role.at_us <= record.told_us
        for before, role in itertools.pairwise(roles)
    )


def _check_commits(case: Case, calm: _Calm, late: dict[int, None], found: Findings) -> None:
    for each in case.chronicle.transactions:
        promise = case.producers.get(each.producer)
        if promise is None or each.commit_asked_us < 0 or each.outcome == "committed" or each.ended_us < 0:
            continue
        if each.number in late or not calm.holds(each.producer, each.instance, each.began_us, each.ended_us):
            continue
        if _is_open_too_long(promise, each, each.ended_us):
            found.tally("failed for lack of time")
            continue
        found.add(
            f"transaction {each.number} of {each.producer} was to be committed and is {each.outcome}, and nothing had "
            "gone wrong",
            at_us=each.ended_us,
        )


class _Calm:
    """When nothing was wrong, for each instance of a producer."""

    def __init__(self, case: Case) -> None:
        self._stretches = _stretches(case)
        self._lives: dict[tuple[str, int], tuple[int, int]] = {}
        instances: dict[tuple[str, bool], list[InstanceSeen]] = {}
        for each in case.chronicle.instances or ():
            instances.setdefault(_identity(case, each.producer), []).append(each)
        for (_, is_transactional), same in instances.items():
            for own in same:
                ends_us = [_end_us(own)]
                ends_us += [each.born_us for each in same if each is not own and each.born_us >= own.born_us]
                if is_transactional and case.is_redelivered and own.born_us < case.chronicle.healed_us:
                    ends_us.append(case.chronicle.healed_us)
                before_us = [_end_us(each) for each in same if each.born_us < own.born_us]
                self._lives[own.producer, own.instance] = max(before_us, default=-RECOVERED_US), min(ends_us)

    def holds(self, producer: str, instance: int, began_us: int, told_us: int) -> bool:
        """Whether nothing was wrong from the one moment to the other."""
        life = self._lives.get((producer, instance))
        if life is None or began_us < life[0] + RECOVERED_US or told_us >= life[1]:
            return False
        return any(begin_us <= began_us and told_us < end_us for begin_us, end_us in self._stretches)


def _identity(case: Case, producer: str) -> tuple[str, bool]:
    """The name by which a coordinator, or else the application, knows a producer."""
    promise = case.producers.get(producer)
    of_coordinator = None if promise is None else promise.transactional_id
    return (producer, False) if of_coordinator is None else (of_coordinator, True)


def _end_us(instance: InstanceSeen) -> int:
    return instance.died_us if instance.died_us >= 0 else FOREVER


def _stretches(case: Case) -> list[tuple[int, int]]:
    chronicle = case.chronicle
    disturbed_us = [each.at_us for each in chronicle.broker_ends or ()]
    if chronicle.first_fault_us >= 0:
        disturbed_us.append(chronicle.first_fault_us)
    if not disturbed_us:
        return [(0, FOREVER)]
    calm = [(0, min(disturbed_us))]
    if chronicle.severity == "mild" and chronicle.healed_us >= max(disturbed_us):
        calm.append((chronicle.healed_us + RECOVERED_US, FOREVER))
    return calm


def _is_out_of_time(case: Case, promise: ProducerPromise, record: SentRecord) -> bool:
    """Whether brokers may have been too slow: where the list of requests is empty, all answered at once."""
    if case.chronicle.produced == [] or promise.delivery_timeout_ms < 0:
        return False
    return record.told_us - record.sent_us >= promise.delivery_timeout_ms * 1000


def _is_open_too_long(promise: ProducerPromise, transaction: TransactionSeen | None, told_us: int) -> bool:
    """Whether its coordinator may have aborted the transaction by then."""
    return transaction is not None and told_us - transaction.began_us >= promise.transaction_timeout_ms * 1000
