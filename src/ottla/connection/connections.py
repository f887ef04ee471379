"""The connections of one client: when each is opened and given up, which versions it uses, and what is in flight.

A node has at most one connection. It is opened when there is something to send to the node. Then the client sends
ApiVersions (again in an older version where the broker does not know this one, KIP-511), and after that uses of each
API the newest version that both sides speak. With SASL it authenticates after ApiVersions (`sessions.py`). After a
connection is lost there is a pause (the state RESTING): `reconnect.backoff.ms`, which doubles with each loss up to its
maximum, with 20 % of jitter. If a request has no answer within `request.timeout.ms`, its connection is closed: answers
come in order, so those to later requests would not come either.

Which nodes there are, and which of them to send to, is decided by the callers, not here.

KIPs: 511 (ApiVersions), 219 (throttling), 144 (reconnect backoff), 601 (setup timeouts).
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from ottla import __version__
from ottla.connection.address_book import AddressBook
from ottla.connection.backoff import backoff_us
from ottla.connection.events import Connect, Disconnect, TokenGiven, TokenWanted, Transmit, Unsendable
from ottla.connection.loss import Loss, failed, sasl_failed
from ottla.connection.node import VERSION_CAPS, ConnectionEvent, ConnectionState, Node, VersionMismatch, version_for
from ottla.connection.refresh import MetadataRefresh
from ottla.connection.request import Answer, Pending
from ottla.connection.security_settings import SecuritySettings
from ottla.connection.setting import INT64_MAX
from ottla.connection.settings import ConnectionSettings
from ottla.connection.traffic import NodeMeter
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import API_VERSIONS
from ottla.protocol.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from ottla.connection.sessions import Sessions

_READY = ConnectionState.READY
_ABSENT = ConnectionState.ABSENT
_CONNECTING = ConnectionState.CONNECTING
_HANDSHAKING = ConnectionState.HANDSHAKING
_RESTING = ConnectionState.RESTING
_AUTHENTICATING = ConnectionState.AUTHENTICATING
_RENEWING = ConnectionState.RENEWING
_AGREEING = (_HANDSHAKING, _AUTHENTICATING, _RENEWING)
_OPENING = (_CONNECTING, _HANDSHAKING, _AUTHENTICATING)

# Tokens of requests that the connection core makes for itself.
METADATA = object()
_HANDSHAKE = object()
_SASL = object()

# Every broker since 2.4 knows it. Version 4 (since 3.9) has nothing that is used here, and older brokers refuse it.
_HANDSHAKE_VERSION = 3
_CORRELATION_ID_MAX = 0x7FFFFFFF

# While a connection to a broker is being opened: how often metadata is requested, which may have a new leader.
_OPENING_PATIENCE_US = 1_000_000


class Connections:
    """Opens, uses and closes the connections; `outputs` and `answers` grow until they are taken."""

    def __init__(self, settings: ConnectionSettings, rng: Random, refresh: MetadataRefresh) -> None:
        self.outputs: list[Connect | Transmit | Disconnect | TokenWanted] = []
        self.answers: list[Answer] = []
        # The nodes with a connection, by its id.
        self.nodes: dict[int, Node] = {}
        self.addresses = AddressBook(settings.bootstrap_servers)
        # What was counted of each node's connections; a meter stays when its node is gone.
        self.meters: dict[int, NodeMeter] = {}
        # The cluster's features in force (KIP-584), of the newest answer about them.
        self.features: dict[str, int] = {}
        self.brokers_met = 0
        self.version_caps = VERSION_CAPS
        self.is_closed = False
        self._features_epoch = -1
        self._settings = settings
        self._rng = rng
        self._refresh = refresh
        self._request_timeout_us = settings.request_timeout_ms * 1000
        idle_ms = settings.connections_max_idle_ms
        self._idle_us = (INT64_MAX if idle_ms < 0 else idle_ms) * 1000
        self._sessions = self._new_sessions(settings.security)
        self._next_connection_id = 1
        self._next_correlation_id = 1

    # --- opening -------------------------------------------------------------------------------------------------

    def is_open(self, node: Node, now_us: int) -> bool:
        """Tell whether a request to this node would leave now; begins to renew its session where that is due."""
        return node.state is _READY and node.throttled_until_us <= now_us and not self.renews(node, now_us)

    def can_send(self, node: Node, now_us: int) -> bool:
        """As `is_open`; also starts connecting where there is no connection."""
        if node.state is not _READY:
            self.open_when_rested(node, now_us)
        return self.is_open(node, now_us)

    def has_rested(self, node: Node, now_us: int) -> bool:
        """Tell whether the pause after a lost connection is over."""
        return node.state is _RESTING and node.rest_until_us <= now_us

    def open_when_rested(self, node: Node, now_us: int) -> None:
        """Open a connection where there is none; if the last one was lost, only after the pause."""
        if self.is_closed:
            return
        if self.has_rested(node, now_us):
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
        self.nodes[node.connection_id] = node
        self.outputs.append(Connect(node.connection_id, node.host, node.port, meter))

    def _setup_timeout_us(self, failures: int) -> int:
        """How long opening a connection may take after this many failures in a row (KIP-601)."""
        first_ms = self._settings.socket_connection_setup_timeout_ms
        most_ms = self._settings.socket_connection_setup_timeout_max_ms
        if first_ms == most_ms:
            return most_ms * 1000
        timeout_us = first_ms * 1000 * 2 ** min(failures, 30) * self._rng.uniform(0.8, 1.2)
        return min(most_ms * 1000, int(timeout_us))

    def opened(self, node: Node, now_us: int) -> None:
        """Note that the connection is open, and send ApiVersions."""
        if node.state is not _CONNECTING:
            return
        node.move(ConnectionEvent.OPENED)
        node.meter.connections_opened += 1
        node.is_open = True
        node.since_us = now_us
        node.versions = {}
        self._send_handshake(node, _HANDSHAKE_VERSION, now_us)

    # --- handshake and SASL --------------------------------------------------------------------------------------

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
            want_token=lambda wanted: self.outputs.append(wanted),
            lose=lambda node, loss, now_us: self.lose(node, loss, now_us, close=True),
        )

    def renews(self, node: Node, now_us: int) -> bool:
        """Begin to renew the session of a ready node where that is due; return whether it was."""
        if not node.renew_at_us or node.renew_at_us > now_us or node.state is not _READY:
            return False
        assert self._sessions is not None
        self._sessions.begin(node, now_us)
        return True

    def take_token(self, node: Node, given: TokenGiven, now_us: int) -> None:
        """Go on with SASL, with what the token provider gave."""
        if self._sessions is not None:
            self._sessions.take_token(node, given, now_us)

    def _on_sasl(self, node: Node, response: Any, now_us: int) -> None:
        renewing, began_us = node.state is _RENEWING, node.since_us
        if self._sessions is not None and self._sessions.receive(node, response, now_us):
            if renewing:
                node.meter.reauthenticated(now_us - began_us)
            else:
                node.meter.authentications += 1
            self._on_ready(node)

    def _on_handshake(self, node: Node, response: Any, now_us: int) -> None:
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION and API_VERSIONS not in node.versions:
            # KIP-511: the answer is in version 0. A broker that is new enough names the versions that it speaks.
            best = 0
            for api in response.api_keys:
                if api.api_key == API_VERSIONS:
                    best = min(api.max_version, _HANDSHAKE_VERSION)
            node.versions = {API_VERSIONS: (0, best)}
            self._send_handshake(node, best, now_us)
            return
        if response.error_code:
            refusal = failed(f"refused the handshake with error code {response.error_code}")
            self.lose(node, refusal, now_us, close=True)
            return
        node.versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        node.agreed_versions = {}
        if response.finalized_features_epoch > self._features_epoch:
            self._features_epoch = response.finalized_features_epoch
            self.features = {each.name: each.max_version_level for each in response.finalized_features}
        if self._sessions is None:
            node.move(ConnectionEvent.AGREED)
            # With TLS the broker's certificate was checked.
            node.meter.authentications += self._settings.security.is_tls
            self._on_ready(node)
        else:
            self._sessions.begin(node, now_us)

    def _on_ready(self, node: Node) -> None:
        node.failures = 0
        node.wanted = False
        self.brokers_met += 1
        self.addresses.ready(node.host, node.port)

    # --- ending --------------------------------------------------------------------------------------------------

    def lose(self, node: Node, loss: Loss, now_us: int, *, close: bool) -> None:
        """The other side ended the connection, or it failed: settle its requests, pause, and refresh metadata."""
        idle = node.state is _READY and not node.pending
        if loss.is_unauthenticated:
            node.meter.authentication_failed(renewing=node.state is _RENEWING)
        node.unopened = node.unopened + 1 if node.state is _CONNECTING else 0
        node.move(ConnectionEvent.LOST)
        node.failures += 1
        first_ms, most_ms = self._settings.reconnect_backoff_ms, self._settings.reconnect_backoff_max_ms
        node.rest_until_us = now_us + backoff_us(self._rng, node.failures, first_ms, most_ms)
        self.addresses.lost(node.host, node.port, loss, now_us)
        self._detach(node, loss.detail, close, now_us, loss)
        if not idle and self._refresh.topics:
            self._refresh.needed = True

    def drop(self, node: Node, reason: str, now_us: int) -> None:
        """Close the connection because it is not needed any more: no pause follows."""
        if node.connection_id in self.nodes:
            node.move(ConnectionEvent.DROPPED)
            self._detach(node, reason, True, now_us)
        node.wanted = False

    def _detach(self, node: Node, reason: str, close: bool, now_us: int, loss: Loss | None = None) -> None:
        connection_id = node.connection_id
        del self.nodes[connection_id]
        node.connection_id = -1
        if node.is_open:
            node.is_open = False
            node.meter.connections_closed += 1
        unsent: list[int] = []
        if self.outputs:
            # What the driver has not been given yet was certainly not sent (correlation ids are unique in the client),
            # and a connection that it has not been given yet need not be closed.
            close = close and not any(type(o) is Connect and o.connection_id == connection_id for o in self.outputs)
            unsent = [o.correlation_id for o in self.outputs if isinstance(o, Transmit)]
            self.outputs = [o for o in self.outputs if o.connection_id != connection_id]
        if close:
            self.outputs.append(Disconnect(connection_id, loss))
        pending = node.pending
        node.pending = {}
        node.throttled_until_us = 0
        node.conversation = None
        node.renew_at_us = 0
        for correlation_id, request in pending.items():
            self._settle(node, request, reason, request.answered and correlation_id not in unsent, now_us)

    # --- requests ------------------------------------------------------------------------------------------------

    def transmit(self, node: Node, message: Any, token: Any, now_us: int, answered: bool, version: int = -1) -> None:
        """Send to a node that is ready, in this version (-1: the newest that both sides speak)."""
        try:
            if version < 0:
                version = version_for(node, type(message), self.version_caps)
            elif version > node.highest_version(message.API_KEY):
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
        self.outputs.append(Transmit(node.connection_id, correlation_id, message, version, answered))

    def take_response(self, node: Node, correlation_id: int, message: Any, now_us: int) -> Pending | None:
        """Return the request that an answer is for; None for the handshake, SASL, and an answer without a request."""
        request = node.pending.pop(correlation_id, None)
        if request is None:
            self.lose(node, failed("answered a request that was never made"), now_us, close=True)
            return None
        throttle_ms = getattr(message, "throttle_time_ms", 0)
        node.meter.answered(throttle_ms)
        if request.token is _SASL:
            self._on_sasl(node, message, now_us)
            return None
        node.last_used_us = now_us
        if request.token is _HANDSHAKE:
            self._on_handshake(node, message, now_us)
            return None
        self.addresses.answered = True
        if throttle_ms > 0:
            node.throttled_until_us = now_us + throttle_ms * 1000
        return request

    def transmitted(self, node: Node, correlation_id: int, now_us: int) -> None:
        """Settle a request that expects no answer: its last byte was handed to the socket."""
        request = node.pending.get(correlation_id)
        if request is not None and not request.answered:
            del node.pending[correlation_id]
            node.last_used_us = now_us
            self._settle(node, request, None, True, now_us)

    def unsendable(self, node: Node, event: Unsendable, now_us: int) -> None:
        """Settle a request that could not be written as bytes."""
        request = node.pending.pop(event.correlation_id, None)
        if request is None:
            return
        if request.token is _HANDSHAKE or request.token is _SASL:
            self.lose(node, failed(event.reason), now_us, close=True)
        else:
            self._settle(node, request, event.reason, False, now_us, unsendable=True)

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
        if request.token is METADATA:
            self._refresh.lost(now_us)
            return
        self.answers.append(Answer(request.token, None, failure, sent, node.node_id, unsupported, unsendable))

    # --- time ----------------------------------------------------------------------------------------------------

    def deadline_us(self, node: Node) -> int | None:
        """Return when `tick` must be called for this node at the latest."""
        due = self._timeout_us(node)
        if due is None or node.state not in _OPENING or not self._is_waited_for_as_leader(node):
            return due
        return min(due, node.patient_until_us)

    def _is_waited_for_as_leader(self, node: Node) -> bool:
        return node.node_id >= 0 and bool(self._refresh.topics)

    def _timeout_us(self, node: Node) -> int | None:
        state = node.state
        if state is _READY or state in _AGREEING:
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

    def tick(self, node: Node, now_us: int) -> None:
        """Do what is due for this node: timeouts, renewing its session, closing an idle connection."""
        if node.throttled_until_us and node.throttled_until_us <= now_us:
            node.throttled_until_us = 0
        if node.state is _RESTING or node.state is _ABSENT:
            return
        if node.state in _OPENING and node.patient_until_us <= now_us:
            # A broker that shuts down may accept connections and not answer; a machine that is down never answers.
            node.patient_until_us = now_us + _OPENING_PATIENCE_US
            if self._is_waited_for_as_leader(node):
                self._refresh.needed = True
        if node.state is _CONNECTING:
            if node.since_us + node.setup_timeout_us <= now_us:
                limit = node.setup_timeout_us // 1000
                self.lose(node, failed(f"no answer to the attempt to connect within {limit} ms"), now_us, close=True)
            return
        conversation = node.conversation
        if conversation is not None and conversation.wants_token:
            if node.since_us + self._request_timeout_us <= now_us:
                limit = self._settings.request_timeout_ms
                loss = sasl_failed(f"there was no token within request.timeout.ms ({limit} ms)")
                self.lose(node, loss, now_us, close=True)
                return
            if not node.pending:
                return
        if self.renews(node, now_us):
            return
        oldest_us = node.oldest_sent_us()
        if oldest_us is None:
            if node.last_used_us + self._idle_us <= now_us:
                self.drop(node, "idle", now_us)
        elif oldest_us + self._request_timeout_us <= now_us:
            limit = self._settings.request_timeout_ms
            self.lose(node, failed(f"no answer within request.timeout.ms ({limit} ms)"), now_us, close=True)
