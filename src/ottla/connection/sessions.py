"""SASL for the connections of one `ConnectionCore`: when a client authenticates, and when it does so again.

A conversation (`authentication.SaslConversation`) begins when the broker's versions are known, and again on a ready
connection at 85 to 95 per cent of the session's lifetime (KIP-368). While one is under way, no other requests are sent
on the connection; those sent before are answered before it, because brokers answer in order. Renewing does not count as
use: a connection without other requests is closed after `connections.max.idle.ms`.

Loaded only where `security.protocol` says SASL.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from ottla.connection.authentication import AuthenticationFailed, SaslConversation
from ottla.connection.events import TokenGiven, TokenWanted
from ottla.connection.loss import Loss, sasl_failed
from ottla.connection.node import ConnectionEvent, ConnectionState, Node, VersionMismatch, version_for
from ottla.connection.security_settings import SecuritySettings
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest


class Sessions:
    """Begins and continues the conversations of all nodes; the functions given to it send, and lose connections."""

    __slots__ = ("_lose", "_rng", "_security", "_transmit", "_want_token")

    def __init__(
        self,
        security: SecuritySettings,
        rng: Random,
        *,
        transmit: Callable[[Node, Any, int, int], None],
        want_token: Callable[[TokenWanted], None],
        lose: Callable[[Node, Loss, int], None],
    ) -> None:
        self._security = security
        self._rng = rng
        self._transmit = transmit
        self._want_token = want_token
        self._lose = lose

    def begin(self, node: Node, now_us: int) -> None:
        """Begin to authenticate, for the first time on this connection or again."""
        node.move(ConnectionEvent.CHALLENGED)
        node.since_us = now_us
        node.renew_at_us = 0
        node.conversation = conversation = SaslConversation(self._security, self._rng)
        self._say(node, conversation.begin(), now_us)

    def receive(self, node: Node, message: Any, now_us: int) -> bool:
        """Take an answer; True once the broker has accepted the client. After a refusal the connection is lost."""
        conversation = node.conversation
        if conversation is None:
            return False
        try:
            request = conversation.receive(message)
        except AuthenticationFailed as failed:
            self._lose(node, sasl_failed(str(failed)), now_us)
            return False
        if request is not None:
            self._say(node, request, now_us)
        elif conversation.wants_token:
            self._want_token(TokenWanted(node.connection_id))
        elif conversation.proved:
            renew_after_us = conversation.renew_after_us()
            node.renew_at_us = now_us + renew_after_us if renew_after_us else 0
            node.conversation = None
            node.move(ConnectionEvent.PROVED)
            return True
        return False

    def take_token(self, node: Node, given: TokenGiven, now_us: int) -> None:
        """Go on with the provider's token; the connection is lost if there is none."""
        conversation = node.conversation
        if conversation is None or not conversation.wants_token:
            return
        if given.failure:
            self._lose(node, sasl_failed(given.failure), now_us)
            return
        try:
            request = conversation.take_token(given.token)
        except AuthenticationFailed as failed:
            self._lose(node, sasl_failed(str(failed)), now_us)
        else:
            self._say(node, request, now_us)

    def _say(self, node: Node, message: Any, now_us: int) -> None:
        try:
            version = version_for(node, type(message))
        except VersionMismatch as mismatch:
            self._lose(node, sasl_failed(str(mismatch)), now_us)
            return
        if version == 0 and type(message) is SaslHandshakeRequest:
            self._lose(
                node, sasl_failed("the broker is older than Apache Kafka 1.0, whose SASL ottla does not speak"), now_us
            )
            return
        used_us = node.last_used_us
        self._transmit(node, message, version, now_us)
        if node.state is ConnectionState.RENEWING:
            node.last_used_us = used_us
