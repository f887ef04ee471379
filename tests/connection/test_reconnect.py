"""Losing connections: backoff, timeouts, what is told about requests that were under way, and why."""

from __future__ import annotations

import pytest

from ottla.connection.events import Transmitted, Unsendable
from ottla.connection.loss import CLOSED_BY_BROKER, REFUSED, failed, not_kafka
from ottla.connection.node import ConnectionState
from ottla.errors import NotKafka, Unreachable
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.list_offsets import ListOffsetsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import ProduceRequest, ProduceResponse

_REFUSED_PATIENCE_US = 5_000_000


def ready(line):
    line.core.want_topic("flights", line.now_us)
    line.turn()
    connection_id = line.agree()
    line.tell_metadata(topics={"flights": [1]})
    return connection_id


def test_pauses_between_tries_double_up_to_the_maximum_with_a_fifth_of_jitter(line):
    line.core.want_topic("flights", line.now_us)
    line.turn()
    pauses_ms = []
    for _ in range(8):
        line.refuse()
        assert not line.connects
        pauses_ms.append(line.run_to_deadline() / 1000)
        assert len(line.connects) == 1
    for pause_ms, middle_ms in zip(pauses_ms, [50, 100, 200, 400, 800, 1000, 1000, 1000], strict=True):
        assert 0.8 * middle_ms <= pause_ms <= 1.2 * middle_ms
    assert len({round(p / m, 3) for p, m in zip(pauses_ms[-3:], [1000] * 3, strict=True)}) > 1


def test_pauses_between_tries_are_settings(make_line):
    line = make_line(reconnect_backoff_ms=300, reconnect_backoff_max_ms=700)
    line.core.want_topic("flights", line.now_us)
    line.turn()
    for middle_ms in (300, 600, 700, 700):
        line.refuse()
        assert 0.8 * middle_ms <= line.run_to_deadline() / 1000 <= 1.2 * middle_ms


def test_pauses_before_metadata_is_asked_for_again_are_settings(make_line):
    line = make_line(retry_backoff_ms=3000, retry_backoff_max_ms=7000)
    line.core.want_topic("flights", line.now_us)
    line.turn()
    line.agree()
    for middle_ms in (3000, 6000, 7000, 7000):
        # A topic whose leader is being elected.
        line.tell_metadata(topics={"flights": [-1]})
        asked_us = line.now_us
        while not line.sent:
            line.run_to_deadline()
        assert 0.8 * middle_ms <= (line.now_us - asked_us) / 1000 <= 1.2 * middle_ms


def test_a_connection_that_became_ready_ends_the_doubling(line):
    line.core.want_topic("flights", line.now_us)
    line.turn()
    for _ in range(5):
        line.refuse()
        line.run_to_deadline()
    line.hang_up(line.agree())
    assert line.run_to_deadline() <= 60_000


def test_every_bootstrap_address_is_tried(make_line):
    line = make_line(bootstrap_servers="one:9092,two:9092,three:9092")
    line.core.want_topic("flights", line.now_us)
    line.turn()
    tried = [line.refuse().host for _ in range(3)]
    assert sorted(tried) == ["one", "three", "two"]
    assert not line.connects


def test_a_connection_that_does_not_open_in_time_is_given_up(make_line):
    line = make_line(socket_connection_setup_timeout_ms=5_000, socket_connection_setup_timeout_max_ms=5_000)
    line.core.want_topic("flights", line.now_us)
    line.turn()
    assert line.run_to_deadline() == 5_000_000
    assert line.closed == [1]
    assert "no answer to the attempt to connect within 5000 ms" in str(line.core.reach_error())


def setup_timeouts_ms(line, tries):
    """How long each of the next attempts to connect lasts until it is given up."""
    found = []
    for _ in range(tries):
        while not line.connects:
            line.run_to_deadline()
        line.connects.clear()
        found.append(line.run_to_deadline() / 1000)
    return found


def test_the_time_to_connect_doubles_up_to_its_maximum_with_a_fifth_of_jitter(line):
    line.core.want_topic("flights", line.now_us)
    line.turn()
    first, second, third, fourth = setup_timeouts_ms(line, 4)
    assert 8_000 <= first <= 12_000
    assert 16_000 <= second <= 24_000
    assert first != 10_000
    assert third == fourth == 30_000


def test_the_time_to_connect_is_a_setting(make_line):
    line = make_line(socket_connection_setup_timeout_ms=3_000, socket_connection_setup_timeout_max_ms=7_000)
    line.core.want_topic("flights", line.now_us)
    line.turn()
    first, second, third = setup_timeouts_ms(line, 3)
    assert 2_400 <= first <= 3_600
    assert 4_800 <= second <= 7_000
    assert third == 7_000


def test_the_time_to_connect_begins_small_again_once_a_connection_opened(line):
    line.core.want_topic("flights", line.now_us)
    line.turn()
    setup_timeouts_ms(line, 3)
    while not line.connects:
        line.run_to_deadline()
    line.hang_up(line.accept().connection_id)
    [timeout_ms] = setup_timeouts_ms(line, 1)
    assert timeout_ms <= 12_000


def test_a_handshake_without_an_answer_ends_by_the_request_timeout(line):
    line.core.want_topic("flights", line.now_us)
    line.turn()
    line.accept()
    assert line.run_to_deadline() == 30_000_000
    assert line.closed == [1]


def test_requests_under_way_when_the_connection_breaks_may_have_arrived(line):
    connection_id = ready(line)
    for token in ("a", "b", "c"):
        line.core.request(1, ProduceRequest(), token, line.now_us)
    line.turn()
    assert line.core.in_flight(1) == 3
    line.hang_up(connection_id)
    assert [(a.token, a.failure, a.sent, a.node_id) for a in line.answers] == [
        (token, "closed by the broker", True, 1) for token in ("a", "b", "c")
    ]
    assert line.core.in_flight(1) == 0


def test_a_request_the_driver_never_took_certainly_did_not_leave(line):
    connection_id = ready(line)
    line.core.request(1, ProduceRequest(), "taken", line.now_us)
    line.turn()
    line.core.request(1, ProduceRequest(), "untaken", line.now_us)
    line.hang_up(connection_id)
    assert [(a.token, a.sent) for a in line.answers] == [("taken", True), ("untaken", False)]
    assert [t.message for t in line.sent] == [ProduceRequest()]


def test_a_request_to_a_node_without_a_connection_certainly_did_not_leave(line):
    line.hang_up(ready(line))
    line.core.request(1, ProduceRequest(), "late", line.now_us)
    line.turn()
    assert [(a.token, a.sent) for a in line.answers] == [("late", False)]


def test_an_unanswered_request_is_done_when_it_was_transmitted_and_not_sent_when_it_was_not(line):
    connection_id = ready(line)
    for token in ("whole", "cut"):
        line.core.request(1, ProduceRequest(), token, line.now_us, answered=False)
    line.turn()
    assert line.core.in_flight(1) == 2
    line.core.receive(Transmitted(connection_id, line.sent[0].correlation_id), line.now_us)
    assert line.core.in_flight(1) == 1
    line.hang_up(connection_id)
    whole, cut = line.answers
    assert (whole.token, whole.message, whole.failure, whole.sent) == ("whole", None, None, True)
    assert (cut.token, cut.failure, cut.sent) == ("cut", "closed by the broker", False)


def test_a_late_answer_takes_the_connection_down_with_everything_behind_it(line):
    connection_id = ready(line)
    line.core.request(1, ProduceRequest(), "first", line.now_us)
    line.turn()
    line.pass_ms(20_000)
    line.core.request(1, ProduceRequest(), "second", line.now_us)
    line.turn()
    assert line.run_to_deadline() == 10_000_000
    assert line.closed == [connection_id]
    assert [(a.token, a.sent) for a in line.answers] == [("first", True), ("second", True)]
    assert line.answers[0].failure == "no answer within request.timeout.ms (30000 ms)"


def test_answers_are_matched_by_correlation_id(line):
    ready(line)
    for token in ("a", "b"):
        line.core.request(1, ProduceRequest(), token, line.now_us)
    line.turn()
    first, second = line.sent
    assert first.correlation_id != second.correlation_id
    response = ProduceResponse()
    line.answer(first, response)
    assert [(a.token, a.message) for a in line.answers] == [("a", response)]


def test_a_throttled_node_is_left_alone_for_as_long_as_it_says(line):
    ready(line)
    line.core.request(1, ProduceRequest(), "a", line.now_us)
    line.turn()
    line.answer(line.take(ProduceRequest), ProduceResponse(throttle_time_ms=250))
    assert not line.core.can_send(1, line.now_us)
    assert line.run_to_deadline() == 250_000
    assert line.core.can_send(1, line.now_us)


def test_an_idle_connection_is_closed_before_the_broker_does_and_opened_again_when_wanted(make_line):
    line = make_line(metadata_max_age_ms=10_000_000)
    connection_id = ready(line)
    assert line.run_to_deadline() == 540_000_000
    assert line.closed == [connection_id]
    assert not line.connects
    assert not line.core.can_send(1, line.now_us)
    line.turn()
    assert len(line.connects) == 1


@pytest.mark.parametrize("never", [-1, 2**63 - 1])
def test_an_idle_connection_may_be_kept_for_ever(make_line, never):
    line = make_line(metadata_max_age_ms=2**63 - 1, connections_max_idle_ms=never)
    ready(line)
    line.pass_ms(10_000_000)
    assert line.closed == []


def test_a_broker_closing_an_idle_connection_is_no_reason_to_connect_at_once(line):
    line.hang_up(ready(line))
    assert not line.connects
    assert line.core.deadline_us() is None


def test_the_error_names_every_address_and_what_happened_there(make_line):
    line = make_line(bootstrap_servers="one:9092,[::1]:9093")
    assert line.core.reach_error() is None
    line.core.want_topic("flights", line.now_us)
    line.turn()
    line.refuse()
    line.refuse()
    error = line.core.reach_error()
    assert isinstance(error, Unreachable)
    assert "one:9092 (connection refused)" in str(error)
    assert "[::1]:9093 (connection refused)" in str(error)
    line.run_to_deadline()
    line.agree()
    assert line.core.reach_error() is None


def test_the_error_may_be_asked_for_while_another_thread_adds_brokers(make_line):
    """Users' threads do so when a call of a transaction has no answer."""
    line = make_line()
    line.core.want_topic("flights", line.now_us)
    line.turn()
    line.refuse()
    by_id = line.core._nodes.by_id

    class Slow:
        @property
        def state(self):
            by_id[len(by_id)] = self
            return ConnectionState.RESTING

    by_id[len(by_id)] = Slow()
    by_id[len(by_id)] = Slow()
    assert isinstance(line.core.reach_error(), Unreachable)


def test_something_that_does_not_speak_kafka_is_called_so_once_all_addresses_were_tried(make_line):
    line = make_line(bootstrap_servers="one:80,two:80")
    line.core.want_topic("flights", line.now_us)
    line.turn()
    line.accept()
    line.take(ApiVersionsRequest)
    line.hang_up(1, not_kafka())
    assert isinstance(line.core.reach_error(), Unreachable)
    line.accept()
    line.hang_up(2, not_kafka(": it looks like an HTTP server"))
    error = line.core.reach_error()
    assert isinstance(error, NotKafka)
    assert "one:80" in str(error)
    assert "bootstrap_servers" in str(error)


def test_closing_ends_connections_and_answers_everything(line):
    connection_id = ready(line)
    line.core.request(1, ProduceRequest(), "a", line.now_us)
    line.core.ask(ProduceRequest(), "b", line.now_us, where=99)
    line.turn()
    line.core.close(line.now_us)
    line.turn()
    assert line.closed == [connection_id]
    assert sorted((a.token, a.sent) for a in line.answers) == [("a", True), ("b", False)]
    line.core.want_topic("other", line.now_us)
    line.pass_ms(1000)
    assert not line.connects
    assert line.core.deadline_us() is None


@pytest.mark.parametrize("seed", range(5))
def test_the_core_never_asks_to_be_woken_in_the_past_without_doing_something(make_line, seed):
    line = make_line(bootstrap_servers="one:9092,two:9092")
    line.core.want_topic("flights", line.now_us)
    line.turn()
    for step in range(40):
        if line.connects and (step + seed) % 3:
            line.refuse()
        elif line.connects:
            line.accept()
        due = line.core.deadline_us()
        assert due is not None
        line.run_to_deadline()
        line.sent.clear()
        after = line.core.deadline_us()
        assert after is None or after > line.now_us or line.connects


def test_metadata_is_asked_again_when_its_request_was_lost(line):
    line.core.want_topic("flights", line.now_us)
    line.turn()
    connection_id = line.agree()
    line.take(MetadataRequest)
    line.hang_up(connection_id)
    line.run_to_deadline()
    line.agree()
    if not line.sent:
        line.run_to_deadline()
    line.tell_metadata(topics={"flights": [1]})
    assert line.core.leader("flights", 0) == 1


def test_a_request_that_cannot_be_written_is_answered_as_never_sent_and_the_connection_stays(line):
    line.core.want_topic("flights", line.now_us)
    line.turn()
    connection_id = line.agree()
    line.tell_metadata(topics={"flights": [1]})
    line.core.ask(MetadataRequest(), "mine", line.now_us)
    line.turn()
    asked = line.take(MetadataRequest)
    line.core.receive(Unsendable(connection_id, asked.correlation_id, "it cannot be sent: too long"), line.now_us)
    line.turn()
    assert [(a.token, a.message, a.failure, a.sent) for a in line.answers] == [
        ("mine", None, "it cannot be sent: too long", False)
    ]
    assert not line.closed
    assert line.core.ready_nodes()


def test_all_addresses_that_keep_refusing_are_told_of_after_a_while(make_line):
    line = make_line(bootstrap_servers="one:9092,two:9092")
    line.core.want_topic("flights", line.now_us)
    line.turn()
    began_us = line.now_us
    while line.now_us < began_us + _REFUSED_PATIENCE_US:
        assert line.core.refused(line.now_us) is None
        while line.connects:
            line.refuse()
        line.run_to_deadline()
    error = line.core.refused(line.now_us)
    assert isinstance(error, Unreachable)
    assert "one:9092 (connection refused)" in str(error)
    assert "two:9092 (connection refused)" in str(error)


@pytest.mark.parametrize("loss", [failed("no answer to the attempt to connect within 10000 ms"), CLOSED_BY_BROKER])
def test_an_address_that_does_anything_but_refuse_may_still_answer(line, loss):
    line.core.want_topic("flights", line.now_us)
    line.turn()
    for loss_now in (REFUSED, loss):
        line.refuse(loss_now)
        line.run_to_deadline()
    assert line.core.refused(line.now_us + 2 * _REFUSED_PATIENCE_US) is None


def test_whoever_asks_where_all_have_refused_for_long_is_told_so_and_has_them_tried_again(line):
    line.core.ask(ListOffsetsRequest(), "first", line.now_us, deadline_us=line.now_us + 60_000_000)
    line.turn()
    while not line.answers:
        if line.connects:
            line.refuse()
        line.run_to_deadline()
    while line.connects:
        line.refuse()
    line.pass_ms(10_000)
    line.answers.clear()
    line.core.ask(ListOffsetsRequest(), "second", line.now_us, deadline_us=line.now_us + 60_000_000)
    line.turn()
    assert "connection refused" in line.answers.pop().failure
    line.agree()
    line.core.ask(ListOffsetsRequest(), "third", line.now_us, deadline_us=line.now_us + 60_000_000)
    line.turn()
    line.take(ListOffsetsRequest)
    assert not line.answers
