"""One broker as a client sees it: its address and the life of the connection to it.

A `Node` has at most one connection at a time. The states and the events that move between them stand in
`TRANSITIONS`; any other move raises `RuntimeError`. `Connections` does what belongs to a move (opening, closing,
handshake); this file only holds the state.

Invariants: a connection id is used once; requests are pending only in HANDSHAKING (ApiVersions alone),
AUTHENTICATING (SASL alone), READY, and RENEWING (what was sent before, then SASL).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from ottla.addresses import address_of

if TYPE_CHECKING:
    from ottla.connection.authentication import SaslConversation

from ottla.connection.request import Pending
from ottla.connection.traffic import NodeMeter
from ottla.protocol.messages import ADD_PARTITIONS_TO_TXN, DELETE_TOPICS, FETCH, FIND_COORDINATOR, PRODUCE


class ConnectionState(IntEnum):
    """The state of the connection to one node."""

    ABSENT = 0
    CONNECTING = 1
    HANDSHAKING = 2
    READY = 3
    RESTING = 4
    # SASL: between the handshake and READY, and again before the session ends (KIP-368).
    AUTHENTICATING = 5
    RENEWING = 6


class ConnectionEvent(IntEnum):
    """What moves a connection from one state to the next."""

    WANTED = 0
    OPENED = 1
    AGREED = 2
    LOST = 3
    RESTED = 4
    DROPPED = 5
    CHALLENGED = 6
    PROVED = 7


# LOST: the other side, the network, or a timeout ended it; a pause follows before the next attempt (reconnect
# backoff). DROPPED: the client closed it because it is not needed any more; no pause follows.
TRANSITIONS: dict[tuple[ConnectionState, ConnectionEvent], ConnectionState] = {
    (ConnectionState.ABSENT, ConnectionEvent.WANTED): ConnectionState.CONNECTING,
    (ConnectionState.CONNECTING, ConnectionEvent.OPENED): ConnectionState.HANDSHAKING,
    (ConnectionState.CONNECTING, ConnectionEvent.LOST): ConnectionState.RESTING,
    (ConnectionState.CONNECTING, ConnectionEvent.DROPPED): ConnectionState.ABSENT,
    (ConnectionState.HANDSHAKING, ConnectionEvent.AGREED): ConnectionState.READY,
    (ConnectionState.HANDSHAKING, ConnectionEvent.LOST): ConnectionState.RESTING,
    (ConnectionState.HANDSHAKING, ConnectionEvent.DROPPED): ConnectionState.ABSENT,
    (ConnectionState.HANDSHAKING, ConnectionEvent.CHALLENGED): ConnectionState.AUTHENTICATING,
    (ConnectionState.AUTHENTICATING, ConnectionEvent.PROVED): ConnectionState.READY,
    (ConnectionState.AUTHENTICATING, ConnectionEvent.LOST): ConnectionState.RESTING,
    (ConnectionState.AUTHENTICATING, ConnectionEvent.DROPPED): ConnectionState.ABSENT,
    (ConnectionState.READY, ConnectionEvent.CHALLENGED): ConnectionState.RENEWING,
    (ConnectionState.RENEWING, ConnectionEvent.PROVED): ConnectionState.READY,
    (ConnectionState.RENEWING, ConnectionEvent.LOST): ConnectionState.RESTING,
    (ConnectionState.RENEWING, ConnectionEvent.DROPPED): ConnectionState.ABSENT,
    (ConnectionState.READY, ConnectionEvent.LOST): ConnectionState.RESTING,
    (ConnectionState.READY, ConnectionEvent.DROPPED): ConnectionState.ABSENT,
    (ConnectionState.RESTING, ConnectionEvent.RESTED): ConnectionState.ABSENT,
}


class Node:
    """A broker's address and the state of the connection to it.

    `pending` maps correlation ids to requests in the order they were sent, so its first entry is the oldest.
    `versions` maps API keys to the (lowest, highest) version the broker speaks; empty before the first handshake.
    `failures` counts losses since a connection was last ready, `unopened` the attempts in a row that did not open one;
    `setup_timeout_us` is how long the present attempt may take; `patient_until_us` is when metadata is next requested
    because this node has not answered yet. `meter` is set when the first connection is begun; `is_open` says that the
    meter counts the connection as open.
    """

    __slots__ = (
        "agreed_versions",
        "connection_id",
        "conversation",
        "failures",
        "host",
        "is_open",
        "last_used_us",
        "meter",
        "node_id",
        "patient_until_us",
        "pending",
        "port",
        "renew_at_us",
        "rest_until_us",
        "setup_timeout_us",
        "since_us",
        "state",
        "throttled_until_us",
        "unopened",
        "versions",
        "wanted",
    )

    meter: NodeMeter

    def __init__(self, node_id: int, host: str, port: int) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.state = ConnectionState.ABSENT
        self.connection_id = -1
        self.pending: dict[int, Pending] = {}
        self.versions: dict[int, tuple[int, int]] = {}
        # What `version_for` returned, by message class: it is called once per request.
        self.agreed_versions: dict[type, int] = {}
        self.failures = 0
        self.unopened = 0
        self.setup_timeout_us = 0
        self.patient_until_us = 0
        self.is_open = False
        self.since_us = 0
        self.rest_until_us = 0
        self.throttled_until_us = 0
        self.last_used_us = 0
        self.wanted = False
        # SASL under way, and when the session must be renewed; 0: never.
        self.conversation: SaslConversation | None = None
        self.renew_at_us = 0

    @property
    def address(self) -> str:
        """host:port, with the brackets an IPv6 address needs."""
        return address_of(self.host, self.port)

    def move(self, event: ConnectionEvent) -> None:
        """Follow the transition table; `RuntimeError` for a move that is not in it."""
        try:
            self.state = TRANSITIONS[self.state, event]
        except KeyError:
            raise RuntimeError(
                f"connection to {self.address}: {event.name} cannot happen in {self.state.name}"
            ) from None

    def highest_version(self, api_key: int) -> int:
        """The newest version of an API that the broker said it speaks, -1 where it has not said so."""
        return self.versions.get(api_key, (-1, -1))[1]

    def oldest_sent_us(self) -> int | None:
        """When the oldest unsettled request was sent, None where nothing is pending."""
        for pending in self.pending.values():
            return pending.sent_us
        return None


# The newest versions this client uses, where the message classes can write newer ones: Produce and Fetch name topics by
# id only from 13 on, and this client names them by name. FindCoordinator asks for many keys at once from 4 on, and
# AddPartitionsToTxn is for brokers from 4 on. DeleteTopics has other fields from 6 on, for topics that are named by id.
VERSION_CAPS = {PRODUCE: 12, FETCH: 12, DELETE_TOPICS: 5, FIND_COORDINATOR: 3, ADD_PARTITIONS_TO_TXN: 3}


class VersionMismatch(Exception):
    """No version of an API is spoken by both sides; the message is a clause for a person."""


def version_for(node: Node, message_class: type[Any], caps: Mapping[int, int] = VERSION_CAPS) -> int:
    """Return the newest version of this API that both sides speak; `VersionMismatch` where there is none."""
    known = node.agreed_versions.get(message_class)
    if known is not None:
        return known
    api_key: int = message_class.API_KEY
    lowest: int = message_class.MIN_VERSION
    highest: int = min(message_class.MAX_VERSION, caps.get(api_key, message_class.MAX_VERSION))
    name = message_class.__name__.removesuffix("Request")
    theirs = node.versions.get(api_key)
    if theirs is None:
        raise VersionMismatch(f"the broker at {node.address} does not know {name}")
    version = min(highest, theirs[1])
    if version < max(lowest, theirs[0]):
        raise VersionMismatch(
            f"the broker at {node.address} speaks {name} {theirs[0]} to {theirs[1]}, this client {lowest} to {highest}"
        )
    node.agreed_versions[message_class] = version
    return version
