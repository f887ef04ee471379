"""What the core learns of the cluster, when it asks again, and which connections follow from it."""

from __future__ import annotations

import pytest

from ottla.connection.metadata import Metadata
from ottla.connection.request import CONTROLLER
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.list_offsets import ListOffsetsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.messages.produce import ProduceRequest

THREE = {1: "one:9092", 2: "two:9092", 3: "three:9092"}


def begin(line, topic="flights"):
    line.core.want_topic(topic, line.now_us)
    line.turn()
    return line.agree()


def topics_of(transmit):
    return [topic.name for topic in transmit.message.topics]


def test_leaders_are_known_once_metadata_came(line):
    begin(line)
    assert line.core.leader("flights", 0) is None
    request = line.sent[0].message
    assert [t.name for t in request.topics] == ["flights"]
    assert not request.allow_auto_topic_creation
    line.tell_metadata(brokers=THREE, topics={"flights": [1, 2, 3]})
    assert [line.core.leader("flights", p) for p in range(4)] == [1, 2, 3, None]
    assert line.core.leader("other", 0) is None
    assert line.core.metadata.partition_count("flights") == 3


def test_a_bootstrap_connection_is_kept_for_the_broker_that_listens_there(line):
    begin(line)
    line.tell_metadata(brokers=THREE, topics={"flights": [1, 2, 3]})
    assert not line.closed
    assert line.core.can_send(1, line.now_us)
    assert not line.core.can_send(2, line.now_us)
    line.turn()
    assert [c.host for c in line.connects] == ["two"]


def test_a_bootstrap_connection_whose_address_no_broker_has_is_closed(line):
    connection_id = begin(line)
    line.tell_metadata(brokers={1: "127.0.0.1:9092"}, topics={"flights": [1]})
    assert line.closed == [connection_id]
    assert not line.core.can_send(1, line.now_us)
    line.turn()
    assert [c.host for c in line.connects] == ["127.0.0.1"]


def test_a_broker_at_a_new_address_is_connected_to_there(line):
    connection_id = begin(line)
    line.tell_metadata(topics={"flights": [1]})
    line.core.request(1, ProduceRequest(), "under way", line.now_us)
    line.core.refresh_metadata(line.now_us)
    line.pass_ms(200)
    line.take(ProduceRequest)
    line.tell_metadata(brokers={1: "new:9092"}, topics={"flights": [1]})
    assert line.closed == [connection_id]
    assert [(a.token, a.sent) for a in line.answers] == [("under way", True)]
    line.core.can_send(1, line.now_us)
    line.turn()
    assert [c.host for c in line.connects] == ["new"]


def test_a_missing_topic_is_asked_for_again_at_growing_distances(line):
    begin(line)
    waits_ms = []
    for _ in range(6):
        line.tell_metadata(topics={"flights": 3})
        waits_ms.append(line.run_to_deadline() / 1000)
    for wait_ms, middle_ms in zip(waits_ms, [100, 200, 400, 800, 1000, 1000], strict=True):
        assert 0.8 * middle_ms <= wait_ms <= 1.2 * middle_ms
    line.tell_metadata(topics={"flights": [1]})
    assert line.core.leader("flights", 0) == 1
    assert line.run_to_deadline() > 200_000_000


def test_a_topic_that_stays_missing_is_let_go_until_somebody_wants_it_again(line):
    begin(line)
    line.now_us += 301_000_000
    line.tell_metadata(topics={"flights": 3})
    line.pass_ms(5_000)
    assert not line.sent
    line.core.want_topic("flights", line.now_us)
    line.turn()
    line.take(MetadataRequest)


def test_an_error_that_will_not_pass_is_not_asked_about_again(line):
    begin(line)
    line.tell_metadata(topics={"flights": 29})
    line.pass_ms(5_000)
    assert not line.sent
    assert line.core.metadata.topics["flights"].error_code == 29


def test_a_partition_without_a_leader_is_asked_about_again(line):
    begin(line)
    line.tell_metadata(topics={"flights": [1, -1]})
    assert line.core.leader("flights", 1) is None
    assert line.run_to_deadline() <= 120_000
    line.tell_metadata(topics={"flights": [1, 1]})
    assert line.core.leader("flights", 1) == 1


def test_a_leader_that_is_no_live_broker_is_none(line):
    begin(line)
    line.tell_metadata(topics={"flights": [7]})
    assert line.core.leader("flights", 0) is None


def test_a_new_topic_is_asked_for_without_any_backoff(line):
    begin(line)
    line.tell_metadata(topics={"flights": [1]})
    line.core.want_topic("weather", line.now_us)
    line.turn()
    assert topics_of(line.take(MetadataRequest)) == ["weather"]


def test_a_topic_wanted_while_a_request_is_under_way_is_asked_for_right_after_it(line, make_metadata):
    begin(line)
    line.core.want_topic("weather", line.now_us)
    line.turn()
    first = line.take(MetadataRequest)
    assert not line.sent
    line.answer(first, make_metadata(topics={"flights": [1]}))
    assert topics_of(line.take(MetadataRequest)) == ["weather"]


def test_topics_wanted_one_after_the_other_are_asked_about_one_by_one(line, make_metadata):
    begin(line)
    line.tell_metadata(topics={"flights": [1]})
    asked = []
    for number in range(20):
        line.core.want_topic(f"topic-{number}", line.now_us)
        line.turn()
        request = line.take(MetadataRequest)
        asked.append(topics_of(request))
        line.answer(request, make_metadata(topics={f"topic-{number}": [1]}))
    assert asked == [[f"topic-{number}"] for number in range(20)]
    assert all(line.core.leader(topic, 0) == 1 for topic in ("flights", "topic-0", "topic-19"))


def test_topics_wanted_while_a_request_is_under_way_share_the_next_one(line, make_metadata):
    begin(line)
    line.tell_metadata(topics={"flights": [1]})
    for topic in ("weather", "tides", "moons", "tides"):
        line.core.want_topic(topic, line.now_us)
    line.turn()
    first = line.take(MetadataRequest)
    line.answer(first, make_metadata(topics={"weather": [1]}))
    assert topics_of(line.take(MetadataRequest)) == ["tides", "moons"]


def test_old_metadata_is_refreshed_for_all_topics_also_where_new_ones_came_since(line, make_metadata):
    begin(line)
    line.tell_metadata(topics={"flights": [1]})
    line.pass_ms(200_000)
    line.core.want_topic("weather", line.now_us)
    line.turn()
    line.answer(line.take(MetadataRequest), make_metadata(topics={"weather": [1]}))
    assert line.run_to_deadline() == 100_000_000
    assert topics_of(line.take(MetadataRequest)) == ["flights", "weather"]


def test_a_new_topic_does_not_wait_for_a_refresh_that_rests_nor_put_it_off(line, make_metadata):
    begin(line)
    line.tell_metadata(topics={"flights": [1]})
    line.core.refresh_metadata(line.now_us)
    for number in range(12):
        line.pass_ms(10)
        line.core.want_topic(f"topic-{number}", line.now_us)
        line.turn()
        request = line.take(MetadataRequest)
        if "flights" in topics_of(request):
            break
        assert topics_of(request) == [f"topic-{number}"]
        line.answer(request, make_metadata(topics={f"topic-{number}": [1]}))
    assert 8 <= number < 12
    assert len(topics_of(request)) == number + 1


def test_only_what_is_missing_is_asked_about_again(line, make_metadata):
    begin(line)
    line.tell_metadata(topics={"flights": [1]})
    line.core.want_topic("weather", line.now_us)
    line.turn()
    line.answer(line.take(MetadataRequest), make_metadata(topics={"weather": 3}))
    assert not line.sent
    line.core.want_topic("tides", line.now_us)
    line.turn()
    line.answer(line.take(MetadataRequest), make_metadata(topics={"tides": [1, -1]}))
    assert 80_000 <= line.run_to_deadline() <= 120_000
    request = line.take(MetadataRequest)
    assert topics_of(request) == ["weather", "tides"]
    line.answer(request, make_metadata(topics={"weather": [1], "tides": [1, 1]}))
    assert line.run_to_deadline() > 200_000_000


def test_a_leader_that_is_gone_from_the_brokers_is_asked_about_with_all_topics(line, make_metadata):
    begin(line)
    line.tell_metadata(brokers=THREE, topics={"flights": [1, 2, 3]})
    line.core.want_topic("weather", line.now_us)
    line.turn()
    # The answer is about another topic. Nobody else learns that broker 2 is gone: its connection goes with its address.
    two = {node: address for node, address in THREE.items() if node != 2}
    line.answer(line.take(MetadataRequest), make_metadata(brokers=two, topics={"weather": 3}))
    assert [line.core.leader("flights", p) for p in range(3)] == [1, None, 3]
    line.run_to_deadline()
    request = line.take(MetadataRequest)
    assert topics_of(request) == ["flights", "weather"]
    line.answer(request, make_metadata(brokers=two, topics={"flights": [1, (3, 1), 3], "weather": [1]}))
    assert [line.core.leader("flights", p) for p in range(3)] == [1, 3, 3]
    assert line.run_to_deadline() > 200_000_000


def test_a_new_topic_whose_question_was_lost_is_asked_about_again(make_line):
    line = make_line()
    connection_id = begin(line)
    line.tell_metadata(topics={"flights": [1]})
    line.core.want_topic("weather", line.now_us)
    line.turn()
    line.take(MetadataRequest)
    line.hang_up(connection_id)
    while not line.connects:
        line.run_to_deadline()
    line.agree()
    while not line.sent:
        line.run_to_deadline()
    assert "weather" in topics_of(line.take(MetadataRequest))


def test_stale_metadata_is_refreshed_soon_but_not_at_once_again(line):
    begin(line)
    line.tell_metadata(topics={"flights": [1]})
    line.core.refresh_metadata(line.now_us)
    line.turn()
    assert not line.sent
    assert 0 < line.run_to_deadline() <= 120_000
    line.take(MetadataRequest)


def test_old_metadata_is_refreshed(line):
    begin(line)
    line.tell_metadata(topics={"flights": [1]})
    assert line.run_to_deadline() == 300_000_000
    line.take(MetadataRequest)


def test_an_answer_with_an_older_leader_epoch_is_stale(line):
    begin(line)
    line.tell_metadata(brokers=THREE, topics={"flights": [(2, 5)]})
    line.core.refresh_metadata(line.now_us)
    line.run_to_deadline()
    line.tell_metadata(brokers=THREE, topics={"flights": [(1, 4)]})
    assert line.core.leader("flights", 0) == 2
    line.core.refresh_metadata(line.now_us)
    line.run_to_deadline()
    line.tell_metadata(brokers=THREE, topics={"flights": [(3, 6)]})
    assert line.core.leader("flights", 0) == 3


def test_a_topic_made_again_under_the_same_name_starts_over(make_metadata):
    known = Metadata()
    first = make_metadata(topics={"flights": [(1, 5)]})
    first.topics[0].topic_id = b"1" * 16
    again = make_metadata(topics={"flights": [(1, 0)]})
    again.topics[0].topic_id = b"2" * 16
    known.take_in(first, 0)
    known.take_in(again, 1)
    assert known.leader_epoch("flights", 0) == 0


def test_a_leader_named_in_an_answer_counts_when_it_is_newer_and_known(line):
    begin(line)
    line.tell_metadata(brokers=THREE, topics={"flights": [(1, 5)]})
    assert not line.core.learn_leader("flights", 0, 2, 5)
    assert not line.core.learn_leader("flights", 0, 9, 6)
    assert not line.core.learn_leader("flights", 7, 2, 6)
    assert line.core.learn_leader("flights", 0, 2, 6)
    assert line.core.leader("flights", 0) == 2


def test_a_lost_connection_refreshes_metadata_by_another_broker(make_line):
    line = make_line(bootstrap_servers="one:9092")
    begin(line)
    line.tell_metadata(brokers=THREE, topics={"flights": [1, 2, 3]})
    line.core.can_send(2, line.now_us)
    line.turn()
    second = line.agree()
    line.core.request(2, ProduceRequest(), "under way", line.now_us)
    line.turn()
    line.take(ProduceRequest)
    line.hang_up(second)
    line.run_to_deadline()
    request = line.take(MetadataRequest)
    assert request.connection_id == 1


@pytest.mark.parametrize("accepts", [False, True], ids=["silent", "accepts and stays silent"])
def test_who_leads_is_asked_again_while_a_broker_lets_itself_be_waited_for(make_line, accepts):
    line = make_line(bootstrap_servers="one:9092")
    begin(line)
    line.tell_metadata(brokers=THREE, topics={"flights": [(1, 0), (2, 0), (3, 0)]})
    line.pass_ms(500)
    line.core.can_send(2, line.now_us)
    line.turn()
    if accepts:
        line.accept()
        line.take(ApiVersionsRequest)
    for leader in (2, 3):
        began_us = line.now_us
        while not line.sent:
            line.run_to_deadline()
        assert line.now_us - began_us <= 1_300_000
        line.tell_metadata(brokers=THREE, topics={"flights": [(1, 0), (leader, leader), (3, 0)]})
    assert line.core.leader("flights", 1) == 3


def test_bootstrap_addresses_are_tried_again_when_every_known_broker_is_out_of_reach(make_line):
    line = make_line(bootstrap_servers="seed:9092")
    begin(line)
    line.tell_metadata(brokers={1: "one:9092"}, topics={"flights": [1]})
    line.core.can_send(1, line.now_us)
    line.turn()
    assert line.refuse().host == "one"
    line.run_to_deadline()
    assert "seed" in {c.host for c in line.connects}


def test_a_broker_that_asks_for_a_fresh_start_gets_one(make_line):
    line = make_line(bootstrap_servers="seed:9092")
    begin(line)
    line.tell_metadata(brokers={1: "one:9092"}, topics={"flights": [1]})
    line.core.can_send(1, line.now_us)
    line.turn()
    line.agree()
    line.core.refresh_metadata(line.now_us)
    line.pass_ms(200)
    line.answer(line.take(MetadataRequest), MetadataResponse(error_code=129))
    assert [c.host for c in line.connects] == ["seed"]


def test_requests_to_the_controller_wait_until_it_is_known(line, make_metadata):
    line.core.ask(CreateTopicsRequest(), "create", line.now_us, where=CONTROLLER)
    line.turn()
    line.agree()
    line.answer(line.take(MetadataRequest), make_metadata(brokers=THREE, controller=3))
    line.agree()
    transmit = line.take(CreateTopicsRequest)
    line.answer(transmit, "created")
    assert [(a.token, a.message, a.node_id) for a in line.answers] == [("create", "created", 3)]


def test_a_request_to_one_node_fails_with_the_reason_when_that_node_stays_away(line):
    begin(line)
    line.tell_metadata(brokers=THREE, topics={"flights": [1, 2, 3]})
    line.core.ask(ListOffsetsRequest(), "ends", line.now_us, where=2, deadline_us=line.now_us + 120_000)
    line.core.ask(ListOffsetsRequest(), "nobody", line.now_us, where=99, deadline_us=line.now_us + 120_000)
    line.turn()
    line.refuse()
    line.pass_ms(130)
    line.turn()
    told = {a.token: (a.sent, a.failure) for a in line.answers}
    assert told["ends"] == (False, "connection refused")
    assert told["nobody"] == (False, "no broker has the id 99")


@pytest.mark.parametrize("name", ["\ud800", "f" * 250, "flüge"])
def test_a_name_no_broker_takes_is_refused_here_and_keeps_no_other_topic_waiting(line, name):
    line.core.want_topic(name, line.now_us)
    line.core.want_topic("flights", line.now_us)
    line.turn()
    line.agree()
    assert [topic.name for topic in line.sent[0].message.topics] == ["flights"]
    assert line.core.metadata.topics[name].error_code == 17


def test_a_topic_forgotten_while_its_answer_was_under_way_is_asked_for_when_it_is_used_again(line, make_metadata):
    line.core.want_topic("flights", line.now_us)
    line.core.want_topic("other", line.now_us)
    line.turn()
    line.agree()
    asked = line.take(MetadataRequest)
    line.core.forget_topic("flights")
    line.answer(asked, make_metadata(topics={"flights": [1], "other": [1]}))
    assert not line.sent
    line.core.use_topic("flights", line.now_us)
    line.turn()
    assert topics_of(line.take(MetadataRequest)) == ["flights"]


def test_a_topic_with_a_lasting_error_is_not_asked_for_with_every_batch(line):
    line.core.want_topic("secret", line.now_us)
    line.turn()
    line.agree()
    line.tell_metadata(topics={"secret": 29})
    line.core.use_topic("secret", line.now_us)
    line.pass_ms(10_000)
    assert not line.sent


@pytest.mark.parametrize("topic", [None, 5, b"flights", ["flights"]], ids=repr)
def test_what_is_no_text_is_never_asked_for(line, topic):
    begin(line)
    line.core.want_topic(topic, line.now_us)
    line.tell_metadata(topics={"flights": [1]})
    line.core.refresh_metadata(line.now_us)
    line.pass_ms(200)
    assert [asked.name for asked in line.take(MetadataRequest).message.topics] == ["flights"]
