"""`cluster.faults`: let something go wrong on purpose, and see whether it did.

Beside the verbs about requests and connections (`ottla.faults.verbs`) those about brokers, disks, clocks, links and
leaders. Healed, affected brokers run again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.faults.fields import APPEND
from ottla.faults.verbs import Fault, Verbs

if TYPE_CHECKING:
    from typing import Unpack

    from ottla.faults.verbs import Which


class Faults(Verbs):
    """The faults of one cluster; every verb raises ConfigError for what makes no sense."""

    _where = "in this cluster"

    def __init__(
        self, ask: Callable[..., Any], coordinating: Callable[[str | None, str | None], tuple[str, int]]
    ) -> None:
        super().__init__(ask)
        # Which partition's leader coordinates a group, or a transactional id.
        self._coordinating = coordinating

    # A request ends or freezes the broker that handles it. `moment`: "request" (nothing appended yet), "append" (in
    # the leader's log, no follower has it), "ack" (replicated as `acks` asks, not answered) or "now" (no request: the
    # broker `broker_id`).

    def kill(self, *, moment: str = APPEND, **which: Unpack[Which]) -> Fault:
        """Kill the broker that handles the request; what it wrote survives in the page cache. Healed, it runs again."""
        return self._at_requests("kill", which, moment=moment)

    def power_off(self, *, moment: str = APPEND, in_sync_only: bool = False, **which: Unpack[Which]) -> Fault:
        """Cut the power of the broker that handles the request; what was not synced is lost, but what `seed` leaves.

        Healed, the broker runs again.
        """
        return self._at_requests("power_off", which, moment=moment, in_sync_only=in_sync_only)

    def pause(self, *, moment: str = APPEND, **which: Unpack[Which]) -> Fault:
        """Freeze the broker that handles the request until the fault is healed, or `Cluster.resume`."""
        return self._at_requests("pause", which, moment=moment)

    def cut_power(self, *, moment: str = APPEND, controller: bool = True, **which: Unpack[Which]) -> Fault:
        """Cut the power of all brokers at once, of those that are down already, too; as `power_off`."""
        return self._at_requests("cut_power", which, moment=moment, controller=controller)

    # Brokers, the controller, disks and clocks until healed.

    def stop(self, broker_id: int) -> Fault:
        """Shut this broker down in order; healed, it is started again."""
        return self._impose("stop", broker_id=broker_id)

    def stop_controller(self) -> Fault:
        """Let the controller lose power; brokers go on with what they know. Healed, it starts from its disk."""
        return self._impose("stop_controller")

    def full_disk(self, broker_id: int) -> Fault:
        """Let every append of this broker fail: no space left on the device."""
        return self._impose("full_disk", broker_id=broker_id)

    def slow_disk(self, broker_id: int, *, delay_ms: int) -> Fault:
        """Let this broker be `delay_ms` late with whatever makes it write, as leader and as follower."""
        return self._impose("slow_disk", broker_id=broker_id, delay_ms=delay_ms)

    def failing_disk(self, broker_id: int, *, operation: str, every: int = 1, evicts: bool = False) -> Fault:
        """Let each so many-th "read", "write" or "sync" of this broker fail; one that cannot sync ends by itself.

        `evicts`: what a sync that failed did not write is gone at once.
        """
        fields = {"operation": operation, "every": every, "evicts": evicts}
        return self._impose("failing_disk", broker_id=broker_id, **fields)

    def jump_clock(self, broker_id: int, *, jump_ms: int) -> Fault:
        """Let this broker's clock show `jump_ms` more, or less where it is negative; healing sets it right."""
        return self._impose("jump_clock", broker_id=broker_id, jump_ms=jump_ms)

    def drift_clock(self, broker_id: int, *, drift_ppm: int) -> Fault:
        """Let this broker's clock (-2: the controller's) count so many parts in a million too many."""
        return self._impose("drift_clock", broker_id=broker_id, drift_ppm=drift_ppm)

    # Links between brokers, and what passes on connections of clients.

    def cut_link(self, broker_id: int, other_id: int, *, silently: bool = False) -> Fault:
        """Keep two brokers (-2: the controller) from reaching each other; a follower falls out of the replicas in sync.

        `silently`: who asks is not told, and waits until it gives up.
        """
        return self._impose("cut_link", broker_id=broker_id, other_id=other_id, silently=silently)

    def isolate(self, broker_id: int, *, silently: bool = False) -> Fault:
        """Keep this broker from all others and the controller, while clients still reach it: a zombie leader."""
        return self._impose("isolate", broker_id=broker_id, silently=silently)

    def lose_messages(self, *, probability: float) -> Fault:
        """Lose this share of what brokers and controller say to each other, without a word."""
        return self._impose("lose_messages", probability=probability)

    def stall(self, *, probability: float, delay_max_ms: int) -> Fault:
        """Hold up this share of what brokers are sent for at most `delay_max_ms`, and all that is behind it."""
        return self._impose("stall", probability=probability, delay_max_ms=delay_max_ms)

    # Logs, and leaders where they should not be.

    def corrupt(self, topic: str, partition: int, offset: int, *, broker_id: int) -> Fault:
        """Flip one byte of the batch that holds this offset, in the file of this broker's replica, for good."""
        return self._impose("corrupt", topic=topic, partition=partition, offset=offset, broker_id=broker_id)

    def corrupt_unsynced(self, topic: str, partition: int, *, broker_id: int) -> Fault:
        """Kill this broker, and flip one byte of what it had not synced of that log; healed, it runs again."""
        return self._impose("corrupt_unsynced", topic=topic, partition=partition, broker_id=broker_id)

    def unclean_election(self, topic: str, partition: int) -> Fault:
        """Whenever no replica in sync is left to lead, let a living one lead all the same: what it lacks is lost."""
        return self._impose("unclean_election", topic=topic, partition=partition)

    def move_coordinator(self, *, group: str | None = None, transactional_id: str | None = None) -> Fault:
        """Let another broker coordinate a group, or the transactions of an id, from now on; UserMistake as there."""
        topic, partition = self._coordinating(group, transactional_id)
        return self._impose("move_leader", topic=topic, partition=partition)

    def move_leader(self, topic: str, partition: int) -> Fault:
        """Let another replica in sync lead a partition from now on; UserMistake where there is none."""
        return self._impose("move_leader", topic=topic, partition=partition)
