"""What single captures show: counted offsets, equal records, other clients, ended connections, divided batches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from tests.explain.made_entries import BEGUN, batch, fetched, produced, told

from ottla.errors import UserMistake
from ottla.explain.explanation import explain, read
from ottla.explain.scenario_text import scenario_text
from ottla.faults.fault import make_fault
from ottla.simulation.plan import SEND, Act, Plan, ProducerPlan, TimedFault, TopicPlan
from ottla.simulation.recording import record
from ottla.simulation.run import Run
from ottla.tap.exchange import Batch, Entry, Exchange, Remark, RemarkKind, Way
from ottla.trial.scenario_file import read_scenario


def test_a_batch_whose_answer_was_lost_stands_where_offsets_are_missing() -> None:
    lost, again, before = produced(20, batch("b")), produced(30, batch("b"), 2), produced(10, batch("a"), 0)
    assert told(before, lost, again) == [("duplicated", (1, 2))]


def test_a_batch_whose_request_was_lost_stands_once() -> None:
    assert told(produced(10, batch("a"), 0), produced(20, batch("b")), produced(30, batch("b"), 1)) == []


def test_missing_offsets_before_the_first_known_one_prove_nothing() -> None:
    assert told(produced(20, batch("b")), produced(30, batch("b"), 1)) == []


def test_missing_offsets_that_no_request_explains_are_another_clients_and_nothing_is_counted() -> None:
    entries = [produced(10, batch("a"), 0), produced(20, batch("b")), produced(30, batch("b"), 2)]
    assert told(*entries, produced(40, batch("c"), 9)) == []


def test_equal_records_that_were_sent_twice_are_no_duplicates() -> None:
    entries = [produced(10, batch("a"), 0), produced(20, batch("a"), 1)]
    assert told(*entries, fetched(30, batch("a"), batch("a", offset=1))) == []


def test_equal_records_that_were_sent_once_and_are_read_twice_are_duplicates() -> None:
    assert told(produced(10, batch("a"), 0), fetched(30, batch("a"), batch("a", offset=1))) == [("duplicated", (0, 1))]


def test_a_refused_batch_that_is_sent_again_behind_a_later_one_is_out_of_order() -> None:
    entries = [produced(10, batch("a"), 0), produced(20, batch("b"), error="REQUEST_TIMED_OUT")]
    assert told(*entries, produced(21, batch("c"), 1), produced(30, batch("b"), 2)) == [("reordered", (1, 2))]


def test_an_acknowledged_offset_at_which_another_batch_is_read_was_lost() -> None:
    entries = [produced(10, batch("a"), 0), produced(20, batch("b"), 1), produced(30, batch("c"), 1)]
    assert told(*entries, fetched(40, batch("a"), batch("c", offset=1))) == [("lost", (1,))]


def test_a_request_with_acks_0_is_lost_only_if_all_was_read_long_afterwards() -> None:
    entries = [produced(10, batch("a"), acks=0), produced(20, batch("b"), acks=0)]
    assert told(*entries, fetched(30, batch("b"))) == []
    assert told(*entries, fetched(9_000, batch("b"))) == [("lost", ())]


def test_of_acks_0_without_a_fetch_it_is_said_that_it_is_unseen() -> None:
    found = read([BEGUN, produced(10, batch("a"), acks=0)], "it")
    assert not found.breaches
    assert any("acks=0" in each for each in found.seen.unseen)


def test_a_batch_that_is_divided_anew_is_known_by_its_first_timestamp() -> None:
    entries = [produced(10, batch("a"), 0), produced(20, batch("b", 3, stamps=(5, 8)))]
    assert told(*entries, produced(30, batch("c", 5, stamps=(5, 9)), 4)) == [("duplicated", (1, 4))]


def test_records_of_one_millisecond_are_not_taken_for_the_same() -> None:
    entries = [produced(10, batch("a"), 0), produced(20, batch("b", 3, stamps=(5, 5)))]
    assert told(*entries, produced(30, batch("c", 5, stamps=(5, 5)), 4)) == []


def test_records_of_one_millisecond_are_the_same_where_something_newer_was_sent_before() -> None:
    entries = [produced(10, batch("a"), 0), produced(20, batch("b", stamps=(5, 5)))]
    newer = produced(25, batch("c", stamps=(7, 7)), 2)
    assert told(*entries, newer, produced(30, batch("b, made anew", stamps=(5, 5)), 3)) == [("duplicated", (1, 3))]


def test_timestamps_of_an_applications_own_do_not_make_records_the_same() -> None:
    hour_ms = 3_600_000
    entries = [produced(hour_ms, batch("a"), 0), produced(hour_ms + 20, batch("b", 3, stamps=(5, 8)))]
    assert told(*entries, produced(hour_ms + 30, batch("c", 5, stamps=(5, 9)), 4)) == []


def numbered(name: str, epoch: int, sequence: int, stamp: int) -> Batch:
    each = batch(name, stamps=(stamp, stamp))
    return replace(each, producer_id=7, producer_epoch=epoch, base_sequence=sequence)


def test_an_idempotent_batch_that_was_stored_and_is_sent_again_in_another_epoch_is_found() -> None:
    # What librdkafka does: https://github.com/confluentinc/librdkafka/issues/4953
    refused = [
        produced(20, numbered("b", 0, 1, 19), error="NOT_LEADER_OR_FOLLOWER"),
        produced(21, numbered("c", 0, 2, 20), error="NOT_LEADER_OR_FOLLOWER"),
    ]
    again = [produced(30, numbered("b anew", 1, 0, 19), 3), produced(31, numbered("c anew", 1, 1, 20), 4)]
    found = read([BEGUN, produced(10, numbered("a", 0, 0, 9), 0), *refused, *again], "it")
    assert [(each.kind, each.offsets, each.is_claimed) for each in found.breaches] == [("duplicated", (1, 3), True)]
    assert found.suspects[0].faults[0].kind == "refuse_after_append"


def test_an_idempotent_batch_of_the_same_epoch_is_another_one() -> None:
    refused = produced(20, numbered("b", 0, 1, 19), error="NOT_LEADER_OR_FOLLOWER")
    newer = produced(21, numbered("c", 0, 2, 20), 2)
    assert told(produced(10, numbered("a", 0, 0, 9), 0), refused, newer, produced(30, numbered("d", 0, 3, 19), 3)) == []


def test_what_is_in_flight_when_the_capture_ends_is_unseen_and_no_fault() -> None:
    found = read([BEGUN, produced(10, batch("a"), 0), produced(20, batch("b"))], "it")
    assert not found.suspects
    assert any("when the capture ended" in each for each in found.seen.unseen)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([], "no request is in it"),
        ([BEGUN], "no Produce request"),
    ],
)
def test_a_capture_without_produce_requests_is_refused(entries: Iterable[Entry], words: str) -> None:
    with pytest.raises(UserMistake, match=words):
        read(entries, "it")


def test_tls_is_named() -> None:
    remark = Remark(
        time_us=1,
        connection=1,
        client="10.0.0.1:40000",
        broker="10.0.0.2:9093",
        kind=RemarkKind.TLS,
        way=Way.TO_BROKER,
        size_bytes=5,
        what="TLS",
    )
    with pytest.raises(UserMistake, match="under TLS"):
        read([remark], "it")
    found = read([BEGUN, produced(10, batch("a"), 0), remark], "it")
    assert any("1 connection under TLS" in each for each in found.seen.unseen)


def simulated(kind: str, **fields: object) -> list[Entry]:
    settings = {"acks": "all", "enable_idempotence": False, "linger_ms": 0, "batch_size": 1}
    acts = [Act(SEND, number, "orders", 0, None, 20) for number in range(12)]
    fault = TimedFault(make_fault(kind, **fields), 0, 10_000_000)
    plan = Plan(1, 3, False, {}, [TopicPlan("orders")], [ProducerPlan("p", settings, acts)], [], [fault])
    run = Run(plan)
    tap = record(run)
    run.go()
    tap.close()
    return tap.entries


def test_a_lost_acknowledgement_becomes_a_plan_of_one_fault_and_a_trial() -> None:
    found = explain(simulated("lose_ack", nth=5), "it")
    assert [each.kind for each in found.breaches] == ["duplicated"]
    assert found.suspects[0].faults[0].kind == "lose_ack"
    assert found.reproduced
    assert found.plan is not None
    assert [each.kind for each in found.plan.faults] == ["lose_ack"]
    assert found.plan.records < 12
    assert Plan.from_dict(found.to_dict()["plan"]) == found.plan
    scenario = read_scenario("it", scenario_text(found, "it"), "it.toml")
    assert [each.fault.kind for each in scenario.faults] == ["lose_ack"]
    assert scenario.sides[0].shows == ("duplicated",)


def test_a_trial_about_order_slows_the_disk_down_so_that_requests_are_in_flight_together() -> None:
    found = explain(simulated("refuse", nth=5, error=7), "it")
    assert [each.kind for each in found.breaches] == ["reordered"]
    scenario = read_scenario("it", scenario_text(found, "it"), "it.toml")
    assert [each.fault.kind for each in scenario.faults] == ["slow_disk", "refuse"]


def test_a_lost_request_is_told_from_a_lost_acknowledgement() -> None:
    found = explain(simulated("lose_request", nth=5), "it")
    assert found.suspects[0].faults[0].kind == "lose_request"
    assert not found.is_broken


def test_nothing_broken_makes_no_trial() -> None:
    found = explain(simulated("lose_request", nth=5), "it")
    with pytest.raises(UserMistake, match="breaks no promise"):
        scenario_text(found, "it")


def test_a_capture_of_an_older_version_has_no_end_of_connections_and_is_read_all_the_same() -> None:
    entries = [
        replace(each, end_us=None) if isinstance(each, Exchange) else each for each in simulated("lose_ack", nth=5)
    ]
    assert [each.kind for each in read(entries, "it").breaches] == ["duplicated"]
