"""Brokers whose policy for topics (`create.topic.policy.class.name`) refuses the settings that suit the sink's best."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import socket
import struct
from collections.abc import Iterator

import pytest
from tests.client.altering_proxy import AlteringProxy, frames, hang_up
from tests.wrong_answers import framed

import ottla
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.frames import decode_request, encode_request, encode_response
from ottla.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse

from .conftest import assert_every_row_once
from .driver import Job, run_batch

_CREATE_TOPICS = CreateTopicsRequest.API_KEY
_ALLOWED = {"cleanup.policy"}


class PolicyProxy(AlteringProxy):
    """Answers CreateTopics as such brokers do; `refused` are the topics.

    The broker only validates what is refused: so its answer, which is exchanged, has its place among the others.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self.refused: list[str] = []
        self._refusals: dict[bytes, CreateTopicsResponse] = {}
        super().__init__(bootstrap_servers, [], _CREATE_TOPICS)

    def _forward(self, client: socket.socket, broker: socket.socket, asked: dict[int, tuple[int, int]]) -> None:
        with contextlib.suppress(OSError):
            for frame in frames(client):
                api_key, version, correlation_id = struct.unpack_from(">hhi", frame)
                asked[correlation_id] = api_key, version
                broker.sendall(self._checked(frame) if api_key == _CREATE_TOPICS else framed(frame))
        hang_up(client, broker)

    def _checked(self, frame: bytes) -> bytes:
        header, request = decode_request(memoryview(frame))
        if all(config.name in _ALLOWED for topic in request.topics for config in topic.configs):
            return framed(frame)
        names = [topic.name for topic in request.topics]
        self.refused += names
        told = "segments have to be as large as the policy says"
        self._refusals[frame[4:8]] = CreateTopicsResponse(
            topics=[
                CreatableTopicResult(name=name, error_code=ErrorCode.POLICY_VIOLATION, error_message=told)
                for name in names
            ]
        )
        request.validate_only = True
        chunks = encode_request(header.correlation_id, header.client_id, request, header.request_api_version)
        return b"".join(bytes(chunk) for chunk in chunks)

    def _altered(self, frame: bytes, version: int) -> bytes | None:
        refusal = self._refusals.pop(frame[:4], None)
        if refusal is None:
            return framed(frame)
        answer = encode_response(int.from_bytes(frame[:4], "big"), refusal, version)
        return b"".join(bytes(chunk) for chunk in answer)


@pytest.fixture
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=1) as cluster:
        yield cluster


def test_topics_are_only_compacted_where_a_policy_refuses_more(
    cluster: ottla.Cluster, job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    proxy = PolicyProxy(cluster.bootstrap_servers)
    settings = dataclasses.replace(job.settings(), bootstrap_servers=proxy.bootstrap_servers)
    try:
        with caplog.at_level(logging.WARNING, "ottla.sink"):
            run_batch(job, settings, 0)
            run_batch(job, settings, 1)
    finally:
        proxy.close()
    assert tuple(proxy.refused) == settings.topics
    # Clients of other tests may log messages about their own brokers.
    told = [record.getMessage() for record in caplog.records if record.name == "ottla.sink"]
    for topic, said in zip(settings.topics, told, strict=True):
        assert f"topic {topic!r} is made with cleanup.policy=compact alone" in said
        assert "POLICY_VIOLATION" in said
        assert "segments have to be as large" in said
    with ottla.Admin(job.bootstrap_servers) as admin:
        for topic in settings.topics:
            given = admin.describe_configs(topic=topic)
            assert given["cleanup.policy"].value == "compact"
            assert given["segment.bytes"].value == str(1 << 30)
    assert_every_row_once(job, batches=2)
