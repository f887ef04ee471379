"""Nothing stuck, late or failed without cause: what fails while nothing is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.audit.scene import Scene

from ottla.audit.chronicles.chronicle import InstanceSeen, Leadership, ProducerPromise, ProduceSeen
from ottla.audit.chronicles.failures import RECOVERED_US, check_failures
from ottla.audit.findings import Finding
from ottla.ledger.schema import NO_CRC

ERROR = "INVALID_TXN_STATE: the record was not part of an ongoing transaction"


def fail(scene: Scene, number: int = 1, outcome: str = "failed") -> None:
    record = scene.record(number)
    record.outcome, record.offset, record.error = outcome, -1, ERROR


def found(scene: Scene) -> Finding:
    return scene.ask(check_failures)


# ---- records --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["failed", "unknown"])
def test_a_record_that_was_not_acknowledged_though_nothing_was_wrong_is_found(scene: Scene, outcome: str) -> None:
    assert found(scene).passed
    fail(scene, outcome=outcome)
    (piece,) = found(scene).evidence
    assert piece.detail == f"record 1 of p is {outcome}, and nothing had gone wrong: {ERROR}"
    assert (piece.topic, piece.partition, piece.sequence, piece.at_us) == ("t", 0, 1, 2_000)


def test_in_a_run_without_faults_it_is_found_at_any_time(scene: Scene) -> None:
    scene.chronicle.faults, scene.chronicle.first_fault_us = [], -1
    fail(scene)
    scene.record(1).sent_us, scene.record(1).told_us = 8_000, 8_500
    assert found(scene).count == 1


@pytest.mark.parametrize("first_fault_us", [-1, 5_000])
def test_what_failed_at_the_very_beginning_is_found(scene: Scene, first_fault_us: int) -> None:
    scene.chronicle.first_fault_us = first_fault_us
    scene.chronicle.faults = []
    fail(scene)
    scene.record(1).sent_us = scene.record(1).told_us = 0
    transaction = scene.chronicle.transactions[0]
    transaction.outcome = "aborted"
    transaction.began_us = transaction.commit_asked_us = transaction.ended_us = 0
    assert found(scene).count == 2


def test_without_acks_nobody_answers(scene: Scene) -> None:
    fail(scene, outcome="unknown")
    scene.chronicle.producers[0] = ProducerPromise("p", 0, False)
    assert found(scene).passed


@pytest.mark.parametrize(
    ("retries", "new_leader", "at_us", "count"),
    [
        (0, 1, 1_500, 0),
        (0, 1, 2_000, 0),
        (0, 0, 1_500, 1),
        (0, 1, 900, 1),
        (0, 1, 2_001, 1),
        (1, 1, 1_500, 1),
        (-1, 1, 1_500, 1),
    ],
)
def test_without_retries_a_new_leader_is_a_cause(
    scene: Scene, retries: int, new_leader: int, at_us: int, count: int
) -> None:
    fail(scene)
    scene.record(0).sent_us, scene.record(0).told_us = 800, 950
    scene.chronicle.producers[0] = replace(scene.chronicle.producers[0], retries=retries)
    scene.chronicle.leaderships.append(Leadership(at_us, "t", 0, new_leader, 1, (0, 1, 2), False))
    assert found(scene).count == count


def test_a_record_that_was_never_told_of_has_not_failed(scene: Scene) -> None:
    fail(scene, outcome="unknown")
    scene.record(1).told_us = -1
    assert found(scene).passed


@pytest.mark.parametrize("cause", ["fault", "broker"])
@pytest.mark.parametrize(("at_us", "count"), [(2_000, 0), (2_001, 1)])
def test_what_goes_wrong_excuses_what_was_told_since(scene: Scene, cause: str, at_us: int, count: int) -> None:
    fail(scene)
    if cause == "fault":
        scene.chronicle.first_fault_us = at_us
    else:
        scene.fall(at_us, 1, "kill")
    assert found(scene).count == count


@pytest.mark.parametrize(("at_us", "count"), [(2_000, 0), (2_001, 1)])
def test_a_producer_that_dies_or_is_replaced_may_fail(scene: Scene, at_us: int, count: int) -> None:
    fail(scene)
    instances = scene.chronicle.instances
    instances[0].died_us = at_us
    assert found(scene).count == count
    instances[0].died_us = -1
    instances.append(InstanceSeen("p", 2, at_us))
    assert found(scene).count == count


@pytest.mark.parametrize(("transactional_id", "count"), [("tx", 0), ("another", 2), (None, 2)])
def test_another_producer_takes_over_by_the_same_transactional_id_alone(
    scene: Scene, transactional_id: str | None, count: int
) -> None:
    fail(scene, 10)
    scene.chronicle.transactions[0].outcome = "aborted"
    scene.chronicle.producers.append(ProducerPromise("tx", -1, True, transactional_id))
    scene.chronicle.instances.append(InstanceSeen("tx", 1, 3_000))
    assert found(scene).count == count


@pytest.mark.parametrize(("died_us", "count"), [(90, 1), (91, 0), (-1, 0)])
def test_requests_of_the_instance_before_may_disturb_the_next_one_for_some_time(
    scene: Scene, died_us: int, count: int
) -> None:
    scene.chronicle.faults, scene.chronicle.first_fault_us = [], -1
    fail(scene)
    record = scene.record(1)
    record.sent_us, record.told_us = 90 + RECOVERED_US, 95 + RECOVERED_US
    scene.chronicle.instances.insert(0, InstanceSeen("p", 0, 50, died_us))
    assert found(scene).count == count


def test_the_last_one_that_was_there_before_counts(scene: Scene) -> None:
    scene.chronicle.faults, scene.chronicle.first_fault_us = [], -1
    fail(scene)
    record = scene.record(1)
    record.sent_us, record.told_us = 90 + RECOVERED_US, 95 + RECOVERED_US
    scene.chronicle.instances[:0] = [InstanceSeen("p", -1, 20, 40), InstanceSeen("p", 0, 50, 91)]
    assert found(scene).passed


def test_two_that_were_born_at_once_disturb_each_other(scene: Scene) -> None:
    fail(scene)
    scene.chronicle.instances.append(InstanceSeen("p", 2, 100))
    assert found(scene).passed


def test_who_died_at_the_very_beginning_has_died(scene: Scene) -> None:
    fail(scene)
    scene.chronicle.instances[0].died_us = 0
    assert found(scene).passed


def test_an_instance_that_nobody_saw_is_not_judged(scene: Scene) -> None:
    fail(scene)
    scene.record(1).instance = 7
    assert found(scene).passed


# ---- after the faults -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("severity", "early_us", "count"), [("mild", 0, 1), ("mild", 1, 0), ("severe", 0, 0)])
def test_what_begins_long_after_all_was_healed_is_held_again_where_no_power_failed(
    scene: Scene, severity: str, early_us: int, count: int
) -> None:
    fail(scene)
    scene.chronicle.severity = severity
    record = scene.record(1)
    record.sent_us = scene.chronicle.healed_us + RECOVERED_US - early_us
    record.told_us = record.sent_us + 1_000
    assert found(scene).count == count


def test_a_run_that_was_never_healed_is_not_held_again(scene: Scene) -> None:
    fail(scene)
    scene.chronicle.healed_us = 0
    record = scene.record(1)
    record.sent_us = RECOVERED_US
    record.told_us = record.sent_us + 1_000
    assert found(scene).passed


def test_a_broker_that_fell_when_all_was_healed_excuses_too(scene: Scene) -> None:
    fail(scene)
    record = scene.record(1)
    record.sent_us = scene.chronicle.healed_us + RECOVERED_US
    record.told_us = record.sent_us + 1_000
    scene.fall(scene.chronicle.healed_us + 1, 1, "kill")
    assert found(scene).passed


def test_a_transaction_that_began_before_may_still_fail(scene: Scene) -> None:
    fail(scene, 10)
    record, transaction = scene.record(10), scene.chronicle.transactions[0]
    transaction.outcome = "aborted"
    record.sent_us = scene.chronicle.healed_us + RECOVERED_US
    record.told_us = transaction.ended_us = record.sent_us + 1_000
    assert found(scene).passed
    transaction.began_us = record.sent_us
    assert found(scene).count == 2


def compact(scene: Scene, *unkeyed: int) -> None:
    """The topic is compacted, and these records have no key."""
    scene.chronicle.topics[0] = replace(scene.chronicle.topics[0], cleanup=True, is_compacted=True)
    for number in unkeyed:
        scene.record(number).key_crc = NO_CRC


def test_a_compacted_topic_refuses_a_record_without_a_key_with_its_batch(scene: Scene) -> None:
    fail(scene, 1)
    fail(scene, 2)
    compact(scene, 1)
    assert found(scene).passed
    assert dict(found(scene).tallies) == {"failed as a record without a key was sent to a compacted topic": 2}
    scene.record(2).told_us += 1  # another batch
    assert [piece.sequence for piece in found(scene).evidence] == [2]


@pytest.mark.parametrize(("is_compacted", "unkeyed"), [(False, (1,)), (True, ()), (True, (2,))])
def test_without_a_refused_record_without_a_key_a_failure_has_no_cause(
    scene: Scene, is_compacted: bool, unkeyed: tuple[int, ...]
) -> None:
    fail(scene, 1)
    compact(scene, *unkeyed)
    scene.chronicle.topics[0] = replace(scene.chronicle.topics[0], is_compacted=is_compacted)
    assert [piece.sequence for piece in found(scene).evidence] == [1]


def test_a_record_without_a_key_takes_its_transaction_with_it(scene: Scene) -> None:
    fail(scene, 10)
    fail(scene, 11)
    scene.record(11).told_us += 1
    scene.chronicle.transactions[0].outcome = "aborted"
    assert found(scene).count == 3
    compact(scene, 10)
    assert found(scene).passed
    scene.record(10).outcome = "acked"
    assert found(scene).count == 2


# ---- transactions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["aborted", "unknown"])
def test_a_commit_that_is_not_granted_though_nothing_was_wrong_is_found(scene: Scene, outcome: str) -> None:
    scene.chronicle.transactions[0].outcome = outcome
    # Its producer takes back that it asked, as it asks for an abort then.
    scene.chronicle.transactions[0].commit_asked = False
    (piece,) = found(scene).evidence
    assert piece.detail == f"transaction 0 of x was to be committed and is {outcome}, and nothing had gone wrong"
    assert piece.at_us == 3_900


def test_a_record_of_a_transaction_that_was_to_be_committed_is_held(scene: Scene) -> None:
    fail(scene, 10)
    assert [piece.sequence for piece in found(scene).evidence] == [10]


def test_records_of_a_transaction_that_nobody_asked_to_commit_may_be_left_out(scene: Scene) -> None:
    fail(scene, 12)
    assert found(scene).passed
    fail(scene, 10)
    scene.chronicle.transactions[0].commit_asked_us = -1
    assert found(scene).passed


def test_a_commit_asked_for_at_the_very_beginning_was_asked_for(scene: Scene) -> None:
    fail(scene, 10)
    transaction = scene.chronicle.transactions[0]
    transaction.outcome, transaction.commit_asked_us = "aborted", 0
    assert found(scene).count == 2


def test_a_commit_without_an_answer_was_not_refused(scene: Scene) -> None:
    transaction = scene.chronicle.transactions[0]
    transaction.outcome, transaction.ended_us = "unknown", -1
    assert found(scene).passed


@pytest.mark.parametrize(("at_us", "count"), [(3_900, 0), (3_901, 1)])
def test_a_commit_may_fail_when_something_goes_wrong(scene: Scene, at_us: int, count: int) -> None:
    scene.chronicle.transactions[0].outcome = "aborted"
    scene.chronicle.first_fault_us = at_us
    assert found(scene).count == count
    scene.chronicle.first_fault_us = 5_000
    scene.chronicle.instances[1].died_us = at_us
    assert found(scene).count == count


@pytest.mark.parametrize(("took_us", "count"), [(1_999, 2), (2_000, 0)])
def test_a_transaction_that_is_open_for_too_long_is_aborted_by_its_coordinator(
    scene: Scene, took_us: int, count: int
) -> None:
    scene.chronicle.producers[1] = replace(scene.chronicle.producers[1], transaction_timeout_ms=2)
    transaction = scene.chronicle.transactions[0]
    transaction.outcome, transaction.ended_us = "aborted", transaction.began_us + took_us
    finding = found(scene)
    assert finding.count == bool(count)
    assert finding.tallies == (() if count else (("failed for lack of time", 1),))
    fail(scene, 10)
    scene.record(10).told_us = transaction.ended_us
    assert found(scene).count == count


# ---- busy brokers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("took_us", "count"), [(999, 2), (1_000, 0)])
@pytest.mark.parametrize("is_seen", [True, False], ids=["requests seen", "requests not seen"])
def test_brokers_that_need_time_may_be_too_slow(scene: Scene, took_us: int, count: int, is_seen: bool) -> None:
    fail(scene, 10)
    scene.chronicle.transactions[0].outcome = "aborted"
    scene.chronicle.producers[1] = replace(scene.chronicle.producers[1], delivery_timeout_ms=1)
    scene.chronicle.produced = [ProduceSeen("x", 0, 3_000, 3_001)] if is_seen else None
    scene.record(10).sent_us, scene.record(10).told_us = 2_900, 2_900 + took_us
    finding = found(scene)
    assert finding.count == count
    assert finding.tallies == (() if count else (("failed for lack of time", 1),))


def test_a_late_record_outside_of_transactions_excuses_no_commit(scene: Scene) -> None:
    fail(scene)
    scene.chronicle.producers[0] = replace(scene.chronicle.producers[0], delivery_timeout_ms=1)
    scene.chronicle.produced = None
    scene.chronicle.transactions[0].outcome = "aborted"
    assert [piece.detail[:13] for piece in found(scene).evidence] == ["transaction 0"]


def test_brokers_that_answer_at_once_are_never_too_slow(scene: Scene) -> None:
    fail(scene)
    scene.chronicle.producers[0] = replace(scene.chronicle.producers[0], delivery_timeout_ms=1)
    assert found(scene).count == 1


def test_a_delivery_timeout_that_nobody_told_excuses_nothing(scene: Scene) -> None:
    fail(scene)
    scene.chronicle.producers[0] = replace(scene.chronicle.producers[0], delivery_timeout_ms=-1)
    scene.chronicle.produced = None
    assert found(scene).count == 1


# ---- what was not seen ----------------------------------------------------------------------------------------------


def test_who_saw_no_producer_die_cannot_say(scene: Scene) -> None:
    fail(scene)
    scene.chronicle.instances = None
    finding = found(scene)
    assert not finding.count
    assert finding.unseen == ("which producers died or were replaced before something failed",)


def test_who_does_not_know_when_faults_began_cannot_say(scene: Scene) -> None:
    fail(scene)
    scene.chronicle.first_fault_us = -1
    finding = found(scene)
    assert not finding.count
    assert finding.unseen == ("what failed before the first fault (the time of that is not known)",)


def test_a_fault_at_the_very_beginning_is_known(scene: Scene) -> None:
    fail(scene)
    scene.chronicle.first_fault_us = 0
    assert found(scene).passed


@pytest.mark.parametrize(("redeliveries", "born_us", "count"), [(0, 100, 2), (1, 100, 0), (1, 5_001, 2)])
def test_a_second_init_producer_id_fences_an_instance_long_after_all_was_healed(
    scene: Scene, redeliveries: int, born_us: int, count: int
) -> None:
    chronicle = scene.chronicle
    chronicle.redeliveries = redeliveries
    chronicle.instances = [InstanceSeen("p", 1, 100), InstanceSeen("x", 1, born_us)]
    fail(scene, 12)
    record, transaction = scene.record(12), chronicle.transactions[1]
    transaction.began_us = record.sent_us = chronicle.healed_us + RECOVERED_US + 10
    transaction.commit_asked_us = record.sent_us + 1
    transaction.ended_us = record.told_us = record.sent_us + 2
    assert found(scene).count == count


@pytest.mark.parametrize(("version", "expiration_ms", "count"), [(1, 1, 0), (1, 3, 1), (2, 1, 1)])
def test_a_partition_that_forgot_a_producer_may_refuse_it_in_transaction_version_1(
    scene: Scene, version: int, expiration_ms: int, count: int
) -> None:
    scene.chronicle.transaction_version, scene.chronicle.producer_id_expiration_ms = version, expiration_ms
    stored, late = scene.record(10), scene.record(12)
    fail(scene, 12)
    late.sent_us = late.told_us = stored.told_us + 2_000
    transaction = scene.chronicle.transactions[1]
    transaction.began_us = transaction.commit_asked_us = transaction.ended_us = late.told_us
    scene.chronicle.first_fault_us = late.told_us + 1
    found_there = [piece for piece in found(scene).evidence if piece.sequence == 12]
    assert len(found_there) == count
