"""Trials on a real cluster: what comes with ottla is as expected, and what proves nothing says so."""

from __future__ import annotations

import re
import shlex
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.tiers import some_tested

from ottla.errors import ConfigError
from ottla.trial.client_choice import client_by_command
from ottla.trial.outcome import TrialOutcome
from ottla.trial.run import run_scenario
from ottla.trial.scenario_file import load_shipped, read_scenario, shipped_names

HEAD = 'title = "t"\nteaches = "t"\nrecords = 40\n'
LOSE_ACK = '[[fault]]\nkind = "lose_ack"\nnth = 1\n'
CONTROL = (
    '[[side]]\nname = "control"\nclaims = "at-least-once"\nshows = ["duplicated"]\n'
    'producer = { acks = "all", "enable.idempotence" = false }\n'
)
SOUND = '[[side]]\nname = "sound"\nclaims = "exactly-once"\nproducer = { acks = "all" }\n'
WARNED = 'errors = ["TOPIC_AUTHORIZATION_FAILED"]\nattempts = 1\n'


class Silent:
    def advance(self, count: int = 1) -> None: ...


def stepping(words: str, total: int | None = None, unit: str = "") -> Any:
    return nullcontext(Silent())


def run(text: str) -> TrialOutcome:
    return run_scenario(read_scenario("mine", text, "mine.toml"), stepping)


@pytest.mark.parametrize("name", some_tested(shipped_names(), "lost-ack", "producer-restarted", "sequence-gap"))
def test_a_trial_that_comes_with_ottla_is_as_expected(name: str) -> None:
    outcome = run_scenario(load_shipped(name), stepping)
    assert outcome.passed, outcome.to_dict()
    assert outcome.is_controlled
    assert not any(side.surprises for side in outcome.sides)
    for side in outcome.sides:
        assert side.verdict.figures.sent == outcome.scenario.records
        assert all(each.fired for each in side.faults)


def test_the_file_that_the_guide_shows_is_a_trial_and_is_as_expected() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "trials.md").read_text("utf-8")
    (text,) = re.findall(r"```toml\n(.*?)```", guide, flags=re.DOTALL)
    outcome = run(text)
    assert outcome.passed, outcome.to_dict()
    assert outcome.is_controlled


def test_a_lost_ack_duplicates_one_batch_and_only_without_idempotence() -> None:
    outcome = run(HEAD + LOSE_ACK + CONTROL + SOUND)
    control, sound = outcome.sides
    assert outcome.passed
    assert control.found == {"duplicated": control.verdict.figures.stored - 40}
    assert control.evidence[0].offsets == (0, control.evidence[0].offsets[1])
    assert (sound.found, sound.seen, sound.verdict.figures.stored) == ({}, "kept", 40)


def test_a_time_that_a_broker_has_set_says_nothing_of_who_sent_again() -> None:
    outcome = run(HEAD + 'topic = { "message.timestamp.type" = "LogAppendTime" }\n' + LOSE_ACK + CONTROL)
    (control,) = outcome.sides
    assert "so who sent it again cannot be seen" in control.evidence[0].detail


def test_a_fault_that_never_fires_voids_its_side() -> None:
    outcome = run(HEAD + LOSE_ACK.replace("nth = 1", "nth = 5000") + CONTROL + SOUND)
    assert not outcome.passed
    assert not outcome.is_controlled
    assert [each.void for each in outcome.sides] == [("the fault lose_ack never fired",)] * 2


@pytest.mark.parametrize(
    ("fault", "delivery_timeout_ms"),
    [
        ('kind = "redeliver"\nnth = 2\ndelay_ms = 700', 60_000),
        # The request comes when the producer has sent everything again, and has ended.
        ('kind = "delay_request"\nnth = 2\ndelay_ms = 1500', 60_000),
        # No request is answered in time.
        pytest.param('kind = "slow_disk"\nbroker = "leader"\ndelay_ms = 1200', 1_000, marks=pytest.mark.prove),
    ],
    ids=["redeliver", "delay_request", "slow_disk"],
)
def test_what_a_fault_delays_past_the_last_record_is_judged_too(fault: str, delivery_timeout_ms: int) -> None:
    times = f'= false, "request.timeout.ms" = 300, "delivery.timeout.ms" = {delivery_timeout_ms}'
    hasty = CONTROL.replace("= false", times)
    outcome = run(HEAD + f"flush_every = 10\n[[fault]]\n{fault}\n" + hasty)
    (control,) = outcome.sides
    assert outcome.passed, outcome.to_dict()
    assert control.found["duplicated"] > 0


def test_a_control_that_shows_nothing_proves_nothing() -> None:
    outcome = run(HEAD + LOSE_ACK + CONTROL.replace("false", "true") + SOUND)
    assert not outcome.is_controlled
    assert outcome.sides[0].missing == ("duplicated",)
    assert outcome.sides[1].is_as_expected


def test_a_guarantee_that_is_broken_is_named_with_its_evidence() -> None:
    liar = CONTROL.replace('"control"', '"liar"').replace('"at-least-once"', '"exactly-once"')
    outcome = run(HEAD + LOSE_ACK + CONTROL + liar.replace('shows = ["duplicated"]\n', ""))
    assert outcome.is_controlled
    assert not outcome.passed
    assert (outcome.sides[1].seen, outcome.sides[1].broken) == ("broken", ("duplicated",))


def test_a_producer_that_asks_nobody_loses_what_is_not_stored_whatever_it_claims() -> None:
    liar = (
        '[[side]]\nname = "liar"\nclaims = "at-least-once"\nexpect = "broken"\nshows = ["lost"]\n'
        'producer = { acks = 0, retries = 0, "enable.idempotence" = false }\n'
    )
    outcome = run(HEAD + LOSE_ACK.replace("lose_ack", "lose_request") + liar + SOUND)
    assert outcome.passed, outcome.to_dict()
    assert outcome.sides[0].broken == ("lost",)


def test_settings_that_a_producer_does_not_take_are_told() -> None:
    with pytest.raises(ConfigError):
        run(HEAD + LOSE_ACK + CONTROL.replace("acks", "akcs") + SOUND)


def test_errors_that_had_to_be_told_and_were_not_are_named() -> None:
    expecting = SOUND + 'errors = ["NOT_ENOUGH_REPLICAS"]\nattempts = 6\n'
    outcome = run(HEAD + LOSE_ACK + CONTROL + expecting)
    assert not outcome.is_controlled
    assert outcome.sides[1].surprises == (
        "errors told: no errors; expected: NOT_ENOUGH_REPLICAS",
        "attempts of each batch that failed: none; expected: 6",
    )


def test_an_error_that_must_not_be_told_is_named_with_how_often_the_batch_was_sent() -> None:
    refuse = LOSE_ACK.replace("lose_ack", "refuse") + "error = 29\n"
    outcome = run(HEAD + refuse + SOUND + "errors = []\n" + SOUND.replace('"sound"', '"warned"') + WARNED)
    quiet, warned = outcome.sides
    assert quiet.surprises == ("errors told: TOPIC_AUTHORIZATION_FAILED; expected: no errors",)
    assert warned.is_as_expected
    assert {*warned.attempts} == {1}
    assert warned.verdict.figures.failed == sum(warned.errors.values()) > 0


def test_a_record_that_cannot_be_sent_has_failed() -> None:
    small = SOUND.replace('{ acks = "all" }', '{ "max.request.size" = 50 }') + 'errors = ["RecordError"]\n'
    outcome = run(HEAD.replace("records", "value_bytes = 100\nrecords") + small)
    (side,) = outcome.sides
    assert side.errors == {"RecordError": 40}
    assert side.verdict.figures.failed == 40


def test_what_an_application_noted_too_early_or_too_late_shows_when_it_is_started_again() -> None:
    head = HEAD + "restart_at = 25\nflush_every = 5\n"
    noting = SOUND.replace('"sound"', '"noting"') + 'notes_every = 10\nexpect = "broken"\nshows = ["duplicated"]\n'
    outcome = run(head + noting + SOUND + "transaction_records = 10\n")
    assert outcome.passed, outcome.to_dict()
    assert outcome.sides[0].found == {"duplicated": 5}
    assert outcome.sides[1].verdict.figures.stored == 40


def test_records_of_an_aborted_transaction_have_failed_and_are_not_there() -> None:
    head = HEAD + "abort_at = 15\nflush_every = 5\n"
    seeing = SOUND.replace('"sound"', '"seeing"') + 'transaction_records = 10\nisolation_level = "read_uncommitted"\n'
    seeing += 'expect = "broken"\nshows = ["failed but stored"]\n'
    outcome = run(head + seeing + SOUND + "transaction_records = 10\n")
    assert outcome.passed, outcome.to_dict()
    assert [side.verdict.figures.failed for side in outcome.sides] == [5, 5]
    assert [side.verdict.figures.stored for side in outcome.sides] == [40, 35]


def test_the_topic_is_read_when_the_last_marker_is_there() -> None:
    # In all four transactions but the first, a request for markers is lost, and repeated 0.1 s later.
    late = '[[fault]]\nkind = "lose_request"\napi = "WriteTxnMarkers"\nevery = 2\n'
    side = counting("late", "transaction_records = 10\nleast = { first_partition_records = 1 }\n", control=True)
    outcome = run(HEAD + late + side)
    assert outcome.passed, outcome.to_dict()
    assert outcome.sides[0].verdict.figures.stored == 40
    assert outcome.sides[0].faults[0].fired == 3


def counting(name: str, count: str, *, control: bool = False) -> str:
    return SOUND.replace('"sound"', f'"{name}"') + count + ("control = true\n" if control else "")


def test_a_count_that_is_too_small_or_too_large_is_told() -> None:
    few = counting("few", "most = { first_partition_records = 39 }\n")
    many = counting("many", "least = { first_partition_records = 41 }\n", control=True)
    right = counting("right", "least = { first_partition_records = 40 }\nmost = { first_partition_records = 40 }\n")
    outcome = run(HEAD + few + many + right)
    assert [side.surprises for side in outcome.sides] == [
        ("first_partition_records: 40; expected: 39 or less",),
        ("first_partition_records: 40; expected: 41 or more",),
        (),
    ]
    assert not outcome.is_controlled
    assert outcome.sides[2].to_dict()["counts"] == {"first_partition_records": 40}


def test_a_side_that_counts_what_it_has_to_is_a_control() -> None:
    outcome = run(HEAD + counting("right", "least = { first_partition_records = 40 }\n", control=True))
    assert outcome.passed, outcome.to_dict()


def test_a_side_has_only_its_own_faults() -> None:
    outcome = run(HEAD + LOSE_ACK + 'sides = ["control"]\n' + CONTROL + CONTROL.replace('"control"', '"spared"'))
    assert [len(side.faults) for side in outcome.sides] == [1, 0]
    assert [side.found.get("duplicated", 0) > 0 for side in outcome.sides] == [True, False]


def test_records_of_a_partition_that_nobody_told_void_a_side() -> None:
    producer = '{ acks = 0, retries = 0, "enable.idempotence" = false }'
    side = SOUND.replace('{ acks = "all" }', producer).replace("exactly-once", "at-most-once") + 'shows = ["lost"]\n'
    command = f"{sys.executable} -P -m ottla.trial.clients.kafka_python"
    scenario = read_scenario("mine", HEAD + "chooses_partition = true\n" + LOSE_ACK + side, "mine.toml")
    (told,) = run_scenario(scenario, stepping, client_by_command(command)).sides
    assert "for 40 records it is not known to which partition they were sent" in told.void


def test_a_side_that_is_not_possible_counts_nothing() -> None:
    lean = 'print(\'{"client": "lean", "version": "3", "without": ["acks"]}\')'
    command = f"{sys.executable} -c {shlex.quote(lean)}"
    text = HEAD + counting("right", "least = { first_partition_records = 40 }\n", control=True)
    (side,) = run_scenario(read_scenario("mine", text, "mine.toml"), stepping, client_by_command(command)).sides
    assert side.impossible == "it cannot be given acks=all"
    assert (side.surprises, side.counted) == ((), ())


def test_without_openssl_there_is_no_side_that_is_read_by_tls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (side,) = run(HEAD + counting("TLS", 'most = { sendfile_bytes = 0 }\nlistener = "SSL"\n', control=True)).sides
    assert side.impossible == "the program openssl is needed, which makes the certificate for TLS"


# Two workers, one after the other: the first one ends when it has sent 25 records, and has committed 20.
GROUP = HEAD + "restart_at = 25\nflush_every = 5\n"


@pytest.mark.parametrize("protocol", some_tested(["classic", "consumer"], "consumer"))
def test_a_member_of_a_group_goes_on_from_the_last_commit(protocol: str) -> None:
    noting = SOUND.replace("exactly-once", "at-least-once") + f'group = "{protocol}"\nnotes_every = 10\n'
    (side,) = run(GROUP + noting + 'shows = ["duplicated"]\n').sides
    assert side.is_as_expected, side.to_dict()
    assert side.found == {"duplicated": 5}
    assert [piece.sequence for piece in side.anomalies] == [20, 21, 22, 23, 24]


# Nothing that is sent is ever answered, and nobody ends that.
FOR_EVER = '[[fault]]\nkind = "hold"\nmoment = "ack"\nevery = 1\n'


@pytest.mark.parametrize("transactions", ["", "transaction_records = 10\n"])
def test_a_hold_without_end_is_ended_by_the_times_of_the_producer(transactions: str) -> None:
    hasty = '{ "delivery.timeout.ms" = 600, "request.timeout.ms" = 300, "max.block.ms" = 60000 }'
    side = SOUND.replace('{ acks = "all" }', hasty) + transactions + 'errors = ["REQUEST_TIMED_OUT"]\n'
    outcome = run(HEAD + FOR_EVER + side)
    figures = outcome.sides[0].verdict.figures
    assert (figures.sent, figures.acked) == (40, 0)
    assert outcome.sides[0].seen == "kept", outcome.to_dict()


@pytest.mark.parametrize("transactions", ["", "transaction_records = 40\n"])
def test_ctrl_c_ends_a_trial_in_which_nothing_is_answered(transactions: str) -> None:
    class Interrupted:
        def advance(self, count: int = 1) -> None:
            raise KeyboardInterrupt

    patient = SOUND.replace('{ acks = "all" }', '{ "delivery.timeout.ms" = 3_600_000 }') + transactions
    scenario = read_scenario("mine", HEAD + FOR_EVER + patient + 'errors = ["INVALID_RECORD"]\n', "mine.toml")
    with pytest.raises(KeyboardInterrupt):
        run_scenario(scenario, lambda *words: nullcontext(Interrupted()))


def test_a_role_that_no_replica_has_is_told() -> None:
    kill = '[[fault]]\nkind = "kill"\nmoment = "now"\nbroker = "second follower"\n'
    with pytest.raises(ConfigError, match=r"the trial.s partition has no second follower: it has 2 replicas"):
        run(HEAD + "replicas = 2\n" + kill + CONTROL)
