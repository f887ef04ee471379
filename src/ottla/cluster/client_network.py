"""The clients of an embedded cluster, as far as faults affect their connections."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from ottla.cluster.server import BrokerServer
from ottla.errors import UserMistake


class Silence:
    """Connections that are silent; `fired` counts them."""

    def __init__(self, broker_id: int, client_id: str | None, ended: Callable[[Silence], None]) -> None:
        self.broker_id = broker_id
        self.client_id = client_id
        self.fired = 0
        self._ended = ended

    def count(self, times: int) -> None:
        """So many more are silent."""
        self.fired += times

    def end(self) -> None:
        """Those that are not silent for good go on."""
        self._ended(self)


class Stall:
    """Holds up a share of all messages for a while; `fired` counts them."""

    def __init__(self, probability: float, delay_max_us: int, ended: Callable[[Stall], None]) -> None:
        self.probability = probability
        self.delay_max_us = delay_max_us
        self.fired = 0
        self._ended = ended

    def end(self) -> None:
        """Nothing is held up any more for this."""
        self._ended(self)


class EmbeddedClients:
    """The connections between clients and all brokers; `server` finds those of one, None while it is down."""

    # Anybody may come.
    client_ids = None

    def __init__(self, server: Callable[[int], BrokerServer | None], broker_ids: list[int], rng: Random) -> None:
        self._server = server
        self._broker_ids = broker_ids
        self._rng = rng
        self._silences: list[Silence] = []
        self.stalls: list[Stall] = []

    def delay_us(self) -> int:
        """How long the next message is held up."""
        delay_us = 0
        for stall in self.stalls:
            if self._rng.random() < stall.probability:
                stall.fired += 1
                delay_us += self._rng.randint(0, stall.delay_max_us)
        return delay_us

    def unplug(self, broker_id: int, client_id: str | None) -> Silence:
        """Let connections old and new fall silent until the end."""
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
        """A broker has new doors: its plug is as it was."""
        for silence in self._silences:
            if silence.broker_id == broker_id:
                self._fall_silent(silence)

    def half_open(self, broker_id: int | None, client_id: str | None) -> Silence:
        """Let the connections that there are now be silent for good."""
        silence = Silence(-1, client_id, _end_nothing)
        for each in self._broker_ids if broker_id is None else [broker_id]:
            server = self._server(each)
            if server is not None:
                server.fall_silent(0, client_id, silence.count, for_good=True)
        return silence

    def stall(self, probability: float, delay_max_us: int) -> Stall:
        """Hold up a share of what brokers are sent until the end."""
        self.stalls.append(Stall(probability, delay_max_us, self.stalls.remove))
        return self.stalls[-1]

    def drift_clock(self, client_id: str, drift_ppm: int) -> None:
        """Clients of an embedded cluster go by clocks of their own."""
        raise UserMistake(
            f"drift_clock(client_id={client_id!r}) is for simulated clients: give a real one an ottla.Clock instead."
        )


def _end_nothing(_: Silence) -> None:
    """They are silent for good."""
