"""The simulated network between clients and brokers.

A connection delivers in the order of sending, as TCP does, each message after a delay that is drawn. Messages are
passed as objects; their records are copied, because sender and receiver must not share memory. With `through_bytes`
every message is encoded and decoded instead, by `protocol`. `crossed` is called with every message, for traces.

Connections can fall silent. Either what is sent waits until the silence ends (an unplugged cable), or it is lost for
good, while for both ends the connection is open (half-open).

A `tap` is called when a client sends a request and when it gets an answer, as a proxy beside the client would be.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from ottla.broker.events import ConnectionLost, HangUp, RequestReceived, Respond
from ottla.connection.events import Connect, Connected, Disconnect, Disconnected, Received, Transmit, Transmitted
from ottla.connection.loss import CLOSED_BY_BROKER, REFUSED, failed
from ottla.host.crossing import NEVER, Crossing
from ottla.host.stall import Stall, stalled_us
from ottla.protocol.frames import decode_request, decode_response, encode_request, encode_response
from ottla.protocol.messages.fetch import FetchResponse
from ottla.protocol.messages.produce import ProduceRequest
from ottla.simulation.scheduler import Scheduler

Deliver = Callable[[Any], None]
_LENGTH_BYTES = 4
_DELAY_US_LEAST, _DELAY_US_SPAN = 50, 451


class Link:
    """One connection between a client and a broker.

    `to_client_us` and `to_broker_us`: when the last message arrives there; later ones arrive after it. `owner` is the
    client's name in the plan, for all of its instances; `client_name` is that of the instance. While the connection is
    silent, `held` has what was sent; once it is half-open (`is_deaf`), nothing arrives any more.
    """

    __slots__ = (
        "asked",
        "client",
        "client_name",
        "connection_id",
        "held",
        "is_deaf",
        "is_open",
        "number",
        "owner",
        "port",
        "server",
        "server_name",
        "to_broker_us",
        "to_client_us",
    )

    def __init__(
        self,
        number: int,
        connection_id: int,
        client: Deliver,
        server: Deliver,
        client_name: str,
        server_name: str,
        owner: str,
        port: int,
    ) -> None:
        self.number = number
        self.connection_id = connection_id
        self.client_name = client_name
        self.server_name = server_name
        self.owner = owner
        self.port = port
        self.client = client
        self.server = server
        self.is_open = True
        self.is_deaf = False
        self.held: list[tuple[bool, Any]] | None = None
        self.to_broker_us = 0
        self.to_client_us = 0
        self.asked: dict[int, tuple[type[Any], int]] = {}


class Silence:
    """A silence between `client` (a name; None: every client) and the broker at `port` (None: every broker).

    `fired` counts the messages that did not pass, or the connections that are half-open.
    """

    __slots__ = ("_ended", "client", "fired", "port")

    def __init__(self, port: int | None, client: str | None, ended: Callable[[Silence], None]) -> None:
        self._ended = ended
        self.port = port
        self.client = client
        self.fired = 0

    def is_on(self, link: Link) -> bool:
        """Whether it applies to this connection."""
        return self.port in (None, link.port) and self.client in (None, link.owner)

    def end(self) -> None:
        """End the silence (half-open connections stay so); ending twice is allowed."""
        self._ended(self)


class SimulatedConnections:
    """The connections that clients have to one broker."""

    def __init__(self, network: Network, port: int) -> None:
        self._network = network
        self._port = port

    def respond(self, response: Respond) -> None:
        """Carry an answer to its client."""
        self._network.respond(response)

    def hang_up(self, output: HangUp) -> None:
        """Close a client's connection."""
        self._network.hang_up(output)

    def close(self, *, silently: bool) -> None:
        """The broker has ended: refuse connections, and close its own, unless it ended `silently`."""
        self._network.remove_broker(self._port, silently=silently)


class Network:
    """All connections; brokers are found by their ports; `owners`: client number -> the client's name in the plan."""

    def __init__(
        self, scheduler: Scheduler, rng: Random, crossed: Callable[[Crossing], None], *, through_bytes: bool
    ) -> None:
        self._scheduler = scheduler
        self._rng = rng
        self._randrange = rng.randrange
        self.crossed = crossed
        self._through_bytes = through_bytes
        self._brokers: dict[int, tuple[str, Deliver]] = {}
        self._by_client: dict[tuple[int, int], Link] = {}
        self._by_number: dict[int, Link] = {}
        self._silences: list[Silence] = []
        # Silences that wait for a connection, to make it half-open.
        self._awaited: list[Silence] = []
        self._numbers = 0
        self.stalls: list[Stall] = []
        self.owners: dict[int, str] = {}
        # A `simulation.recording.Tap`, if the run is recorded.
        self.tap: Any = None

    def add_broker(self, port: int, name: str, deliver: Deliver) -> None:
        """Add a broker that listens at `port`."""
        self._brokers[port] = name, deliver

    def remove_broker(self, port: int, *, silently: bool) -> None:
        """Remove the broker at `port`: refuse connections, and close its own, unless it ended `silently`."""
        _, server = self._brokers.pop(port)
        for link in list(self._by_number.values()):
            if link.server is server and link.is_open and not silently:
                self._to_client(link, Disconnected(link.connection_id, failed("connection reset")))
                self._end(link)

    def remove_client(self, client_number: int) -> None:
        """Remove a client: its connections are closed at the brokers."""
        for (number, _), link in list(self._by_client.items()):
            if number == client_number and link.is_open:
                self._end(link)
                if self.tap is not None:
                    self.tap.end(link.number)
                self._to_broker(link, ConnectionLost(link.number))

    def delay_us(self) -> int:
        """How long the next message takes."""
        delay_us = _DELAY_US_LEAST + self._randrange(_DELAY_US_SPAN)
        if self.stalls:
            delay_us += stalled_us(self.stalls, self._rng)
        return delay_us

    def copy(self, message: Any) -> Any:
        """A Fetch answer as it arrives, also between brokers: with its own copy of the records."""
        return copied_fetch(message)

    # ---- silence ------------------------------------------------------------------------------------------------

    def unplug(self, port: int, client: str | None = None) -> Silence:
        """Let nothing pass on present and new connections until the silence ends; then what was sent arrives."""
        silence = Silence(port, client, self._plug_in)
        self._silences.append(silence)
        for link in self._by_number.values():
            if silence.is_on(link) and link.held is None:
                link.held = []
        return silence

    def _plug_in(self, silence: Silence) -> None:
        if silence not in self._silences:
            return
        self._silences.remove(silence)
        for link in list(self._by_number.values()):
            if link.held is not None and self._silence_on(link) is None:
                held, link.held = link.held, None
                for is_for_broker, event in held:
                    if is_for_broker:
                        self._to_broker(link, event)
                    else:
                        self._to_client(link, event)

    def half_open(self, port: int | None, client: str | None = None) -> Silence:
        """Let the present connections lose everything for good, while both ends take them for open.

        If there is none, the next one that is made before the end becomes half-open at once.
        """
        silence = Silence(port, client, self._forget)
        for link in self._by_number.values():
            if silence.is_on(link) and link.is_open and not link.is_deaf:
                link.is_deaf = True
                silence.fired += 1
        if not silence.fired:
            self._awaited.append(silence)
        return silence

    def _forget(self, silence: Silence) -> None:
        if silence in self._awaited:
            self._awaited.remove(silence)

    def stall(self, probability: float, delay_max_us: int) -> Stall:
        """From now on delay this share of the messages by up to `delay_max_us`, and with them later ones there."""
        return Stall(self.stalls, probability, delay_max_us)

    def _silence_on(self, link: Link) -> Silence | None:
        return next((each for each in self._silences if each.is_on(link)), None)

    def _is_silent(self, link: Link, is_for_broker: bool, event: Any) -> bool:
        """Whether the event is held, or lost."""
        if link.is_deaf:
            return True
        if link.held is None:
            return False
        link.held.append((is_for_broker, event))
        silence = self._silence_on(link)
        if silence is not None:
            silence.fired += 1
        return True

    # ---- outputs of client cores --------------------------------------------------------------------------------

    def perform(self, client_number: int, client: Deliver, output: Any) -> bool:
        """Carry out an output of a client core; False if it is not about a connection."""
        kind = type(output)
        if kind is Transmit:
            self._transmit(client_number, client, output)
        elif kind is Connect:
            self._connect(client_number, client, output)
        elif kind is Disconnect:
            link = self._by_client.pop((client_number, output.connection_id), None)
            if link is not None:
                self._end(link)
                if self.tap is not None:
                    self.tap.end(link.number)
                self._to_broker(link, ConnectionLost(link.number))
        else:
            return False
        return True

    def _connect(self, client_number: int, client: Deliver, output: Connect) -> None:
        found = self._brokers.get(output.port)
        if found is None:
            refused = Disconnected(output.connection_id, REFUSED)
            self._scheduler.after(self.delay_us(), client, refused)
            return
        self._numbers += 1
        server_name, server = found
        name, owner = f"client-{client_number}", self.owners.get(client_number, "")
        if self.tap is not None and owner:
            client = self.tap.begin(self._numbers, name, f"{server_name}:{output.port}", client)
        link = Link(self._numbers, output.connection_id, client, server, name, server_name, owner, output.port)
        self._by_client[client_number, output.connection_id] = link
        self._by_number[link.number] = link
        if self._silences and self._silence_on(link) is not None:
            link.held = []
        self._to_client(link, Connected(output.connection_id))
        for silence in list(self._awaited):
            if silence.is_on(link):
                self._awaited.remove(silence)
                link.is_deaf = True
                silence.fired += 1

    def _transmit(self, client_number: int, client: Deliver, output: Transmit) -> None:
        link = self._by_client.get((client_number, output.connection_id))
        if link is None or not link.is_open:
            return
        message, size = output.message, 0
        if self.tap is not None:
            self.tap.request(link.number, output)
        if self._through_bytes:
            chunks = encode_request(output.correlation_id, "simulated", message, output.version)
            frame = memoryview(bytearray(b"".join(chunks)))[_LENGTH_BYTES:]
            size = len(frame)
            _, message = decode_request(frame)
        elif type(message) is ProduceRequest:
            message = _copied_produce(message)
        request = RequestReceived(link.number, output.correlation_id, output.version, "simulated", message, size)
        if output.answered:
            link.asked[output.correlation_id] = type(output.message), output.version
        else:
            client(Transmitted(output.connection_id, output.correlation_id))
        now_us, arrives_us = self._scheduler.now_us, self._to_broker(link, request)
        number = output.correlation_id
        self.crossed(Crossing(now_us, "request", link.client_name, link.server_name, number, message, arrives_us))

    # ---- outputs of broker cores --------------------------------------------------------------------------------

    def respond(self, output: Respond) -> None:
        """Carry a broker's answer to its client."""
        link = self._by_number.get(output.connection_id)
        if link is None or not link.is_open:
            return
        message = output.message
        if message is None:
            return
        request_class, version = link.asked.pop(output.correlation_id)
        if self.tap is not None:
            self.tap.answer(link.number, output)
        if self._through_bytes:
            chunks = encode_response(output.correlation_id, message, output.version)
            wire = b"".join(
                chunk if isinstance(chunk, bytes | bytearray | memoryview) else chunk.read() for chunk in chunks
            )
            frame = memoryview(bytearray(wire))[_LENGTH_BYTES:]
            _, message = decode_response(frame, request_class, version)
        elif type(message) is FetchResponse:
            message = copied_fetch(message)
        now_us, number = self._scheduler.now_us, output.correlation_id
        arrives_us = self._to_client(link, Received(link.connection_id, number, message))
        self.crossed(Crossing(now_us, "answer", link.server_name, link.client_name, number, message, arrives_us))

    def hang_up(self, output: HangUp) -> None:
        """A broker closes a connection: what it sent before still arrives, nothing after."""
        link = self._by_number.get(output.connection_id)
        if link is None or not link.is_open:
            return
        arrives_us = self._to_client(link, Disconnected(link.connection_id, CLOSED_BY_BROKER))
        now_us = self._scheduler.now_us
        self.crossed(Crossing(now_us, "hang up", link.server_name, link.client_name, 0, None, arrives_us))
        self._end(link)
        self._to_broker(link, ConnectionLost(link.number))

    def _end(self, link: Link) -> None:
        link.is_open = False
        if link.held is None:
            self._by_number.pop(link.number, None)

    def _to_broker(self, link: Link, event: Any) -> int:
        """Send an event to the broker; return when it arrives, NEVER if it is held or lost."""
        if (link.is_deaf or link.held is not None) and self._is_silent(link, True, event):
            return NEVER
        link.to_broker_us = due_us = max(link.to_broker_us, self._scheduler.now_us + self.delay_us())
        self._scheduler.at(due_us, link.server, event)
        return due_us

    def _to_client(self, link: Link, event: Any) -> int:
        if (link.is_deaf or link.held is not None) and self._is_silent(link, False, event):
            return NEVER
        link.to_client_us = due_us = max(link.to_client_us, self._scheduler.now_us + self.delay_us())
        self._scheduler.at(due_us, link.client, event)
        return due_us


def wire_copy(records: Any) -> memoryview | None:
    """A copy of records, in memory of its own."""
    if records is None:
        return None
    if isinstance(records, list):
        return memoryview(bytearray(b"".join(records)))
    if isinstance(records, bytes | bytearray | memoryview):
        return memoryview(bytearray(records))
    return memoryview(bytearray(records.read()))


def _twin(message: Any) -> Any:
    """A shallow copy of a message."""
    kind: Any = type(message)
    twin = kind.__new__(kind)
    for name in kind.__slots__:
        setattr(twin, name, getattr(message, name))
    return twin


def _copied_produce(message: ProduceRequest) -> Any:
    twin = _twin(message)
    twin.topic_data = [_twin(topic) for topic in message.topic_data]
    for topic in twin.topic_data:
        topic.partition_data = [_twin(part) for part in topic.partition_data]
        for part in topic.partition_data:
            part.records = wire_copy(part.records)
    return twin


def copied_fetch(message: FetchResponse) -> Any:
    """The same answer with records in memory of their own."""
    if not any(part.records for topic in message.responses for part in topic.partitions):
        return message
    twin = _twin(message)
    twin.responses = [_twin(topic) for topic in message.responses]
    for topic in twin.responses:
        topic.partitions = [_twin(part) if part.records else part for part in topic.partitions]
        for part in topic.partitions:
            if part.records:
                part.records = wire_copy(part.records)
    return twin
