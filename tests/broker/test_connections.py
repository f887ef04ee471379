"""Connections: one request at a time, in order; versions said honestly; what is not supported is hung up on."""

from __future__ import annotations

import pytest

from ottla.broker.apis import OF_CLIENT_METRICS, VERSIONS
from ottla.broker.events import ConnectionLost, HangUp, RequestReceived, Respond
from ottla.protocol.apis import REQUESTS, RESPONSES
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.frames import decode_response, encode_response
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.metadata import MetadataRequest

from .world import TOPIC, World, batch_of, fetch_request, produce_request

# Those about clients' metrics are listed while there is a subscription (`test_client_telemetry`).
_LISTED = {key: versions for key, versions in VERSIONS.items() if key not in OF_CLIENT_METRICS}


def test_a_connections_requests_are_answered_in_order_even_if_the_first_waits(replicated: World) -> None:
    leader = replicated.leader()
    core = replicated.brokers[leader]
    replicated.unreachable = {1, 2, 3} - {leader}
    for correlation_id in range(3):
        acks = -1 if correlation_id == 0 else 1
        request = produce_request({(TOPIC, 0): batch_of(b"%d" % correlation_id)}, acks=acks, timeout_ms=500)
        core.receive(RequestReceived(50, correlation_id, 12, "test", request), replicated.now_us)
    assert not [output for output in core.outputs() if isinstance(output, Respond) and output.connection_id == 50]
    assert core.queued(50) == 2
    assert len(replicated.stored()) == 1
    core.tick(replicated.now_us + 505_000)
    answered = [output.correlation_id for output in core.outputs() if isinstance(output, Respond)]
    assert answered == [0, 1, 2]
    assert core.queued(50) == 0
    assert [r.value for r in replicated.stored()] == [b"0", b"1", b"2"]


def test_connections_do_not_wait_for_each_other(world: World) -> None:
    poll = world.send(1, fetch_request(max_wait_ms=60_000))
    assert world.ask(1, MetadataRequest(topics=None)).topics[0].name == TOPIC
    assert poll not in world.answers


def test_a_lost_connection_forgets_its_queue_and_keeps_what_was_done(replicated: World) -> None:
    leader = replicated.leader()
    core = replicated.brokers[leader]
    replicated.unreachable = {1, 2, 3} - {leader}
    for value in (b"a", b"b"):
        request = produce_request({(TOPIC, 0): batch_of(value)})
        core.receive(RequestReceived(50, 1, 12, "test", request), replicated.now_us)
    core.receive(ConnectionLost(50), replicated.now_us)
    replicated.unreachable = set()
    replicated.pass_time(60_000)
    assert 50 not in replicated.answers
    assert [r.value for r in replicated.stored()] == [b"a"]


def test_losing_an_unknown_connection_is_nothing(world: World) -> None:
    world.brokers[1].receive(ConnectionLost(999), world.now_us)
    assert world.brokers[1].outputs() == []


def test_api_versions_lists_exactly_what_is_answered(world: World) -> None:
    answer = world.ask(1, ApiVersionsRequest(client_software_name="test", client_software_version="1.0"))
    listed = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    # Produce is said to begin at 0, as by Apache Kafka: old librdkafka would not compress otherwise (KAFKA-18659).
    assert (answer.error_code, listed) == (0, {**_LISTED, 0: (0, VERSIONS[0][1])})
    for api_key, (lowest, highest) in VERSIONS.items():
        assert REQUESTS[api_key].MIN_VERSION <= lowest <= highest <= REQUESTS[api_key].MAX_VERSION


def test_api_versions_in_a_version_from_the_future_is_answered_in_version_0(world: World) -> None:
    core = world.brokers[1]
    core.receive(RequestReceived(60, 1, 9, "test", ApiVersionsRequest()), world.now_us)
    (output,) = core.outputs()
    assert (output.version, output.message.error_code) == (0, ErrorCode.UNSUPPORTED_VERSION)
    assert len(output.message.api_keys) == len(_LISTED)


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("a b", "1"), ("-a", "1"), ("a", "1."), ("ä", "1")])
def test_api_versions_refuses_software_without_a_proper_name(world: World, name: str, version: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    assert world.ask(1, request, version=3).error_code == ErrorCode.INVALID_REQUEST
    assert world.ask(1, request, version=2).error_code == 0


def test_versions_not_listed_are_hung_up_on(world: World) -> None:
    core = world.brokers[1]
    core.receive(RequestReceived(61, 1, 14, "test", produce_request({})), world.now_us)
    (output,) = core.outputs()
    assert isinstance(output, HangUp)
    assert "version 14" in output.reason


@pytest.mark.parametrize("api_key", sorted(VERSIONS))
def test_every_answer_can_be_written_in_every_version_listed(world: World, api_key: int) -> None:
    """What the core answers to the simplest request fits each version's layout, and reads back."""
    lowest, highest = VERSIONS[api_key]
    for version in range(lowest, highest + 1):
        request = REQUESTS[api_key]()
        if api_key == 0:
            request = produce_request({(TOPIC, 0): batch_of(b"a"), ("missing", 1): batch_of(b"b")})
        elif api_key == 1:
            request = fetch_request(max_wait_ms=0)
            request.topics += fetch_request(topic="missing").topics
        elif api_key == 22:
            request = InitProducerIdRequest(transactional_id=None)
        connection = world.send(1, request, version=version)
        (message,) = world.answers[connection]
        chunks = encode_response(7, message, version)
        frame = b"".join(chunk.read() if hasattr(chunk, "read") else bytes(chunk) for chunk in chunks)
        correlation_id, read_back = decode_response(memoryview(frame)[4:], REQUESTS[api_key], version)
        assert correlation_id == 7
        assert type(read_back) is RESPONSES[api_key]


def test_before_the_first_image_every_partition_is_unknown() -> None:
    import random

    from ottla.broker.core import BrokerCore
    from ottla.broker.settings import BrokerSettings

    from .world import MemoryStorage

    core = BrokerCore(1, MemoryStorage(), BrokerSettings(), random.Random(1))
    core.receive(RequestReceived(1, 1, 12, "test", MetadataRequest(topics=None)), 0)
    core.receive(RequestReceived(2, 1, 12, "test", produce_request({(TOPIC, 0): batch_of(b"a")})), 0)
    empty, refused = (output.message for output in core.outputs())
    assert (empty.brokers, empty.topics) == ([], [])
    assert refused.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_unknown_events_are_a_programming_mistake(world: World) -> None:
    with pytest.raises(TypeError, match="no event"):
        world.brokers[1].receive("hello", 0)
    with pytest.raises(TypeError, match="no event"):
        world.controller.receive("hello", 0)
