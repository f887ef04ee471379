"""The nodes a client knows, and the choice among them for a request that any node can answer.

Until the first metadata arrives, the nodes are the bootstrap addresses, with the ids -1, -2 and so on. If such an
address is a broker's, its connection becomes that broker's. When all known brokers are unreachable, the
bootstrap addresses are tried again (KIP-899). When no metadata came for `metadata.recovery.rebootstrap.trigger.ms`,
all known brokers are dropped, and the bootstrap addresses are the nodes again (KIP-1102).
"""

from __future__ import annotations

from random import Random

from ottla.connection.connections import Connections
from ottla.connection.metadata import BrokerMetadata, Metadata
from ottla.connection.node import ConnectionState, Node
from ottla.connection.settings import ConnectionSettings
from ottla.errors import OttlaError

_READY = ConnectionState.READY
_ABSENT = ConnectionState.ABSENT
_RENEWING = ConnectionState.RENEWING
_UNDER_WAY = (
    ConnectionState.CONNECTING,
    ConnectionState.HANDSHAKING,
    ConnectionState.AUTHENTICATING,
    _RENEWING,
)


class Nodes:
    """All nodes by their id; at first the bootstrap addresses."""

    def __init__(self, settings: ConnectionSettings, rng: Random, metadata: Metadata, connections: Connections) -> None:
        self.by_id: dict[int, Node] = {}
        self._bootstrap_servers = settings.bootstrap_servers
        self._rebootstraps = settings.metadata_recovery_strategy == "rebootstrap"
        self._rebootstrap_trigger_us = settings.metadata_recovery_rebootstrap_trigger_ms * 1000
        self._refused_patience_us = settings.bootstrap_refused_timeout_ms * 1000
        self._rng = rng
        self._metadata = metadata
        self._connections = connections
        self._add_bootstrap_nodes()

    # --- the nodes -----------------------------------------------------------------------------------------------

    def _add_bootstrap_nodes(self) -> None:
        taken = {(node.host, node.port) for node in self.by_id.values()}
        for number, (host, port) in enumerate(self._bootstrap_servers, 1):
            if -number not in self.by_id and (host, port) not in taken:
                self.by_id[-number] = Node(-number, host, port)

    def match_brokers(self, now_us: int) -> None:
        """Make the metadata's brokers the nodes; the connection of a bootstrap address that is a broker's is kept."""
        brokers = self._metadata.brokers
        for broker in brokers.values():
            node = self.by_id.get(broker.broker_id)
            if node is not None:
                if node.host == broker.host and node.port == broker.port:
                    continue
                self._connections.drop(node, "the broker moved to another address", now_us)
            self.by_id[broker.broker_id] = self._adopt_bootstrap(broker) or Node(
                broker.broker_id, broker.host, broker.port
            )
        for node_id, node in list(self.by_id.items()):
            if node_id not in brokers and not node.pending:
                self._connections.drop(node, "no longer needed", now_us)
                del self.by_id[node_id]

    def _adopt_bootstrap(self, broker: BrokerMetadata) -> Node | None:
        for node_id, node in self.by_id.items():
            if node_id < 0 and node.host == broker.host and node.port == broker.port:
                del self.by_id[node_id]
                node.node_id = broker.broker_id
                self._rename_meter(node_id, broker.broker_id)
                return node
        return None

    def _rename_meter(self, bootstrap_id: int, node_id: int) -> None:
        meters = self._connections.meters
        meter, earlier = meters.pop(bootstrap_id, None), meters.get(node_id)
        if meter is None:
            return
        if earlier is not None:
            meter.absorb(earlier)
        meters[node_id] = meter

    def rebootstrap_due_us(self, unanswered_since_us: int | None) -> int | None:
        """Return when all known brokers are to be dropped, if metadata has not come since then (KIP-1102)."""
        if unanswered_since_us is None or not self._rebootstraps or max(self.by_id, default=-1) < 0:
            return None
        # A millisecond longer than the setting: with 0 an answer still has time to come.
        return unanswered_since_us + self._rebootstrap_trigger_us + 1000

    def rebootstrap(self, now_us: int) -> None:
        """Drop every known broker, and begin again with the bootstrap addresses, where the settings allow it."""
        if not self._rebootstraps:
            return
        for node_id in list(self.by_id):
            self._connections.drop(self.by_id.pop(node_id), "the client began again with bootstrap.servers", now_us)
        self._add_bootstrap_nodes()

    # --- the choice ----------------------------------------------------------------------------------------------

    def any_node(self, now_us: int, avoid: int | None = None) -> Node | None:
        """Return the ready node with the fewest requests in flight; None while none is ready, then it connects to one.

        `avoid` is the id of a node that is taken only when no other can be reached.
        """
        ready: Node | None = None
        connecting = others = False
        for node in self.by_id.values():
            if node.node_id == avoid:
                continue
            others = others or node.state is _ABSENT or self._connections.has_rested(node, now_us)
            self._connections.renews(node, now_us)
            if node.state is _READY and node.throttled_until_us <= now_us:
                if ready is None or len(node.pending) < len(ready.pending):
                    ready = node
            elif node.state in _UNDER_WAY:
                connecting = True
        if ready is not None:
            return ready
        if avoid is not None and not connecting and not others:
            return self.any_node(now_us)
        if not connecting:
            self._connect_to_some(now_us, avoid)
        return None

    def _connect_to_some(self, now_us: int, avoid: int | None) -> None:
        rested = [n for n in self.by_id.values() if n.state is _ABSENT or self._connections.has_rested(n, now_us)]
        rested = [n for n in rested if n.node_id != avoid] or rested
        if not rested and self._metadata.version and self._rebootstraps:
            # No known broker can be reached: a bootstrap address may name newer ones (KIP-899).
            self._add_bootstrap_nodes()
            rested = [n for n in self.by_id.values() if n.state is _ABSENT]
        if rested:
            self._connections.open_when_rested(rested[self._rng.randrange(len(rested))], now_us)
            return
        for node in self.by_id.values():
            node.wanted = True

    # --- errors --------------------------------------------------------------------------------------------------

    def reach_error(self) -> OttlaError | None:
        """Return `AddressBook.error` where no broker can be reached; None when one can, or no attempt failed yet."""
        addresses = self._connections.addresses
        # A copy, made in one step: users' threads ask while the core goes on.
        if addresses.is_empty or any(node.state in (_READY, _RENEWING) for node in list(self.by_id.values())):
            return None
        return addresses.error()

    def refused(self, now_us: int) -> OttlaError | None:
        """Return `reach_error` where waiting will not help, else None.

        It does not help if TLS or SASL failed with every known broker, as in Java; or if no broker has ever answered
        and every bootstrap address has refused for `bootstrap.refused.timeout.ms`.
        """
        addresses = self._connections.addresses
        if addresses.is_empty:
            return None
        losses = [addresses.loss(node.host, node.port) for node in self.by_id.values()]
        if all(loss is not None and loss.is_unauthenticated for loss in losses):
            return self.reach_error()
        return self.reach_error() if addresses.have_refused_for(self._refused_patience_us, now_us) else None

    def why_not(self, node_id: int) -> str | None:
        """Return "host:port, cannot be used: reason" where the last try to reach this node failed, else None."""
        node = self.by_id.get(node_id)
        loss = None if node is None else self._connections.addresses.loss(node.host, node.port)
        return None if node is None or loss is None else f"{node.address}, cannot be used: {loss.detail}"
