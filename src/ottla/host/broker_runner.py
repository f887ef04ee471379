"""The runners of one cluster: brokers and the controller, with what carries out their outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.events import (
    AskController,
    AskPeer,
    ConnectionLost,
    ControllerResponse,
    FaultFired,
    Halted,
    HangUp,
    ImagePublished,
    LetGo,
    PeerAnswered,
    RequestReceived,
    Respond,
)
from ottla.host.runner import Runner
from ottla.host.station import Station
from ottla.protocol.messages.fetch import FetchResponse
from ottla.protocol.messages.produce import ProduceRequest

if TYPE_CHECKING:
    from ottla.host.links import Links
    from ottla.host.machine_clock import OwnClock
    from ottla.host.ports import Core, Doors
    from ottla.host.schedule import Schedule


class SlowDisk:
    """Makes everybody wait for so long who makes a broker write; `fired` counts how often it did."""

    __slots__ = ("_ended", "delay_us", "fired")

    def __init__(self, delay_us: int, ended: Callable[[SlowDisk], None]) -> None:
        self._ended = ended
        self.delay_us = delay_us
        self.fired = 0

    def end(self) -> None:
        """Nobody waits any more for this."""
        self._ended(self)


class BrokerRunner(Runner):
    """One start of a broker.

    Its outputs go to clients by its `doors`, to other brokers and the controller by `links`; what ends it or freezes it
    is told to `ended`. While `service_us` is there, each request of a client takes so long; `late_us` makes what peers
    send late.
    """

    def __init__(
        self,
        schedule: Schedule,
        core: Core,
        clock: OwnClock,
        broker_id: int,
        links: Links,
        ended: Callable[[BrokerRunner, FaultFired | Halted | LetGo], None],
    ) -> None:
        super().__init__(schedule, core, None, clock)
        self.broker_id = broker_id
        self.doors: Doors | None = None
        self._links = links
        self._ended = ended
        # What makes everybody wait who makes the disk write.
        self.slow_disks: list[SlowDisk] = []
        # How long the broker takes for a request, whatever it does; None: no time.
        self.takes_us: Callable[[Any], int] | None = None
        # Where requests wait, by connection; kept for good: they are handled in order, also if no time is needed more.
        self._stations: dict[int, Station] = {}

    def arrive(self, event: Any) -> None:
        """A client's request, or the end of its connection."""
        if not self._stations and not self.slow_disks and self.takes_us is None:
            self.deliver(event)
        else:
            self._serve(event)

    def _serve(self, event: Any) -> None:
        station = self._stations.get(event.connection_id)
        if type(event) is ConnectionLost:
            if station is None:
                self.deliver(event)
            else:
                del self._stations[event.connection_id]
                station.arrive(event)
            return
        if station is None:
            station = self._stations[event.connection_id] = Station(self.schedule, self, self._service_us)
        station.arrive(event)

    def _service_us(self, request: Any) -> int:
        taken_us = 0 if self.takes_us is None else self.takes_us(request)
        return taken_us + self.late_us(request)

    def late_us(self, event: Any) -> int:
        """How late slow disks make this event; they count it where they do."""
        if not self.slow_disks or not _makes_write(event):
            return 0
        late_us = 0
        for slow in self.slow_disks:
            slow.fired += 1
            late_us += slow.delay_us
        return late_us

    def perform(self, output: Any) -> None:
        """Carry out one output of the core."""
        kind = type(output)
        if kind is Respond:
            self._respond(output)
        elif kind is AskPeer:
            self._links.ask_peer(self.broker_id, output)
        elif kind is AskController:
            self._links.ask_controller(self.broker_id, output)
        elif kind is HangUp:
            if output.connection_id < 0:
                self._links.answer_peer(output.connection_id, None)
            elif self.doors is not None:
                self.doors.hang_up(output)
        elif kind is FaultFired or kind is LetGo or kind is Halted:
            self._ended(self, output)
        else:
            raise TypeError(f"a broker gave {kind.__name__}, which no host knows")

    def _respond(self, response: Any) -> None:
        if response.connection_id < 0:
            self._links.answer_peer(response.connection_id, response.message)
            return
        if self._stations:
            station = self._stations.get(response.connection_id)
            if station is not None:
                station.answered(response.correlation_id)
        if self.doors is not None:
            self.doors.respond(response)


class ControllerRunner(Runner):
    """One start of the controller; its images and answers go out by `links`."""

    def __init__(self, schedule: Schedule, core: Core, clock: OwnClock, links: Links) -> None:
        super().__init__(schedule, core, None, clock)
        self._links = links

    def perform(self, output: Any) -> None:
        """Carry out one output of the core."""
        kind = type(output)
        if kind is ImagePublished:
            self._links.publish(output)
        elif kind is ControllerResponse:
            self._links.answer_from_controller(output)
        else:
            raise TypeError(f"the controller gave {kind.__name__}, which no host knows")


def _makes_write(event: Any) -> bool:
    if type(event) is RequestReceived:
        return type(event.message) is ProduceRequest
    return type(event) is PeerAnswered and type(event.message) is FetchResponse
