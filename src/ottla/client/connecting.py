"""What opening a connection needs beside its socket: the addresses of a name, and why a listener closes connections.

Both are found out on short-lived threads. What they find waits in `resolved` and `explained` until the I/O thread takes
it at the beginning of a turn. This runs a few times for each connection, so it is not compiled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ottla.client.channel import Channel, SocketBuffers
from ottla.client.resolve import Address, beginning_after, resolve
from ottla.client.security import Security
from ottla.connection.address_book import AddressBook
from ottla.connection.events import Connect
from ottla.connection.loss import Loss, LossKind, Lost


class Connecting:
    """For one I/O loop. Its methods are given `wake`, which wakes the loop: an attribute would keep the loop alive."""

    def __init__(self, buffers: SocketBuffers, security: Security | None, addresses: AddressBook) -> None:
        # (connection, the addresses of its name, why there are none).
        self.resolved: deque[tuple[Channel, list[Address], Loss | None]] = deque()
        # (connection that was lost, why).
        self.explained: deque[tuple[Channel, Loss]] = deque()
        self._buffers = buffers
        self._security = security
        self._addresses = addresses
        # (host, port) -> the address of that name that last did not connect within the setup timeout.
        self._stalled: dict[tuple[str, int], Address] = {}

    def begin(self, output: Connect, wake: Callable[[], None]) -> Channel:
        """Make the channel, and look its name up: then it is in `resolved`, perhaps when this returns."""
        channel = Channel(output.connection_id, output.host, output.port, self._buffers, output.meter, self._security)

        def resolved(addresses: list[Address], loss: Loss | None) -> None:
            self.resolved.append((channel, addresses, loss))
            wake()

        resolve(output.host, output.port, resolved)
        return channel

    def connect(self, channel: Channel, addresses: list[Address]) -> Loss | None:
        """Begin to connect to one of these; return why that is not possible, if it is not."""
        try:
            channel.connect(beginning_after(addresses, self._stalled.get((channel.host, channel.port))))
        except Lost as lost:
            return lost.loss
        return None

    def given_up(self, channel: Channel) -> None:
        """The core closes the channel: if it is not connected yet, another address of its name is tried first."""
        if not channel.connected and channel.address is not None:
            self._stalled[channel.host, channel.port] = channel.address

    def asks_why(self, channel: Channel, loss: Loss, wake: Callable[[], None]) -> bool:
        """Whether `listener_probe.py` looks for the cause first: then the channel is in `explained` after that."""
        is_tls_refused, is_early = loss.kind is LossKind.CLOSED_IN_TLS_HANDSHAKE, loss.kind is LossKind.CLOSED_EARLY
        if self._addresses.answered or channel.address is None or not (is_tls_refused or is_early):
            return False
        tls, is_sasl = (None, False) if self._security is None else (self._security.tls, self._security.is_sasl)
        if is_early and is_sasl:
            return False
        from ottla.client.listener_probe import ask_for_sasl, ask_in_plaintext  # few clients ever meet such a listener

        def told(why: Loss | None) -> None:
            self.explained.append((channel, why or loss))
            wake()

        if is_tls_refused:
            ask_in_plaintext(channel.address, told)
        else:
            ask_for_sasl(channel.address, tls, channel.host, told)
        return True
