"""Where brokers are, and where clients are told that they are.

An answer that names a broker's address is changed so that it names the proxy's port for that broker instead; without
that, clients would go past the proxy from their second connection on. Addresses stand in the answers to Metadata,
FindCoordinator and DescribeCluster, and beside the errors of Produce and Fetch (KIP-951).

Invariant: no address of an upstream broker reaches a client. A broker that is new gets a port first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.protocol.messages import (
    DESCRIBE_CLUSTER,
    DESCRIBE_QUORUM,
    FETCH,
    FIND_COORDINATOR,
    METADATA,
    PRODUCE,
)
from ottla.protocol.messages.api_versions import ApiVersionsResponse

# From which version on the answers of an API name addresses.
NAMES_ADDRESSES_FROM = {PRODUCE: 10, FETCH: 16, METADATA: 0, FIND_COORDINATOR: 0, DESCRIBE_CLUSTER: 0}
_SHARE_FETCH, _SHARE_ACKNOWLEDGE = 78, 79
# Answers that name addresses, and that this proxy does not change.
HIDDEN = frozenset((DESCRIBE_QUORUM, _SHARE_FETCH, _SHARE_ACKNOWLEDGE))
BROKER, CONTROLLER = "broker", "controller"
_CONTROLLERS = 2  # the endpoint type of DescribeCluster (KIP-919)

Address = tuple[str, int]


class Node(NamedTuple):
    """A broker, or a controller, of the upstream cluster, by its id; -1 where the id is not known yet."""

    kind: str
    node_id: int

    def __str__(self) -> str:
        return f"{self.kind} {self.node_id}" if self.node_id >= 0 else "bootstrap server"


class AddressBook:
    """Upstream addresses of all nodes, and the local ones that stand for them.

    `open_port` is asked for a local address when a node is first heard of. `changed` is told of each node that is new
    or has moved.
    """

    def __init__(self, open_port: Callable[[Node], Address], changed: Callable[[Node], None]) -> None:
        self._open_port = open_port
        self._changed = changed
        self._upstream: dict[Node, Address] = {}
        self._local: dict[Node, Address] = {}
        # Bootstrap addresses that no answer has named yet, and the ports that stand for them.
        self._bootstrap: dict[Address, Node] = {}

    def add_bootstrap(self, upstream: Address) -> Node:
        """A port for an address whose broker is not known yet."""
        node = Node(BROKER, -1 - len(self._local))
        self._bootstrap[upstream] = node
        self._upstream[node] = upstream
        self._local[node] = self._open_port(node)
        return node

    @property
    def nodes(self) -> list[Node]:
        """All of them; bootstrap addresses only while their broker is not known."""
        return [node for node, local in self._local.items() if self.node_at(local) == node]

    def upstream(self, node: Node) -> Address:
        """Where a node really is."""
        return self._upstream[node]

    def local(self, node: Node) -> Address:
        """Where clients reach it."""
        return self._local[node]

    def node_at(self, local: Address) -> Node:
        """The node that a local address stands for: a bootstrap server only until an answer has named its broker."""
        found = [node for node, there in self._local.items() if there == local]
        return next((node for node in reversed(found) if node.node_id >= 0), found[0])

    def local_of(self, node_id: int, host: str, port: int, kind: str = BROKER) -> Address:
        """What to tell a client in place of a node's address; what names no node stays as it is."""
        if node_id < 0 or not host:
            return host, port
        node = Node(kind, node_id)
        is_new = node not in self._local
        if is_new:
            self._local[node] = self._taken_over((host, port)) or self._open_port(node)
        if self._upstream.get(node) != (host, port):
            self._upstream[node] = host, port
            self._changed(node)
        return self._local[node]

    def _taken_over(self, upstream: Address) -> Address | None:
        """The port of a bootstrap address: the first broker that is there needs no second one."""
        node = self._bootstrap.pop(upstream, None)
        return None if node is None else self._local[node]


def rewrite_addresses(message: Any, book: AddressBook) -> bool:
    """Replace a response's addresses by local ones; whether it named any."""
    api_key = message.API_KEY
    if api_key == METADATA:
        return _rewrite_all(message.brokers, "node_id", book, BROKER)
    if api_key in (PRODUCE, FETCH):
        return _rewrite_all(message.node_endpoints, "node_id", book, BROKER)
    if api_key == DESCRIBE_CLUSTER:
        kind = CONTROLLER if message.endpoint_type == _CONTROLLERS else BROKER
        return _rewrite_all(message.brokers, "broker_id", book, kind)
    if api_key == FIND_COORDINATOR:
        # Version 4 has a list (KIP-699), older ones name one coordinator.
        named = _rewrite_all(message.coordinators, "node_id", book, BROKER)
        return _rewrite_all([message], "node_id", book, BROKER) or named
    return False


def _rewrite_all(named: list[Any], id_field: str, book: AddressBook, kind: str) -> bool:
    for each in named:
        each.host, each.port = book.local_of(getattr(each, id_field), each.host, each.port, kind)
    return bool(named)


def cap_versions(message: ApiVersionsResponse, known: Callable[[int], int | None]) -> None:
    """Leave out of an ApiVersions answer what the proxy could not read: `known` is the newest version of an API.

    APIs that our protocol does not have stay, unless their answers name addresses.
    """
    kept = []
    for each in message.api_keys:
        newest = known(each.api_key)
        if each.api_key in HIDDEN or (newest is not None and each.min_version > newest):
            continue
        if newest is not None:
            each.max_version = min(each.max_version, newest)
        kept.append(each)
    message.api_keys = kept


def learn_topic_names(message: Any, names: dict[bytes, str]) -> None:
    """Remember which topic an id stands for, from an answer that says so (KIP-516)."""
    for topic in message.topics:
        if topic.name and any(topic.topic_id):
            names[topic.topic_id] = topic.name
