"""A scenario's file: what it may hold, and how a mistake in it is told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.errors import ConfigError, UserMistake
from ottla.faults.lose_ack import LoseAck
from ottla.trial.scenario_file import load_file, load_shipped, read_scenario, shipped_names

GOOD = """
title = "A trial"
teaches = "Something."
records = 10

[[fault]]
kind = "lose_ack"
nth = 2
after_records = 3

[[side]]
name = "one"
claims = "at-least-once"
producer = { acks = "all", "enable.idempotence" = false }
shows = ["duplicated"]
"""


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as error:
        read_scenario("mine", text, "mine.toml")
    return str(error.value)


def test_a_scenario_is_read() -> None:
    scenario = read_scenario("mine", GOOD, "mine.toml")
    assert (scenario.name, scenario.title, scenario.teaches, scenario.records) == ("mine", "A trial", "Something.", 10)
    (planned,) = scenario.faults
    assert isinstance(planned.fault, LoseAck)
    assert (planned.after, planned.until) == (3, None)
    (side,) = scenario.sides
    assert side.producer == {"acks": "all", "enable_idempotence": False}
    assert side.is_control


@pytest.mark.parametrize("name", shipped_names())
def test_those_that_come_with_ottla_can_be_read_and_teach_something(name: str) -> None:
    scenario = load_shipped(name)
    assert scenario.name == name
    assert len(scenario.teaches) > 100
    assert scenario.faults or scenario.restart_at or any(side.least for side in scenario.sides)
    assert any(side.is_control for side in scenario.sides)
    assert len(scenario.sides) > 1
    # Whoever keeps the guarantee stands beside whoever lacks it.
    assert any(side.expect == "kept" for side in scenario.sides)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"lose_ack"', '"lose_akc"', "mine.toml, line 7: fault kind 'lose_akc' is unknown; did you mean 'lose_ack'?"),
        ("nth = 2", "nht = 2", "mine.toml, line 8: fault lose_ack: it has no field nht; did you mean 'nth'?"),
        ("nth = 2", "nth = 0", "mine.toml, line 8: fault lose_ack: nth=0 must be an integer from 1 to 2147483647"),
        ("records = 10", "recodrs = 10", "mine.toml, line 4: a trial has no field 'recodrs'; did you mean 'records'?"),
        ("records = 10", "records = 0", "mine.toml, line 4: records is 0 and must be an integer from 1 to 200,000"),
        ("after_records = 3", "after_records = 11", "line 9: after_records is 11 and must be an integer from 0 to 10"),
        (
            "after_records = 3",
            "after_records = 3\nuntil_records = 3",
            "line 10: until_records is 3 and must be more than after_records, 3",
        ),
        ("after_records = 3", 'broker = "the boss"', "line 9: broker is 'the boss' and must be one of leader, first"),
        ('"at-least-once"', '"sometimes"', "line 13: claims is 'sometimes' and must be one of at-most-once, at-least"),
        ('"duplicated"', '"doubled"', "line 15: shows is ['doubled'] and must be a list of some of "),
        ('shows = ["duplicated"]', "", "no side has to show anything"),
        ('shows = ["duplicated"]', 'expect = "maybe"', "expect is 'maybe' and must be one of kept, broken"),
        ('shows = ["duplicated"]', 'errors = "NONE"', "errors is 'NONE' and must be a list of errors, such as ["),
        ('shows = ["duplicated"]', "attempts = -1", "line 15: attempts is -1 and must be an integer from 0 to"),
        ('shows = ["duplicated"]', "new_id = 1", "line 15: new_id is 1 and must be true or false"),
        ('shows = ["duplicated"]', "replicas = 4", "replicas is 4 and must be an integer from 0 to 3"),
        (
            'shows = ["duplicated"]',
            "transaction_records = 5\nnotes_every = 5",
            "line 16: a commit is a note, too: give transaction_records or notes_every",
        ),
        ('shows = ["duplicated"]', 'isolation_level = "all"', "isolation_level is 'all' and must be one of read_"),
        ("records = 10", "records = 10\nrestart_at = 10", "restart_at is 10 and must be an integer from 1 to 9"),
        ("records = 10", "records = 10\nzombie = 1", "line 5: zombie is 1 and must be true or false"),
        ("after_records = 3", "in_sync = 0", "line 9: in_sync is 0 and must be an integer from 1 to 3"),
        ('title = "A trial"', "", "mine.toml: it needs a text 'title'"),
        ("acks", '"bootstrap.servers"', "bootstrap_servers cannot be set for a producer of a trial: the trial sets it"),
        ("after_records = 3", 'sides = ["two"]', "line 9: sides has 'two' and must be a list of some of one"),
        ("after_records = 3", 'sides = "one"', "line 9: sides is 'one' and must be a list of names of sides"),
        (
            'shows = ["duplicated"]',
            "control = true",
            "line 15: a control of this kind counts something: give least or most",
        ),
        (
            'shows = ["duplicated"]',
            "least = { sendfile_bites = 1 }",
            "line 11: least has no field 'sendfile_bites';",
        ),
        (
            'shows = ["duplicated"]',
            "most = { sendfile_bytes = -1 }",
            "and must be a table of counts, such as { ",
        ),
        ('shows = ["duplicated"]', 'listener = "TLS"', "listener is 'TLS' and must be one of PLAINTEXT, SSL"),
        (
            'shows = ["duplicated"]',
            'group = "classic"',
            "line 15: a member of a group commits what it has read: give transaction_records or notes_every",
        ),
        (
            'shows = ["duplicated"]',
            'offsets = "never"',
            "offsets is 'never' and must be one of with the group's metadata",
        ),
        ("records = 10", "records = 10\nchooses_partition = 1", "chooses_partition is 1 and must be true or false"),
        ("[[fault]]", "[fault]", "fault must be tables, each under a line [[fault]]"),
        (
            'producer = { acks = "all", "enable.idempotence" = false }',
            'producer = "acks=all"',
            "mine.toml, line 14: producer must be a table of producer settings",
        ),
        ("records = 10", "records = ", "mine.toml is not TOML: "),
        (
            "after_records = 3",
            "untli_records = 5",
            "line 9: fault lose_ack: it has no field untli_records; did you mean 'until_records'? its fields: topic",
        ),
        ("after_records = 3", "untli_records = 5", "duration_ms, after_records, broker, in_sync, sides, until_records"),
        ("after_records = 3", "broker_id = 4", "line 9: broker_id is 4, and the trial has brokers 1 to 3"),
        ("after_records = 3", 'broker = "leeder"', "second follower, coordinator; did you mean 'leader'?"),
        ("acks", "ack", "mine.toml, line 14: producer: ack is not a setting this client knows; did you mean acks?"),
        ('acks = "all"', 'acks = "al"', "mine.toml, line 14: producer: acks='al' is not known; allowed are all, -1, 0"),
        (
            'shows = ["duplicated"]',
            'topic = { "min.insync.replica" = 2 }',
            "mine.toml, line 15: topic: 'min.insync.replica' is no topic setting; did you mean 'min.insync.replicas'?",
        ),
        (
            'shows = ["duplicated"]',
            "[side.topic]\n'retention.ms' = 'long'",
            "mine.toml, line 15: topic: retention.ms=long must be an integer",
        ),
        (
            'shows = ["duplicated"]',
            "settings = { group-version = 1 }",
            "mine.toml, line 15: settings: broker setting 'group-version' is unknown; did you mean group.version?",
        ),
        ("records = 10", 'settings = { "no.such" = 1 }', "mine.toml, line 4: settings: broker setting 'no_such'"),
        ('claims = "at-least-once"', "", "line 11: claims is missing and must be one of at-most-once, at-least-once"),
        (
            'name = "one"',
            'name = "one"\nclaims = "exactly-once"\n[[side]]\nname = "one"',
            "line 15: name is 'one', and",
        ),
        (
            'shows = ["duplicated"]',
            'errors = ["NOT_ENOUGH_REPLICA"]',
            "line 15: errors: there is no error 'NOT_ENOUGH_REPLICA'; did you mean 'NOT_ENOUGH_REPLICAS'?",
        ),
        ('shows = ["duplicated"]', 'errors = ["NONE"]', "line 15: errors: NONE is no error: errors = [] stands for no"),
        ('name = "one"', 'name = "one\\u001b[31m"', "line 12: name has a character that cannot be printed: '\\x1b'"),
        (
            "[[fault]]",
            "[[fault]]\nkind = 'lose_ack'\n" * 1001 + "[[fault]]",
            "it has 1,002 tables [[fault]], and 1,000",
        ),
        ("nth = 2", "nth = " + "[" * 100_000, "mine.toml is nested too deep"),
        ("records = 10", "records = 10\nzombie = true", "line 5: zombie is true, and nothing is started again"),
        (
            "records = 10",
            "records = 10\nabort_at = 5",
            "line 5: abort_at is given, and no side has transactions: give a side transaction_records, or leave it out",
        ),
        (
            'shows = ["duplicated"]',
            'offsets = "apart from the transaction"',
            "line 15: offsets is given, and the side has no group with transactions: give it group and "
            "transaction_records, or leave it out",
        ),
        (
            'shows = ["duplicated"]',
            'group = "classic"\nnotes_every = 5\noffsets = "without the group\'s metadata"',
            "line 17: offsets is given, and the side has no group with transactions",
        ),
        (GOOD[GOOD.index("[[side]]") :], "", "mine.toml: it has no side: write at least one, under a line [[side]]"),
    ],
)
def test_a_mistake_is_told_with_its_place(old: str, new: str, words: str) -> None:
    assert old in GOOD
    assert words in refused(GOOD.replace(old, new, 1))


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (
            '"delivery.timeout.ms" = "soon"',
            "line 14: producer: delivery.timeout.ms is 'soon' and must be a whole number",
        ),
        ('"max.in.flight.requests.per.connection" = 1.5', "max.in.flight.requests.per.connection is 1.5 and must be a"),
        ('"a.date" = 1979-05-27', "producer: a.date is 1979-05-27 and must be a text, a number, true or false"),
        ('"a.table" = { b = 1 }', "producer: a.table is {'b': 1} and must be a text, a number, true or false"),
        ('"a.number" = nan', "producer: a.number is nan and must be a text, a number, true or false"),
    ],
)
def test_a_setting_that_no_client_can_be_told_is_refused_whoever_sends(setting: str, words: str) -> None:
    text = GOOD.replace('acks = "all"', setting)
    with pytest.raises(ConfigError, match=re.escape(words)):
        read_scenario("mine", text, "mine.toml", for_ottla=False)


def test_a_file_may_begin_with_a_byte_order_mark_and_end_its_lines_as_windows_does(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert load_file(tmp_path / "mine.toml").faults == read_scenario("mine", GOOD, "mine.toml").faults


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserMistake, match="cannot be read: No such file or directory"):
        load_file(tmp_path / "none.toml")
    (tmp_path / "odd.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UserMistake, match="is not UTF-8 text: a trial is a TOML file"):
        load_file(tmp_path / "odd.toml")
    (tmp_path / "long.toml").write_text("#" * (2 << 20))
    with pytest.raises(UserMistake, match="is longer than 1,048,576 bytes"):
        load_file(tmp_path / "long.toml")


def test_a_name_that_is_none_is_told_with_the_nearest() -> None:
    with pytest.raises(UserMistake, match=r"there is no trial 'lost-akc'; did you mean 'lost-ack'\?"):
        load_shipped("lost-akc")


def test_what_stands_at_the_top_holds_for_each_side_that_does_not_say_otherwise() -> None:
    top = 'producer = { acks = 1, "linger.ms" = 5 }\nrecords_per_second = 7\n[[fault]]'
    (side,) = read_scenario("mine", GOOD.replace("[[fault]]", top, 1), "mine.toml").sides
    assert side.producer == {"acks": "all", "enable_idempotence": False, "linger_ms": 5}
    assert side.records_per_second == 7


def test_committed_records_are_read_where_there_are_transactions() -> None:
    (side,) = read_scenario("mine", GOOD.replace("= false", "= true") + "transaction_records = 5\n", "mine.toml").sides
    assert side.isolation_level == "read_committed"
    (side,) = read_scenario("mine", GOOD, "mine.toml").sides
    assert side.isolation_level == "read_uncommitted"


def test_a_group_goes_with_neither_an_abort_nor_partitions_of_the_producers_choice() -> None:
    grouped = GOOD + 'group = "classic"\nnotes_every = 5\n'
    for line in ("abort_at = 5", "chooses_partition = true"):
        told = refused(grouped.replace("records = 10", f"records = 10\n{line}"))
        assert "abort_at and chooses_partition are for sides without a group" in told


def test_a_fault_may_be_for_some_sides() -> None:
    other = '[[side]]\nname = "two"\nclaims = "exactly-once"\n'
    scenario = read_scenario("mine", GOOD.replace("nth = 2", 'nth = 2\nsides = ["two"]') + other, "mine.toml")
    assert [len(side.faults_of(scenario)) for side in scenario.sides] == [0, 1]


def test_the_guide_names_each_trial_in_its_order() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "trials.md").read_text("utf-8")
    told = re.findall(r"^\| `([a-z0-9-]+)` \|", guide, re.MULTILINE)
    assert told == shipped_names(), "docs/trials.md has a row for each, in the order of their files"
