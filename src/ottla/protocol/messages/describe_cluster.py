"""DescribeCluster: DescribeClusterRequest and DescribeClusterResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.errors import UnsupportedField
from ottla.protocol.message import ABSENT, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

BOOL = Struct(">?")
I32 = Struct(">i")
I32_I16 = Struct(">ih")
I8 = Struct(">b")


class DescribeClusterRequest(ApiMessage):
    """DescribeClusterRequest: API key 60, versions 0 to 2, flexible from 0."""

    __slots__ = ("include_cluster_authorized_operations", "endpoint_type", "include_fenced_brokers")

    API_KEY = 60
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        include_cluster_authorized_operations: bool = False,
        endpoint_type: int = 1,
        include_fenced_brokers: bool = False,
    ) -> None:
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.endpoint_type = endpoint_type
        self.include_fenced_brokers = include_fenced_brokers

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.include_cluster_authorized_operations = decoder.boolean()
        if version >= 1:
            self.endpoint_type = decoder.int8()
        else:
            self.endpoint_type = 1
        if version >= 2:
            self.include_fenced_brokers = decoder.boolean()
        else:
            self.include_fenced_brokers = False
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += BOOL.pack(self.include_cluster_authorized_operations)
        if version >= 1:
            out += I8.pack(self.endpoint_type)
        elif self.endpoint_type != 1:
            raise UnsupportedField(self, "endpoint_type", version)
        if version >= 2:
            out += BOOL.pack(self.include_fenced_brokers)
        elif self.include_fenced_brokers:
            raise UnsupportedField(self, "include_fenced_brokers", version)
        out.append(0)


class DescribeClusterResponse(ApiMessage):
    """DescribeClusterResponse: API key 60, versions 0 to 2, flexible from 0."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "endpoint_type",
        "cluster_id",
        "controller_id",
        "brokers",
        "cluster_authorized_operations",
    )

    API_KEY = 60
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        endpoint_type: int = 1,
        cluster_id: str = "",
        controller_id: int = -1,
        brokers: list[DescribeClusterBroker] = ABSENT,
        cluster_authorized_operations: int = -2147483648,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.endpoint_type = endpoint_type
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.brokers: list[DescribeClusterBroker] = [] if brokers is ABSENT else brokers
        self.cluster_authorized_operations = cluster_authorized_operations

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code = decoder.fixed(I32_I16)
        self.error_message = decoder.nullable_compact_string()
        if version >= 1:
            self.endpoint_type = decoder.int8()
        else:
            self.endpoint_type = 1
        self.cluster_id = decoder.compact_string()
        self.controller_id = decoder.int32()
        self.brokers = [DescribeClusterBroker.read(decoder, version) for _ in range(decoder.compact_count(11))]
        self.cluster_authorized_operations = decoder.int32()
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16.pack(self.throttle_time_ms, self.error_code)
        encoder.nullable_compact_string(self.error_message)
        if version >= 1:
            out += I8.pack(self.endpoint_type)
        elif self.endpoint_type != 1:
            raise UnsupportedField(self, "endpoint_type", version)
        encoder.compact_string(self.cluster_id)
        out += I32.pack(self.controller_id)
        encoder.compact_count(self.brokers)
        for describe_cluster_broker in self.brokers:
            describe_cluster_broker.write(encoder, version)
        out += I32.pack(self.cluster_authorized_operations)
        out.append(0)


class DescribeClusterBroker(Message):
    """In `DescribeClusterResponse.brokers`."""

    __slots__ = ("broker_id", "host", "port", "rack", "is_fenced")

    def __init__(
        self,
        *,
        broker_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
        is_fenced: bool = False,
    ) -> None:
        self.broker_id = broker_id
        self.host = host
        self.port = port
        self.rack = rack
        self.is_fenced = is_fenced

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.broker_id = decoder.int32()
        self.host = decoder.compact_string()
        self.port = decoder.int32()
        self.rack = decoder.nullable_compact_string()
        if version >= 2:
            self.is_fenced = decoder.boolean()
        else:
            self.is_fenced = False
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.broker_id)
        encoder.compact_string(self.host)
        out += I32.pack(self.port)
        encoder.nullable_compact_string(self.rack)
        if version >= 2:
            out += BOOL.pack(self.is_fenced)
        elif self.is_fenced:
            raise UnsupportedField(self, "is_fenced", version)
        out.append(0)
