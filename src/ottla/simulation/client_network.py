"""The clients of a simulated cluster, as far as faults affect their connections and their clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.host.machine_clock import OwnClock
from ottla.host.stall import Stall
from ottla.simulation.network import Network, Silence
from ottla.simulation.scheduler import Scheduler

if TYPE_CHECKING:
    from ottla.simulation.admin import SimulatedAdmin
    from ottla.simulation.clients import SimulatedProducer, SimulatedReader

    SimulatedClient: TypeAlias = SimulatedProducer | SimulatedReader | SimulatedAdmin

FIRST_PORT = 9092


class SimulatedClients:
    """Clients by name; instances of one name share a machine, and each one without a name has its own."""

    # Not limited: clients that no plan names may connect, too.
    client_ids = None

    def __init__(self, scheduler: Scheduler, network: Network) -> None:
        self._scheduler = scheduler
        self._network = network
        self._clocks: dict[str, OwnClock] = {}
        self._instances: dict[str, list[SimulatedClient]] = {}

    def join(self, name: str, client: SimulatedClient) -> None:
        """Add an instance of a client."""
        self._instances.setdefault(name, []).append(client)

    def clock_of(self, client_number: int) -> OwnClock:
        """The clock of the machine that a client runs on."""
        name = self._network.owners.get(client_number)
        return OwnClock() if name is None else self._clocks.setdefault(name, OwnClock())

    def drift_clock(self, client_id: str, drift_ppm: int) -> None:
        """From now on a client's clock is too fast by so many parts per million; 0: right."""
        self._clocks.setdefault(client_id, OwnClock()).run(drift_ppm, self._scheduler.now_us)
        for client in self._instances.get(client_id, ()):
            client.look_again()

    def unplug(self, broker_id: int, client_id: str | None) -> Silence:
        """Let nothing pass between a broker and its clients until the end; then what was sent meanwhile arrives."""
        return self._network.unplug(FIRST_PORT + broker_id, client_id)

    def half_open(self, broker_id: int | None, client_id: str | None) -> Silence:
        """Let the present connections (or the next one if there is none) lose everything, unknown to both ends."""
        return self._network.half_open(None if broker_id is None else FIRST_PORT + broker_id, client_id)

    def stall(self, probability: float, delay_max_us: int) -> Stall:
        """Delay a share of the messages; later ones of the same connection wait, too."""
        return self._network.stall(probability, delay_max_us)
