"""A plan that another version wrote is run as it was meant, or refused by name; never is something else replayed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ottla.errors import ConfigError
from ottla.simulation.draw import draw
from ottla.simulation.plan import BEGIN, FORMAT, OFFSETS, SEND, SEVERITIES, Plan

from .schedules import draw_schedule

Change = Callable[[dict[str, Any]], Any]


def fault_in(kind: str, /, **fields: Any) -> Change:
    """The third fault is this one."""
    return lambda plan: plan["faults"][2].update(fault={"kind": kind, **fields})


def test_a_record_may_be_handed_over_again_by_the_same_producer_and_as_it_was() -> None:
    plan = draw(1)
    plain, transactional, *_ = plan.producers
    first = next(act for act in plain.acts if act.do == SEND)
    plain.acts.append(first)
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    for other, act in (
        (plain, replace(first, value_bytes=first.value_bytes + 1)),
        (transactional, first),
        (transactional, next(act for act in transactional.acts if act.do == SEND)),
    ):
        other.acts.append(act)
        with pytest.raises(ConfigError, match=f"number is {act.number}, as that of a record before it"):
            Plan.from_dict(json.loads(json.dumps(plan.to_dict())))
        other.acts.pop()


@pytest.mark.parametrize("severity", SEVERITIES)
def test_every_plan_drawn_survives_a_file(severity: str) -> None:
    for seed in range(100):
        plan = replace(draw(seed), severity=severity)
        assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


def test_every_plan_that_reality_is_asked_about_survives_a_file() -> None:
    for seed in range(20):
        plan = draw_schedule(seed).plan
        assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda plan: plan.update(format=FORMAT + 1), f"has format {FORMAT + 1}, and this ottla runs format {FORMAT}"),
        (lambda plan: plan.update(format=None), "has format None"),
        (lambda plan: plan.pop("severity"), "there is no 'severity' in it"),
        (lambda plan: plan.update(severity="wild"), "Plan.severity is 'wild' and must be one of mild, severe"),
        (lambda plan: plan.update(moon="full"), "unexpected keyword argument 'moon'"),
        (lambda plan: plan["topics"][0].update(racks=3), "unexpected keyword argument 'racks'"),
        (lambda plan: plan["producers"][0].update(region="north"), "unexpected keyword argument 'region'"),
        (
            lambda plan: plan["producers"][0]["acts"][0].update(do="sing"),
            "no producer knows how to 'sing'",
        ),
        (lambda plan: plan["producers"][0]["acts"][0].update(colour=3), "unexpected keyword argument 'colour'"),
        (lambda plan: plan["settings"].update(moons=2), "broker setting 'moons' is unknown"),
        (lambda plan: plan["topics"][0]["settings"].update(racks=3), "topic setting racks is not supported"),
        (lambda plan: plan["topics"][0]["settings"].update(segment_bytes="all"), "segment.bytes=all"),
        (lambda plan: plan["producers"][0]["settings"].update(tempo=3), "tempo"),
        (lambda plan: plan["producers"][0]["settings"].update(acks="some"), "acks"),
        (
            lambda plan: plan["readers"][0].update(isolation_level="read_all"),
            "read_uncommitted, read_committed; run it",
        ),
        (lambda plan: plan["readers"][0].pop("topic"), "missing 1 required positional argument: 'topic'"),
        (fault_in("flood"), "fault 3 of 10: fault kind 'flood' is unknown; known kinds are refuse, lose_request"),
        (fault_in("kil"), "did you mean 'kill'?"),
        (fault_in("isolate"), "fault isolate: it needs broker_id, an integer from 0 to 2147483647"),
        (fault_in("cut_power", twice=True), "fault cut_power: it has no field twice; its fields: topic, partition"),
        (fault_in("lose_ack", colour="red"), "fault lose_ack: it has no field colour"),
        (lambda plan: plan["faults"][2].pop("fault"), "fault 3 of 10: there is no 'fault' in it"),
        (lambda plan: plan["faults"][2].update(fault=3), "fault 3 of 10: fault is 3 and must be an object"),
        # Before brokers took their time, plans of format 1 did not say that they take none.
        (lambda plan: plan.pop("service"), "there is no 'service' in it"),
        (lambda plan: plan.update(service=[{"broker": 0}]), "service 1 of 1: ServicePlan"),
        (lambda plan: plan.update(topics=None), "topics is None and must be a list"),
        (lambda plan: plan["faults"].insert(2, 17), "fault 3 of 11: 17 must be an object"),
        (lambda plan: plan["faults"][2].update(at_us="x"), "fault 3 of 10: TimedFault.at_us is 'x' and must be int"),
        (
            lambda plan: plan["producers"][1]["acts"][4].update(key="k"),
            f"producer 2 of 2: act 5 of {len(draw(3).producers[1].acts)}: Act.key is 'k' and must be int | None",
        ),
    ],
)
def test_what_another_version_wrote_is_refused_by_name(change: Change, sentence: str) -> None:
    plan = draw(3).to_dict()
    change(plan)
    with pytest.raises(ConfigError) as refused:
        Plan.from_dict(json.loads(json.dumps(plan)))
    assert sentence in str(refused.value)
    assert "run it with the version that wrote it, or draw the seed again" in str(refused.value)


def doing(do: str, **fields: Any) -> Change:
    """The plan's first producer, which has no transactions, does this last of all."""
    return lambda plan: plan["producers"][0]["acts"].append({"do": do, **fields})


def served(*brokers: dict[str, int], **fields: int) -> Change:
    """These brokers take their time, or this one."""
    usual = {"broker": 0, "least_us": 10, "most_us": 20}
    return lambda plan: plan.update(service=[usual | each for each in brokers or (fields,)])


def in_a_transaction(do: str, **fields: Any) -> Change:
    return lambda plan: plan["producers"][1]["acts"].append({"do": do, **fields})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda plan: plan.update(brokers=0), "brokers is 0 and must be an integer from 1 to 20"),
        (lambda plan: plan.update(brokers=-1), "brokers is -1 and must be"),
        (lambda plan: plan.update(seed=-1), "seed is -1 and must be"),
        (lambda plan: plan["settings"].update(transaction_version="2"), "transaction_version is the text '2' and must"),
        (lambda plan: plan["topics"][0].update(name="a b"), "topic 1 of 3: topic name 'a b' contains ' '"),
        (lambda plan: plan["topics"][0].update(name="__consumer_offsets"), "the brokers make __consumer_offsets"),
        (lambda plan: plan["topics"][1].update(name="t0"), "topic 2 of 3: name is 't0', as that of one before it"),
        (lambda plan: plan["topics"][0].update(partitions=0), "topic 1 of 3: partitions is 0 and must be"),
        (
            lambda plan: plan["topics"][2].update(replication_factor=4),
            "topic 3 of 3: replication_factor is 4 and must be an integer from 1 to 3",
        ),
        (
            lambda plan: plan["topics"][0]["settings"].update({"min.insync.replicas": 2}),
            "the setting min.insync.replicas must be written min_insync_replicas",
        ),
        (
            lambda plan: plan["topics"][0]["settings"].update(unclean_leader_election_enable="false"),
            "the setting unclean_leader_election_enable is the text 'false' and must be written without quotes",
        ),
        (lambda plan: plan["producers"][1].update(name="p0"), "producer 2 of 2: name is 'p0', as that of one before"),
        (lambda plan: plan["readers"][0].update(name="p0"), "reader 1 of 2: name is 'p0', as that of one before"),
        (lambda plan: plan["readers"][0].update(name=""), "reader 1 of 2: name is '' and must be a text"),
        (lambda plan: plan["producers"][0]["settings"].update(transactional_id=None), "transactional_id is None and"),
        (
            lambda plan: plan["producers"][0]["settings"].update(delivery_timeout_ms=None),
            "delivery_timeout_ms is None and",
        ),
        (lambda plan: plan["readers"][1].update(topic="t9"), "reader 2 of 2: topic is 't9' and must be one of 't0', "),
        (lambda plan: plan["readers"][1].update(pause_us=-1), "reader 2 of 2: pause_us is -1 and must be"),
        (doing(BEGIN), "'begin': 'p0' has no transactions and must have a transactional_id among its settings"),
        (doing(SEND, number=0, topic="t0"), "'send': number is 0, as that of a record before it, and must be another"),
        (doing(SEND, number=-5, topic="t0"), "'send': number is -5 and must be"),
        (
            lambda plan: plan["producers"][0]["acts"].reverse(),
            "numbers must grow, because the judge takes the order of sending from them",
        ),
        (doing(SEND, number=900, topic="t9"), "'send': topic is 't9' and must be one of 't0', "),
        (
            doing(SEND, number=900, topic="t0", partition=3),
            "'send': partition is 3 and must be None or an integer",
        ),
        (doing(SEND, number=900, topic="t0", value_bytes=-8), "'send': value_bytes is -8 and must be"),
        (
            doing(SEND, number=900, topic="t0", headers=[["a"]]),
            "'send': headers is [['a']] and must be pairs of a text and a text or None",
        ),
        (doing(SEND, number=900, topic="t0", headers=[[None, "a"]]), "headers is [[None, 'a']] and must be pairs"),
        (doing(SEND, number=900, topic="t0", headers=[["a", "\ud800"]]), "and must be pairs"),
        (doing("pause", pause_us=-1), "'pause': pause_us is -1 and must be an integer from 0 to 172800000000"),
        (in_a_transaction(OFFSETS, number=1, topic="t0"), "'offsets': partition is None and must be an integer"),
        (in_a_transaction(OFFSETS, number=-1, topic="t0", partition=0), "'offsets': number is -1 and must be"),
        (served(broker=3), "service 1 of 1: broker is 3 and must be one of 0, 1, 2"),
        (served({}, {}), "service 2 of 2: broker is 0 and must be one of 1, 2"),
        (served(least_us=-1), "service 1 of 1: least_us is -1 and must be an integer from 0 to 60000000"),
        (served(most_us=9), "service 1 of 1: most_us is 9 and must be from least_us to 60000000"),
        (lambda plan: plan["faults"][2].update(at_us=-1), "at_us is -1 and must be an integer from 0 to"),
        (lambda plan: plan["faults"][2].update(lasts_us=-1), "lasts_us is -1 and must be an integer from 0 to"),
        (
            fault_in("kill", moment="now", broker_id=7),
            "fault 3 of 10, 'kill': broker_id is 7 and must be",
        ),
        (fault_in("stop", broker_id=3), "'stop': broker_id is 3 and must be one of 0, 1, 2"),
        (fault_in("cut_link", broker_id=1, other_id=9), "other_id is 9 and must be one of -2, 0, 2"),
        (
            fault_in("slow_disk", broker_id=0, delay_ms=60_001),
            "delay_ms is 60001 and must be an integer from 1 to",
        ),
        (fault_in("stall", probability=0.1, delay_max_ms=60_001), "delay_max_ms is 60001 and must be"),
        (
            fault_in("drift_clock", client_id="p9", drift_ppm=5),
            "client_id is 'p9' and must be one of 'p0', 'p1',",
        ),
        (
            fault_in("unplug", broker_id=0, client_id="p9"),
            "client_id is 'p9' and must be one of 'p0', 'p1',",
        ),
        (fault_in("move_leader", topic="t9", partition=0), "topic is 't9' and must be one of 't0', 't1', 't2', '__"),
        (fault_in("move_leader", topic="t0", partition=9), "partition is 9 and must be an integer from 0 to"),
        (fault_in("move_leader", topic="__consumer_offsets", partition=3), "partition is 3 and must be an integer"),
        (fault_in("corrupt_unsynced", broker_id=0, topic="t7", partition=0), "topic is 't7' and must be one of"),
        (fault_in("lose_ack", topic="t7"), "'lose_ack': topic is 't7' and must be one of"),
        (fault_in("lose_ack", topic="t0", partition=7), "'lose_ack': partition is 7 and must be"),
        (fault_in("lose_ack", broker_id=3), "'lose_ack': broker_id is 3 and must be one of 0, 1, 2"),
        (fault_in("lose_ack", api="Produces"), "'lose_ack': api is 'Produces' and must be one of 'Produce', "),
    ],
)
def test_what_cannot_be_carried_out_is_refused_by_its_place(change: Change, sentence: str) -> None:
    plan = next(each for each in map(draw, range(100)) if len(each.topics) == 3 and len(each.faults) == 10).to_dict()
    change(plan)
    with pytest.raises(ConfigError) as refused:
        Plan.from_dict(json.loads(json.dumps(plan)))
    assert str(refused.value).startswith("this plan cannot be run: ")
    assert sentence in str(refused.value)
