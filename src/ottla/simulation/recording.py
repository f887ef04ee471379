"""A capture of a simulated run: what its clients send and get, as a proxy in front of each client would record it.

It has the same entries as `ottla proxy --record` writes, in the order in which they are complete. A request has the
time at which its client sends it, an answer the time at which it reaches its client. A connection ends when its client
closes it, or learns that it is closed. Clients without a name are not recorded; the readers that read all logs at the
end have names, and are recorded. Recording changes nothing in the run: the trace hash is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.broker.events import Respond
from ottla.connection.events import Disconnected, Received, Transmit
from ottla.protocol.frames import encode_request, encode_response
from ottla.simulation.run import Run
from ottla.tap.conversation import Conversation
from ottla.tap.exchange import Entry

Deliver = Callable[[Any], None]
_LENGTH_BYTES = 4
_CLIENT_ID = "simulated"
# Each connection has its own client port.
_PORTS_BEGIN, _PORTS = 32_768, 28_000


class Tap:
    """The tap of a `Network`; `entries` grows during the run. `now_us` returns microseconds since 1970."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self.entries: list[Entry] = []
        self._now_us = now_us
        self._open: dict[int, Conversation] = {}
        # Answers on their way to their clients, by connection and correlation id.
        self._answers: dict[tuple[int, int], bytes] = {}
        self._topic_names: dict[bytes, str] = {}

    def begin(self, number: int, client: str, broker: str, deliver: Deliver) -> Deliver:
        """Called for a new connection; the result is to be called in place of `deliver`."""
        address = f"{client}:{_PORTS_BEGIN + number % _PORTS}"
        self._open[number] = Conversation(number, address, broker, topic_names=self._topic_names)

        def delivered(event: Any) -> None:
            kind = type(event)
            if kind is Received:
                self._arrived(number, event.correlation_id)
            elif kind is Disconnected:
                self.end(number)
            deliver(event)

        return delivered

    def request(self, number: int, output: Transmit) -> None:
        """Called when a client sends a request."""
        talk = self._open.get(number)
        if talk is not None:
            wire = encode_request(output.correlation_id, _CLIENT_ID, output.message, output.version)
            self.entries += talk.take_request(_frame(wire), self._now_us())

    def answer(self, number: int, output: Respond) -> None:
        """Called when a broker sends an answer."""
        if number in self._open:
            wire = encode_response(output.correlation_id, output.message, output.version)
            self._answers[number, output.correlation_id] = bytes(_frame(wire))

    def end(self, number: int) -> None:
        """Called when a connection ends for its client. Ending twice is allowed."""
        talk = self._open.pop(number, None)
        if talk is not None:
            self.entries += talk.end(self._now_us())

    def close(self) -> None:
        """End the recording."""
        for number in list(self._open):
            self.end(number)

    def _arrived(self, number: int, correlation_id: int) -> None:
        frame, talk = self._answers.pop((number, correlation_id), None), self._open.get(number)
        if frame is not None and talk is not None:
            self.entries += talk.take_response(memoryview(frame), self._now_us())


def record(run: Run) -> Tap:
    """Record a run that has not begun yet."""
    world = run.world
    tap = Tap(lambda: world.date_ms(0) * 1000 + world.scheduler.now_us)
    world.network.tap = tap
    return tap


def _frame(chunks: list[Any]) -> memoryview:
    wire = b"".join(chunk if isinstance(chunk, bytes | bytearray | memoryview) else chunk.read() for chunk in chunks)
    return memoryview(wire)[_LENGTH_BYTES:]
