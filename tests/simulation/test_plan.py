"""A plan that another version wrote is run as it was meant, or refused by name; never is something else replayed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ConfigError
from ottla.simulation.draw import draw
from ottla.simulation.forecast import KINDS
from ottla.simulation.plan import DETAILS, FORMAT, Plan

Change = Callable[[dict[str, Any]], Any]


def test_every_plan_drawn_survives_a_file() -> None:
    for seed in range(200):
        plan = draw(seed)
        assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


def test_every_kind_of_mishap_has_its_details_written_down() -> None:
    assert sorted(("rule", *DETAILS)) == sorted(KINDS)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda plan: plan.update(format=FORMAT + 1), f"has format {FORMAT + 1}, and this ottla runs format {FORMAT}"),
        (lambda plan: plan.update(format=None), "has format None"),
        # Before there was weather, plans of format 1 had none.
        (lambda plan: plan.pop("weather"), "there is no 'weather' in it"),
        (lambda plan: plan.update(weather="stormy"), "Plan.weather is 'stormy' and must be one of mild, severe"),
        (lambda plan: plan.update(moon="full"), "unexpected keyword argument 'moon'"),
        (lambda plan: plan["topics"][0].update(racks=3), "unexpected keyword argument 'racks'"),
        (lambda plan: plan["producers"][0].update(region="north"), "unexpected keyword argument 'region'"),
        (
            lambda plan: plan["producers"][0]["acts"][0].update(do="sing"),
            "no producer knows how to 'sing'",
        ),
        (lambda plan: plan["producers"][0]["acts"][0].update(headers=3), "unexpected keyword argument 'headers'"),
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
        (lambda plan: plan["mishaps"][0].update(kind="flood"), "no mishap is called 'flood', only rule, kill"),
        (
            lambda plan: plan["mishaps"][0].update(kind="isolate", details={"broker": 1}),
            "a mishap 'isolate' has the details broker, silently, not broker",
        ),
        (
            lambda plan: plan["mishaps"][0].update(kind="cut_power", details={"twice": True}),
            "a mishap 'cut_power' has the details nothing, not twice",
        ),
        (
            lambda plan: plan["mishaps"][0].update(kind="rule", details={"kind": "lose_ack", "colour": "red"}),
            "unexpected keyword argument 'colour'",
        ),
        (
            lambda plan: plan["mishaps"][0].update(kind="rule", details={"kind": "melt"}),
            "fault kind 'melt' is unknown",
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
