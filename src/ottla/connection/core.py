"""The part every client-side core shares: connections, the handshake, versions, timeouts and cluster metadata.

How it works. There is one connection per node, opened when somebody wants to send to it. After it opens, the core asks
ApiVersions (falling back to version 0 as KIP-511 tells) and then uses, per API, the newest version both sides speak;
where `security.protocol` says SASL, the client proves who it is in between (`sessions.py`). A lost connection rests for
`reconnect.backoff.ms`, doubling up to its maximum, with a fifth of jitter. A request without an answer within
`request.timeout.ms` takes its connection down: answers come in order, so nothing behind it would come either. Until the
first metadata arrives the nodes are the bootstrap addresses, numbered -1, -2 and so on; a bootstrap connection whose
address turns out to be a broker's is kept for that broker. When all known brokers are unreachable, the bootstrap
addresses are tried again (KIP-899); when metadata could not be had for `metadata.recovery.rebootstrap.trigger.ms`, all
known brokers are given up for them (KIP-1102).

How an owner (ProducerCore, ReaderCore, Admin) uses it:

    core = ConnectionCore(settings, rng)
    core.want_topic("flights", now_us)               # keep this topic's metadata known
    node_id = core.leader("flights", 0)              # None: not known yet, a refresh is under way
    if core.can_send(node_id, now_us):               # opens a connection when there is none
        core.request(node_id, message, token, now_us)
    core.ask(message, token, now_us)                 # one request to any node (or the controller, or a given one)
    for answer in core.take_answers(): ...           # after each receive() and tick()

    core.receive(event, now_us); core.tick(now_us); core.outputs(); core.deadline_us()

Invariants: every token given to `request` or `ask` comes back in exactly one `Answer`. An `Answer` with `sent`
False says the request certainly never left as a whole. `take_answers` keeps the order in which requests to one node
were sent. Nothing here reads a clock or draws a random number of its own.

KIPs: 511 (ApiVersions), 219 (throttling), 144 (reconnect backoff), 601 (setup timeouts), 899 and 1102 (rebootstrap),
951 (leaders in answers).
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from ottla import __version__
from ottla.connection.address_book import AddressBook
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
from ottla.connection.loss import Loss, failed, sasl_failed
from ottla.connection.metadata import BrokerMetadata, Metadata
from ottla.connection.node import (
    VERSION_CAPS,
    ConnectionEvent,
    ConnectionState,
    Node,
    Pending,
    VersionMismatch,
    version_for,
)
from ottla.connection.refresh import MetadataRefresh
from ottla.connection.security_settings import SecuritySettings
from ottla.connection.setting import INT64_MAX
from ottla.connection.settings import ConnectionSettings
from ottla.connection.traffic import NodeMeter
from ottla.errors import OttlaError
from ottla.protocol.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from ottla.connection.sessions import Sessions

# Where `ask` sends: a node id, or one of these.
ANY_NODE = -1_000_001
CONTROLLER = -1_000_002

_READY = ConnectionState.READY
_ABSENT = ConnectionState.ABSENT
_CONNECTING = ConnectionState.CONNECTING
_HANDSHAKING = ConnectionState.HANDSHAKING
_RESTING = ConnectionState.RESTING
_AUTHENTICATING = ConnectionState.AUTHENTICATING
_RENEWING = ConnectionState.RENEWING
_UNDER_WAY = (_CONNECTING, _HANDSHAKING, _AUTHENTICATING, _RENEWING)
_OPENING = (_CONNECTING, _HANDSHAKING, _AUTHENTICATING)

_HANDSHAKE = object()
_SASL = object()
_METADATA = object()

_API_VERSIONS_KEY = 18
# Every broker since 2.4 knows it; version 4 (since 3.9) tells a client nothing more and costs older ones a refusal.
_HANDSHAKE_VERSION = 3
_UNSUPPORTED_VERSION = 35
_REBOOTSTRAP_REQUIRED = 129
_CORRELATION_ID_MAX = 0x7FFFFFFF

# While a connection to a leader is being opened: how often metadata is requested, to learn of a new leader.
_OPENING_PATIENCE_US = 1_000_000


class Answer:
    """What became of one request: `message` is the decoded response, or None with `failure` a clause for a person.

    `sent` is False when the request certainly never left as a whole; `unsupported` says that it never will, because
    the broker speaks no version of it that we do, `unsendable` that it cannot be written as bytes. A request that
    expects no answer comes back with `message` and `failure` both None once it was transmitted.
    """

    __slots__ = ("failure", "message", "node_id", "sent", "token", "unsendable", "unsupported")

    def __init__(
        self,
        token: Any,
        message: Any,
        failure: str | None,
        sent: bool,
        node_id: int | None,
        unsupported: bool = False,
        unsendable: bool = False,
    ) -> None:
        self.token = token
        self.message = message
        self.failure = failure
        self.sent = sent
        self.node_id = node_id
        self.unsupported = unsupported
        self.unsendable = unsendable


class _Ask:
    __slots__ = ("avoid", "deadline_us", "message", "token", "version", "where")

    def __init__(self, message: Any, token: Any, where: int, deadline_us: int, avoid: int | None, version: int) -> None:
        self.message = message
        self.token = token
        self.where = where
        self.deadline_us = deadline_us
        self.avoid = avoid
        self.version = version


class ConnectionCore:
    """Connections and metadata of one client; time and randomness are arguments."""

    def __init__(self, settings: ConnectionSettings, rng: Random, *, auto_create_topics: bool = False) -> None:
        """Begin with nothing open; the bootstrap addresses are tried when something is first wanted.

        `auto_create_topics` lets Metadata requests create topics where the brokers allow it, as Java's producer does.
        """
        self.settings = settings
        self.metadata = Metadata()
        # What each node's connections carried; the meters outlive the nodes.
        self.meters: dict[int, NodeMeter] = {}
        # The cluster's features in force (KIP-584), of the newest answer about them.
        self.features: dict[str, int] = {}
        self._features_epoch = -1
        # How often a connection became ready, so that owners see when to look what brokers speak.
        self.brokers_met = 0
        self._version_caps = VERSION_CAPS
        self._rng = rng
        self._request_timeout_us = settings.request_timeout_ms * 1000
        idle_ms = settings.connections_max_idle_ms
        self._idle_us = (INT64_MAX if idle_ms < 0 else idle_ms) * 1000
        self._rebootstraps = settings.metadata_recovery_strategy == "rebootstrap"
        self._rebootstrap_trigger_us = settings.metadata_recovery_rebootstrap_trigger_ms * 1000
        self._refresh = MetadataRefresh(settings, self.metadata, self.backoff_us, auto_create_topics)
        self._outputs: list[Connect | Transmit | Disconnect | TokenWanted] = []
        self._answers: list[Answer] = []
        self._nodes: dict[int, Node] = {}
        self._by_connection: dict[int, Node] = {}
        self._sessions = self._new_sessions(settings.security)
        self._next_connection_id = 1
        self._next_correlation_id = 1
        self._asks: list[_Ask] = []
        self._closed = False
        self.addresses = AddressBook(settings.bootstrap_servers)
        self._refused_patience_us = settings.bootstrap_refused_timeout_ms * 1000
        self._add_bootstrap_nodes()

    # --- the surface every core has -----------------------------------------------------------------------------

    def receive(
        self, event: Connected | Disconnected | Received | Transmitted | Unsendable | TokenGiven, now_us: int
    ) -> None:
        """Take in one event from the driver; events about connections that are gone are ignored."""
        node = self._by_connection.get(event.connection_id)
        if node is None:
            return
        if isinstance(event, Received):
            self._on_received(node, event.correlation_id, event.message, now_us)
        elif isinstance(event, Transmitted):
            self._on_transmitted(node, event.correlation_id, now_us)
        elif isinstance(event, Connected):
            self._on_connected(node, now_us)
        elif isinstance(event, Unsendable):
            self._on_unsendable(node, event, now_us)
        elif isinstance(event, TokenGiven):
            if self._sessions is not None:
                self._sessions.take_token(node, event, now_us)
            self._advance(now_us)
        else:
            self._lose(node, event.loss, now_us, close=False)
            self._advance(now_us)

    def outputs(self) -> list[Connect | Transmit | Disconnect | TokenWanted]:
        """Return what the driver must now do, in order; each output is returned once."""
        taken = self._outputs
        if taken:
            self._outputs = []
        return taken

    def deadline_us(self) -> int | None:
        """Return when `tick` must be called at the latest, None when nothing is waited for."""
        earliest: int | None = None
        some_ready = False
        for node in self._nodes.values():
            if node.state is _READY and not node.throttled_until_us:
                some_ready = True
            due = self._node_deadline_us(node)
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        # While no node is ready, the nodes' own deadlines say when a refresh can be tried.
        due = self._refresh.due_us() if some_ready else None
        if due is not None and (earliest is None or due < earliest):
            earliest = due
        due = self._rebootstrap_due_us()
        if due is not None and (earliest is None or due < earliest):
            earliest = due
        for ask in self._asks:
            if earliest is None or ask.deadline_us < earliest:
                earliest = ask.deadline_us
        return earliest

    def tick(self, now_us: int) -> None:
        """Let time pass: timeouts, the end of backoffs, the age of metadata."""
        for node in list(self._nodes.values()):
            self._tick_node(node, now_us)
        self._advance(now_us)

    # --- for the owning core -------------------------------------------------------------------------------------

    def want_topic(self, topic: str, now_us: int) -> None:
        """Keep this topic's metadata known; asks for it now where it is not."""
        if self._refresh.want(topic, now_us):
            self._advance(now_us)

    def use_topic(self, topic: str, now_us: int) -> None:
        """Note that records for this topic have come; asks for its metadata where it was forgotten."""
        if topic in self._refresh.topics:
            self._refresh.topics[topic] = now_us
            return
        known = self.metadata.topics.get(topic)
        # A topic that is known by a lasting error is not asked for with every batch.
        if known is None or not known.error_code:
            self.want_topic(topic, now_us)

    def topics_unused_since(self, since_us: int) -> list[str]:
        """Return the topics that nobody has wanted or used since then."""
        return [topic for topic, used_us in self._refresh.topics.items() if used_us <= since_us]

    def forget_topic(self, topic: str) -> None:
        """Drop this topic's metadata, and stop asking for it."""
        self._refresh.forget(topic)
        self.metadata.topics.pop(topic, None)

    def refresh_metadata(self, now_us: int) -> None:
        """Ask for metadata soon (at the pace of `retry.backoff.ms`), because an answer said it is stale."""
        self._refresh.needed = True
        self._advance(now_us)

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the node id of the partition's leader, None where it is not known for now."""
        return self.metadata.leader(topic, partition)

    def learn_leader(self, topic: str, partition: int, leader: int, leader_epoch: int) -> bool:
        """Take a newer leader from a Produce or Fetch answer (KIP-951); True if it was news."""
        return self.metadata.learn_leader(topic, partition, leader, leader_epoch)

    def can_send(self, node_id: int, now_us: int) -> bool:
        """Tell whether a request to this node would leave now; starts connecting where there is no connection."""
        node = self._nodes.get(node_id)
        if node is not None and node.state is not _READY:
            self._connect_when_rested(node, now_us)
        return self.is_open(node_id, now_us)

    def is_open(self, node_id: int, now_us: int) -> bool:
        """Tell whether a request to this node would leave now."""
        node = self._nodes.get(node_id)
        if node is None or node.state is not _READY:
            return False
        return node.throttled_until_us <= now_us and not self._renews(node, now_us)

    def ready_nodes(self) -> list[int]:
        """Return the nodes there is a usable connection to."""
        return [node_id for node_id, node in self._nodes.items() if node.state is _READY]

    def speaking(self, api_key: int) -> list[int]:
        """Return the nodes there is a usable connection to whose brokers know this API."""
        return [node_id for node_id, node in self._nodes.items() if node.state is _READY and api_key in node.versions]

    def highest_version(self, node_id: int, api_key: int) -> int:
        """Return the newest version of an API that this node's broker said it speaks, -1 where it has not said so."""
        node = self._nodes.get(node_id)
        return -1 if node is None else node.versions.get(api_key, (-1, -1))[1]

    def requests_in_flight(self) -> int:
        """Return how many requests to all nodes are not settled yet."""
        # A copy, made in one step: users ask for figures on their own threads.
        return sum(len(node.pending) for node in list(self._nodes.values()))

    def open_connections(self) -> int:
        """Return how many connections are open."""
        return sum(node.is_open for node in list(self._nodes.values()))

    def in_flight(self, node_id: int) -> int:
        """Return how many requests to this node are not settled yet."""
        node = self._nodes.get(node_id)
        return 0 if node is None else len(node.pending)

    def request(
        self, node_id: int, message: Any, token: Any, now_us: int, answered: bool = True, version: int = -1
    ) -> None:
        """Send to one node that `can_send`; the answer carries `token`. `answered` False: Produce with acks=0.

        `version`: one that this node's broker speaks (`highest_version`), whatever is spoken otherwise; -1: that.
        """
        node = self._nodes.get(node_id)
        if node is None or node.state is not _READY:
            self._answers.append(Answer(token, None, "there is no connection to it", False, node_id))
        else:
            self._transmit(node, message, token, now_us, answered, version)

    def any_node(self, now_us: int, avoid: int | None = None) -> int | None:
        """Return the ready node with the fewest requests in flight; None while one must first be connected to.

        `avoid` is a node that is taken only when no other can be reached.
        """
        ready: Node | None = None
        connecting = others = False
        for node in self._nodes.values():
            if node.node_id == avoid:
                continue
            others = others or node.state is _ABSENT or self._has_rested(node, now_us)
            self._renews(node, now_us)
            if node.state is _READY and node.throttled_until_us <= now_us:
                if ready is None or len(node.pending) < len(ready.pending):
                    ready = node
            elif node.state in _UNDER_WAY:
                connecting = True
        if ready is not None:
            return ready.node_id
        if avoid is not None and not connecting and not others:
            return self.any_node(now_us)
        if not connecting:
            self._connect_to_some_node(now_us, avoid)
        return None

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

        Waits for the connection until `deadline_us` (None: `request.timeout.ms` from now); then the answer says why.
        `avoid`, with any node: the one that has failed before, asked again only when no other can be reached.
        `version`: this one, whatever is spoken otherwise; a broker that does not speak it makes it `unsupported`.
        """
        if deadline_us is None:
            deadline_us = now_us + self._request_timeout_us
        self._asks.append(_Ask(message, token, where, deadline_us, avoid, version))
        self._advance(now_us)

    def take_answers(self) -> list[Answer]:
        """Return the answers that came since the last call; each is returned once."""
        taken = self._answers
        if taken:
            self._answers = []
        return taken

    def cap_versions(self, caps: Mapping[int, int]) -> None:
        """From now on speak no newer version of these APIs (by key) than said, however new the broker is."""
        self._version_caps = {**VERSION_CAPS, **caps}
        for node in self._nodes.values():
            node.agreed_versions = {}

    def trouble(self) -> OttlaError | None:
        """Return `AddressBook.error` where no broker can be reached; None when one can, or none was tried yet."""
        if self.addresses.is_empty or any(node.state in (_READY, _RENEWING) for node in self._nodes.values()):
            return None
        return self.addresses.error()

    def why_not(self, node_id: int) -> str | None:
        """Return "host:port, cannot be used: reason" where the last try to reach this node failed, else None."""
        node = self._nodes.get(node_id)
        loss = None if node is None else self.addresses.loss(node.host, node.port)
        return None if node is None or loss is None else f"{node.address}, cannot be used: {loss.detail}"

    def refused(self, now_us: int) -> OttlaError | None:
        """Return `trouble` where waiting will not help.

        That is: no broker known and this client trust each other, as Java sees it, too; or no broker was ever met, and
        every bootstrap address has refused for a while.
        """
        addresses = self.addresses
        if addresses.is_empty:
            return None
        losses = [addresses.loss(node.host, node.port) for node in self._nodes.values()]
        if all(loss is not None and loss.is_unauthenticated for loss in losses):
            return self.trouble()
        return self.trouble() if addresses.have_refused_for(self._refused_patience_us, now_us) else None

    def close(self, now_us: int) -> None:
        """Close every connection; what is in flight is answered as lost, and nothing is opened again."""
        self._closed = True
        for ask in self._asks:
            self._answers.append(Answer(ask.token, None, "the client was closed", False, None))
        self._asks = []
        for node in list(self._nodes.values()):
            self._drop(node, "the client was closed", now_us)

    # --- connections ---------------------------------------------------------------------------------------------

    def _add_bootstrap_nodes(self) -> None:
        taken = {(node.host, node.port) for node in self._nodes.values()}
        for number, (host, port) in enumerate(self.settings.bootstrap_servers, 1):
            if -number not in self._nodes and (host, port) not in taken:
                self._nodes[-number] = Node(-number, host, port)

    def _connect_to_some_node(self, now_us: int, avoid: int | None = None) -> None:
        rested = [n for n in self._nodes.values() if n.state is _ABSENT or self._has_rested(n, now_us)]
        rested = [n for n in rested if n.node_id != avoid] or rested
        if not rested and self.metadata.version and self._rebootstraps:
            # Every broker we knew is out of reach: the addresses the user gave may know newer ones (KIP-899).
            self._add_bootstrap_nodes()
            rested = [n for n in self._nodes.values() if n.state is _ABSENT]
        if rested:
            self._connect_when_rested(rested[self._rng.randrange(len(rested))], now_us)
            return
        for node in self._nodes.values():
            node.wanted = True

    def _has_rested(self, node: Node, now_us: int) -> bool:
        return node.state is _RESTING and node.rest_until_us <= now_us

    def _connect_when_rested(self, node: Node, now_us: int) -> None:
        if self._closed:
            return
        if self._has_rested(node, now_us):
            node.move(ConnectionEvent.RESTED)
        if node.state is not _ABSENT:
            node.wanted = node.state is _RESTING
            return
        node.move(ConnectionEvent.WANTED)
        node.wanted = False
        meter = self.meters.get(node.node_id)
        if meter is None:
            meter = self.meters[node.node_id] = NodeMeter(now_us)
        node.meter = meter
        node.connection_id = self._next_connection_id
        self._next_connection_id += 1
        node.since_us = now_us
        node.patient_until_us = now_us + _OPENING_PATIENCE_US
        node.setup_timeout_us = self._setup_timeout_us(node.unopened)
        self._by_connection[node.connection_id] = node
        self._outputs.append(Connect(node.connection_id, node.host, node.port, meter))

    def _on_connected(self, node: Node, now_us: int) -> None:
        if node.state is not _CONNECTING:
            return
        node.move(ConnectionEvent.OPENED)
        node.meter.connections_opened += 1
        node.is_open = True
        node.since_us = now_us
        node.versions = {}
        self._send_handshake(node, _HANDSHAKE_VERSION, now_us)

    def _send_handshake(self, node: Node, version: int, now_us: int) -> None:
        message = ApiVersionsRequest()
        if version >= 3:
            message.client_software_name = "ottla"
            message.client_software_version = __version__
        self._put(node, message, version, _HANDSHAKE, now_us, True)

    def _new_sessions(self, security: SecuritySettings) -> Sessions | None:
        if not security.is_sasl:
            return None
        from ottla.connection.sessions import Sessions  # most clients never need it

        return Sessions(
            security,
            self._rng,
            transmit=lambda node, message, version, now_us: self._put(node, message, version, _SASL, now_us, True),
            want_token=lambda wanted: self._outputs.append(wanted),
            lose=lambda node, loss, now_us: self._lose(node, loss, now_us, close=True),
        )

    def _renews(self, node: Node, now_us: int) -> bool:
        """Begin to renew the session of a ready node where it is time; whether it was."""
        if not node.renew_at_us or node.renew_at_us > now_us or node.state is not _READY:
            return False
        assert self._sessions is not None
        self._sessions.begin(node, now_us)
        return True

    def _on_handshake(self, node: Node, response: Any, now_us: int) -> None:
        if response.error_code == _UNSUPPORTED_VERSION and _API_VERSIONS_KEY not in node.versions:
            # KIP-511: the broker answers in version 0 and, if it is new enough, says what it does speak.
            best = 0
            for api in response.api_keys:
                if api.api_key == _API_VERSIONS_KEY:
                    best = min(api.max_version, _HANDSHAKE_VERSION)
            node.versions = {_API_VERSIONS_KEY: (0, best)}
            self._send_handshake(node, best, now_us)
            return
        if response.error_code:
            refusal = failed(f"refused the handshake with error code {response.error_code}")
            self._lose(node, refusal, now_us, close=True)
            return
        node.versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        node.agreed_versions = {}
        if response.finalized_features_epoch > self._features_epoch:
            self._features_epoch = response.finalized_features_epoch
            self.features = {each.name: each.max_version_level for each in response.finalized_features}
        if self._sessions is None:
            node.move(ConnectionEvent.AGREED)
            # By its certificate at least.
            node.meter.authentications += self.settings.security.is_tls
            self._on_ready(node)
        else:
            self._sessions.begin(node, now_us)

    def _on_ready(self, node: Node) -> None:
        node.failures = 0
        node.wanted = False
        self.brokers_met += 1
        self.addresses.ready(node.host, node.port)

    def _lose(self, node: Node, loss: Loss, now_us: int, *, close: bool) -> None:
        """The connection ended by itself or by a timeout: rest, tell the owners, ask who leads now."""
        idle = node.state is _READY and not node.pending
        if loss.is_unauthenticated:
            node.meter.authentication_failed(renewing=node.state is _RENEWING)
        node.unopened = node.unopened + 1 if node.state is _CONNECTING else 0
        node.move(ConnectionEvent.LOST)
        node.failures += 1
        node.rest_until_us = now_us + self.backoff_us(
            node.failures, self.settings.reconnect_backoff_ms, self.settings.reconnect_backoff_max_ms
        )
        self.addresses.lost(node.host, node.port, loss, now_us)
        self._detach(node, loss.detail, close, now_us, loss)
        if not idle and self._refresh.topics:
            self._refresh.needed = True

    def _drop(self, node: Node, reason: str, now_us: int) -> None:
        """We end the connection ourselves, because nobody needs it any more."""
        if node.state is _READY or node.state in _UNDER_WAY:
            node.move(ConnectionEvent.DROPPED)
            self._detach(node, reason, True, now_us)
        node.wanted = False

    def _detach(self, node: Node, reason: str, close: bool, now_us: int, loss: Loss | None = None) -> None:
        connection_id = node.connection_id
        del self._by_connection[connection_id]
        node.connection_id = -1
        if node.is_open:
            node.is_open = False
            node.meter.connections_closed += 1
        unsent: list[int] = []
        if self._outputs:
            # What the driver has not been given yet certainly never left (correlation ids are the core's, not the
            # connection's), and a connection it was not asked to open need not be closed.
            close = close and not any(type(o) is Connect and o.connection_id == connection_id for o in self._outputs)
            unsent = [o.correlation_id for o in self._outputs if isinstance(o, Transmit)]
            self._outputs = [o for o in self._outputs if o.connection_id != connection_id]
        if close:
            self._outputs.append(Disconnect(connection_id, loss))
        pending = node.pending
        node.pending = {}
        node.throttled_until_us = 0
        node.conversation = None
        node.renew_at_us = 0
        for correlation_id, request in pending.items():
            self._settle(node, request, reason, request.answered and correlation_id not in unsent, now_us)

    def backoff_us(self, failures: int, first_ms: int, most_ms: int) -> int:
        """Return the pause after this many failures in a row, with a fifth of jitter either way."""
        pause_ms = min(most_ms, first_ms * 2 ** min(failures - 1, 30))
        return int(pause_ms * 1000 * self._rng.uniform(0.8, 1.2))

    def _setup_timeout_us(self, failures: int) -> int:
        """How long opening a connection may take after this many failures in a row (KIP-601)."""
        first_ms = self.settings.socket_connection_setup_timeout_ms
        most_ms = self.settings.socket_connection_setup_timeout_max_ms
        if first_ms == most_ms:
            return most_ms * 1000
        timeout_us = first_ms * 1000 * 2 ** min(failures, 30) * self._rng.uniform(0.8, 1.2)
        return min(most_ms * 1000, int(timeout_us))

    # --- requests ------------------------------------------------------------------------------------------------

    def _transmit(self, node: Node, message: Any, token: Any, now_us: int, answered: bool, version: int = -1) -> None:
        try:
            if version < 0:
                version = version_for(node, type(message), self._version_caps)
            elif version > self.highest_version(node.node_id, message.API_KEY):
                name = type(message).__name__.removesuffix("Request")
                raise VersionMismatch(f"the broker at {node.address} does not speak {name} {version}")
        except VersionMismatch as mismatch:
            self._settle(node, Pending(token, now_us, answered), str(mismatch), False, now_us, unsupported=True)
            return
        self._put(node, message, version, token, now_us, answered)

    def _put(self, node: Node, message: Any, version: int, token: Any, now_us: int, answered: bool) -> None:
        correlation_id = self._next_correlation_id
        self._next_correlation_id = 1 if correlation_id == _CORRELATION_ID_MAX else correlation_id + 1
        node.pending[correlation_id] = Pending(token, now_us, answered)
        node.last_used_us = now_us
        node.meter.requests += 1
        self._outputs.append(Transmit(node.connection_id, correlation_id, message, version, answered))

    def _on_received(self, node: Node, correlation_id: int, message: Any, now_us: int) -> None:
        request = node.pending.pop(correlation_id, None)
        if request is None:
            self._lose(node, failed("answered a request that was never made"), now_us, close=True)
            self._advance(now_us)
            return
        throttle_ms = getattr(message, "throttle_time_ms", 0)
        node.meter.answered(throttle_ms)
        if request.token is _SASL:
            renewing, began_us = node.state is _RENEWING, node.since_us
            if self._sessions is not None and self._sessions.receive(node, message, now_us):
                if renewing:
                    node.meter.reauthenticated(now_us - began_us)
                else:
                    node.meter.authentications += 1
                self._on_ready(node)
            self._advance(now_us)
            return
        node.last_used_us = now_us
        if request.token is _HANDSHAKE:
            self._on_handshake(node, message, now_us)
            self._advance(now_us)
            return
        self.addresses.answered = True
        if throttle_ms > 0:
            node.throttled_until_us = now_us + throttle_ms * 1000
        if request.token is _METADATA:
            self._on_metadata(message, now_us)
            self._advance(now_us)
            return
        self._answers.append(Answer(request.token, message, None, True, node.node_id))
        if self._asks or self._refresh.is_wanted:
            self._advance(now_us)

    def _on_transmitted(self, node: Node, correlation_id: int, now_us: int) -> None:
        request = node.pending.get(correlation_id)
        if request is not None and not request.answered:
            del node.pending[correlation_id]
            node.last_used_us = now_us
            self._settle(node, request, None, True, now_us)

    def _on_unsendable(self, node: Node, event: Unsendable, now_us: int) -> None:
        request = node.pending.pop(event.correlation_id, None)
        if request is None:
            return
        if request.token is _HANDSHAKE or request.token is _SASL:
            self._lose(node, failed(event.reason), now_us, close=True)
        else:
            self._settle(node, request, event.reason, False, now_us, unsendable=True)
        self._advance(now_us)

    def _settle(
        self,
        node: Node,
        request: Pending,
        failure: str | None,
        sent: bool,
        now_us: int,
        *,
        unsupported: bool = False,
        unsendable: bool = False,
    ) -> None:
        if request.token is _HANDSHAKE or request.token is _SASL:
            return
        if request.token is _METADATA:
            self._refresh.lost(now_us)
            return
        self._answers.append(Answer(request.token, None, failure, sent, node.node_id, unsupported, unsendable))

    def _dispatch_asks(self, now_us: int) -> None:
        waiting = []
        for ask in self._asks:
            if ask.deadline_us <= now_us:
                self._answers.append(Answer(ask.token, None, self._why_not_asked(ask.where), False, None))
                continue
            # Also where waiting will not help: the next one who asks is to find who has come up meanwhile.
            node_id = self._destination(ask, now_us)
            if node_id is not None and self.can_send(node_id, now_us):
                self._transmit(self._nodes[node_id], ask.message, ask.token, now_us, True, ask.version)
            elif self.refused(now_us) is not None:
                self._answers.append(Answer(ask.token, None, self._why_not_asked(ask.where), False, None))
            else:
                waiting.append(ask)
        self._asks = waiting

    def _destination(self, ask: _Ask, now_us: int) -> int | None:
        where = ask.where
        if where == ANY_NODE:
            return self.any_node(now_us, ask.avoid)
        node_id = self.metadata.controller_id if where == CONTROLLER else where
        if node_id in self._nodes and (node_id >= 0 or where != CONTROLLER):
            return node_id
        self._refresh.needed = True
        return None

    def _why_not_asked(self, where: int) -> str:
        if where in (ANY_NODE, CONTROLLER):
            trouble = self.trouble()
            return str(trouble) if trouble is not None else "no broker could be asked in time"
        node = self._nodes.get(where)
        if node is None:
            return f"no broker has the id {where}"
        loss = self.addresses.loss(node.host, node.port)
        return f"the broker at {node.address} could not be asked in time" if loss is None else loss.detail

    # --- metadata ------------------------------------------------------------------------------------------------

    def _advance(self, now_us: int) -> None:
        """Do what became possible: reconnect where wanted, send asks, refresh metadata."""
        if self._closed:
            return
        rebootstrap_us = self._rebootstrap_due_us()
        if rebootstrap_us is not None and rebootstrap_us <= now_us:
            self._rebootstrap(now_us)
        for node in list(self._nodes.values()):
            if node.wanted and self._has_rested(node, now_us):
                self._connect_when_rested(node, now_us)
        if self._asks:
            self._dispatch_asks(now_us)
        due = self._refresh.due_us()
        if due is None or (due > now_us and not self._refresh.is_wanted):
            return
        if due <= now_us:
            self._refresh.begin(now_us)
        # Connecting may begin before the request may leave.
        node_id = self.any_node(now_us)
        if node_id is not None and due <= now_us:
            self._transmit(self._nodes[node_id], self._refresh.request(now_us), _METADATA, now_us, True)

    def _on_metadata(self, response: Any, now_us: int) -> None:
        if response.error_code == _REBOOTSTRAP_REQUIRED and self._rebootstraps:
            self._rebootstrap(now_us)
        if not response.error_code and response.brokers:
            self.metadata.take_in(response, now_us, for_all=self._refresh.in_flight_for_all)
            self._match_nodes_to_brokers(now_us)
        self._refresh.answered(response, now_us)

    def _rebootstrap_due_us(self) -> int | None:
        """When metadata will have been asked for in vain for long enough to give up all brokers known (KIP-1102)."""
        since_us = self._refresh.unanswered_since_us
        if since_us is None or not self._rebootstraps or max(self._nodes, default=-1) < 0:
            return None
        # Longer than the trigger, not as long: with 0 an answer still has a moment to come.
        return since_us + self._rebootstrap_trigger_us + 1000

    def _rebootstrap(self, now_us: int) -> None:
        """Give up every broker known, and begin again with the addresses the user gave."""
        for node_id in list(self._nodes):
            self._drop(self._nodes.pop(node_id), "the client began again with bootstrap.servers", now_us)
        self._add_bootstrap_nodes()

    def _match_nodes_to_brokers(self, now_us: int) -> None:
        """Make the nodes those of the metadata; a connection whose address is the broker's is kept."""
        brokers = self.metadata.brokers
        for broker in brokers.values():
            node = self._nodes.get(broker.broker_id)
            if node is not None:
                if node.host == broker.host and node.port == broker.port:
                    continue
                self._drop(node, "the broker moved to another address", now_us)
            self._nodes[broker.broker_id] = self._adopt_bootstrap(broker) or Node(
                broker.broker_id, broker.host, broker.port
            )
        for node_id, node in list(self._nodes.items()):
            if node_id not in brokers and not node.pending:
                self._drop(node, "no longer needed", now_us)
                del self._nodes[node_id]

    def _adopt_bootstrap(self, broker: BrokerMetadata) -> Node | None:
        for node_id, node in self._nodes.items():
            if node_id < 0 and node.host == broker.host and node.port == broker.port:
                del self._nodes[node_id]
                node.node_id = broker.broker_id
                self._rename_meter(node_id, broker.broker_id)
                return node
        return None

    def _rename_meter(self, bootstrap_id: int, node_id: int) -> None:
        meter, earlier = self.meters.pop(bootstrap_id, None), self.meters.get(node_id)
        if meter is None:
            return
        if earlier is not None:
            meter.absorb(earlier)
        self.meters[node_id] = meter

    # --- time ----------------------------------------------------------------------------------------------------

    def _node_deadline_us(self, node: Node) -> int | None:
        due = self._node_timeout_us(node)
        if due is None or node.state not in _OPENING or not self._is_waited_for_as_leader(node):
            return due
        return min(due, node.patient_until_us)

    def _is_waited_for_as_leader(self, node: Node) -> bool:
        return node.node_id >= 0 and bool(self._refresh.topics)

    def _node_timeout_us(self, node: Node) -> int | None:
        state = node.state
        if state is _READY or state in _UNDER_WAY[1:]:
            for request in node.pending.values():
                due = request.sent_us + self._request_timeout_us
                break
            else:
                due = node.last_used_us + self._idle_us
            conversation = node.conversation
            if conversation is not None and conversation.wants_token:
                due = min(due, node.since_us + self._request_timeout_us)
            if node.renew_at_us:
                due = min(due, node.renew_at_us)
            return due if due < node.throttled_until_us or not node.throttled_until_us else node.throttled_until_us
        if state is _CONNECTING:
            return node.since_us + node.setup_timeout_us
        if state is _RESTING and node.wanted:
            return node.rest_until_us
        return None

    def _tick_node(self, node: Node, now_us: int) -> None:
        if node.throttled_until_us and node.throttled_until_us <= now_us:
            node.throttled_until_us = 0
        if node.state is _RESTING or node.state is _ABSENT:
            return
        if node.state in _OPENING and node.patient_until_us <= now_us:
            # A broker that shuts down may still accept connections; a machine that is down does not even refuse them.
            node.patient_until_us = now_us + _OPENING_PATIENCE_US
            if self._is_waited_for_as_leader(node):
                self._refresh.needed = True
        if node.state is _CONNECTING:
            if node.since_us + node.setup_timeout_us <= now_us:
                limit = node.setup_timeout_us // 1000
                self._lose(node, failed(f"no answer to the attempt to connect within {limit} ms"), now_us, close=True)
            return
        conversation = node.conversation
        if conversation is not None and conversation.wants_token:
            if node.since_us + self._request_timeout_us <= now_us:
                limit = self.settings.request_timeout_ms
                loss = sasl_failed(f"there was no token within request.timeout.ms ({limit} ms)")
                self._lose(node, loss, now_us, close=True)
                return
            if not node.pending:
                return
        if self._renews(node, now_us):
            return
        oldest_us = node.oldest_sent_us()
        if oldest_us is None:
            if node.last_used_us + self._idle_us <= now_us:
                self._drop(node, "idle", now_us)
        elif oldest_us + self._request_timeout_us <= now_us:
            limit = self.settings.request_timeout_ms
            self._lose(node, failed(f"no answer within request.timeout.ms ({limit} ms)"), now_us, close=True)
