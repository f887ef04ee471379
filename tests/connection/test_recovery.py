"""When every broker known is of no use: rebootstrap, or go on with those (KIP-899, KIP-1102)."""

from __future__ import annotations

import pytest

from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import ProduceRequest


def moved(make_line, **settings):
    """A client of two brokers, neither of which is a bootstrap address; both are about to vanish."""
    line = make_line(bootstrap_servers="seed:9092", **settings)
    line.core.want_topic("flights", line.now_us)
    line.turn()
    line.agree()
    line.tell_metadata(brokers={1: "one:9092", 2: "two:9092"}, topics={"flights": [1, 2]})
    assert not line.core.can_send(1, line.now_us)
    line.turn()
    return line, line.agree()


def lose_everybody(line, connection_id, tries=6):
    """Both brokers refuse for a while; returns the hosts tried."""
    line.hang_up(connection_id)
    line.core.refresh_metadata(line.now_us)
    line.turn()
    tried = []
    for _ in range(tries):
        while line.connects:
            tried.append(line.refuse().host)
        line.run_to_deadline()
    return tried


def test_the_bootstrap_addresses_are_asked_when_no_broker_known_can_be_reached(make_line):
    line, connection_id = moved(make_line)
    assert "seed" in lose_everybody(line, connection_id)


def test_with_recovery_none_only_brokers_known_are_tried(make_line):
    line, connection_id = moved(make_line, metadata_recovery_strategy="none")
    tried = lose_everybody(line, connection_id, tries=20)
    assert set(tried) == {"one", "two"}


def test_brokers_that_answer_nothing_about_metadata_are_given_up_after_the_trigger(make_line):
    line, connection_id = moved(
        make_line, metadata_recovery_rebootstrap_trigger_ms=7_000, metadata_max_age_ms=50_000, request_timeout_ms=60_000
    )
    line.core.request(1, ProduceRequest(), "under way", line.now_us)
    line.turn()
    line.take(ProduceRequest)
    assert line.run_to_deadline() == 50_000_000
    line.take(MetadataRequest)
    asked_us = line.now_us
    line.run_to_deadline()
    assert 7_000_000 <= line.now_us - asked_us <= 7_001_000
    assert connection_id in line.closed
    assert [(answer.token, answer.sent) for answer in line.answers] == [("under way", True)]
    while not line.connects:
        line.run_to_deadline()
    assert line.connects[0].host == "seed"
    line.agree()
    while not line.sent:
        line.run_to_deadline()
    line.tell_metadata(brokers={1: "elsewhere:9092"}, topics={"flights": [1, 1]})
    assert not line.core.can_send(1, line.now_us)
    line.turn()
    assert line.connects.pop().host == "elsewhere"


def test_answers_that_come_in_time_keep_the_brokers(make_line):
    line, connection_id = moved(make_line, metadata_recovery_rebootstrap_trigger_ms=7_000, metadata_max_age_ms=50_000)
    for _ in range(3):
        while not line.sent:
            line.run_to_deadline()
        line.pass_ms(6_900)
        line.tell_metadata(brokers={1: "one:9092", 2: "two:9092"}, topics={"flights": [1, 2]})
    assert connection_id not in line.closed


def test_with_recovery_none_the_trigger_means_nothing(make_line):
    line, connection_id = moved(
        make_line,
        metadata_recovery_strategy="none",
        metadata_recovery_rebootstrap_trigger_ms=0,
        metadata_max_age_ms=50_000,
    )
    line.run_to_deadline()
    line.take(MetadataRequest)
    line.pass_ms(29_000)
    assert connection_id not in line.closed


@pytest.mark.parametrize("strategy", ["rebootstrap", "none"])
def test_a_broker_may_ask_for_a_fresh_start(make_line, make_metadata, strategy):
    line, connection_id = moved(make_line, metadata_recovery_strategy=strategy)
    line.core.refresh_metadata(line.now_us)
    while not line.sent:
        line.run_to_deadline()
    answer = make_metadata(brokers={})
    answer.error_code = 129
    line.answer(line.take(MetadataRequest), answer)
    assert (connection_id in line.closed) == (strategy == "rebootstrap")


def test_a_trigger_of_zero_does_not_keep_the_client_from_ever_beginning(make_line):
    line = make_line(bootstrap_servers="seed:9092", metadata_recovery_rebootstrap_trigger_ms=0)
    line.core.want_topic("flights", line.now_us)
    line.turn()
    line.pass_ms(50)
    line.agree()
    line.pass_ms(50)
    line.tell_metadata(brokers={1: "seed:9092"}, topics={"flights": [1]})
    assert line.core.leader("flights", 0) == 1
    assert not line.closed
