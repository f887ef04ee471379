"""Every kind of fault: what makes sense, what it is written as, how it is told, how it ends."""

from __future__ import annotations

import inspect
import json
import pydoc
from types import ModuleType
from typing import Any, ClassVar

import pytest

from ottla.broker import request_faults
from ottla.cluster.faults import Faults
from ottla.errors import ConfigError
from ottla.faults.effect import Effect
from ottla.faults.fault import (
    KINDS,
    OF_BROKERS,
    OF_REQUESTS,
    Fault,
    fault_class,
    fault_from,
    fault_from_texts,
    make_fault,
)
from ottla.faults.request_fault import Does
from ottla.faults.verbs import Verbs, Which
from ottla.proxy import passage
from ottla.simulation import drawing

# A fault of each kind, with all it wants.
WANTED: dict[str, dict[str, Any]] = {
    "delay_request": {"delay_ms": 5},
    "delay_ack": {"delay_ms": 5},
    "stop": {"broker_id": 1},
    "full_disk": {"broker_id": 1},
    "slow_disk": {"broker_id": 1, "delay_ms": 5},
    "failing_disk": {"broker_id": 1, "operation": "sync"},
    "corrupt": {"topic": "flights", "partition": 0, "offset": 7, "broker_id": 1},
    "corrupt_unsynced": {"topic": "flights", "partition": 0, "broker_id": 1},
    "jump_clock": {"broker_id": 1, "jump_ms": -5},
    "drift_clock": {"broker_id": 1, "drift_ppm": 200},
    "cut_link": {"broker_id": 1, "other_id": 2},
    "isolate": {"broker_id": 1},
    "lose_messages": {"probability": 0.5},
    "unplug": {"broker_id": 1},
    "stall": {"probability": 0.5, "delay_max_ms": 5},
    "unclean_election": {"topic": "flights", "partition": 0},
    "move_leader": {"topic": "flights", "partition": 0},
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_written_read_and_told(kind: str) -> None:
    fault = make_fault(kind, **WANTED.get(kind, {}))
    assert fault_from(json.loads(json.dumps(fault.to_dict()))) == fault
    assert fault.to_dict() == {"kind": kind, **WANTED.get(kind, {})}
    assert fault.tell()
    assert "_" not in fault.tell().split("(")[0]
    assert "None" not in fault.tell()


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_a_file_a_docstring_and_says_what_its_fields_are(kind: str) -> None:
    found = fault_class(kind)
    assert found.kind == kind
    assert found.__module__ == f"ottla.faults.{kind}"
    assert (found.__doc__ or "").strip()
    assert all(field.says for field in found.fields().values())


def test_each_kind_that_wants_something_has_a_row_here() -> None:
    wanting = {kind for kind in KINDS if fault_class(kind).wanted}
    assert wanting <= WANTED.keys(), f"WANTED lacks {sorted(wanting - WANTED.keys())}"


@pytest.mark.parametrize("kind", [kind for kind in drawing.DRAWN_KINDS if kind != drawing.REQUESTS])
def test_the_simulation_can_draw_each_kind(kind: str) -> None:
    assert fault_class(kind).draw.__func__ is not Fault.draw.__func__, f"{kind} has no draw"  # type: ignore[attr-defined]


def test_the_simulation_draws_each_kind_of_requests_but_the_one_for_tests() -> None:
    assert {*drawing._AT_REQUESTS, *drawing._REFUSING} == {*OF_REQUESTS} - {"hold"}


@pytest.mark.parametrize("module", [request_faults, passage], ids=["brokers", "proxies"])
@pytest.mark.parametrize("kind", OF_REQUESTS)
def test_brokers_and_proxies_carry_out_what_each_kind_of_requests_does(kind: str, module: ModuleType) -> None:
    does = fault_class(kind).does  # type: ignore[attr-defined]
    assert f"Does.{does.name}" in inspect.getsource(module), f"{module.__name__} has no branch for {does}"


@pytest.mark.parametrize("kind", OF_BROKERS)
def test_brokers_end_or_freeze_for_each_kind_of_brokers(kind: str) -> None:
    does = fault_class(kind).does  # type: ignore[attr-defined]
    assert does is (Does.PAUSE_BROKER if kind == "pause" else Does.END_BROKER)


@pytest.mark.parametrize("kind", OF_REQUESTS)
def test_proxies_have_a_verb_for_each_kind_of_requests(kind: str) -> None:
    assert hasattr(Verbs, kind), f"{kind} belongs into faults/verbs.py, as proxies have no cluster"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind in WANTED])
def test_what_a_kind_wants_must_be_there(kind: str) -> None:
    for name in WANTED[kind]:
        given = {key: value for key, value in WANTED[kind].items() if key != name}
        with pytest.raises(ConfigError, match=f"fault {kind}: "):
            make_fault(kind, **given)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kind": "flood", "broker_id": 1}, "'flood' is unknown"),
        ({"kind": "slow_dist"}, "did you mean 'slow_disk'"),
        ({"broker_id": 1}, "a fault needs a kind"),
        ({"kind": "full_disk"}, "it needs broker_id, an integer from 0 to 2147483647"),
        ({"kind": "full_disk", "broker_id": -3}, "broker_id=-3 must be an integer from 0 to 2147483647"),
        ({"kind": "full_disk", "broker_id": 1, "delay_ms": 4}, "it has no field delay_ms; its fields: broker_id"),
        ({"kind": "lose_ack", "nht": 3}, "it has no field nht; did you mean 'nth'. its fields: topic, partition"),
        ({"kind": "full_disk", "self": 1}, "it has no field self"),
        ({"kind": "slow_disk", "broker_id": 1, "delay_ms": 0}, "delay_ms=0"),
        ({"kind": "jump_clock", "broker_id": 1, "jump_ms": 1.5}, "jump_ms=1.5"),
        ({"kind": "cut_link", "broker_id": 1, "other_id": 1}, "no link to itself"),
        (
            {"kind": "corrupt", "broker_id": 1, "partition": 0, "offset": 0},
            "it needs topic, a topic.s name: up to 249 letters",
        ),
        ({"kind": "kill", "moment": "now"}, "give a broker_id"),
        ({"kind": "kill", "moment": "now", "broker_id": 1, "nth": 2}, "so nth=2 cannot be given with it"),
        ({"kind": "pause", "moment": "now", "broker_id": 1, "seed": 2}, "goes with a probability"),
        ({"kind": "drift_clock", "drift_ppm": 5}, "give a broker_id or a client_id"),
        ({"kind": "drift_clock", "drift_ppm": 5, "broker_id": 1, "client_id": "a"}, "and not both"),
        ({"kind": "drift_clock", "drift_ppm": -1_000_000, "broker_id": 1}, "an integer from -900000"),
        ({"kind": "failing_disk", "broker_id": 1, "operation": "sing"}, "one of 'read', 'write', 'sync'"),
        ({"kind": "failing_disk", "broker_id": 1, "operation": "read", "evicts": True}, "evicts goes with"),
        ({"kind": "delay_ack", "delay_ms": 10**18}, "an integer from 1 to 31536000000"),
        ({"kind": "lose_messages", "probability": 0}, "a number above 0 and up to 1"),
    ],
)
def test_a_fault_that_makes_no_sense_says_why(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        fault_from(fields)


@pytest.mark.parametrize(
    ("kind", "texts", "fields"),
    [
        ("lose_ack", {"topic": "orders", "nth": "3"}, {"topic": "orders", "nth": 3}),
        ("lose_ack", {"topic": "3", "probability": ".5"}, {"topic": "3", "probability": 0.5}),
        ("lose_ack", {"topic": "true", "probability": "1"}, {"topic": "true", "probability": 1}),
        ("lose_messages", {"probability": "1e-2"}, {"probability": 0.01}),
        ("jump_clock", {"broker_id": "1", "jump_ms": "-5"}, {"broker_id": 1, "jump_ms": -5}),
        ("isolate", {"broker_id": "1", "silently": "True"}, {"broker_id": 1, "silently": True}),
        ("hold", {"moment": "ack"}, {"moment": "ack"}),
        ("lose_ack", {"probability": "1", "seed": "9223372036854775807"}, {"probability": 1, "seed": (1 << 63) - 1}),
    ],
)
def test_fields_given_as_texts_are_what_they_may_be(
    kind: str, texts: dict[str, str], fields: dict[str, object]
) -> None:
    assert fault_from_texts(kind, texts) == make_fault(kind, **fields)


@pytest.mark.parametrize(
    ("kind", "texts", "said"),
    [
        ("lose_ack", {"nth": "third"}, "nth='third' must be an integer from 1 to 2147483647"),
        ("lose_ack", {"nth": "0"}, "nth='0' must be an integer from 1 to 2147483647"),
        ("lose_ack", {"nth": "٣"}, "must be an integer from 1 to 2147483647"),
        ("lose_ack", {"nth": "9" * 5000}, "must be an integer from 1 to 2147483647"),
        (
            "lose_ack",
            {"nth": "1234567890123456789"},
            "nth='1234567890123456789' must be an integer from 1 to 2147483647",
        ),
        (
            "delay_ack",
            {"delay_ms": "1234567890123456789"},
            "='1234567890123456789' must be an integer from 1 to 31536000000",
        ),
        ("kill", {"seed": f"{1 << 63}"}, "seed='9223372036854775808' must be an integer from 0 to 9223372036854775807"),
        ("lose_ack", {"topik": "orders"}, "did you mean 'topic'"),
        ("lose_ack", {"kind": "kill"}, "it has no field kind"),
        ("lose_messages", {"probability": "1e999"}, "a number above 0 and up to 1"),
        ("lose_messages", {"probability": "nan"}, "a number above 0 and up to 1"),
        ("isolate", {"broker_id": "1", "silently": "1"}, "silently='1' must be True or False"),
    ],
)
def test_a_text_that_stands_for_nothing_is_refused_as_it_was_given(kind: str, texts: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        fault_from_texts(kind, texts)


class Cast:
    broker_ids = (1, 2)
    partitions: ClassVar[dict[str, int]] = {"flights": 3}
    client_ids = ("p0",)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (make_fault("stop", broker_id=3), "broker_id is 3 and must be one of 1, 2"),
        (make_fault("cut_link", broker_id=1, other_id=3), "other_id is 3 and must be one of -2, 2"),
        (make_fault("drift_clock", broker_id=3, drift_ppm=1), "broker_id is 3 and must be one of -2, 1, 2"),
        (make_fault("lose_ack", topic="fright"), "topic is 'fright' and must be one of 'flights'"),
        (make_fault("move_leader", topic="flights", partition=3), "partition is 3 and must be an integer from 0 to 2"),
        (make_fault("half_open", client_id="p1"), "client_id is 'p1' and must be one of 'p0'"),
    ],
)
def test_whom_a_fault_names_must_be_there(fault: Fault, said: str) -> None:
    assert list(fault.misfits(Cast())) == [said]


@pytest.mark.parametrize("kind", KINDS)
def test_what_names_only_who_is_there_fits(kind: str) -> None:
    given = WANTED.get(kind, {})
    assert list(make_fault(kind, **given).misfits(Cast())) == []


class Counter:
    """A part of an effect."""

    def __init__(self) -> None:
        self.fired = 0
        self.ended = 0

    def end(self) -> None:
        self.ended += 1


def test_an_effect_counts_its_parts_until_it_is_healed_and_undoes_what_it_did_last_first() -> None:
    undone: list[str] = []
    effect = Effect(make_fault("isolate", broker_id=1), 1)
    parts = [Counter(), Counter()]
    for part in parts:
        effect.add(part)
    effect.when_healed(lambda: undone.append("first"))
    effect.when_healed(lambda: undone.append("second"))
    parts[0].fired, parts[1].fired = 2, 3
    effect.fire()
    assert effect.fired == 6
    effect.heal()
    effect.heal()
    parts[0].fired = 99
    assert effect.fired == 6
    assert [part.ended for part in parts] == [1, 1]
    assert undone == ["second", "first"]


def test_help_of_a_verb_names_every_keyword_it_takes() -> None:
    for verbs, names in (
        (Verbs, ("refuse", "lose_ack", "delay_request", "redeliver", "hold")),
        (Faults, ("refuse", "kill", "power_off")),
    ):
        for name in names:
            told = pydoc.render_doc(getattr(verbs, name), renderer=pydoc.plaintext)  # type: ignore[attr-defined]
            assert "**" not in told
            assert "topic: 'str | None' = None" in told
            assert "api: 'str' = 'Produce'" in told
            assert "`nth`, only the n-th, from 1" in told


def test_keywords_in_the_help_are_those_that_a_verb_takes() -> None:
    parameters = inspect.signature(Verbs.lose_ack).parameters
    assert parameters.keys() - {"self"} == Which.__annotations__.keys()
    # A default that the help tells is the one that counts.
    given = {name: each.default for name, each in parameters.items() if name != "self"}
    assert make_fault("lose_ack", **given) == make_fault("lose_ack")


@pytest.mark.parametrize("topic", ["", "a b", "..", "ü", "x" * 250, 7])
def test_a_topic_that_no_broker_has_is_refused(topic: object) -> None:
    with pytest.raises(ConfigError, match=r"fault lose_ack: topic=.* must be a topic's name: up to 249 letters"):
        make_fault("lose_ack", topic=topic)


@pytest.mark.parametrize("api", ["Heartbeat", "Metadata", "FindCoordinator"])
def test_a_topic_with_requests_that_are_not_told_apart_by_topic_is_refused(api: str) -> None:
    with pytest.raises(ConfigError, match=f"topic goes with Produce, Fetch and ListOffsets, not with api='{api}'"):
        make_fault("drop_request", topic="orders", api=api)


def test_an_error_is_given_by_its_name_or_its_number() -> None:
    by_name = make_fault("refuse", error="NOT_LEADER_OR_FOLLOWER")
    assert by_name == make_fault("refuse", error=6)
    assert by_name.to_dict()["error"] == 6
    assert (
        fault_from_texts("refuse", {"error": "NOT_LEADER_OR_FOLLOWER"})
        == by_name
        == fault_from_texts("refuse", {"error": "6"})
    )
    # A code that Kafka does not have yet: clients meet brokers that are newer than they are.
    assert make_fault("refuse", error=9999).to_dict()["error"] == 9999


@pytest.mark.parametrize("error", ["NOT_LEADER", "NONE", "__doc__", "", 0])
def test_an_error_that_is_none_is_refused(error: object) -> None:
    with pytest.raises(ConfigError, match="must be an error of Kafka's protocol: its name, such as NOT_LEADER_OR_FOLL"):
        make_fault("refuse", error=error)
