"""A broker's listening sockets, one for each listener, and the clients' connections.

A broker with `max.connections` connections accepts no more until one is closed; further clients wait in the socket's
backlog, as with Kafka. The same holds if all descriptors of the process are in use but those left to files. A
connection on which nothing was read or written for `connections.max.idle.ms` is closed, unless the broker still works
on an answer for it.
"""

from __future__ import annotations

import logging
import os
import random
import resource
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ottla.broker import metric_beans
from ottla.broker.core import BrokerCore
from ottla.broker.events import ConnectionLost, HangUp, RequestReceived, Respond
from ottla.broker.settings import BrokerSettings
from ottla.cluster.client_connection import ClientConnection, Clients
from ottla.cluster.loop_schedule import LoopSchedule
from ottla.cluster.open_files import OpenFiles
from ottla.host.broker_runner import BrokerRunner
from ottla.protocol.frames import STAGE_BYTES
from ottla.sockets.event_loop import EventLoop, Timer
from ottla.sockets.listener import OAUTHBEARER, Listener
from ottla.sockets.listening import ListeningSocket, NoRoom
from ottla.sockets.refusal_log import RefusalLog

if TYPE_CHECKING:
    import ssl

    from ottla.broker.authentication import Users
    from ottla.broker.client_telemetry import ClientInstance
    from ottla.cluster.client_network import EmbeddedClients
    from ottla.cluster.recorder import Recorder

logger = logging.getLogger("ottla.cluster")

_ACCEPTS_PER_TURN = 64
_REST_S = 0.2  # how long no connection is accepted when there is no room
_IDLE_CHECK_S_MIN = 0.01
_NO_DESCRIPTORS_TOLD_S = 60.0


class Entrance:
    """A listener with what all brokers share of it: TLS context and users, if any; UserMistake, MissingExtra."""

    __slots__ = ("listener", "name", "tls", "users")

    def __init__(self, name: str, listener: Listener) -> None:
        self.name = name
        self.listener = listener
        self.tls: ssl.SSLContext | None = None
        self.users: Users | None = None
        if listener.is_tls:
            from ottla.sockets.tls import server_context

            self.tls = server_context(name, listener)
        if listener.is_sasl:
            from ottla.broker.authentication import Users

            validate = None
            if OAUTHBEARER in listener.sasl_mechanisms:
                from ottla.cluster.token_validator import token_validator

                validate = token_validator(name, listener.oauthbearer_validator)
            self.users = Users(listener.users, tuple(listener.sasl_mechanisms), random.SystemRandom(), validate)


class Acceptor:
    """One broker's listening socket for a listener, and the address that clients are given."""

    __slots__ = ("advertised", "entrance", "name", "socket")

    def __init__(self, entrance: Entrance, broker_id: int) -> None:
        listener = entrance.listener
        self.name = entrance.name
        self.entrance = entrance
        self.socket = ListeningSocket(listener.host, listener.port + broker_id - 1 if listener.port else 0)
        self.advertised = listener.advertised(broker_id, self.socket.port)

    def shut(self) -> None:
        """Refuse connections, but keep the port."""
        self.socket.shut()

    def reopen(self) -> None:
        """Listen again; UserMistake if another program has the port now."""
        self.socket.reopen()


def open_acceptors(entrances: Iterable[Entrance], broker_id: int) -> list[Acceptor]:
    """All acceptors of a broker; if one cannot be opened, the others are closed again."""
    acceptors: list[Acceptor] = []
    try:
        for entrance in entrances:
            acceptors.append(Acceptor(entrance, broker_id))
    except BaseException:
        for acceptor in acceptors:
            acceptor.socket.close()
        raise
    return acceptors


class BrokerServer:
    """The client connections of one start of a broker; `close` also closes its acceptors."""

    def __init__(
        self,
        schedule: LoopSchedule,
        loop: EventLoop,
        runner: BrokerRunner,
        acceptors: list[Acceptor],
        next_number: Callable[[], int],
        clients: EmbeddedClients,
        open_files: OpenFiles,
    ) -> None:
        core: Any = runner.core
        self.loop = loop
        self.broker_id = runner.broker_id
        # Runs an action when no other action is running.
        self.post = schedule.post
        self._arrive: Callable[[Any], None] = runner.arrive
        self._next_number = next_number
        self._schedule = schedule
        self._network = clients
        self._open_files = open_files
        # By connection: when its last delayed event arrives. What follows on that connection arrives later.
        self._held_up_us: dict[int, int] = {}
        # The buffer that all connections read into, one after the other.
        self.stage = bytearray(STAGE_BYTES)
        self.metrics = core.metrics
        self._core: BrokerCore = core
        self._settings: BrokerSettings = core.settings
        self._started_s = loop.time()
        self._idle_timer: Timer | None = None
        self._refusals = RefusalLog(logger, f"broker {runner.broker_id}")
        self._refusal_timer: Timer | None = None
        self._full = False
        self._room_timer: Timer | None = None
        self._told_no_descriptors_s = -_NO_DESCRIPTORS_TOLD_S
        self.clients = Clients()
        self.respond: Callable[[Respond], None] = self.clients.respond
        self.hang_up: Callable[[HangUp], None] = self.clients.hang_up
        self._acceptors = acceptors
        self._accepting = False
        self._closed = False
        # By number: whose connections are silent (None: all), and what is called with how many more became so.
        self._silences: dict[int, tuple[str | None, Callable[[int], None]]] = {}
        self._accept_on()

    def record(self, recorder: Recorder) -> None:
        """From now on give the recorder each request before the broker, and each answer before the client."""
        broker_id, arrive, clients = self.broker_id, self._arrive, self.clients

        def arrive_recorded(event: Any) -> None:
            recorder.arriving(broker_id, event)
            arrive(event)
            recorder.arrived()

        def respond_recorded(response: Respond) -> None:
            recorder.answering(broker_id, response)
            clients.respond(response)

        def hang_up_recorded(output: HangUp) -> None:
            recorder.hanging_up(broker_id, output)
            clients.hang_up(output)

        self._arrive = arrive_recorded
        self.respond = respond_recorded
        self.hang_up = hang_up_recorded

    def receive(self, event: Any) -> None:
        """Hand an event of one of the clients to the core."""
        if self._network.stalls or self._held_up_us:
            self._receive_late(event)
        else:
            self.post(self._handle, event)

    def _handle(self, event: RequestReceived | ConnectionLost) -> None:
        """Let the broker handle an event, and measure how long that takes."""
        client = self.clients.by_id.get(event.connection_id)
        if client is None:
            self._arrive(event)
            return
        client.stages.handling()
        self._arrive(event)
        client.stages.handled()

    def _receive_late(self, event: RequestReceived | ConnectionLost) -> None:
        """Delay an event, as a fault says, but never overtake an earlier event of the same connection."""
        now_us, connection_id = self.loop.now_us(), event.connection_id
        due_us = max(now_us + self._network.delay_us(), self._held_up_us.get(connection_id, 0))
        if type(event) is ConnectionLost:
            self._held_up_us.pop(connection_id, None)
        elif due_us > now_us:
            self._held_up_us[connection_id] = due_us
        self.post(self._schedule_at, (due_us, event))

    def _schedule_at(self, late: tuple[int, Any]) -> None:
        due_us, event = late
        self._schedule.at(due_us, self._handle, event)

    @property
    def failed_authentication_delay_ms(self) -> int:
        """How long the answer to a failed authentication is delayed."""
        return self._settings.connection_failed_authentication_delay_ms

    def wall_s(self) -> float:
        """Seconds since 1970, by the broker's clock."""
        return (self.loop.now_us() + self._core.wall_offset_us) / 1_000_000

    def refused(self, client: ClientConnection, reason: str) -> None:
        """Log why a connection is closed."""
        self._refusals.refused(client.listener, client.peer, reason, int(self.loop.time() * 1_000_000))
        if self._refusal_timer is None:
            self._tell_refusals()

    def _tell_refusals(self) -> None:
        """Log how many lines were left out, and set a timer for the next such line."""
        self._refusals.tick(int(self.loop.time() * 1_000_000))
        due_us = self._refusals.deadline_us()
        self._refusal_timer = None if due_us is None else self.loop.call_at(due_us / 1_000_000, self._tell_refusals)

    def forget(self, client: ClientConnection) -> None:
        """Remove a closed connection, and accept again if there was no room."""
        self.clients.by_id.pop(client.connection_id, None)
        if not self._full or len(self.clients.by_id) < self._settings.max_connections:
            self._full = False
            self._accept_on()

    def read_connections(self) -> list[dict[str, Any]]:
        """The connections of this broker, as `Cluster.connections` returns them."""
        from ottla.cluster.inside import described_connection

        return [{"broker": self.broker_id, **described_connection(each)} for each in self.clients.by_id.values()]

    def client_ids(self) -> dict[int, str | None]:
        """{producer id: client id} of the connections with an idempotent producer."""
        return {each._client.producer_id: each.client_id for each in self.clients.by_id.values()}

    def client_instances(self) -> list[tuple[int, ClientInstance]]:
        """The clients that sent requests about their metrics to this broker, each with this broker's id."""
        return [(self.broker_id, each) for each in self._core.client_telemetry.instances(self.loop.now_us())]

    def read_metrics(self) -> metric_beans.Beans:
        """The broker's metrics as of now, those of its sockets included."""
        clients = self.clients.by_id.values()
        queued = sum(client.queued for client in clients)
        beans = metric_beans.read(self._core, self.loop.time() - self._started_s, queued)
        came_by = [client.listener for client in clients]
        for acceptor in self._acceptors:
            # Kafka has a bean for each network thread; here one thread serves all connections.
            bean = f"kafka.server:type=socket-server-metrics,listener={acceptor.name},networkProcessor=0"
            beans[bean] = {"connection-count": came_by.count(acceptor.name)}
        return beans

    def fall_silent(
        self, number: int, client_id: str | None, silenced: Callable[[int], None], *, for_good: bool
    ) -> None:
        """Silence the connections of this client (None: all), and without `for_good` new ones, too, until `speak`.

        `silenced` is called with how many.
        """
        clients = [each for each in self.clients.by_id.values() if client_id in (None, each.client_id)]
        for client in clients:
            client.fall_silent(for_good=for_good)
        silenced(len(clients))
        if not for_good:
            self._silences[number] = client_id, silenced

    def speak(self, number: int) -> None:
        """End a silence; connections without another one go on."""
        self._silences.pop(number, None)
        for client in list(self.clients.by_id.values()):
            if not self._silences_on(client):
                client.speak()

    def silence(self, client: ClientConnection) -> bool:
        """Silence a connection that is new, or whose client id is now known, if a silence applies; whether one does."""
        silences = self._silences_on(client)
        if silences:
            client.fall_silent(for_good=False)
            silences[0](1)
        return bool(silences)

    def _silences_on(self, client: ClientConnection) -> list[Callable[[int], None]]:
        return [silenced for whose, silenced in self._silences.values() if whose in (None, client.client_id)]

    def close(self, *, silently: bool = False) -> None:
        """Stop listening and drop every connection.

        After a power cut a real client would get nothing. Sockets of one machine cannot do that: connections are closed
        in any case, `silently` or not.
        """
        self._closed = True
        self._accept_off()
        for timer in (self._idle_timer, self._refusal_timer, self._room_timer):
            if timer is not None:
                timer.cancel()
        for acceptor in self._acceptors:
            acceptor.socket.close()
        for client in list(self.clients.by_id.values()):
            client.close()

    def _accept_on(self) -> None:
        if not self._accepting and not self._closed:
            self._accepting = True
            for acceptor in self._acceptors:
                self.loop.add_reader(acceptor.socket, self._acceptable, acceptor)

    def _accept_off(self) -> None:
        if self._accepting:
            self._accepting = False
            for acceptor in self._acceptors:
                self.loop.remove_reader(acceptor.socket)

    def _accept_if_room(self) -> None:
        """Accept again if there is room: `max.connections` may have been raised meanwhile."""
        self._room_timer = None
        if len(self.clients.by_id) < self._settings.max_connections:
            self._full = False
            self._accept_on()
        elif self._full and not self._closed:
            self._rest()

    def _rest(self) -> None:
        """Accept no connection for a moment."""
        self._accept_off()
        if self._room_timer is None:
            self._room_timer = self.loop.call_after(_REST_S, self._accept_if_room)

    def _lacks_descriptors(self, acceptor: Acceptor) -> str | None:
        """Why the next connection would get no descriptor, or one that files may need; else None."""
        try:
            fd = os.dup(acceptor.socket.fileno())
        except OSError as error:
            return error.strerror
        os.close(fd)
        return None if self._open_files.is_for_connections(fd) else "the other descriptors are kept for files"

    def _tell_no_descriptors(self, reason: str) -> None:
        now_s = self.loop.time()
        if now_s - self._told_no_descriptors_s >= _NO_DESCRIPTORS_TOLD_S:
            self._told_no_descriptors_s = now_s
            logger.warning(
                "broker %d accepts no connection until another one is closed: %s. It has %d connections, and all "
                "brokers of this process together may have %d descriptors (ulimit -n)",
                self.broker_id,
                reason,
                len(self.clients.by_id),
                resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            )

    def _hang_up_on_idle(self) -> None:
        """Close connections that are idle for too long, and set a timer for the next one."""
        self._idle_timer = None
        idle_max_s = self._settings.connections_max_idle_ms / 1000
        if idle_max_s < 0 or not self.clients.by_id:
            return
        oldest = now = self.loop.time()
        for client in list(self.clients.by_id.values()):
            since = client.idle_since_s()
            if since is None:
                continue
            if now - since >= idle_max_s:
                client.hang_up(f"nothing came or went for {idle_max_s:g} s (connections.max.idle.ms)")
            else:
                oldest = min(oldest, since)
        due = max(oldest + idle_max_s, now + _IDLE_CHECK_S_MIN)
        self._idle_timer = self.loop.call_at(due, self._hang_up_on_idle)

    def _acceptable(self, acceptor: Acceptor) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            if not self._accepting:
                return
            if len(self.clients.by_id) >= self._settings.max_connections:
                logger.warning(
                    "broker %d has %d connections (max.connections) and accepts no more until one is closed",
                    self.broker_id,
                    len(self.clients.by_id),
                )
                self._full = True
                self._rest()
                return
            lacking = self._lacks_descriptors(acceptor)
            try:
                accepted = None if lacking else acceptor.socket.accept()
            except NoRoom as error:
                lacking = str(error)
            if lacking:
                self._tell_no_descriptors(lacking)
                self._rest()
                return
            if accepted is None:
                return
            sock, peer = accepted
            number = self._next_number()
            try:
                client = self.clients.by_id[number] = ClientConnection(self, number, sock, peer, acceptor)
                self.silence(client)
            except OSError as error:
                # The client closed the connection before TLS could begin.
                logger.debug("broker %d lost %s: %s", self.broker_id, peer, error)
                sock.close()
                continue
            if self._idle_timer is None:
                self._hang_up_on_idle()
