"""The core of a proxy: frames and times in, what is to be done out. No sockets, no clocks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import UserMistake
from ottla.faults.fault import make_fault
from ottla.faults.plan import FaultPlan
from ottla.faults.request_fault import RequestFault
from ottla.protocol.apis import REQUESTS
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.frames import decode_response, encode_request, encode_response
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from ottla.protocol.messages.fetch import NodeEndpoint as FetchEndpoint
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from ottla.protocol.messages.produce import NodeEndpoint as ProduceEndpoint
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.proxy.addresses import BROKER, AddressBook, Node
from ottla.proxy.events import CloseClient, CloseUpstream, FaultFired, ToClient, ToUpstream, Unseen
from ottla.proxy.passage import Passage, Shared

SECRET = "kafka.secret.example"
TOPIC_ID = bytes(range(16))


class Talk:
    """A client and a broker on the two sides of a passage."""

    def __init__(self, *faults: RequestFault) -> None:
        self.plan = FaultPlan()
        self.ids = [self.plan.add(fault) for fault in faults]
        # How many ports there are.
        self.ports = 10_000
        self._port = 20_000
        book = AddressBook(self._open_port, lambda _: None)
        self.shared = Shared(self.plan, book)
        self.passage = Passage(self.shared, lambda: 1)
        self.now_us = 1_000_000
        self.asked: list[tuple[type[ApiMessage], int]] = []

    def _open_port(self, _: Node) -> tuple[str, int]:
        if self._port == 20_000 + self.ports:
            raise UserMistake("none is left")
        self._port += 1
        return "localhost", self._port - 1

    def ask(self, message: ApiMessage, version: int) -> list[Any]:
        """The client sends this; what is to be done."""
        frame = frame_of(encode_request(len(self.asked), "client", message, version))
        self.asked.append((type(message), version))
        self.passage.receive_request(frame, self.now_us)
        return self.passage.outputs()

    def answer(self, number: int, message: ApiMessage) -> list[Any]:
        """The broker answers the client's request of this number."""
        frame = frame_of(encode_response(number, message, self.asked[number][1]))
        self.passage.receive_answer(frame, self.now_us)
        return self.passage.outputs()

    def later(self, milliseconds: int) -> list[Any]:
        self.now_us += milliseconds * 1000
        self.passage.tick(self.now_us)
        return self.passage.outputs()

    def release(self, fault_id: int) -> list[Any]:
        self.plan.heal(fault_id)
        self.passage.release(fault_id, self.now_us)
        return self.passage.outputs()

    def told(self, output: ToClient) -> tuple[int, Any]:
        """Correlation id and message of an answer that leaves for the client."""
        frame = frame_of(output.pieces)
        number = int.from_bytes(frame[:4], "big")
        return decode_response(frame, *self.asked[number])


def frame_of(pieces: list[Any]) -> memoryview:
    content = bytearray(b"".join(map(bytes, pieces)))
    assert int.from_bytes(content[:4], "big") == len(content) - 4
    return memoryview(content)[4:]


def kinds(outputs: list[Any]) -> list[type]:
    return [type(each) for each in outputs]


def fault(kind: str, **fields: Any) -> RequestFault:
    made = make_fault(kind, **fields)
    assert isinstance(made, RequestFault)
    return made


def produce(topic: str = "t", partitions: int = 1, acks: int = -1, topic_id: bytes = bytes(16)) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=bytearray(b"records")) for index in range(partitions)]
    return ProduceRequest(acks=acks, topic_data=[TopicProduceData(name=topic, topic_id=topic_id, partition_data=data)])


def produced(topic: str = "t", partitions: int = 1, error: int = 0) -> ProduceResponse:
    answers = [PartitionProduceResponse(index=each, base_offset=7, error_code=error) for each in range(partitions)]
    return ProduceResponse(responses=[TopicProduceResponse(name=topic, partition_responses=answers)])


# ---- what no fault is about -----------------------------------------------------------------------------------------


def test_a_request_and_its_answer_pass_in_the_memory_they_came_in() -> None:
    talk = Talk()
    frame = frame_of(encode_request(0, "client", produce(), 9))
    talk.asked.append((ProduceRequest, 9))
    talk.passage.receive_request(frame, 0)
    (output,) = talk.passage.outputs()
    assert output.pieces[1] is frame
    answer = frame_of(encode_response(0, produced(), 9))
    talk.passage.receive_answer(answer, 0)
    (output,) = talk.passage.outputs()
    assert output.pieces[1] is answer


def test_an_api_that_is_not_known_passes_as_bytes() -> None:
    talk = Talk(fault("lose_ack", api="Heartbeat"))
    frame = memoryview(bytearray(bytes.fromhex("0044000100000007ffff") + b"whatever"))
    talk.passage.receive_request(frame, 0)
    assert talk.passage.outputs()[0].pieces[1] is frame
    answer = memoryview(bytearray(bytes.fromhex("00000007") + b"whatever"))
    talk.passage.receive_answer(answer, 0)
    assert talk.passage.outputs()[0].pieces[1] is answer


def _named(request: type[ApiMessage], version: int) -> list[tuple[ApiMessage, ApiMessage]]:
    """Requests of an API with answers that name a broker."""
    broker = {"host": SECRET, "port": 9092}
    if request is MetadataRequest:
        return [(MetadataRequest(), MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, **broker)]))]
    if request is DescribeClusterRequest:
        found = [
            DescribeClusterResponse(brokers=[DescribeClusterBroker(broker_id=1, **broker)], endpoint_type=kind)
            for kind in ((1, 2) if version else (1,))
        ]
        return [(DescribeClusterRequest(), each) for each in found]
    if request is FindCoordinatorRequest:
        if version < 4:
            return [(FindCoordinatorRequest(key="group"), FindCoordinatorResponse(node_id=1, **broker))]
        named = FindCoordinatorResponse(coordinators=[Coordinator(key="group", node_id=1, **broker)])
        return [(FindCoordinatorRequest(coordinator_keys=["group"]), named)]
    if request is ProduceRequest:
        answer = ProduceResponse(node_endpoints=[ProduceEndpoint(node_id=1, **broker)])
        return [(ProduceRequest(acks=1), answer)]
    return [(FetchRequest(), FetchResponse(node_endpoints=[FetchEndpoint(node_id=1, **broker)]))]


NAMING = [
    (request, version)
    for request, first in (
        (MetadataRequest, 0),
        (FindCoordinatorRequest, 0),
        (DescribeClusterRequest, 0),
        (ProduceRequest, 10),
        (FetchRequest, 16),
    )
    for version in range(first, request.MAX_VERSION + 1)
]


@pytest.mark.parametrize(("request_class", "version"), NAMING)
def test_no_address_of_a_broker_reaches_a_client(request_class: type[ApiMessage], version: int) -> None:
    talk = Talk()
    for number, (request, response) in enumerate(_named(request_class, version)):
        talk.ask(request, version)
        (output,) = talk.answer(number, response)
        content = b"".join(map(bytes, output.pieces))
        assert SECRET.encode() not in content
        assert b"localhost" in content
        talk.told(output)


def test_an_answer_without_a_coordinator_stays_as_it_is() -> None:
    talk = Talk()
    talk.ask(FindCoordinatorRequest(key="group"), 2)
    answer = FindCoordinatorResponse(error_code=15, node_id=-1, host="", port=-1)
    assert talk.told(talk.answer(0, answer)[0]) == (0, answer)
    assert talk.shared.book.nodes == []


def test_a_broker_that_moves_keeps_its_port() -> None:
    talk = Talk()
    for port in (9092, 9099):
        talk.ask(MetadataRequest(), 5)
        brokers = [MetadataResponseBroker(node_id=1, host=SECRET, port=port)]
        (output,) = talk.answer(len(talk.asked) - 1, MetadataResponse(brokers=brokers))
        assert talk.told(output)[1].brokers[0].port == 20_000
    assert talk.shared.book.upstream(Node(BROKER, 1)) == (SECRET, 9099)


def test_a_bootstrap_address_that_is_a_brokers_own_needs_no_second_port() -> None:
    talk = Talk()
    book = talk.shared.book
    bootstrap = book.add_bootstrap((SECRET, 9092))
    local = book.local(bootstrap)
    assert book.local_of(3, SECRET, 9092) == local
    assert book.node_at(local) == Node(BROKER, 3)
    assert book.local_of(4, SECRET, 9093) != local
    assert book.nodes == [Node(BROKER, 3), Node(BROKER, 4)]


def test_a_broker_at_the_old_address_of_one_that_moved_gets_a_port_of_its_own() -> None:
    book = Talk().shared.book
    book.add_bootstrap((SECRET, 9092))
    moved = book.local_of(3, SECRET, 9092)
    assert book.local_of(3, SECRET, 9099) == moved
    another = book.local_of(7, SECRET, 9092)
    assert another != moved
    assert (book.node_at(moved), book.node_at(another)) == (Node(BROKER, 3), Node(BROKER, 7))


def test_a_broker_for_which_no_port_can_be_had_closes_the_connection() -> None:
    talk = Talk()
    talk.ports = 0
    talk.ask(MetadataRequest(), 5)
    brokers = [MetadataResponseBroker(node_id=1, host=SECRET, port=9092)]
    (output,) = talk.answer(0, MetadataResponse(brokers=brokers))[:1]
    assert isinstance(output, CloseClient)
    assert output.is_mistake
    assert output.reason == "an answer to Metadata names a broker for which there is no port: none is left"


def test_versions_that_cannot_be_read_here_are_not_offered() -> None:
    talk = Talk()
    talk.ask(ApiVersionsRequest(), 3)
    offered = [(0, 0, 99), (1, 4, 99), (3, 50, 60), (55, 0, 2), (68, 0, 1), (78, 1, 2), (79, 1, 2)]
    keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in offered]
    (output,) = talk.answer(0, ApiVersionsResponse(api_keys=keys))
    kept = [(each.api_key, each.min_version, each.max_version) for each in talk.told(output)[1].api_keys]
    assert kept == [(0, 0, ProduceRequest.MAX_VERSION), (1, 4, FetchRequest.MAX_VERSION), (68, 0, 1)]


def test_newer_api_versions_are_answered_in_version_0() -> None:
    talk = Talk()
    frame = frame_of(encode_request(5, "client", ApiVersionsRequest(), 4))
    frame[2:4] = (99).to_bytes(2, "big")
    talk.passage.receive_request(frame, 0)
    (output,) = talk.passage.outputs()
    correlation_id, answer = decode_response(frame_of(output.pieces), ApiVersionsRequest, 0)
    assert (correlation_id, answer.error_code) == (5, ErrorCode.UNSUPPORTED_VERSION)
    assert [each.api_key for each in answer.api_keys] == [18]


@pytest.mark.parametrize(("api_key", "version"), [(3, 99), (0, 99), (1, 99), (10, 99), (60, 99), (78, 1), (55, 0)])
def test_what_would_let_an_address_out_closes_the_connection(api_key: int, version: int) -> None:
    talk = Talk()
    header = api_key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff"
    talk.passage.receive_request(memoryview(bytearray(header)), 0)
    close, leave = talk.passage.outputs()
    assert close.is_mistake
    assert "cannot be read by this proxy" in close.reason
    assert type(leave) is CloseUpstream


# ---- order, and ends ------------------------------------------------------------------------------------------------


def test_an_answer_that_is_late_holds_up_those_behind_it() -> None:
    talk = Talk(fault("delay_ack", nth=1, delay_ms=50))
    talk.ask(produce(), 9)
    talk.ask(HeartbeatRequest(), 4)
    assert kinds(talk.answer(0, produced())) == [FaultFired]
    assert talk.answer(1, HeartbeatResponse()) == []
    assert talk.passage.deadline_us() == talk.now_us + 50_000
    assert talk.later(49) == []
    assert [talk.told(each)[0] for each in talk.later(1)] == [0, 1]
    assert talk.passage.deadline_us() is None


def test_a_request_that_is_late_holds_up_those_behind_it() -> None:
    talk = Talk(fault("delay_request", nth=1, delay_ms=50))
    assert kinds(talk.ask(produce(), 9)) == [FaultFired]
    assert talk.ask(HeartbeatRequest(), 4) == []
    assert talk.passage.is_held_up
    assert kinds(talk.later(50)) == [ToUpstream, ToUpstream]
    assert not talk.passage.is_held_up


@pytest.mark.parametrize("kind", ["lose_request", "drop_request"])
def test_a_connection_ends_only_behind_the_answers_to_what_came_before(kind: str) -> None:
    talk = Talk(fault(kind))
    talk.ask(HeartbeatRequest(), 4)
    assert kinds(talk.ask(produce(), 9)) == [FaultFired]
    assert talk.ask(HeartbeatRequest(), 4) == []
    outputs = talk.answer(0, HeartbeatResponse())
    assert kinds(outputs) == (
        [ToClient, CloseClient, CloseUpstream] if kind == "lose_request" else [ToClient, CloseUpstream]
    )
    assert talk.ask(HeartbeatRequest(), 4) == []


def test_a_lost_ack_needs_something_that_was_stored() -> None:
    talk = Talk(fault("lose_ack"))
    talk.ask(produce(), 9)
    assert kinds(talk.answer(0, produced(error=6))) == [ToClient]
    assert (talk.plan.fired(1), talk.plan.matched(1)) == (0, 1)
    talk.ask(produce(), 9)
    assert kinds(talk.answer(1, produced())) == [FaultFired, CloseClient, CloseUpstream]
    assert talk.plan.fired(1) == 1


def test_what_was_sent_behind_a_lost_ack_is_still_handled_upstream() -> None:
    talk = Talk(fault("lose_ack", nth=1))
    talk.ask(produce(), 9)
    talk.ask(produce(), 9)
    assert kinds(talk.answer(0, produced())) == [FaultFired, CloseClient]
    talk.passage.client_lost()
    assert talk.passage.outputs() == []
    assert kinds(talk.answer(1, produced())) == [CloseUpstream]


def test_a_held_request_is_forwarded_although_its_client_has_gone() -> None:
    talk = Talk(fault("hold"))
    talk.ask(produce(), 9)
    talk.passage.client_lost()
    assert talk.passage.outputs() == []
    assert kinds(talk.release(1)) == [ToUpstream]
    assert kinds(talk.answer(0, produced())) == [CloseUpstream]


def test_a_held_ack_leaves_when_it_is_released_although_upstream_has_gone() -> None:
    talk = Talk(fault("hold", moment="ack"))
    talk.ask(produce(), 9)
    assert kinds(talk.answer(0, produced())) == [FaultFired]
    talk.passage.upstream_lost("gone", talk.now_us)
    assert talk.passage.outputs() == []
    assert kinds(talk.release(1)) == [ToClient, CloseClient, CloseUpstream]


def test_an_upstream_that_goes_in_mid_request_closes_the_client() -> None:
    talk = Talk()
    talk.ask(produce(), 9)
    talk.passage.upstream_lost("broker 1 has closed the connection", talk.now_us)
    close, leave = talk.passage.outputs()
    assert (close.reason, close.is_mistake) == ("broker 1 has closed the connection", False)
    assert type(leave) is CloseUpstream


def test_a_repeated_request_is_answered_once() -> None:
    talk = Talk(fault("redeliver", nth=1, delay_ms=20))
    (first,) = talk.ask(produce(), 9)
    assert kinds(talk.answer(0, produced())) == [FaultFired, ToClient]
    talk.passage.client_lost()
    assert talk.passage.outputs() == []
    (again,) = talk.later(20)
    assert list(map(bytes, again.pieces)) == list(map(bytes, first.pieces))
    assert kinds(talk.answer(0, produced())) == [CloseUpstream]


def test_what_upstream_has_not_answered_is_under_way_although_the_client_has_gone() -> None:
    talk = Talk(fault("redeliver", nth=1, delay_ms=500))
    talk.ask(produce(), 9)
    assert talk.passage.under_way == 1
    talk.answer(0, produced())
    assert talk.passage.under_way == 1
    talk.passage.client_lost()
    talk.later(500)
    assert talk.passage.under_way == 1
    talk.answer(0, produced())
    assert talk.passage.under_way == 0


def test_a_held_request_is_under_way_with_those_behind_it() -> None:
    talk = Talk(fault("hold", nth=1))
    talk.ask(produce(), 9)
    talk.ask(produce(), 9)
    assert talk.passage.under_way == 2
    talk.release(talk.ids[0])
    talk.answer(0, produced())
    talk.answer(1, produced())
    assert talk.passage.under_way == 0


def test_acks_0_is_repeated_and_expects_no_answer() -> None:
    talk = Talk(fault("redeliver", nth=1))
    assert kinds(talk.ask(produce(acks=0), 9)) == [ToUpstream, FaultFired]
    assert kinds(talk.later(0)) == [ToUpstream]
    talk.ask(HeartbeatRequest(), 4)
    assert kinds(talk.answer(1, HeartbeatResponse())) == [ToClient]


# ---- which requests -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(ProduceRequest.MIN_VERSION, ProduceRequest.MAX_VERSION + 1))
def test_one_partition_of_a_request_is_refused_in_every_version(version: int) -> None:
    talk = Talk(fault("refuse", topic="t", partition=1, error=29))
    is_by_id = version >= 13
    talk.shared.topic_names[TOPIC_ID] = "t"
    topic, topic_id = ("", TOPIC_ID) if is_by_id else ("t", bytes(16))
    outputs = talk.ask(produce(topic, 3, topic_id=topic_id), version)
    assert kinds(outputs) == [FaultFired, ToUpstream]
    answers = [PartitionProduceResponse(index=each, base_offset=7) for each in (0, 2)]
    response = TopicProduceResponse(name=topic, topic_id=topic_id, partition_responses=answers)
    (output,) = talk.answer(0, ProduceResponse(responses=[response]))
    told = talk.told(output)[1].responses
    found = {each.index: each.error_code for each in told[0].partition_responses}
    assert (len(told), found) == (1, {0: 0, 2: 0, 1: 29})


def test_a_topic_is_known_by_its_id_once_metadata_has_explained_it() -> None:
    talk = Talk(fault("lose_ack", topic="t", times=1))
    outputs = talk.ask(produce("", topic_id=TOPIC_ID), 13)
    assert kinds(outputs) == [Unseen, ToUpstream]
    talk.answer(0, ProduceResponse())
    talk.ask(MetadataRequest(), 12)
    talk.answer(1, MetadataResponse(topics=[MetadataResponseTopic(name="t", topic_id=TOPIC_ID)]))
    talk.ask(produce("", topic_id=TOPIC_ID), 13)
    answers = [PartitionProduceResponse(index=0)]
    response = TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=answers)
    assert kinds(talk.answer(2, ProduceResponse(responses=[response])))[:2] == [FaultFired, CloseClient]


def test_a_fetch_is_about_all_partitions_of_its_session() -> None:
    talk = Talk(fault("delay_request", api="Fetch", topic="t", partition=1, delay_ms=1))

    def fetch(epoch: int, *partitions: int, forgotten: tuple[int, ...] = ()) -> bool:
        topics = [FetchTopic(topic="t", partitions=[FetchPartition(partition=each) for each in partitions])]
        gone = [ForgottenTopic(topic="t", partitions=list(forgotten))]
        message = FetchRequest(session_id=1, session_epoch=epoch, topics=topics, forgotten_topics_data=gone)
        has_fired = FaultFired in kinds(talk.ask(message, 11))
        talk.later(1)
        return has_fired

    assert fetch(0, 0, 1)
    assert fetch(1)
    assert not fetch(2, forgotten=(1,))
    assert fetch(3, 1)
    assert not fetch(0, 0)


# ---- what is no Kafka -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mechanism", "tokens"), [("PLAIN", 1), ("SCRAM-SHA-256", 2), ("GSSAPI", 3)])
def test_sasl_tokens_without_a_header_pass_both_ways(mechanism: str, tokens: int) -> None:
    talk = Talk(fault("lose_ack"))
    talk.ask(SaslHandshakeRequest(mechanism=mechanism), 0)
    talk.answer(0, SaslHandshakeResponse())
    for _ in range(tokens):
        token = memoryview(bytearray(b"\x60\x82 a token that is no request"))
        talk.passage.receive_request(token, 0)
        assert talk.passage.outputs()[0].pieces[1] is token
        talk.passage.receive_answer(token, 0)
        assert talk.passage.outputs()[0].pieces[1] is token
    talk.ask(produce(), 9)
    assert kinds(talk.answer(1, produced()))[:2] == [FaultFired, CloseClient]


def test_an_answer_to_another_request_closes_the_connection() -> None:
    talk = Talk()
    talk.ask(HeartbeatRequest(), 4)
    talk.asked *= 5
    close, _ = talk.answer(4, HeartbeatResponse())
    assert close.is_mistake
    assert close.reason == "the upstream broker answered request 4, and 0 was the next one"


def test_an_answer_that_nobody_asked_for_closes_the_connection() -> None:
    talk = Talk()
    talk.passage.receive_answer(memoryview(bytearray(4)), 0)
    assert kinds(talk.passage.outputs()) == [CloseClient, CloseUpstream]


FAULTS = st.lists(
    st.builds(
        lambda kind, api, every: fault(kind, api=api, every=every, **({"delay_ms": 5} if "delay" in kind else {})),
        st.sampled_from(("lose_ack", "drop_ack", "delay_ack", "lose_request", "delay_request", "redeliver", "hold")),
        st.sampled_from(("Produce", "Fetch", "Metadata")),
        st.integers(1, 3),
    ),
    max_size=2,
)


@given(st.lists(st.tuples(st.sampled_from("qa"), st.binary(max_size=60)), max_size=8), FAULTS)
def test_no_bytes_make_it_raise(frames: list[tuple[str, bytes]], faults: list[RequestFault]) -> None:
    talk = Talk(*faults)
    for side, content in frames:
        frame = memoryview(bytearray(content))
        if side == "q":
            talk.passage.receive_request(frame, talk.now_us)
        else:
            talk.passage.receive_answer(frame, talk.now_us)
        talk.later(10)
    talk.passage.upstream_lost("gone", talk.now_us)
    talk.passage.client_lost()


@given(st.sampled_from(sorted(REQUESTS)), st.integers(0, 20), st.binary(max_size=80), st.binary(max_size=80), FAULTS)
def test_no_request_or_answer_makes_it_raise(
    api_key: int, version: int, request: bytes, response: bytes, faults: list[RequestFault]
) -> None:
    talk = Talk(*faults)
    header = api_key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff"
    talk.passage.receive_request(memoryview(bytearray(header + request)), talk.now_us)
    talk.passage.receive_answer(memoryview(bytearray(bytes(4) + response)), talk.now_us)
    for fault_id in talk.ids:
        talk.release(fault_id)
    talk.later(10)
    talk.passage.client_lost()
    talk.later(10)
