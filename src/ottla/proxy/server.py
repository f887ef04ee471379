"""The proxy in its event loop: ports, clients that connect to them, faults, and the log.

Everything happens in the loop's thread; the program that made the proxy reaches it by the control channel
(`sockets/control.py`). The logger `ottla.proxy` gets at INFO each broker with its port and each fault as it fires, at
WARNING what is wrong.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from ottla.errors import UserMistake
from ottla.faults.effect import not_fired_any_more, not_fired_in_time
from ottla.faults.fault import fault_from
from ottla.faults.plan import FaultPlan
from ottla.protocol.frames import STAGE_BYTES
from ottla.proxy.addresses import Address, AddressBook, Node
from ottla.proxy.events import FaultFired
from ottla.proxy.faults_in_force import FaultsInForce
from ottla.proxy.passage import Shared
from ottla.proxy.relay import Relay
from ottla.proxy.upstream import Broker, shown
from ottla.sockets.event_loop import EventLoop, Timer
from ottla.sockets.listening import ListeningSocket, NoRoom
from ottla.sockets.refusal_log import RefusalLog

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from ottla.proxy.recording import Recording
    from ottla.sockets.listener import Listener

logger = logging.getLogger("ottla.proxy")

_ACCEPTS_PER_TURN = 64
_REST_S = 0.2  # how long nobody is accepted when there is no room
_PORTS_TRIED = 100

Answer = Callable[[Any], None]


class Silence:
    """Connections that are silent; `fired` counts them."""

    def __init__(self, broker_id: int | None, client_id: str | None, ended: Callable[[Silence], None]) -> None:
        self.broker_id = broker_id
        self.client_id = client_id
        self.fired = 0
        self._ended = ended

    def concerns(self, relay: Relay) -> bool:
        """Whether a connection is one of those."""
        return self.broker_id in (None, relay.node().node_id) and self.client_id in (None, relay.client_id)

    def end(self) -> None:
        """Those that are not silent for good go on."""
        self._ended(self)


class ProxyServer:
    """Listens from the start; UserMistake where a port cannot be had. `brokers`: those that are known already."""

    def __init__(
        self,
        loop: EventLoop,
        listener: Listener,
        bootstrap: list[Address],
        brokers: list[Broker],
        upstream_tls: ssl.SSLContext | None,
        record: Path | None = None,
        *,
        payloads: bool = False,
    ) -> None:
        self.loop = loop
        self.upstream_tls = upstream_tls
        self.requests = self.connections = 0
        # What all connections read into, one after the other.
        self.stage = bytearray(STAGE_BYTES)
        self._listener = listener
        self._tls: ssl.SSLContext | None = None
        if listener.is_tls:
            from ottla.sockets.tls import server_context

            self._tls = server_context("of the proxy", listener)
        self._numbers = count(1)
        self._relays: dict[int, Relay] = {}
        self._ports: list[ListeningSocket] = []
        self._silences: list[Silence] = []
        self._failing: dict[Node, str] = {}
        self._told_unseen: dict[str, None] = {}
        self._refusals = RefusalLog(logger, "the proxy")
        self._refusal_timer: Timer | None = None
        # What other threads want done here.
        self._soon: deque[Callable[[], object]] = deque()
        self._bell, self._clapper = socket.socketpair()
        for end in (self._bell, self._clapper):
            end.setblocking(False)
        loop.add_reader(self._bell, self._heard)
        plan = FaultPlan()
        plan.on_fired = self._look_at_faults
        self.shared = Shared(plan, AddressBook(self._open_port, self._told_node))
        self.faults = FaultsInForce(plan, self, loop.now_us)
        # Those that wait until a fault has fired.
        self._watches: list[Callable[[], bool]] = []
        self.recording: Recording | None = None
        try:
            self.bootstrap = [self.shared.book.add_bootstrap(address) for address in bootstrap]
            for broker in sorted(brokers):
                self.shared.book.local_of(*broker)
            # Last, so that no file is left where a port cannot be had.
            if record is not None:
                from ottla.proxy.recording import Recording

                names = self.shared.topic_names
                about = {"upstream": ",".join(map(shown, bootstrap)), "seen_by": "ottla proxy"}
                self.recording = Recording(record, payloads=payloads, topic_names=names, **about)
        except BaseException:
            self.close()
            raise

    def soon(self, what: Callable[[], object]) -> None:
        """Have something done in the loop's thread; may be called from any."""
        self._soon.append(what)
        with contextlib.suppress(OSError):
            self._clapper.send(b"!")

    def close(self) -> None:
        """Close every connection and every port."""
        for relay in list(self._relays.values()):
            relay.close()
        for port in self._ports:
            self.loop.remove_reader(port)
            port.close()
        self._ports.clear()
        if self.recording is not None:
            self.recording.close()
        if self._refusal_timer is not None:
            self._refusal_timer.cancel()
        self.loop.remove_reader(self._bell)
        self._bell.close()
        self._clapper.close()

    # ---- what the holder of the proxy asks for ------------------------------------------------------------------

    def handle(self, command: str, fields: dict[str, Any], answer: Answer) -> None:
        """Carry out a command of the control channel."""
        commands: dict[str, Callable[..., None]] = {
            "add_fault": self._add_fault,
            "count_fault": self._count_fault,
            "heal_fault": self._heal_fault,
            "await_fault": self._await_fault,
            "describe": self._describe,
        }
        commands[command](answer, **fields)

    def _describe(self, answer: Answer) -> None:
        book = self.shared.book
        nodes = [
            {"node": str(node), "upstream": shown(book.upstream(node)), "local": shown(book.local(node))}
            for node in book.nodes
        ]
        addresses = [shown(book.local(node)) for node in self.bootstrap]
        under_way = sum(relay.passage.under_way for relay in self._relays.values())
        counts = {"connections": self.connections, "requests": self.requests, "under_way": under_way}
        answer({"bootstrap_servers": ",".join(dict.fromkeys(addresses)), "nodes": nodes, **counts})

    def _add_fault(self, answer: Answer, fault: dict[str, Any]) -> None:
        answer(self.faults.add(fault_from(fault)).fault_id)

    def _count_fault(self, answer: Answer, fault_id: int) -> None:
        answer(self.faults.counts(fault_id))

    def _heal_fault(self, answer: Answer, fault_id: int) -> None:
        self.faults.effect(fault_id).heal()
        answer(self.faults.counts(fault_id))
        self._look_at_faults()

    def _await_fault(self, answer: Answer, fault_id: int, count: int, patience_s: float) -> None:
        """Answer when the fault has fired so often."""
        effect = self.faults.effect(fault_id)

        def look() -> bool:
            if effect.fired < count:
                if effect.is_over:
                    answer(not_fired_any_more(effect.fault, effect.fired))
                return effect.is_over
            # Not now: the passage is still handling the request, and only afterwards can what it holds be released.
            self.loop.call_soon(self._count_fault, answer, fault_id)
            return True

        def late() -> None:
            if look in self._watches:
                self._watches.remove(look)
                answer(not_fired_in_time(effect.fault, self.faults.counts(fault_id), count, patience_s))

        if not look():
            self._watches.append(look)
            self.loop.call_after(patience_s, late)

    def _look_at_faults(self) -> None:
        if self._watches:
            self._watches[:] = [look for look in self._watches if not look()]

    # ---- ports and clients --------------------------------------------------------------------------------------

    def _open_port(self, node: Node) -> Address:
        """Listen for a node, on the next port that is free; of those that the user has named the first must be."""
        host, first = self._listener.host, self._listener.port
        place = len(self._ports)
        port: ListeningSocket | None = None
        for number in range(first + place, min(first + place + _PORTS_TRIED, 65_536)) if first else (0,):
            try:
                port = ListeningSocket(host, number)
                break
            except UserMistake:
                if not self.shared_is_ready() or number == first:
                    raise
        if port is None:
            port = ListeningSocket(host, 0)
        self._ports.append(port)
        local = self._listener.advertised(place + 1, port.port)
        self.loop.add_reader(port, self._acceptable, port, local)
        return local

    def shared_is_ready(self) -> bool:
        """Whether the proxy has begun: what goes wrong from then on must not end it."""
        return hasattr(self, "bootstrap")

    def _acceptable(self, port: ListeningSocket, local: Address) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                accepted = port.accept()
            except NoRoom as error:
                logger.warning("the proxy cannot accept a connection: %s", error)
                self.loop.remove_reader(port)
                self.loop.call_later(_REST_S, self._accept_again, port, local)
                return
            if accepted is None:
                return
            sock, peer = accepted
            try:
                end = self._secured(sock)
            except OSError as error:
                logger.debug("the proxy lost %s: %s", peer, error)
                sock.close()
                continue
            self.connections += 1
            number = next(self._numbers)
            relay = self._relays[number] = Relay(self, number, end, peer, local)
            self._silence(relay)

    def _accept_again(self, port: ListeningSocket, local: Address) -> None:
        if port in self._ports:
            self.loop.add_reader(port, self._acceptable, port, local)

    def _secured(self, sock: socket.socket) -> Any:
        if self._tls is None:
            return sock
        from ottla.sockets.tls import TlsSocket

        return TlsSocket(sock, self._tls)

    def forget(self, relay: Relay) -> None:
        """A connection is over."""
        self._relays.pop(relay.number, None)

    def named(self, relay: Relay) -> None:
        """A client's id is known: a fault may be about this client."""
        self._silence(relay)

    # ---- what faults do to connections --------------------------------------------------------------------------

    def unplug(self, broker_id: int, client_id: str | None) -> Silence:
        """Let connections old and new fall silent until the end."""
        silence = Silence(broker_id, client_id, self._plug_in)
        self._silences.append(silence)
        for relay in self._relays.values():
            if silence.concerns(relay):
                relay.fall_silent(for_good=False)
                silence.fired += 1
        return silence

    def half_open(self, broker_id: int | None, client_id: str | None) -> Silence:
        """Let the connections that there are now be silent for good."""
        silence = Silence(broker_id, client_id, lambda _: None)
        for relay in self._relays.values():
            if silence.concerns(relay):
                relay.fall_silent(for_good=True)
                silence.fired += 1
        return silence

    def release(self, fault_id: int) -> None:
        """What this fault held back goes on."""
        for relay in list(self._relays.values()):
            relay.release(fault_id)

    def _silence(self, relay: Relay) -> None:
        for silence in self._silences:
            if silence.concerns(relay):
                relay.fall_silent(for_good=False)
                silence.fired += 1
                return

    def _plug_in(self, silence: Silence) -> None:
        if silence in self._silences:
            self._silences.remove(silence)
            for relay in list(self._relays.values()):
                if silence.concerns(relay) and not any(each.concerns(relay) for each in self._silences):
                    relay.speak()

    # ---- what is told -------------------------------------------------------------------------------------------

    def upstream_name(self, node: Node) -> str:
        """ "broker 2 at host:9092"."""
        return f"{node} at {shown(self.shared.book.upstream(node))}"

    def fault_fired(self, relay: Relay, output: FaultFired) -> None:
        """Log a fault that has fired."""
        effect = self.faults.effect(output.fault_id)
        pairs = ", ".join(f"{topic}-{index}" for topic, index in output.partitions[:3])
        more = f" and {len(output.partitions) - 3} more" if len(output.partitions) > 3 else ""
        logger.info(
            "fault %d has fired (%s): %s%s of client %s to %s",
            output.fault_id,
            effect.fault.kind,
            output.api,
            f" for {pairs}{more}" if pairs else "",
            output.client_id or relay.peer,
            relay.node(),
        )

    def unseen(self, what: str) -> None:
        """Log once what faults cannot see."""
        if what not in self._told_unseen:
            self._told_unseen[what] = None
            logger.warning("unseen: %s; a fault that names a topic passes such requests over", what)

    def refused(self, relay: Relay, reason: str) -> None:
        """Log why a connection is closed."""
        self._refusals.refused(shown(relay.local), relay.peer, reason, self.loop.now_us())
        if self._refusal_timer is None:
            self._tell_refusals()

    def _tell_refusals(self) -> None:
        self._refusals.tick(self.loop.now_us())
        due_us = self._refusals.deadline_us()
        self._refusal_timer = None if due_us is None else self.loop.call_at(due_us / 1_000_000, self._tell_refusals)

    def upstream_failed(self, node: Node, reason: str) -> None:
        """Log once that a broker cannot be reached, until it can be again."""
        if self._failing.get(node) != reason:
            self._failing[node] = reason
            logger.warning("%s cannot be reached (%s): its clients are sent away", self.upstream_name(node), reason)

    def upstream_reached(self, node: Node) -> None:
        """Log that a broker can be reached again."""
        if self._failing.pop(node, None) is not None:
            logger.info("%s can be reached again", self.upstream_name(node))

    def _told_node(self, node: Node) -> None:
        book = self.shared.book
        logger.info("%s (%s) is %s here", node, shown(book.upstream(node)), shown(book.local(node)))

    def _heard(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._bell.recv(4096)
        while self._soon:
            self._soon.popleft()()
