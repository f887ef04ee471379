"""What a host asks of the world it runs in: sockets, files and a clock in a cluster, made-up ones in the simulation."""

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


class Doors(Protocol):
    """The connections that clients have to one broker."""

    def respond(self, response: Respond) -> None:
        """Send a response to the client it is for, where that is still there."""
        ...

    def hang_up(self, output: HangUp) -> None:
        """Close a client's connection."""
        ...

    def close(self, *, silently: bool) -> None:
        """The broker is no more: clients are cut off, or hear nothing any more."""
        ...


class Disk(Storage, Protocol):
    """A broker's folder on a disk that outlives the broker; whoever writes there asks `faults` first."""

    @property
    def faults(self) -> DiskFaults: ...

    def flip_byte(self, path: str, position: int) -> None:
        """Change one byte of a file."""
        ...

    def spoilt_byte(self, path: str, rng: Random) -> int | None:
        """Where a byte of what was not synced of a log can be wrong; None where there is none."""
        ...

    def let_go(self) -> None:
        """The broker that wrote to it is no more, and closes no file."""
        ...

    def power_off(self, rng: Random) -> None:
        """Leave of every file what was synced, and of the rest what the disk happened to have written."""
        ...


class ClientNetwork(Protocol):
    """The connections between clients and all brokers."""

    @property
    def client_ids(self) -> Collection[str] | None:
        """The clients there are; None where anybody may come."""
        ...

    def unplug(self, broker_id: int, client_id: str | None) -> Part:
        """Let what passes wait until the end, on connections old and new."""
        ...

    def half_open(self, broker_id: int | None, client_id: str | None) -> Part:
        """Let connections that there are now lose everything for good."""
        ...

    def stall(self, probability: float, delay_max_us: int) -> Part:
        """Hold up a share of what passes, and all that is behind it."""
        ...

    def drift_clock(self, client_id: str, drift_ppm: int) -> None:
        """Let a client's clock count so many parts in a million too many; 0: right."""
        ...


class Wires(Protocol):
    """What carries messages between brokers and controller."""

    def delay_us(self) -> int:
        """How long the next message is on its way."""
        ...

    def copy(self, message: Any) -> Any:
        """An answer as it arrives; the same object where sender and receiver may share memory."""
        ...

    @property
    def crossed(self) -> Callable[[Crossing], None] | None:
        """Told of every message, before its receiver has it; None where nobody watches."""
        ...
