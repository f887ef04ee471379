"""What a host asks of the world it runs in: sockets, files and a clock in a cluster, made-up ones in the simulation."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from ottla.broker.events import HangUp, Respond
from ottla.broker.storage import Storage
from ottla.host.crossing import Crossing


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
    """A broker's folder on a disk that outlives the broker."""

    def let_go(self) -> None:
        """The broker that wrote to it is no more, and closes no file."""
        ...

    def power_off(self, rng: Random) -> None:
        """Leave of every file what was synced, and of the rest what the disk happened to have written."""
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
