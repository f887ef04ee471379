"""A hand-driven clock and a scripted cluster in front of a `ConnectionCore`: typed messages, no sockets."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.connection.core import ConnectionCore
from ottla.connection.events import Connect, Connected, Disconnect, Disconnected, Received, TokenWanted, Transmit
from ottla.connection.loss import CLOSED_BY_BROKER, REFUSED, Loss
from ottla.connection.settings import ConnectionSettings
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

VERSIONS = {0: (3, 11), 1: (4, 17), 2: (1, 9), 3: (0, 13), 18: (0, 4), 19: (2, 7), 20: (1, 6), 22: (0, 5)}


class Line:
    """Drives one core: `now_us` is moved by hand, outputs pile up in `sent` until a test answers them."""

    def __init__(self, **settings: Any) -> None:
        given = {"bootstrap_servers": "one:9092", **settings}
        self.core = ConnectionCore(ConnectionSettings(given), Random(7))
        self.now_us = 1_000_000
        self.connects: list[Connect] = []
        self.sent: list[Transmit] = []
        self.closed: list[int] = []
        self.close_reasons: list[str] = []
        self.tokens_wanted: list[TokenWanted] = []
        self.answers: list[Any] = []

    def turn(self) -> None:
        """Collect what the core wants done."""
        for output in self.core.outputs():
            if isinstance(output, Connect):
                self.connects.append(output)
            elif isinstance(output, Transmit):
                self.sent.append(output)
            elif isinstance(output, Disconnect):
                self.closed.append(output.connection_id)
                self.close_reasons.append("" if output.loss is None else output.loss.detail)
            elif isinstance(output, TokenWanted):
                self.tokens_wanted.append(output)
        self.answers.extend(self.core.take_answers())

    def pass_ms(self, ms: float) -> None:
        self.now_us += int(ms * 1000)
        self.core.tick(self.now_us)
        self.turn()

    def run_to_deadline(self) -> int:
        """Jump to the core's own deadline and tick; returns how far that was, in microseconds."""
        due = self.core.deadline_us()
        assert due is not None
        waited = max(0, due - self.now_us)
        self.now_us = max(self.now_us, due)
        self.core.tick(self.now_us)
        self.turn()
        return waited

    def accept(self) -> Connect:
        """The oldest connection asked for opens."""
        connect = self.connects.pop(0)
        self.core.receive(Connected(connect.connection_id), self.now_us)
        self.turn()
        return connect

    def refuse(self, loss: Loss = REFUSED) -> Connect:
        connect = self.connects.pop(0)
        self.core.receive(Disconnected(connect.connection_id, loss), self.now_us)
        self.turn()
        return connect

    def hang_up(self, connection_id: int, loss: Loss = CLOSED_BY_BROKER) -> None:
        self.core.receive(Disconnected(connection_id, loss), self.now_us)
        self.turn()

    def take(self, message_class: type) -> Transmit:
        """The oldest request sent, which must be of this class."""
        transmit = self.sent.pop(0)
        assert type(transmit.message) is message_class, transmit
        return transmit

    def answer(self, transmit: Transmit, message: Any) -> None:
        self.core.receive(Received(transmit.connection_id, transmit.correlation_id, message), self.now_us)
        self.turn()

    def agree(self, versions: dict[int, tuple[int, int]] = VERSIONS) -> int:
        """Accept the oldest connection and its handshake; returns the connection id."""
        connect = self.accept()
        self.answer(self.take(ApiVersionsRequest), api_versions(versions))
        return connect.connection_id

    def tell_metadata(self, *, brokers: dict[int, str] | None = None, topics: dict[str, Any] | None = None) -> None:
        self.answer(self.take(MetadataRequest), metadata(brokers=brokers, topics=topics))


def api_versions(versions: dict[int, tuple[int, int]] = VERSIONS, error_code: int = 0) -> ApiVersionsResponse:
    keys = [ApiVersion(api_key=k, min_version=low, max_version=high) for k, (low, high) in versions.items()]
    return ApiVersionsResponse(error_code=error_code, api_keys=keys)


def metadata(
    *, brokers: dict[int, str] | None = None, topics: dict[str, Any] | None = None, controller: int = 1
) -> MetadataResponse:
    """`topics`: name -> list of leaders (-1: none), list of (leader, epoch), or an error code."""
    brokers = {1: "one:9092"} if brokers is None else brokers
    response = MetadataResponse(cluster_id="c", controller_id=controller)
    for broker_id, address in brokers.items():
        host, port = address.split(":")
        response.brokers.append(MetadataResponseBroker(node_id=broker_id, host=host, port=int(port)))
    for name, told in (topics or {}).items():
        topic = MetadataResponseTopic(name=name)
        if isinstance(told, int):
            topic.error_code = told
        else:
            for index, place in enumerate(told):
                leader, epoch = place if isinstance(place, tuple) else (place, 0)
                topic.partitions.append(
                    MetadataResponsePartition(partition_index=index, leader_id=leader, leader_epoch=epoch)
                )
        response.topics.append(topic)
    return response


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.fixture
def make_line() -> type[Line]:
    return Line


@pytest.fixture
def make_metadata() -> Any:
    return metadata


@pytest.fixture
def make_api_versions() -> Any:
    return api_versions
