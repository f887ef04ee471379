"""Replicas that plans move while brokers crash, disks fail and links are cut: what happens is seen, and judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.audit.chronicles.chronicle import Leadership
from ottla.audit.findings import STUCK, Finding
from ottla.broker.events import PartitionImage
from ottla.errors import ConfigError
from ottla.faults.fault import make_fault
from ottla.simulation.draw import draw
from ottla.simulation.moves_seen import has_arrived
from ottla.simulation.outcome import Outcome, kinds_of
from ottla.simulation.plan import MILD, MovePlan, Plan, TimedFault
from ottla.simulation.run import Run, conclude, execute
from ottla.simulation.shrink import shrink

FINGERPRINTS = Path(__file__).parent / "fingerprints"


def moving_plan(*moves: MovePlan) -> Plan:
    plan = draw(3, records=60, faults=0)
    plan.brokers, plan.moves = 4, list(moves)
    return plan


def leaderships(run: Run, topic: str, index: int) -> list[Leadership]:
    return [each for each in run.chronicle.leaderships or () if (each.topic, each.partition) == (topic, index)]


def test_replicas_move_to_the_brokers_that_a_plan_names() -> None:
    run = Run(moving_plan(MovePlan("t0", 0, [3, 1], 100_000)))
    run.go()
    outcome = conclude(run, None)
    assert outcome.is_clean
    assert {"a topic's replicas began to move", "a topic's replicas moved"} <= {*outcome.states}
    assert leaderships(run, "t0", 0)[-1].replicas == (3, 1)
    assert leaderships(run, "t0", 0)[-1].leader == 3
    assert not any(each.is_unclean for each in run.chronicle.leaderships or ())
    assert run.world.disks[3].files("t0-0")
    assert not run.world.disks[2].files("t0-0")


def test_a_move_waits_for_its_broker_and_can_be_stopped_meanwhile() -> None:
    plan = moving_plan(MovePlan("t0", 0, [3, 1, 2], 500_000), MovePlan("t0", 0, None, 3_000_000))
    plan.faults = [TimedFault(make_fault("kill", broker_id=3, moment="now"), 400_000, 5_000_000)]
    run = Run(plan)
    run.go()
    outcome = conclude(run, None)
    assert outcome.is_clean
    assert {
        "a topic's replicas stopped on their way",
        "replicas moving beside kill",
        "replicas moving while a broker is down",
        "replicas moving while one of their brokers is down",
    } <= {*outcome.states}
    assert sorted(leaderships(run, "t0", 0)[-1].replicas) == sorted(leaderships(run, "t0", 0)[0].replicas)


def test_replicas_that_are_elsewhere_in_the_end_are_found() -> None:
    run = Run(moving_plan(MovePlan("t0", 0, [3, 1], 100_000)))
    run.go()
    # As if others had been asked for.
    run.plan.moves[0].replicas = [3, 2]
    assert run.mover is not None
    run.mover.look_at_the_end()
    assert run.chronicle.stuck == ["t0-0 was moved to brokers (3, 2) and is held by (3, 1)"]
    assert STUCK in kinds_of(conclude(run, None))


def test_a_mild_plan_moves_nothing_as_long_as_a_power_cut_is_not_noticed() -> None:
    plan = moving_plan(MovePlan("t0", 0, [3], 401_000))
    plan.severity = MILD
    plan.faults = [TimedFault(make_fault("power_off", broker_id=1, moment="now"), 400_000, 1_000_000)]
    run = Run(plan)
    run.go()
    assert conclude(run, None).is_clean
    assert run.faults.fired == [1]
    assert "a topic's replicas began to move" not in run.states.seen


@pytest.mark.parametrize(
    ("before", "after", "is_clean"),
    [
        # Broker 3 came to be in sync, and leads alone from now on.
        (PartitionImage(1, 4, (3, 1), (1,), 7, (3,), (1,)), PartitionImage(3, 5, (3,), (3,), 9), True),
        # Broker 1 was gone: broker 3 was elected uncleanly, and holds the partition alone from now on.
        (PartitionImage(1, 4, (3, 1), (1,), 7, (3,), (1,)), PartitionImage(3, 6, (3,), (3,), 9), False),
        # The move was stopped, and broker 1 was elected uncleanly.
        (PartitionImage(3, 4, (3, 1), (3,), 7, (3,), ()), PartitionImage(1, 5, (1,), (1,), 8), False),
        # Nothing has moved.
        (PartitionImage(1, 4, (1, 3), (1,), 7), PartitionImage(3, 5, (1, 3), (3,), 8), False),
    ],
)
def test_the_end_of_a_move_is_told_from_an_unclean_election(
    before: PartitionImage, after: PartitionImage, is_clean: bool
) -> None:
    assert has_arrived(before, after) is is_clean


def test_some_seeds_move_replicas_and_the_others_are_as_they_were() -> None:
    plans = [draw(seed) for seed in range(200)]
    moving = [plan for plan in plans if plan.moves]
    assert 8 <= len(moving) <= 32
    assert {plan.brokers for plan in moving} == {3, 4, 5}
    assert all(plan.brokers == 3 for plan in plans if not plan.moves)
    moves = [move for plan in moving for move in plan.moves]
    assert any(move.replicas is None for move in moves)
    assert any(move.topic.startswith("__") for move in moves)


def test_a_plan_that_was_kept_before_replicas_moved_is_the_same_run() -> None:
    kept = json.loads((FINGERPRINTS / "kill.json").read_text())
    assert "moves" not in kept
    assert execute(Plan.from_dict(kept)).trace_hash == execute(Plan.from_dict({**kept, "moves": []})).trace_hash


def test_moves_survive_a_file() -> None:
    plan = next(plan for plan in map(draw, range(200)) if plan.moves)
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


@pytest.mark.parametrize(
    ("move", "sentence"),
    [
        ({"topic": "t9"}, "move 1 of 1: topic is 't9' and must be one of 't0', 't1', "),
        ({"partition": 9}, "move 1 of 1: partition is 9 and must be"),
        ({"at_us": -1}, "move 1 of 1: at_us is -1 and must be"),
        ({"replicas": []}, "move 1 of 1: replicas is [] and must be None, or different brokers from 0 to 2, one at"),
        ({"replicas": [1, 1]}, "replicas is [1, 1] and must be"),
        ({"replicas": [3]}, "replicas is [3] and must be"),
        ({"replicas": ["1"]}, "replicas is ['1'] and must be"),
        ({"replicas": 1}, "move 1 of 1: MovePlan.replicas is 1 and must be list[int] | None"),
        ({"brokers": 1}, "unexpected keyword argument 'brokers'"),
    ],
)
def test_moves_that_nobody_can_ask_for_are_refused(move: dict[str, object], sentence: str) -> None:
    plan = draw(3).to_dict()
    plan["moves"] = [{"topic": "t0", "partition": 0, "replicas": [1], "at_us": 0} | move]
    with pytest.raises(ConfigError) as refused:
        Plan.from_dict(json.loads(json.dumps(plan)))
    assert sentence in str(refused.value)


def test_what_a_finding_does_not_need_of_the_moves_is_left_out() -> None:
    needed = MovePlan("t0", 0, [3, 1], 100_000)
    plan = moving_plan(MovePlan("t1", 0, [2], 50_000), needed, MovePlan("t0", 0, None, 200_000))

    def stuck_where_it_is_there(plan: Plan) -> Outcome:
        return Outcome(plan.seed, "made up", [Finding(STUCK, 1)] if needed in plan.moves else [])

    shrunk = shrink(plan, stuck_where_it_is_there(plan), run=stuck_where_it_is_there)
    assert shrunk.plan.moves == [needed]
