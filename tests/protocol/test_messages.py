"""Generated messages: defaults, versions that lack a field, tagged fields, comparing and showing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ottla.protocol.apis import REQUESTS, RESPONSES, response_class
from ottla.protocol.errors import MalformedMessage, UnsupportedField
from ottla.protocol.messages import MODULES
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.fetch import FetchResponse, PartitionData
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.protocol.primitives import Decoder, Encoder


def written(message: object, version: int) -> bytes:
    encoder = Encoder()
    message.write(encoder, version)  # type: ignore[attr-defined]
    return b"".join(encoder.chunks())


def test_defaults_are_the_descriptors() -> None:
    partition = PartitionData()
    assert (partition.last_stable_offset, partition.preferred_read_replica) == (-1, -1)
    assert partition.current_leader is None
    assert MetadataRequest().allow_auto_topic_creation is True
    assert MetadataRequest().topics == []
    assert InitProducerIdRequest().producer_id == -1


def test_every_message_has_lists_of_its_own() -> None:
    first, second = ProduceRequest(), ProduceRequest()
    first.topic_data.append(TopicProduceData(name="flights"))
    assert second.topic_data == []
    topics = [TopicProduceData(name="flights")]
    assert ProduceRequest(topic_data=topics).topic_data is topics


def test_a_field_the_version_lacks_is_refused_when_it_matters() -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="flights")])
    with pytest.raises(UnsupportedField, match=r"DeleteTopicsRequest\.topics is set, but version 5 cannot carry it"):
        written(request, 5)
    with pytest.raises(UnsupportedField, match="allow_auto_topic_creation"):
        written(MetadataRequest(allow_auto_topic_creation=False), 3)
    written(MetadataRequest(allow_auto_topic_creation=False), 4)


@pytest.mark.parametrize("version", [8, 9])
def test_a_tagged_field_the_version_lacks_is_refused_when_it_matters(version: int) -> None:
    partition = PartitionProduceResponse(current_leader=LeaderIdAndEpoch(leader_id=2))
    response = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[partition])])
    with pytest.raises(UnsupportedField, match="current_leader"):
        written(response, version)
    assert ProduceResponse.read(Decoder(written(response, 10)), 10) == response


def test_a_field_the_version_lacks_is_left_out_where_kafka_ignores_it() -> None:
    data = written(ApiVersionsRequest(client_software_name="ottla", client_software_version="1"), 2)
    assert data == b""
    assert ApiVersionsRequest.read(Decoder(data), 2) == ApiVersionsRequest()


def test_null_is_refused_in_versions_that_do_not_know_it() -> None:
    with pytest.raises(ValueError, match="a list is wanted, not NoneType"):
        written(MetadataRequest(topics=None), 0)
    with pytest.raises(ValueError, match="a string is wanted, not NoneType"):
        written(MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 9)
    assert MetadataRequest.read(Decoder(written(MetadataRequest(topics=None), 1)), 1).topics is None


def test_an_unknown_tagged_field_is_passed_over() -> None:
    response = ApiVersionsResponse(api_keys=[ApiVersion(api_key=3, max_version=13)], finalized_features_epoch=7)
    data = written(response, 3)
    (count,) = data[-11:-10]
    assert count == 1
    with_unknown = data[:-11] + b"\2" + data[-10:] + b"\x63\4what"
    assert ApiVersionsResponse.read(Decoder(with_unknown), 3) == response


def test_a_tagged_field_of_another_size_than_announced_is_refused() -> None:
    data = bytearray(written(ApiVersionsResponse(finalized_features_epoch=7), 3))
    longer = bytes(data[:-9]) + b"\x09" + bytes(data[-8:]) + b"\0"
    with pytest.raises(MalformedMessage, match="too many"):
        ApiVersionsResponse.read(Decoder(longer), 3)


def test_versions_kafka_calls_unstable_are_left_out() -> None:
    # InitProducerId 6 (two-phase commit, KIP-939) is not stable in 4.3.1.
    assert InitProducerIdRequest.MAX_VERSION == InitProducerIdResponse.MAX_VERSION == 5


def test_messages_compare_by_their_fields() -> None:
    assert TopicProduceData(name="a") == TopicProduceData(name="a")
    assert TopicProduceData(name="a") != TopicProduceData(name="b")
    assert TopicProduceData() != PartitionProduceData()
    with pytest.raises(TypeError):
        hash(TopicProduceData())


def test_a_message_is_shown_with_its_fields_but_not_its_megabytes() -> None:
    message = PartitionProduceData(index=3, records=memoryview(bytes(1_000_000)))
    assert repr(message) == "PartitionProduceData(index=3, records=<1,000,000 bytes>)"
    assert repr(PartitionProduceData(records=b"abc")) == "PartitionProduceData(index=0, records=b'abc')"


def test_requests_and_responses_belong_together() -> None:
    assert sorted(REQUESTS) == sorted(RESPONSES) == sorted(MODULES)
    assert all(REQUESTS[key].API_KEY == RESPONSES[key].API_KEY == key for key in REQUESTS)
    assert response_class(ProduceRequest) is ProduceResponse
    assert 1 in RESPONSES
    assert 99 not in REQUESTS
    assert RESPONSES[1] is FetchResponse


def test_importing_the_protocol_loads_no_message_before_it_is_asked_for() -> None:
    code = (
        "import sys, ottla.protocol.frames\n"
        "assert not {'dataclasses', 'socket', 'asyncio', 'json', 'numpy'} & sys.modules.keys()\n"
        "loaded = sorted(name for name in sys.modules if name.startswith('ottla.protocol.messages.'))\n"
        "assert loaded == ['ottla.protocol.messages.headers'], loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
