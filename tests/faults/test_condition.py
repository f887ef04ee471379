"""What is wrong with a broker for a while: what makes sense, who is parted from whom, and what fired."""

from __future__ import annotations

import json

import pytest

from ottla.errors import ConfigError
from ottla.faults.condition import Condition, Conditions


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kind": "flood", "broker_id": 1}, "'flood' is unknown"),
        ({"kind": "full_disk"}, "broker_id=None must be an integer"),
        ({"kind": "full_disk", "broker_id": 0}, "broker_id=0 must be an integer of at least 1"),
        ({"kind": "full_disk", "broker_id": 1, "delay_ms": 4}, "delay_ms=4 is not for it"),
        ({"kind": "slow_disk", "broker_id": 1, "delay_ms": 0}, "delay_ms=0"),
        ({"kind": "jump_clock", "broker_id": 1, "jump_ms": 1.5}, "jump_ms=1.5"),
        ({"kind": "cut_link", "broker_id": 1, "other_id": 1}, "no link to itself"),
        ({"kind": "corrupt", "broker_id": 1, "partition": 0, "offset": 0}, "topic=None"),
        ({"kind": "isolate", "broker_id": 1, "colour": 3}, "'colour' is unknown"),
    ],
)
def test_a_condition_that_makes_no_sense_says_why(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Condition.from_dict(fields)


def test_a_condition_survives_json() -> None:
    condition = Condition("corrupt", topic="flights", partition=0, offset=7, broker_id=2)
    assert Condition.from_dict(json.loads(json.dumps(condition.to_dict()))) == condition


def test_a_cut_link_parts_two_and_isolation_one_from_all() -> None:
    conditions = Conditions()
    cut = conditions.add(Condition("cut_link", broker_id=1, other_id=2))
    assert conditions.between(1, 2) == conditions.between(2, 1) == cut
    assert conditions.between(1, 3) is None
    alone = conditions.add(Condition("isolate", broker_id=3))
    assert conditions.between(3, 1) == conditions.between(0, 3) == alone
    assert conditions.between(0, 1) is None


def test_counts_stay_after_healing_and_a_second_heal_changes_nothing() -> None:
    conditions = Conditions()
    full = conditions.add(Condition("full_disk", broker_id=1))
    assert conditions.of_broker("full_disk", 1) == [full]
    conditions.fire(full, 2)
    assert conditions.heal(full) is not None
    assert conditions.heal(full) is None
    assert (conditions.fired(full), conditions.active, conditions.of_broker("full_disk", 1)) == (2, False, [])
    with pytest.raises(ConfigError, match="no fault with id 9"):
        conditions.fired(9)
