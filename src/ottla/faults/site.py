"""What faults ask of the cluster that they affect: implemented once, by `host`, for real and for simulated clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ottla.faults.effect import Part
from ottla.faults.fields import Cast


class Site(Cast, Protocol):
    """The brokers, disks, clocks, links and clients of one cluster."""

    # Brokers.

    def is_down(self, broker_id: int) -> bool:
        """Whether a broker has ended."""
        ...

    def is_frozen(self, broker_id: int) -> bool:
        """Whether a broker is paused."""
        ...

    def is_shutting_down(self, broker_id: int) -> bool:
        """Whether a broker was asked to end in order, and has not yet."""
        ...

    def is_whole(self) -> bool:
        """Whether all brokers run and every replica is in sync."""
        ...

    def kill(self, broker_id: int) -> None:
        """End a broker; what it wrote survives in the page cache."""
        ...

    def power_off(self, broker_id: int, seed: int | None) -> None:
        """Cut the power of a broker that runs or has ended; `seed` says what is left of unsynced bytes."""
        ...

    def pause(self, broker_id: int) -> None:
        """Freeze a broker."""
        ...

    def shut_down(self, broker_id: int) -> None:
        """Ask a broker to end in order."""
        ...

    def mend(self, broker_id: int) -> None:
        """Let a broker run: start it where it is down, let it go on where it is frozen."""
        ...

    def mend_all(self) -> None:
        """Let all brokers run, and the controller, unless another fault keeps that down."""
        ...

    @property
    def has_controller(self) -> bool:
        """Whether there is a controller."""
        ...

    def stop_controller(self, *, until_started: bool = False) -> Part:
        """Cut the controller's power until the end (or until brokers are started); what it had written is safe."""
        ...

    # Disks and clocks.

    def fill_disk(self, broker_id: int) -> Part:
        """Let every write of a broker fail."""
        ...

    def fail_disk(self, broker_id: int, operation: str, every: int, *, evicts: bool) -> Part:
        """Let each so many-th read, write or sync of a broker fail."""
        ...

    def slow_disk(self, broker_id: int, delay_us: int) -> Part:
        """Make late what makes a broker write."""
        ...

    def flip_byte(self, broker_id: int, topic: str, partition: int, offset: int) -> str:
        """Change a byte of a stored batch; "" or why there is no such batch."""
        ...

    def spoil_unsynced(self, broker_id: int, topic: str, partition: int) -> bool:
        """End a broker and change a byte of what it had not synced of a log; False where there is no such byte."""
        ...

    def jump_clock(self, broker_id: int, jump_us: int) -> None:
        """Move the date of a broker's clock."""
        ...

    def drift_clock(self, broker_id: int, drift_ppm: int) -> None:
        """Let a broker's clock (or the controller's) count so many parts in a million too many; 0: right."""
        ...

    def drift_client_clock(self, client_id: str, drift_ppm: int) -> None:
        """Let a client's clock count so many parts in a million too many; 0: right."""
        ...

    # Links between brokers, and with the controller.

    def cut_link(self, broker_id: int, other_id: int, *, silently: bool) -> Part:
        """Let nothing pass between two."""
        ...

    def lose_messages(self, probability: float) -> Part:
        """Lose a share of what brokers and controller say to each other."""
        ...

    # Clients' connections.

    def unplug(self, broker_id: int, client_id: str | None) -> Part:
        """Let what passes between a broker and its clients wait until the end."""
        ...

    def half_open(self, broker_id: int | None, client_id: str | None) -> Part:
        """Let connections that there are now lose everything for good."""
        ...

    def stall(self, probability: float, delay_max_us: int) -> Part:
        """Hold up a share of what passes on clients' connections, and all that is behind it."""
        ...

    # Leaders.

    def move_leader(self, topic: str, partition: int, answered: Callable[[str], None]) -> None:
        """Have another replica in sync lead; `answered` gets "" or why there is none."""
        ...

    def elect_unclean(self, topic: str, partition: int, answered: Callable[[bool], None]) -> None:
        """Have a living replica lead that is not in sync; `answered` hears whether one does."""
        ...

    def is_led(self, topic: str, partition: int) -> bool:
        """Whether a partition has a leader; True where there is no such partition."""
        ...

    def watch_images(self, look: Callable[[], None]) -> Callable[[], None]:
        """Call `look` whenever the cluster's metadata have changed; what is returned ends that."""
        ...


class Drawing(Protocol):
    """What a plan has that faults can apply to, for faults that are drawn for it (`simulation/drawing.py`)."""

    chance: Any
    brokers: range
    topics: Any
    producers: list[str]
    readers: dict[str, str]
    is_severe: bool
    timetable: Any

    def up(self, at_us: int, *also: str) -> list[int]:
        """The brokers that are not down then, nor affected by these kinds."""
        ...

    def stops_controller(self, at_us: int) -> bool:
        """Whether there is no controller then."""
        ...

    def await_sending(self, span: Span, producer: str | None = None) -> Any:
        """Have the fault begin when something is sent; None where nothing is."""
        ...

    def await_requests(self, span: Span, api: str, topic: str | None, count: int) -> bool:
        """Have the fault be in force when so many requests come; False where so many never do."""
        ...


class Span:
    """When a fault begins, and for how long it is in force, in microseconds; a drawing may move or stretch it."""

    __slots__ = ("at_us", "lasts_us")

    def __init__(self, at_us: int, lasts_us: int) -> None:
        self.at_us = at_us
        self.lasts_us = lasts_us
