"""Requests that wait for a node they can be sent to: any node, the controller, or a certain one.

Each waits until its deadline, or until waiting cannot help any more. Then its `Answer` says why it was not sent.
"""

from __future__ import annotations

from typing import Any

from ottla.connection.connections import Connections
from ottla.connection.metadata import Metadata
from ottla.connection.node import Node
from ottla.connection.nodes import Nodes
from ottla.connection.refresh import MetadataRefresh
from ottla.connection.request import ANY_NODE, CONTROLLER, Answer


class Ask:
    """One such request; see `ConnectionCore.ask`."""

    __slots__ = ("avoid", "deadline_us", "message", "token", "version", "where")

    def __init__(self, message: Any, token: Any, where: int, deadline_us: int, avoid: int | None, version: int) -> None:
        self.message = message
        self.token = token
        self.where = where
        self.deadline_us = deadline_us
        self.avoid = avoid
        self.version = version


class Asks:
    """All that wait, in the order in which they came."""

    def __init__(self, connections: Connections, nodes: Nodes, metadata: Metadata, refresh: MetadataRefresh) -> None:
        self.waiting: list[Ask] = []
        self._connections = connections
        self._nodes = nodes
        self._metadata = metadata
        self._refresh = refresh

    def dispatch(self, now_us: int) -> None:
        """Send what can be sent, and give up what cannot."""
        waiting = []
        for ask in self.waiting:
            if ask.deadline_us <= now_us:
                self._give_up(ask, self._why_not(ask.where))
                continue
            # Before it may be given up below: this also starts connecting, for the requests that come next.
            node = self._destination(ask, now_us)
            if node is not None and self._connections.can_send(node, now_us):
                self._connections.transmit(node, ask.message, ask.token, now_us, True, ask.version)
            elif self._nodes.refused(now_us) is not None:
                self._give_up(ask, self._why_not(ask.where))
            else:
                waiting.append(ask)
        self.waiting = waiting

    def close(self) -> None:
        """Give up all that wait: the client is closed."""
        for ask in self.waiting:
            self._give_up(ask, "the client was closed")
        self.waiting = []

    def _give_up(self, ask: Ask, why: str) -> None:
        self._connections.answers.append(Answer(ask.token, None, why, False, None))

    def _destination(self, ask: Ask, now_us: int) -> Node | None:
        where = ask.where
        if where == ANY_NODE:
            return self._nodes.any_node(now_us, ask.avoid)
        node_id = self._metadata.controller_id if where == CONTROLLER else where
        node = self._nodes.by_id.get(node_id)
        if node is not None and (node_id >= 0 or where != CONTROLLER):
            return node
        self._refresh.needed = True
        return None

    def _why_not(self, where: int) -> str:
        if where in (ANY_NODE, CONTROLLER):
            error = self._nodes.reach_error()
            return str(error) if error is not None else "no broker could be asked in time"
        node = self._nodes.by_id.get(where)
        if node is None:
            return f"no broker has the id {where}"
        loss = self._connections.addresses.loss(node.host, node.port)
        return f"the broker at {node.address} could not be asked in time" if loss is None else loss.detail
