"""The clients of an embedded cluster, as far as faults affect their connections."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from ottla.cluster.server import BrokerServer
from ottla.errors import UserMistake
from ottla.host.stall import Stall, stalled_us


class Silence:
    """A fault that makes connections silent (not read, not written); `fired` counts them."""

    def __init__(self, broker_id: int, client_id: str | None, ended: Callable[[Silence], None]) -> None:
        self.broker_id = broker_id
        self.client_id = client_id
        self.fired = 0
        self._ended = ended

    def count(self, times: int) -> None:
        """Count more connections that are silent."""
        self.fired += times

    def end(self) -> None:
        """End the silence of those that are not silent for good."""
        self._ended(self)


class EmbeddedClients:
    """The connections between clients and all brokers; `server` returns a broker's server, None while it is down."""

    # Not known: any client may connect.
    client_ids = None

    def __init__(self, server: Callable[[int], BrokerServer | None], broker_ids: list[int], rng: Random) -> None:
        self._server = server
        self._broker_ids = broker_ids
        self._rng = rng
        self._silences: list[Silence] = []
        self.stalls: list[Stall] = []

    def delay_us(self) -> int:
        """How long the next message is delayed."""
        return stalled_us(self.stalls, self._rng)

    def unplug(self, broker_id: int, client_id: str | None) -> Silence:
        """Make this client's connections to a broker silent, present and new ones, until the fault ends."""
        silence = Silence(broker_id, client_id, self._plug_in)
        self._silences.append(silence)
        self._fall_silent(silence)
        return silence

    def _fall_silent(self, silence: Silence) -> None:
        server = self._server(silence.broker_id)
        if server is not None:
            server.fall_silent(id(silence), silence.client_id, silence.count, for_good=False)

    def _plug_in(self, silence: Silence) -> None:
        if silence in self._silences:
            self._silences.remove(silence)
            server = self._server(silence.broker_id)
            if server is not None:
                server.speak(id(silence))

    def broker_started(self, broker_id: int) -> None:
        """Silence a broker again that was started: its server is new."""
        for silence in self._silences:
            if silence.broker_id == broker_id:
                self._fall_silent(silence)

    def half_open(self, broker_id: int | None, client_id: str | None) -> Silence:
        """Make the connections that are open now silent for good."""
        silence = Silence(-1, client_id, _end_nothing)
        for each in self._broker_ids if broker_id is None else [broker_id]:
            server = self._server(each)
            if server is not None:
                server.fall_silent(0, client_id, silence.count, for_good=True)
        return silence

    def stall(self, probability: float, delay_max_us: int) -> Stall:
        """Delay a share of all messages to brokers, and between them, until the fault ends."""
        return Stall(self.stalls, probability, delay_max_us)

    def drift_clock(self, client_id: str, drift_ppm: int) -> None:
        """UserMistake: real clients have clocks of their own."""
        raise UserMistake(
            f"drift_clock(client_id={client_id!r}) is for simulated clients: give a real one an ottla.Clock instead."
        )


def _end_nothing(_: Silence) -> None:
    """They are silent for good."""
