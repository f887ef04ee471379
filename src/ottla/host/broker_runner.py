"""The runners of one cluster's brokers and controller: they carry out the outputs of the cores."""

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
    Respond,
)
from ottla.host.runner import Runner
from ottla.host.station import Station
from ottla.host.writes import makes_write

if TYPE_CHECKING:
    from ottla.host.links import Links
    from ottla.host.machine_clock import OwnClock
    from ottla.host.ports import ClientConnections, Core
    from ottla.host.schedule import Schedule


class SlowDisk:
    """A fault that delays what makes a broker write by `delay_us`; `fired` counts how often it did."""

    __slots__ = ("_ended", "delay_us", "fired")

    def __init__(self, delay_us: int, ended: Callable[[SlowDisk], None]) -> None:
        self._ended = ended
        self.delay_us = delay_us
        self.fired = 0

    def end(self) -> None:
        """Delay nothing any more."""
        self._ended(self)


class BrokerRunner(Runner):
    """One start of a broker.

    Its outputs go to clients by its `client_connections`, and to other brokers and the controller by `links`. `ended`
    is called with an output that ends or freezes the broker. If `takes_us` is set, each request of a client takes so
    long. `slow_disks` delay what makes the broker write.
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
        self.client_connections: ClientConnections | None = None
        self._links = links
        self._ended = ended
        # The faults that delay what makes the broker write.
        self.slow_disks: list[SlowDisk] = []
        # How long the broker takes for a client's request; None: no time.
        self.takes_us: Callable[[Any], int] | None = None
        # Where requests wait, by connection. Kept while the connection is open: requests stay in order when faults end.
        self._stations: dict[int, Station] = {}

    def arrive(self, event: Any) -> None:
        """Take in a client's request, or the end of its connection."""
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
        """By how much slow disks delay this event; they count it if they do."""
        if not self.slow_disks or not makes_write(event):
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
            elif self.client_connections is not None:
                self.client_connections.hang_up(output)
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
        if self.client_connections is not None:
            self.client_connections.respond(response)


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
