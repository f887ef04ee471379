"""What faults can do to a host: to its brokers, disks, clocks, links, clients and leaders."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import Any

from ottla.broker.events import MoveLeader
from ottla.faults.effect import Part
from ottla.host.host import DOWN, PAUSED, Host
from ottla.host.ports import ClientNetwork
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

_UNCLEAN = 1
_TIMEOUT_MS = 10_000


class StoppedController:
    """A fault that keeps the controller down; it may run again when all such faults have ended.

    `until_started`: it is over as well when brokers are started by hand.
    """

    def __init__(self, ended: Callable[[StoppedController], None], *, until_started: bool, was_running: bool) -> None:
        self._ended = ended
        self.until_started = until_started
        self.fired = int(was_running)

    def end(self) -> None:
        """End the fault."""
        self._ended(self)


class HostSite:
    """Everything of one cluster that faults can affect (`faults.site.Site`).

    `rng` draws what is left of unsynced bytes if there is no seed, and which byte is made wrong.
    """

    def __init__(self, host: Host, clients: ClientNetwork, rng: Random) -> None:
        self._host = host
        self._clients = clients
        self._rng = rng
        self._looks: list[Callable[[], None]] = []
        # The faults that keep the controller down.
        self._stopped: list[StoppedController] = []
        # Called before the power of a broker is cut.
        self.powering_off: Callable[[int], None] | None = None

    # ---- brokers, topics and clients by name --------------------------------------------------------------------

    @property
    def broker_ids(self) -> Sequence[int]:
        """The ids of all brokers."""
        return list(self._host.disks)

    @property
    def partitions(self) -> Mapping[str, int] | None:
        """How many partitions each topic has; None: not limited, topics may be made later."""
        return None

    @property
    def client_ids(self) -> Collection[str] | None:
        """The names of the clients; None if any client may connect."""
        return self._clients.client_ids

    # ---- brokers and controller ---------------------------------------------------------------------------------

    def is_down(self, broker_id: int) -> bool:
        """Whether a broker has ended."""
        return self._host.state(broker_id) == DOWN

    def is_frozen(self, broker_id: int) -> bool:
        """Whether a broker is paused."""
        return self._host.state(broker_id) == PAUSED

    def is_shutting_down(self, broker_id: int) -> bool:
        """Whether a broker was asked to end in order, and has not yet."""
        return not self.is_down(broker_id) and self._host.is_shutting_down(broker_id)

    def is_whole(self) -> bool:
        """Whether all brokers run and every replica is in sync."""
        return self._host.is_whole()

    def kill(self, broker_id: int) -> None:
        """End a broker; what it wrote survives in the page cache."""
        self._host.kill(broker_id)

    def power_off(self, broker_id: int, seed: int | None) -> None:
        """Cut the power of a broker that runs or has ended; `seed` draws what is left of unsynced bytes."""
        if self.powering_off is not None:
            self.powering_off(broker_id)
        self._host.power_off(broker_id, self._rng if seed is None else Random(f"{seed} {broker_id}"))

    def pause(self, broker_id: int) -> None:
        """Freeze a broker."""
        self._host.pause(broker_id)

    def shut_down(self, broker_id: int) -> None:
        """Let a broker end in order."""
        self._host.shut_down(broker_id, _nothing)

    def mend(self, broker_id: int) -> None:
        """Let a broker run: start it if it is down, resume it if it is frozen."""
        if self.is_down(broker_id):
            self._boot([broker_id])
        elif self.is_frozen(broker_id):
            self._host.resume(broker_id)

    def mend_all(self) -> None:
        """Let all brokers run; with those that are down the controller starts, too, unless a fault keeps it down."""
        down = [broker_id for broker_id in self.broker_ids if self.is_down(broker_id)]
        if down:
            self._boot(down)
        for broker_id in self.broker_ids:
            self.mend(broker_id)

    def start(self, broker_ids: Sequence[int]) -> None:
        """Start brokers by hand; after a power cut the controller starts with them, unless another fault stopped it."""
        self._stopped = [each for each in self._stopped if not each.until_started]
        self._boot(broker_ids)

    def _boot(self, broker_ids: Sequence[int]) -> None:
        """Start brokers that are down; the controller starts, too, unless a fault keeps it down."""
        if not self._stopped:
            self._host.boot(broker_ids)
            return
        for broker_id in broker_ids:
            self._host.start(broker_id)

    @property
    def has_controller(self) -> bool:
        """Whether there is a controller."""
        return self._host.has_controller

    def stop_controller(self, *, until_started: bool = False) -> StoppedController:
        """Cut the controller's power; what it had written is kept. `until_started`: until brokers are started."""
        was_running = self._host.has_controller
        if was_running:
            self._host.kill_controller()
        stopped = StoppedController(self._let_controller_run, until_started=until_started, was_running=was_running)
        self._stopped.append(stopped)
        return stopped

    def _let_controller_run(self, ended: StoppedController) -> None:
        if ended in self._stopped:
            self._stopped.remove(ended)
            self.mend_controller()

    def mend_controller(self) -> None:
        """Start the controller if it is down, unless a fault keeps it down.

        If no broker runs, it is started together with them later.
        """
        if not self._stopped and not self._host.has_controller and self._host.cores():
            self._host.start_controller()

    # ---- disks and clocks ---------------------------------------------------------------------------------------

    def fill_disk(self, broker_id: int) -> Part:
        """Let every write of a broker fail."""
        return self._host.disks[broker_id].faults.fill()

    def fail_disk(self, broker_id: int, operation: str, every: int, *, evicts: bool) -> Part:
        """Let each `every`-th read, write or sync of a broker fail."""
        return self._host.disks[broker_id].faults.fail(operation, every, evicts=evicts)

    def slow_disk(self, broker_id: int, delay_us: int) -> Part:
        """Delay what makes a broker write."""
        return self._host.slow_down(broker_id, delay_us)

    def flip_byte(self, broker_id: int, topic: str, partition: int, offset: int) -> str:
        """Change a byte of a stored batch; return "", or why there is no such batch."""
        log = self._log(broker_id, topic, partition)
        if log is None:
            return f"broker {broker_id} holds no log of {topic}-{partition}: name one of its replicas"
        if not log.log_start_offset <= offset < log.log_end_offset:
            return (
                f"{topic}-{partition} has no offset {offset} on broker {broker_id}: "
                f"it goes from {log.log_start_offset} to {log.log_end_offset - 1}"
            )
        path, position = log.byte_of(offset)
        self._host.disks[broker_id].flip_byte(path, position)
        return ""

    def spoil_unsynced(self, broker_id: int, topic: str, partition: int) -> bool:
        """End a broker and change an unsynced byte of a log of it; False if there is no such byte."""
        log = self._log(broker_id, topic, partition)
        disk = self._host.disks[broker_id]
        if log is None:
            return False
        disk.write_back.now_us = self._host.brokers[broker_id].now_us
        position = disk.spoilt_byte(log.segments[-1].path, self._rng)
        if position is None:
            return False
        disk.flip_byte(log.segments[-1].path, position)
        self._host.kill(broker_id, kind="corrupt")
        return True

    def _log(self, broker_id: int, topic: str, partition: int) -> Any:
        runner = self._host.brokers.get(broker_id)
        core: Any = None if runner is None or runner.is_dead else runner.core
        found = core.topics.get(topic, {}).get(partition) if core is not None else None
        return None if found is None else found.log

    def jump_clock(self, broker_id: int, jump_us: int) -> None:
        """Move the date of a broker's clock."""
        self._host.jump_clock(broker_id, jump_us)

    def drift_clock(self, broker_id: int, drift_ppm: int) -> None:
        """Let a broker's clock (or the controller's) be too fast by so many parts per million; 0: right."""
        self._host.drift_clock(broker_id, drift_ppm)

    def drift_client_clock(self, client_id: str, drift_ppm: int) -> None:
        """Let a client's clock be too fast by so many parts per million; 0: right."""
        self._clients.drift_clock(client_id, drift_ppm)

    # ---- links and clients --------------------------------------------------------------------------------------

    def cut_link(self, broker_id: int, other_id: int, *, silently: bool) -> Part:
        """Let no message pass between two brokers, or a broker and the controller."""
        return self._host.links.cut(broker_id, other_id, silently=silently)

    def lose_messages(self, probability: float) -> Part:
        """Lose a share of the messages between brokers and controller."""
        return self._host.links.lose(probability)

    def unplug(self, broker_id: int, client_id: str | None) -> Part:
        """Let nothing pass between a broker and its clients until the fault ends."""
        return self._clients.unplug(broker_id, client_id)

    def half_open(self, broker_id: int | None, client_id: str | None) -> Part:
        """Let connections of clients lose everything for good."""
        return self._clients.half_open(broker_id, client_id)

    def stall(self, probability: float, delay_max_us: int) -> Part:
        """Delay a share of the messages on clients' connections (and what follows there), and between brokers."""
        return self._clients.stall(probability, delay_max_us)

    # ---- leaders ------------------------------------------------------------------------------------------------

    def move_leader(self, topic: str, partition: int, answered: Callable[[str], None]) -> None:
        """Let another replica in sync lead; `answered` gets "", or why there is none."""

        def moved(answer: Any) -> None:
            if answer is None:
                answered("there is no controller now")
            else:
                answered(answer.rstrip(".") if isinstance(answer, str) else "")

        self._host.links.order(MoveLeader(topic, partition), moved)

    def elect_unclean(self, topic: str, partition: int, answered: Callable[[bool], None]) -> None:
        """Let a running replica lead that is not in sync; `answered` gets whether one does."""

        def elected(response: Any) -> None:
            answered(response is not None and not response.replica_election_results[0].partition_result[0].error_code)

        wanted = [TopicPartitions(topic=topic, partitions=[partition])]
        request = ElectLeadersRequest(election_type=_UNCLEAN, topic_partitions=wanted, timeout_ms=_TIMEOUT_MS)
        self._host.links.order(request, elected)

    def is_led(self, topic: str, partition: int) -> bool:
        """Whether a partition has a leader; True also if there is no such partition, or no controller."""
        image = self._host.links.image
        found = None if image is None else image.topics.get(topic)
        if found is None or partition >= len(found.partitions) or not self._host.has_controller:
            return True
        return found.partitions[partition].leader >= 0

    def watch_images(self, look: Callable[[], None]) -> Callable[[], None]:
        """Call `look` whenever the cluster's metadata have changed, until the result is called."""
        self._looks.append(look)
        return lambda: self._looks.remove(look)

    def image_published(self) -> None:
        """Called when the cluster's metadata have changed."""
        for look in list(self._looks):
            look()


def _nothing() -> None:
    """The caller does not wait for the end."""
