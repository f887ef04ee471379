"""Errors of encoding and decoding messages.

All are a `ProtocolError`. A server closes the connection on any of them, except on `UnsupportedVersion` of ApiVersions,
which it answers (KIP-511). A client raises `ottla.errors.NotKafka`, or disconnects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.protocol.messages.headers import RequestHeader


class ProtocolError(OttlaError):
    """Bytes that are not the Kafka protocol as we know it, or a message that cannot become such bytes."""


class MalformedMessage(ProtocolError):
    """The bytes do not form the message they claim to be: cut short, too long, or holding impossible lengths."""


class FrameTooLarge(ProtocolError):
    """A frame's length is `size`, more than the allowed `limit`, or negative; nothing was allocated for it."""

    def __init__(self, size: int, limit: int) -> None:
        said = f"a frame of {size:,} bytes" if size >= 0 else f"a frame of negative length {size:,}"
        super().__init__(f"{said} was announced, 0 to {limit:,} are allowed; is this the Kafka protocol?")
        self.size = size
        self.limit = limit


class UnknownApi(ProtocolError):
    """A request for an API that is not among `ottla.protocol.apis.REQUESTS`; `header` says which."""

    def __init__(self, header: RequestHeader) -> None:
        super().__init__(f"API key {header.request_api_key} is not supported")
        self.header = header


class UnsupportedVersion(ProtocolError):
    """A request in a version that the message class does not have; `header` says which."""

    def __init__(self, header: RequestHeader, name: str, lowest: int, highest: int) -> None:
        super().__init__(
            f"{name} version {header.request_api_version} is not supported; versions {lowest} to {highest} are"
        )
        self.header = header


class UnsupportedField(ProtocolError):
    """A field is set that this version of the message does not have, and that must not be left out."""

    def __init__(self, message: object, field: str, version: int) -> None:
        super().__init__(
            f"{type(message).__name__}.{field} is set, but version {version} cannot carry it; "
            "leave it at its default or use a newer version"
        )
        self.field = field
        self.version = version


class InvalidValue(ProtocolError, ValueError):
    """A field has a value that its type cannot hold: an integer out of range, a null, a string too long."""
