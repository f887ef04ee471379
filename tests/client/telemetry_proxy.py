"""A proxy that makes a cluster of one broker look as if it had a plugin for clients' metrics (KIP-714).

Apache Kafka's brokers list GetTelemetrySubscriptions and PushTelemetry only where such a plugin is installed, and the
embedded ones only where somebody has subscribed. The proxy adds both to what the broker says of its APIs and answers
them itself, in their turn among the broker's own answers.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from typing import Any
from uuid import UUID

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from tests.client.altering_proxy import AlteringProxy, frames, hang_up
from tests.wrong_answers import framed

from ottla.protocol.frames import decode_request, decode_response, encode_response
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest
from ottla.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from ottla.records.compression import Allowance, decompress

API_VERSIONS, METADATA, GET_SUBSCRIPTIONS, PUSH = 18, 3, 71, 72
CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
CLIENT_INSTANCE_ID = UUID("12345678-1234-5678-1234-567812345678")
_PATIENCE_S = 30


class Push:
    """One push as it came, and the metrics in it."""

    def __init__(self, request: PushTelemetryRequest) -> None:
        self.request = request
        self.codec = CODECS[request.compression_type]
        self.size_bytes = len(request.metrics)
        self.data = MetricsData.FromString(bytes(decompress(self.codec, request.metrics, Allowance(1 << 24))))

    @property
    def metrics(self) -> list[Any]:
        return [metric for of in self.data.resource_metrics for scope in of.scope_metrics for metric in scope.metrics]

    def points(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], Any]:
        """(name, attributes) -> the metric's one point."""
        found = {}
        for metric in self.metrics:
            (point,) = getattr(metric, metric.WhichOneof("data")).data_points
            found[metric.name, tuple((of.key, of.value.string_value) for of in point.attributes)] = point
        return found

    def value(self, name: str) -> float:
        """The value of a metric of the producer as a whole."""
        return float(self.points()[f"org.apache.kafka.producer.{name}", ()].as_double)


class TelemetryProxy(AlteringProxy):
    """`subscription` is what is answered to who asks for one; `error_codes` are those of the next pushes.

    The first subscription has the number 1, the next one 2.
    """

    def __init__(self, bootstrap_servers: str, **subscription: Any) -> None:
        self.subscription: dict[str, Any] = {
            "client_instance_id": CLIENT_INSTANCE_ID.bytes,
            "accepted_compression_types": [],
            "push_interval_ms": 20,
            "telemetry_max_bytes": 1 << 20,
            "delta_temporality": False,
            "requested_metrics": ["*"],
            **subscription,
        }
        self.error_codes: deque[int] = deque()
        self.asked_by: list[bytes] = []
        self.pushes: list[Push] = []
        self._news = threading.Condition()
        self._in_turn = threading.Lock()
        super().__init__(bootstrap_servers, [])

    def wait_for(self, seen: Callable[[TelemetryProxy], bool]) -> None:
        """Return once it is so."""
        with self._news:
            assert self._news.wait_for(lambda: seen(self), _PATIENCE_S), "it did not come to that"

    def _forward(self, client: socket.socket, broker: socket.socket, asked: dict[int, Any]) -> None:
        with contextlib.suppress(OSError):
            for frame in frames(client):
                api_key, version, correlation_id = struct.unpack_from(">hhi", frame)
                if api_key in (GET_SUBSCRIPTIONS, PUSH):
                    header, message = decode_request(memoryview(frame))
                    answer = self._told(message) if api_key == GET_SUBSCRIPTIONS else self._taken(message)
                    chunks = encode_response(header.correlation_id, answer, version)
                    with self._in_turn:
                        asked[correlation_id] = api_key, version, b"".join(bytes(chunk) for chunk in chunks)
                        _send_own(client, asked)
                else:
                    with self._in_turn:
                        asked[correlation_id] = api_key, version, None
                    broker.sendall(framed(frame))
        hang_up(client, broker)

    def _return(self, client: socket.socket, broker: socket.socket, asked: dict[int, Any]) -> None:
        with contextlib.suppress(OSError):
            for frame in frames(broker):
                with self._in_turn:
                    api_key, version, _ = asked.pop(int.from_bytes(frame[:4], "big"))
                    answer = framed(frame)
                    if api_key == METADATA:
                        answer = self._in_our_name(frame, version)
                    elif api_key == API_VERSIONS:
                        answer = _with_telemetry(frame, version)
                    client.sendall(answer)
                    _send_own(client, asked)
        hang_up(client, broker)

    def _told(self, message: GetTelemetrySubscriptionsRequest) -> GetTelemetrySubscriptionsResponse:
        with self._news:
            self.asked_by.append(bytes(message.client_instance_id))
            self._news.notify_all()
            return GetTelemetrySubscriptionsResponse(subscription_id=len(self.asked_by), **self.subscription)

    def _taken(self, message: PushTelemetryRequest) -> PushTelemetryResponse:
        with self._news:
            message.metrics = bytes(message.metrics)
            self.pushes.append(Push(message))
            self._news.notify_all()
            return PushTelemetryResponse(error_code=self.error_codes.popleft() if self.error_codes else 0)


def _send_own(client: socket.socket, asked: dict[int, Any]) -> None:
    """Send the answers of the proxy's own whose turn it is."""
    while asked:
        correlation_id, (_, _, answer) = next(iter(asked.items()))
        if answer is None:
            return
        del asked[correlation_id]
        client.sendall(answer)


def _with_telemetry(frame: bytes, version: int) -> bytes:
    correlation_id, message = decode_response(memoryview(frame), ApiVersionsRequest, version)
    message.api_keys += [
        ApiVersion(api_key=api_key, min_version=0, max_version=0) for api_key in (GET_SUBSCRIPTIONS, PUSH)
    ]
    return b"".join(bytes(chunk) for chunk in encode_response(correlation_id, message, version))
