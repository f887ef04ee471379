"""The interfaces that a host needs: to sockets, files and a clock in a cluster, to simulated ones in a simulation."""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random
from typing import Any, Protocol

from ottla.broker.events import HangUp, Respond
from ottla.broker.storage import Storage
from ottla.faults.effect import Part
from ottla.host.crossing import Crossing
from ottla.host.disk_faults import DiskFaults


class Core(Protocol):
    """The surface all cores share."""

    def receive(self, event: Any, now_us: int) -> None: ...
    def outputs(self) -> list[Any]: ...
    def deadline_us(self) -> int | None: ...
    def tick(self, now_us: int) -> None: ...


class ClientConnections(Protocol):
    """The connections that clients have to one broker."""

    def respond(self, response: Respond) -> None:
        """Send a response on its connection, if that is still open."""
        ...

    def hang_up(self, output: HangUp) -> None:
        """Close a client's connection."""
        ...

    def close(self, *, silently: bool) -> None:
        """The broker has ended: close its connections; `silently`: clients get nothing, if the network can do that."""
        ...


class Disk(Storage, Protocol):
    """A broker's folder on a disk, which outlives the broker; it checks `faults` before each read, write and sync."""

    @property
    def faults(self) -> DiskFaults: ...

    def flip_byte(self, path: str, position: int) -> None:
        """Change one byte of a file."""
        ...

    def spoilt_byte(self, path: str, rng: Random) -> int | None:
        """The position of an unsynced byte of a log that can be made wrong; None if there is none."""
        ...

    def let_go(self) -> None:
        """Close the files of a broker that has ended."""
        ...

    def power_off(self, rng: Random) -> None:
        """Keep of every file what was synced, and of the rest a part that is drawn."""
        ...


class ClientNetwork(Protocol):
    """The connections between clients and all brokers."""

    @property
    def client_ids(self) -> Collection[str] | None:
        """The names of the clients; None if any client may connect."""
        ...

    def unplug(self, broker_id: int, client_id: str | None) -> Part:
        """Let nothing pass on connections to a broker, present and new ones, until the fault ends."""
        ...

    def half_open(self, broker_id: int | None, client_id: str | None) -> Part:
        """Let connections lose everything for good, without either end being informed."""
        ...

    def stall(self, probability: float, delay_max_us: int) -> Part:
        """Delay a share of the messages; later ones of the same connection wait, too."""
        ...

    def drift_clock(self, client_id: str, drift_ppm: int) -> None:
        """Let a client's clock be too fast by so many parts per million; 0: right."""
        ...


class Wires(Protocol):
    """What carries messages between brokers and the controller."""

    def delay_us(self) -> int:
        """How long the next message takes."""
        ...

    def copy(self, message: Any) -> Any:
        """An answer as it arrives: a copy, or the same object if sender and receiver may share memory."""
        ...

    @property
    def crossed(self) -> Callable[[Crossing], None] | None:
        """Called with every message, before its receiver gets it; None if nothing is to be called."""
        ...
