"""The events and outputs about connections that a client-side core and its driver exchange.

The driver handles sockets and bytes; the core decides. The driver turns `Transmit` into a frame, and keeps the response
class and version for its correlation id. It turns a frame that arrives into `Received`. A connection id is never used
again. Classes of which each request makes an object are written by hand: a frozen `dataclass` takes a microsecond to
fill.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ottla.connection.loss import Loss
from ottla.connection.traffic import NodeMeter
from ottla.value import Value


@dataclass(slots=True, frozen=True)
class Connect:
    """Output: open a connection to this address; the driver answers with `Connected` or `Disconnected`.

    The driver adds the bytes it writes and reads to `meter`.
    """

    connection_id: int
    host: str
    port: int
    meter: NodeMeter = field(default_factory=NodeMeter, compare=False, repr=False)


class Transmit(Value):
    """Output: send this message.

    `answered` is False for Produce with acks=0 only; for such a request, and no other, the driver reports
    `Transmitted` once its last byte was handed to the socket.
    """

    __slots__ = ("answered", "connection_id", "correlation_id", "message", "version")

    def __init__(
        self, connection_id: int, correlation_id: int, message: Any, version: int, answered: bool = True
    ) -> None:
        self.connection_id = connection_id
        self.correlation_id = correlation_id
        self.message = message
        self.version = version
        self.answered = answered


@dataclass(slots=True, frozen=True)
class Disconnect:
    """Output: close this connection; the driver does not report it back.

    `loss` says what was wrong with the connection; None where it is closed because it is not needed.
    """

    connection_id: int
    loss: Loss | None = None


@dataclass(slots=True, frozen=True)
class TokenWanted:
    """Output: OAUTHBEARER needs a token for this connection; the driver answers with `TokenGiven`."""

    connection_id: int


@dataclass(slots=True, frozen=True)
class Connected:
    """Event: the connection is open."""

    connection_id: int


@dataclass(slots=True, frozen=True)
class Disconnected:
    """Event: the connection could not be opened, was closed by the other side, or sent something unreadable."""

    connection_id: int
    loss: Loss


@dataclass(slots=True, frozen=True)
class TokenGiven:
    """Event: what the token provider returned, or `failure`, a clause that says why there is no token."""

    connection_id: int
    token: Any = field(repr=False)
    failure: str = ""


class Received(Value):
    """Event: a response arrived, decoded."""

    __slots__ = ("connection_id", "correlation_id", "message")

    def __init__(self, connection_id: int, correlation_id: int, message: Any) -> None:
        self.connection_id = connection_id
        self.correlation_id = correlation_id
        self.message = message


@dataclass(slots=True, frozen=True)
class Unsendable:
    """Event: a request cannot be written as bytes, so nothing of it was sent; `reason` says what is wrong with it."""

    connection_id: int
    correlation_id: int
    reason: str


class Transmitted(Value):
    """Event: the last byte of a request that expects no answer was handed to the socket.

    Until it comes, the request counts as in flight, as another does until its answer; else a producer with acks=0 would
    fill the driver's memory. If `Disconnected` comes first, the request was not sent as a whole and is certainly not
    stored.
    """

    __slots__ = ("connection_id", "correlation_id")

    def __init__(self, connection_id: int, correlation_id: int) -> None:
        self.connection_id = connection_id
        self.correlation_id = correlation_id
