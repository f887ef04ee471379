"""The part every client-side core shares: connections, the handshake, versions, timeouts and cluster metadata.

Which file does what: `connections.py` opens, uses and closes the connection to one node; `nodes.py` has the nodes and
chooses among them; `asks.py` has the requests that wait for a node; `refresh.py` decides when metadata is requested,
and `metadata.py` has what is known by it. `ConnectionCore` joins them.

How an owner (ProducerCore, ReaderCore, AskingCore, EndingCore) uses it:

    core = ConnectionCore(settings, rng)
    core.want_topic("flights", now_us)               # keep this topic's metadata known
    node_id = core.leader("flights", 0)              # None: not known yet, a refresh is under way
    if core.can_send(node_id, now_us):               # opens a connection when there is none
        core.request(node_id, message, token, now_us)
    core.ask(message, token, now_us)                 # one request to any node (or the controller, or a given one)
    for answer in core.take_answers(): ...           # after each receive() and tick()

    core.receive(event, now_us); core.tick(now_us); core.outputs(); core.deadline_us()

Invariants: every token given to `request` or `ask` comes back in exactly one `Answer`. `sent` is False in it only if
the request certainly was not sent as a whole. Responses of one node come in the order of its requests. Time and chance
are arguments.

KIP-951: answers to Produce and Fetch name new leaders, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from ottla.connection.asks import Ask, Asks
from ottla.connection.backoff import backoff_us
from ottla.connection.connections import METADATA, Connections
from ottla.connection.events import (
    Connect,
    Connected,
    Disconnect,
    Disconnected,
    Received,
    TokenGiven,
    TokenWanted,
    Transmit,
    Transmitted,
    Unsendable,
)
from ottla.connection.metadata import Metadata
from ottla.connection.node import VERSION_CAPS, ConnectionState
from ottla.connection.nodes import Nodes
from ottla.connection.refresh import MetadataRefresh
from ottla.connection.request import ANY_NODE, Answer
from ottla.connection.settings import ConnectionSettings
from ottla.errors import OttlaError
from ottla.protocol.error_codes import ErrorCode

_READY = ConnectionState.READY


class ConnectionCore:
    """Connections and metadata of one client; time and randomness are arguments."""

    def __init__(self, settings: ConnectionSettings, rng: Random, *, auto_create_topics: bool = False) -> None:
        """Begin without a connection; the first is opened when there is something to request.

        `auto_create_topics` lets Metadata requests create topics where the brokers allow it, as Java's producer does.
        """
        self.settings = settings
        self.metadata = Metadata()
        self._rng = rng
        self._request_timeout_us = settings.request_timeout_ms * 1000
        self._refresh = MetadataRefresh(settings, self.metadata, rng, auto_create_topics)
        self._connections = Connections(settings, rng, self._refresh)
        self._nodes = Nodes(settings, rng, self.metadata, self._connections)
        self._asks = Asks(self._connections, self._nodes, self.metadata, self._refresh)
        self.addresses = self._connections.addresses
        # What was counted of each node's connections; a meter stays when its node is gone.
        self.meters = self._connections.meters

    # --- the surface every core has -----------------------------------------------------------------------------

    def receive(
        self, event: Connected | Disconnected | Received | Transmitted | Unsendable | TokenGiven, now_us: int
    ) -> None:
        """Take in one event from the driver; events about connections that are gone are ignored."""
        connections = self._connections
        node = connections.nodes.get(event.connection_id)
        if node is None:
            return
        if isinstance(event, Received):
            request = connections.take_response(node, event.correlation_id, event.message, now_us)
            if request is not None and request.token is not METADATA:
                connections.answers.append(Answer(request.token, event.message, None, True, node.node_id))
                if self._asks.waiting or self._refresh.is_wanted:
                    self._advance(now_us)
                return
            if request is not None:
                self._on_metadata(event.message, now_us)
        elif isinstance(event, Transmitted):
            connections.transmitted(node, event.correlation_id, now_us)
            return
        elif isinstance(event, Connected):
            connections.opened(node, now_us)
            return
        elif isinstance(event, Unsendable):
            connections.unsendable(node, event, now_us)
        elif isinstance(event, TokenGiven):
            connections.take_token(node, event, now_us)
        else:
            connections.lose(node, event.loss, now_us, close=False)
        self._advance(now_us)

    def outputs(self) -> list[Connect | Transmit | Disconnect | TokenWanted]:
        """Return what the driver must now do, in order; each output is returned once."""
        taken = self._connections.outputs
        if taken:
            self._connections.outputs = []
        return taken

    def deadline_us(self) -> int | None:
        """Return when `tick` must be called at the latest, None when nothing is waited for."""
        earliest: int | None = None
        some_ready = False
        for node in self._nodes.by_id.values():
            if node.state is _READY and not node.throttled_until_us:
                some_ready = True
            due = self._connections.deadline_us(node)
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        # While no node is ready, the nodes' own deadlines say when a refresh can be tried.
        due = self._refresh.due_us() if some_ready else None
        if due is not None and (earliest is None or due < earliest):
            earliest = due
        due = self._nodes.rebootstrap_due_us(self._refresh.unanswered_since_us)
        if due is not None and (earliest is None or due < earliest):
            earliest = due
        for ask in self._asks.waiting:
            if earliest is None or ask.deadline_us < earliest:
                earliest = ask.deadline_us
        return earliest

    def tick(self, now_us: int) -> None:
        """Do what is due: timeouts, the ends of pauses, metadata that is too old."""
        for node in list(self._nodes.by_id.values()):
            self._connections.tick(node, now_us)
        self._advance(now_us)

    # --- topics --------------------------------------------------------------------------------------------------

    def want_topic(self, topic: str, now_us: int) -> None:
        """Request this topic's metadata now if it is not known, and keep it up to date."""
        if self._refresh.want(topic, now_us):
            self._advance(now_us)

    def use_topic(self, topic: str, now_us: int) -> None:
        """Note that records for this topic have come; requests its metadata where it was forgotten."""
        if topic in self._refresh.topics:
            self._refresh.topics[topic] = now_us
            return
        known = self.metadata.topics.get(topic)
        # The topic may have an error that lasts: then it is not requested again with every batch.
        if known is None or not known.error_code:
            self.want_topic(topic, now_us)

    def topics_unused_since(self, since_us: int) -> list[str]:
        """Return the topics that were not wanted or used since then."""
        return [topic for topic, used_us in self._refresh.topics.items() if used_us <= since_us]

    def forget_topic(self, topic: str) -> None:
        """Drop this topic's metadata, and stop asking for it."""
        self._refresh.forget(topic)
        self.metadata.topics.pop(topic, None)

    def refresh_metadata(self, now_us: int) -> None:
        """Request metadata as soon as the pause (`retry.backoff.ms`) allows, because an answer said it is stale."""
        self._refresh.needed = True
        self._advance(now_us)

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the node id of the partition's leader, None where it is not known for now."""
        return self.metadata.leader(topic, partition)

    def learn_leader(self, topic: str, partition: int, leader: int, leader_epoch: int) -> bool:
        """Take a newer leader from a Produce or Fetch answer (KIP-951); True if it replaced the one known."""
        return self.metadata.learn_leader(topic, partition, leader, leader_epoch)

    # --- nodes ---------------------------------------------------------------------------------------------------

    def can_send(self, node_id: int, now_us: int) -> bool:
        """As `is_open`; also starts connecting where there is no connection."""
        node = self._nodes.by_id.get(node_id)
        return node is not None and self._connections.can_send(node, now_us)

    def is_open(self, node_id: int, now_us: int) -> bool:
        """Tell whether a request to this node would leave now; begins to renew its session where that is due."""
        node = self._nodes.by_id.get(node_id)
        return node is not None and self._connections.is_open(node, now_us)

    def any_node(self, now_us: int, avoid: int | None = None) -> int | None:
        """Return the ready node with the fewest requests in flight; None while none is ready, then it connects to one.

        `avoid` is a node that is taken only when no other can be reached.
        """
        node = self._nodes.any_node(now_us, avoid)
        return None if node is None else node.node_id

    def ready_nodes(self) -> list[int]:
        """Return the nodes there is a usable connection to."""
        return [node_id for node_id, node in self._nodes.by_id.items() if node.state is _READY]

    def speaking(self, api_key: int) -> list[int]:
        """Return the nodes there is a usable connection to whose brokers know this API."""
        return [
            node_id for node_id, node in self._nodes.by_id.items() if node.state is _READY and api_key in node.versions
        ]

    def highest_version(self, node_id: int, api_key: int) -> int:
        """Return the newest version of an API that this node's broker said it speaks, -1 where it has not said so."""
        node = self._nodes.by_id.get(node_id)
        return -1 if node is None else node.highest_version(api_key)

    def in_flight(self, node_id: int) -> int:
        """Return how many requests to this node are not settled yet."""
        node = self._nodes.by_id.get(node_id)
        return 0 if node is None else len(node.pending)

    def requests_in_flight(self) -> int:
        """Return how many requests to all nodes are not settled yet."""
        # A copy, made in one step: users' threads call this while the core goes on.
        return sum(len(node.pending) for node in list(self._nodes.by_id.values()))

    def open_connections(self) -> int:
        """Return how many connections are open."""
        return sum(node.is_open for node in list(self._nodes.by_id.values()))

    @property
    def brokers_met(self) -> int:
        """How often a connection became ready or its session was renewed: then owners look at brokers' versions."""
        return self._connections.brokers_met

    @property
    def features(self) -> dict[str, int]:
        """The cluster's features in force (KIP-584), of the newest answer about them."""
        return self._connections.features

    def reach_error(self) -> OttlaError | None:
        """Return `AddressBook.error` where no broker can be reached; None when one can, or no attempt failed yet."""
        return self._nodes.reach_error()

    def refused(self, now_us: int) -> OttlaError | None:
        """Return `reach_error` where waiting will not help, else None."""
        return self._nodes.refused(now_us)

    def why_not(self, node_id: int) -> str | None:
        """Return "host:port, cannot be used: reason" where the last try to reach this node failed, else None."""
        return self._nodes.why_not(node_id)

    # --- requests ------------------------------------------------------------------------------------------------

    def request(
        self, node_id: int, message: Any, token: Any, now_us: int, answered: bool = True, version: int = -1
    ) -> None:
        """Send to one node that `can_send`; the `Answer` has this `token`. `answered` False: Produce with acks=0.

        `version` must be one that this node's broker speaks (`highest_version`); -1: the newest that both sides speak.
        """
        node = self._nodes.by_id.get(node_id)
        if node is None or node.state is not _READY:
            self._connections.answers.append(Answer(token, None, "there is no connection to it", False, node_id))
        else:
            self._connections.transmit(node, message, token, now_us, answered, version)

    def ask(
        self,
        message: Any,
        token: Any,
        now_us: int,
        *,
        where: int = ANY_NODE,
        deadline_us: int | None = None,
        avoid: int | None = None,
        version: int = -1,
    ) -> None:
        """Send one request to any node, the `CONTROLLER` or a node id, as soon as it can be reached.

        It waits for a connection until `deadline_us` (None: `request.timeout.ms` from now); then the answer says why it
        was not sent. `avoid`, with any node: a node that has failed before, used only when no other can be reached.
        `version`: -1 for the newest that both sides speak; the answer is `unsupported` if the broker does not speak it.
        """
        if deadline_us is None:
            deadline_us = now_us + self._request_timeout_us
        self._asks.waiting.append(Ask(message, token, where, deadline_us, avoid, version))
        self._advance(now_us)

    def take_answers(self) -> list[Answer]:
        """Return the answers that came since the last call; each is returned once."""
        taken = self._connections.answers
        if taken:
            self._connections.answers = []
        return taken

    def cap_versions(self, caps: Mapping[int, int]) -> None:
        """From now on use at most these versions of these APIs (by key), also if the broker speaks newer ones."""
        self._connections.version_caps = {**VERSION_CAPS, **caps}
        for node in self._nodes.by_id.values():
            node.agreed_versions = {}

    def backoff_us(self, failures: int, first_ms: int, most_ms: int) -> int:
        """Return the pause after so many failures in a row: see `backoff.py`."""
        return backoff_us(self._rng, failures, first_ms, most_ms)

    def close(self, now_us: int) -> None:
        """Close every connection; what is in flight is answered as lost, and nothing is opened again."""
        self._connections.is_closed = True
        self._asks.close()
        for node in list(self._nodes.by_id.values()):
            self._connections.drop(node, "the client was closed", now_us)

    # --- what can be done now ------------------------------------------------------------------------------------

    def _advance(self, now_us: int) -> None:
        """Do what can be done now: reconnect, send requests that waited, request metadata."""
        connections = self._connections
        if connections.is_closed:
            return
        rebootstrap_us = self._nodes.rebootstrap_due_us(self._refresh.unanswered_since_us)
        if rebootstrap_us is not None and rebootstrap_us <= now_us:
            self._nodes.rebootstrap(now_us)
        for node in list(self._nodes.by_id.values()):
            if node.wanted and connections.has_rested(node, now_us):
                connections.open_when_rested(node, now_us)
        if self._asks.waiting:
            self._asks.dispatch(now_us)
        due = self._refresh.due_us()
        if due is None or (due > now_us and not self._refresh.is_wanted):
            return
        if due <= now_us:
            self._refresh.begin(now_us)
        # Connecting may begin before the pause is over.
        asked = self._nodes.any_node(now_us)
        if asked is not None and due <= now_us:
            connections.transmit(asked, self._refresh.request(now_us), METADATA, now_us, True)

    def _on_metadata(self, response: Any, now_us: int) -> None:
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self._nodes.rebootstrap(now_us)
        if not response.error_code and response.brokers:
            if self.metadata.take_in(response, now_us, for_all=self._refresh.in_flight_for_all):
                # Else nobody would ask: the broker that is gone ends no connection any more, and refuses none.
                self._refresh.needed = True
            self._nodes.match_brokers(now_us)
        self._refresh.answered(response, now_us)
