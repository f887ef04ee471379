"""Opening a connection: ApiVersions first, versions chosen per API, and the fallback of KIP-511."""

from __future__ import annotations

import pytest

from ottla.connection.events import Connected, Disconnected, Received
from ottla.connection.loss import failed
from ottla.connection.node import TRANSITIONS, ConnectionEvent, ConnectionState, Node
from ottla.connection.request import ANY_NODE
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.list_offsets import ListOffsetsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import ProduceRequest


def test_nothing_is_opened_before_something_is_wanted(line):
    line.turn()
    assert not line.connects
    assert line.core.deadline_us() is None


def test_the_first_wish_opens_one_connection_and_asks_for_versions_in_one_every_broker_since_2_4_knows(line):
    line.core.want_topic("flights", line.now_us)
    line.turn()
    assert [(c.host, c.port) for c in line.connects] == [("one", 9092)]
    line.accept()
    handshake = line.take(ApiVersionsRequest)
    assert handshake.version == 3
    assert handshake.message.client_software_name == "ottla"
    assert not line.sent


def test_each_api_is_sent_in_the_newest_version_both_sides_speak(line):
    line.core.want_topic("flights", line.now_us)
    line.turn()
    line.agree({0: (3, 11), 1: (4, 17), 2: (1, 5), 3: (0, 9), 18: (0, 4)})
    assert line.sent[0].version == 9
    line.tell_metadata(topics={"flights": [1]})
    for message, version in ((ProduceRequest(), 11), (FetchRequest(), 12), (ListOffsetsRequest(), 5)):
        line.core.request(1, message, "token", line.now_us)
        line.turn()
        assert line.sent.pop(0).version == version


def test_an_api_without_a_version_in_common_is_answered_with_the_reason_and_never_sent(line):
    line.core.want_topic("flights", line.now_us)
    line.turn()
    line.agree({0: (14, 15), 3: (0, 9), 18: (0, 4)})
    line.tell_metadata(topics={"flights": [1]})
    line.core.request(1, ProduceRequest(), "old", line.now_us)
    line.core.request(1, CreateTopicsRequest(), "missing", line.now_us)
    line.turn()
    assert not line.sent
    old, missing = line.answers
    assert (old.token, old.sent, old.message) == ("old", False, None)
    assert old.failure == "the broker at one:9092 speaks Produce 14 to 15, this client 3 to 12"
    assert missing.failure == "the broker at one:9092 does not know CreateTopics"


@pytest.mark.parametrize(("theirs", "expected"), [({18: (0, 2)}, 2), ({}, 0)])
def test_a_broker_that_refuses_the_handshake_is_asked_in_the_version_it_names(
    line, make_api_versions, theirs, expected
):
    line.core.want_topic("flights", line.now_us)
    line.turn()
    line.accept()
    line.answer(line.take(ApiVersionsRequest), make_api_versions(theirs, error_code=35))
    again = line.take(ApiVersionsRequest)
    assert again.version == expected
    line.answer(again, make_api_versions())
    line.take(MetadataRequest)


def test_a_broker_that_refuses_every_handshake_is_left(line, make_api_versions):
    line.core.want_topic("flights", line.now_us)
    line.turn()
    line.accept()
    line.answer(line.take(ApiVersionsRequest), make_api_versions({}, error_code=35))
    line.answer(line.take(ApiVersionsRequest), make_api_versions({}, error_code=35))
    assert line.closed == [1]
    assert not line.sent
    assert "refused the handshake with error code 35" in str(line.core.reach_error())


def test_an_answer_nobody_asked_for_closes_the_connection(line):
    line.core.want_topic("flights", line.now_us)
    line.turn()
    connection_id = line.agree()
    line.core.receive(Received(connection_id, 999, None), line.now_us)
    line.turn()
    assert line.closed == [connection_id]


def test_events_about_connections_that_are_gone_are_ignored(line):
    for event in (Connected(5), Disconnected(5, failed("late")), Received(5, 1, None)):
        line.core.receive(event, line.now_us)
    line.turn()
    assert not line.connects
    assert not line.answers


def test_every_state_can_be_left_and_every_move_outside_the_table_is_refused():
    assert {state for state, _ in TRANSITIONS} == set(ConnectionState)
    for state in ConnectionState:
        for event in ConnectionEvent:
            node = Node(1, "one", 9092)
            node.state = state
            if (state, event) in TRANSITIONS:
                node.move(event)
                assert node.state is TRANSITIONS[state, event]
            else:
                with pytest.raises(RuntimeError, match=f"{event.name} cannot happen in {state.name}"):
                    node.move(event)


def test_one_request_to_any_node_waits_for_the_connection_and_needs_no_metadata(line):
    line.core.ask(CreateTopicsRequest(), "create", line.now_us, where=ANY_NODE)
    line.turn()
    line.agree()
    transmit = line.take(CreateTopicsRequest)
    assert not line.sent
    line.answer(transmit, "created")
    (answer,) = line.answers
    assert (answer.token, answer.message, answer.failure, answer.sent) == ("create", "created", None, True)
