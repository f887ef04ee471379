"""The simulated network: what one machine sends, another receives later, in order per connection.

A connection delivers in the order of sending, as TCP does, each message after a delay that the seed draws. Messages
travel typed; records are copied on the way, since a wire never shares memory. With `through_bytes` every message is
encoded and decoded by the shipped protocol room instead. `crossed` is told of every message, for traces.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from ottla.broker.events import ConnectionLost, HangUp, RequestReceived, Respond
from ottla.connection.events import Connect, Connected, Disconnect, Disconnected, Received, Transmit, Transmitted
from ottla.protocol.frames import decode_request, decode_response, encode_request, encode_response
from ottla.protocol.messages.fetch import FetchResponse
from ottla.protocol.messages.produce import ProduceRequest
from ottla.simulation.scheduler import Scheduler
from ottla.simulation.trace import Crossing

Deliver = Callable[[Any], None]
_LENGTH_BYTES = 4
_DELAY_US = (50, 500)


class Link:
    """One connection between a client machine and a broker; `to_client` and `to_broker` say when the pipe is free."""

    __slots__ = (
        "asked",
        "client",
        "client_name",
        "connection_id",
        "is_open",
        "number",
        "server",
        "server_name",
        "to_broker_us",
        "to_client_us",
    )

    def __init__(
        self, number: int, connection_id: int, client: Deliver, server: Deliver, client_name: str, server_name: str
    ) -> None:
        self.number = number
        self.connection_id = connection_id
        self.client_name = client_name
        self.server_name = server_name
        self.client = client
        self.server = server
        self.is_open = True
        self.to_broker_us = 0
        self.to_client_us = 0
        self.asked: dict[int, tuple[type[Any], int]] = {}


class Network:
    """All links of a world; brokers are found by the port they were added with."""

    def __init__(
        self, scheduler: Scheduler, rng: Random, crossed: Callable[[Crossing], None], *, through_bytes: bool
    ) -> None:
        self._scheduler = scheduler
        self._rng = rng
        self._crossed = crossed
        self._through_bytes = through_bytes
        self._brokers: dict[int, tuple[str, Deliver]] = {}
        self._by_client: dict[tuple[int, int], Link] = {}
        self._by_number: dict[int, Link] = {}
        self._numbers = 0
        self._stall_chance = 0.0
        self._stall_us_max = 0

    def stall(self, chance: float, stall_us_max: int) -> None:
        """From now on hold up to this share of what goes to brokers, for up to so long, and all behind it.

        What a client sent before it gave a connection up then arrives after what it sent on the next one.
        """
        self._stall_chance = chance
        self._stall_us_max = stall_us_max

    def add_broker(self, port: int, name: str, deliver: Deliver) -> None:
        """A broker that listens at `port`."""
        self._brokers[port] = name, deliver

    def remove_broker(self, port: int, *, silently: bool) -> None:
        """The broker at `port` is gone: who connects is refused; its clients are told, unless it went `silently`."""
        _, server = self._brokers.pop(port)
        for link in list(self._by_number.values()):
            if link.server is server and link.is_open and not silently:
                self._to_client(link, Disconnected(link.connection_id, "connection reset"))
                self._end(link)

    def remove_client(self, client_number: int) -> None:
        """The client is gone: brokers hear that its connections were closed."""
        for (number, _), link in list(self._by_client.items()):
            if number == client_number and link.is_open:
                self._end(link)
                self._to_broker(link, ConnectionLost(link.number))

    def delay_us(self) -> int:
        """How long the next message is on its way."""
        return self._rng.randint(*_DELAY_US)

    # ---- what a client core asks for ----------------------------------------------------------------------------

    def perform(self, client_number: int, client: Deliver, output: Any) -> bool:
        """Carry out a connection output of a client core; False where it is none."""
        kind = type(output)
        if kind is Connect:
            self._connect(client_number, client, output)
        elif kind is Transmit:
            self._transmit(client_number, client, output)
        elif kind is Disconnect:
            link = self._by_client.get((client_number, output.connection_id))
            if link is not None:
                self._end(link)
                self._to_broker(link, ConnectionLost(link.number))
        else:
            return False
        return True

    def _connect(self, client_number: int, client: Deliver, output: Connect) -> None:
        found = self._brokers.get(output.port)
        if found is None:
            refused = Disconnected(output.connection_id, "connection refused")
            self._scheduler.after(self.delay_us(), lambda: client(refused))
            return
        self._numbers += 1
        name, server = found
        link = Link(self._numbers, output.connection_id, client, server, f"client-{client_number}", name)
        self._by_client[client_number, output.connection_id] = link
        self._by_number[link.number] = link
        self._to_client(link, Connected(output.connection_id))

    def _transmit(self, client_number: int, client: Deliver, output: Transmit) -> None:
        link = self._by_client.get((client_number, output.connection_id))
        if link is None or not link.is_open:
            return
        message, size = output.message, 0
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
        self._crossed(Crossing(now_us, "request", link.client_name, link.server_name, number, message, arrives_us))

    # ---- what a broker core asks for ----------------------------------------------------------------------------

    def respond(self, output: Respond) -> None:
        """Carry a broker's answer to its client."""
        link = self._by_number.get(output.connection_id)
        if link is None or not link.is_open or output.message is None:
            return
        request_class, version = link.asked.pop(output.correlation_id)
        message = output.message
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
        self._crossed(Crossing(now_us, "answer", link.server_name, link.client_name, number, message, arrives_us))

    def hang_up(self, output: HangUp) -> None:
        """A broker closes a connection: what it sent before still arrives, nothing after."""
        link = self._by_number.get(output.connection_id)
        if link is None or not link.is_open:
            return
        arrives_us = self._to_client(link, Disconnected(link.connection_id, "closed by the broker"))
        now_us = self._scheduler.now_us
        self._crossed(Crossing(now_us, "hang up", link.server_name, link.client_name, 0, None, arrives_us))
        self._end(link)
        self._to_broker(link, ConnectionLost(link.number))

    def _end(self, link: Link) -> None:
        link.is_open = False

    def _to_broker(self, link: Link, event: Any) -> int:
        delay_us = self.delay_us()
        if self._stall_chance and self._rng.random() < self._stall_chance:
            delay_us += self._rng.randint(0, self._stall_us_max)
        link.to_broker_us = max(link.to_broker_us, self._scheduler.now_us + delay_us)
        self._scheduler.at(link.to_broker_us, lambda: link.server(event))
        return link.to_broker_us

    def _to_client(self, link: Link, event: Any) -> int:
        link.to_client_us = max(link.to_client_us, self._scheduler.now_us + self.delay_us())
        self._scheduler.at(link.to_client_us, lambda: link.client(event))
        return link.to_client_us


def wire_copy(records: Any) -> memoryview | None:
    """Records as they arrive: in memory of their own, whatever they were sent from."""
    if records is None:
        return None
    if isinstance(records, list):
        return memoryview(bytearray(b"".join(records)))
    if isinstance(records, bytes | bytearray | memoryview):
        return memoryview(bytearray(records))
    return memoryview(bytearray(records.read()))


def _same(message: Any, **changed: Any) -> Any:
    fields = {name: getattr(message, name) for name in type(message).__slots__}
    return type(message)(**(fields | changed))


def _copied_produce(message: ProduceRequest) -> Any:
    topics = [
        _same(topic, partition_data=[_same(part, records=wire_copy(part.records)) for part in topic.partition_data])
        for topic in message.topic_data
    ]
    return _same(message, topic_data=topics)


def copied_fetch(message: FetchResponse) -> Any:
    """A Fetch answer as it arrives, also between brokers."""
    responses = [
        _same(topic, partitions=[_same(part, records=wire_copy(part.records)) for part in topic.partitions])
        for topic in message.responses
    ]
    return _same(message, responses=responses)
