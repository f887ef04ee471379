"""One client's connection through the proxy: two sockets around a `Passage`.

The upstream connection is opened first, and only then is the client read from: a broker that cannot be reached closes
the client's connection, as it would without a proxy between. Each end is only read from while the other one keeps up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.frames import FrameBuffer
from ottla.proxy.addresses import Address, Node
from ottla.proxy.connection_end import ANSWER_BYTES_MAX, REQUEST_BYTES_MAX, ConnectionEnd
from ottla.proxy.events import CloseClient, CloseUpstream, FaultFired, ToClient, ToUpstream, Unseen
from ottla.proxy.passage import Passage
from ottla.proxy.upstream import Connecting, shown
from ottla.sockets.event_loop import Timer

if TYPE_CHECKING:
    from ottla.proxy.server import ProxyServer

# What may wait for one end before the other one is no longer read from.
_QUEUED_BYTES_MAX = 4 << 20
# How long upstream may take to answer a client that has left.
_LAST_ANSWERS_S = 60.0


class Relay:
    """Made when a client was accepted at the address `local`."""

    def __init__(self, server: ProxyServer, number: int, sock: Any, peer: str, local: Address) -> None:
        self.number = number
        self.peer = peer
        self.local = local
        self._server = server
        self._loop = server.loop
        self.passage = Passage(server.shared, lambda: max(-1, self.node().node_id))
        frames = FrameBuffer(REQUEST_BYTES_MAX, server.stage)
        self._client = ConnectionEnd(
            server.loop, sock, frames, self._requests, self._client_lost, self._client_caught_up
        )
        self._upstream: ConnectionEnd | None = None
        self._upstream_name = server.upstream_name(self.node())
        recording = server.recording
        self._recorded = None if recording is None else recording.of(number, peer, shown(local))
        self._timer: Timer | None = None
        self._last_answers: Timer | None = None
        self._is_deaf = self._is_named = False
        self.requests = 0
        self._connecting: Connecting | None = Connecting(
            server.loop, server.soon, server.shared.book.upstream(self.node()), server.upstream_tls, self._connected
        )

    def node(self) -> Node:
        """The broker that its port stands for at the moment."""
        return self._server.shared.book.node_at(self.local)

    @property
    def client_id(self) -> str | None:
        """The client's id, None until its first request."""
        return self.passage.client_id

    def fall_silent(self, *, for_good: bool) -> None:
        """Leave the client's connection open and silent until `speak`, or for good."""
        self._is_deaf = self._is_deaf or for_good
        self._client.fall_silent()

    def speak(self) -> None:
        """Go on where it fell silent."""
        if not self._is_deaf and not self._client.is_closed:
            self._client.speak()

    def release(self, fault_id: int) -> None:
        """A fault was healed: what it held goes on."""
        if self._upstream is not None:
            self.passage.release(fault_id, self._loop.now_us())
            self._carry_out()

    def close(self) -> None:
        """Close both ends at once."""
        if self._connecting is not None:
            self._connecting.cancel()
        for timer in (self._timer, self._last_answers):
            if timer is not None:
                timer.cancel()
        self._client.close()
        if self._upstream is not None:
            self._upstream.close()
        if self._recorded is not None:
            self._recorded.end()
        self._server.forget(self)

    # ---- what the ends tell -------------------------------------------------------------------------------------

    def _connected(self, sock: Any, reason: str) -> None:
        self._connecting = None
        if sock is None:
            self._server.upstream_failed(self.node(), reason)
            self.close()
            return
        self._server.upstream_reached(self.node())
        frames = FrameBuffer(ANSWER_BYTES_MAX, self._server.stage)
        self._upstream = ConnectionEnd(
            self._loop, sock, frames, self._answers, self._upstream_lost, self._upstream_caught_up
        )
        self._upstream.read_on()
        self._client.read_on()

    def _requests(self, frames: list[memoryview]) -> None:
        now_us = self._loop.now_us()
        self.requests += len(frames)
        self._server.requests += len(frames)
        for frame in frames:
            if self._recorded is not None:
                self._recorded.request(frame)
            self.passage.receive_request(frame, now_us)
        if not self._is_named and self.passage.client_id is not None:
            self._is_named = True
            self._server.named(self)
        self._carry_out()

    def _answers(self, frames: list[memoryview]) -> None:
        now_us = self._loop.now_us()
        for frame in frames:
            self.passage.receive_answer(frame, now_us)
        self._carry_out()

    def _client_lost(self, reason: str, is_mistake: bool) -> None:
        if is_mistake:
            self._server.refused(self, reason)
        if self._upstream is None:
            self.close()
            return
        self.passage.client_lost()
        self._carry_out()

    def _upstream_lost(self, reason: str, is_mistake: bool) -> None:
        told = f"{self._upstream_name} has closed the connection{f' ({reason})' if reason else ''}"
        if is_mistake:
            self._server.refused(self, told)
        self.passage.upstream_lost(told, self._loop.now_us())
        self._carry_out()

    def _client_caught_up(self) -> None:
        if self._upstream is not None and not self._upstream.is_closed:
            self._upstream.read_on()

    def _upstream_caught_up(self) -> None:
        if not self.passage.is_held_up:
            self._client.read_on()

    def _tick(self) -> None:
        self._timer = None
        self.passage.tick(self._loop.now_us())
        self._carry_out()

    # ---- what the passage wants ---------------------------------------------------------------------------------

    def _carry_out(self) -> None:
        client, upstream = self._client, self._upstream
        assert upstream is not None
        while outputs := self.passage.outputs():
            for output in outputs:
                if type(output) is ToUpstream:
                    upstream.send(output.pieces)
                elif type(output) is ToClient:
                    if self._recorded is not None:
                        self._recorded.answer(output.pieces)
                    client.send(output.pieces)
                elif type(output) is FaultFired:
                    self._server.fault_fired(self, output)
                elif type(output) is Unseen:
                    self._server.unseen(output.what)
                elif type(output) is CloseClient:
                    if output.is_mistake:
                        self._server.refused(self, output.reason)
                    client.leave()
                elif type(output) is CloseUpstream:
                    upstream.leave()
            upstream.flush()
            client.flush()
        if client.is_closed and upstream.is_closed:
            self.close()
            return
        if client.is_closed and self._last_answers is None:
            self._last_answers = self._loop.call_later(_LAST_ANSWERS_S, self._give_up)
        self._keep_pace(client, upstream)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_us = self.passage.deadline_us()
        if due_us is not None:
            self._timer = self._loop.call_at(due_us / 1_000_000, self._tick)

    def _give_up(self) -> None:
        """The client has left long ago: what upstream has not answered by now is not waited for."""
        if self.passage.has_more_to_forward:
            self._last_answers = self._loop.call_later(_LAST_ANSWERS_S, self._give_up)
        else:
            self.close()

    def _keep_pace(self, client: ConnectionEnd, upstream: ConnectionEnd) -> None:
        if upstream.queued_bytes > _QUEUED_BYTES_MAX or self.passage.is_held_up:
            client.pause()
        elif not upstream.queued_bytes:
            client.read_on()
        if client.queued_bytes > _QUEUED_BYTES_MAX:
            upstream.pause()
        elif not client.queued_bytes and not upstream.is_closed:
            upstream.read_on()
