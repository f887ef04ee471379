"""`cluster.faults`: cause an error on purpose, and see whether it happened.

The faults of requests and connections are in `ottla.faults.verbs`; here are those of brokers, disks, clocks, links and
leaders. When a fault is healed, the brokers that it affected run again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.faults.fields import APPEND
from ottla.faults.verbs import FaultInForce, Verbs, of_requests

if TYPE_CHECKING:
    from typing import Unpack

    from ottla.faults.verbs import Which


class Faults(Verbs):
    """The faults of one cluster; every method raises ConfigError for arguments that make no sense."""

    _where = "in this cluster"

    def __init__(
        self, ask: Callable[..., Any], coordinating: Callable[[str | None, str | None], tuple[str, int]]
    ) -> None:
        super().__init__(ask)
        # Returns the partition whose leader coordinates a group or a transactional id.
        self._coordinating = coordinating

    # Faults that end or freeze the broker that handles a request. `moment`: "request" (nothing is appended yet),
    # "append" (in the leader's log, no follower has it), "ack" (replicated as `acks` asks, not answered yet) or "now"
    # (without a request; the broker is `broker_id`).

    @of_requests
    def kill(self, *, moment: str = APPEND, **which: Unpack[Which]) -> FaultInForce:
        """Kill the broker that handles the request; what it wrote is still in the page cache. Healed, it runs again."""
        return self._at_requests("kill", which, moment=moment)

    @of_requests
    def power_off(self, *, moment: str = APPEND, in_sync_only: bool = False, **which: Unpack[Which]) -> FaultInForce:
        """Cut the power of the broker that handles the request. Healed, it runs again.

        What it had not synced is lost, or a part of it; `seed` decides which. `in_sync_only`: fire only while every
        replica is in sync.
        """
        return self._at_requests("power_off", which, moment=moment, in_sync_only=in_sync_only)

    @of_requests
    def pause(self, *, moment: str = APPEND, **which: Unpack[Which]) -> FaultInForce:
        """Freeze the broker that handles the request, until the fault is healed or `Cluster.resume` is called."""
        return self._at_requests("pause", which, moment=moment)

    @of_requests
    def cut_power(self, *, moment: str = APPEND, controller: bool = True, **which: Unpack[Which]) -> FaultInForce:
        """Cut the power of all brokers at once, as `power_off` does, also of those that are down already.

        `controller`: whether the controller loses power, too.
        """
        return self._at_requests("cut_power", which, moment=moment, controller=controller)

    # Faults of brokers, the controller, disks and clocks, which last until they are healed.

    def stop(self, broker_id: int) -> FaultInForce:
        """Shut this broker down in order; healed, it is started again."""
        return self._impose("stop", broker_id=broker_id)

    def stop_controller(self) -> FaultInForce:
        """Cut the controller's power; brokers go on with the metadata they have. Healed, it starts from its disk."""
        return self._impose("stop_controller")

    def full_disk(self, broker_id: int) -> FaultInForce:
        """Make every append of this broker fail with ENOSPC, and be refused with KAFKA_STORAGE_ERROR."""
        return self._impose("full_disk", broker_id=broker_id)

    def slow_disk(self, broker_id: int, *, delay_ms: int) -> FaultInForce:
        """Delay this broker's writes by `delay_ms`, as leader and as follower."""
        return self._impose("slow_disk", broker_id=broker_id, delay_ms=delay_ms)

    def failing_disk(self, broker_id: int, *, operation: str, every: int = 1, evicts: bool = False) -> FaultInForce:
        """Make each `every`-th `operation` ("read", "write" or "sync") of this broker fail with EIO.

        A broker ends by itself when a sync fails. What was not synced is lost with the next power cut, or at once
        with `evicts`.
        """
        fields = {"operation": operation, "every": every, "evicts": evicts}
        return self._impose("failing_disk", broker_id=broker_id, **fields)

    def jump_clock(self, broker_id: int, *, jump_ms: int) -> FaultInForce:
        """Make this broker's clock jump `jump_ms` ahead, or back if that is negative; healed, it is right again."""
        return self._impose("jump_clock", broker_id=broker_id, jump_ms=jump_ms)

    def drift_clock(self, broker_id: int, *, drift_ppm: int) -> FaultInForce:
        """Make the clock of a broker (-2: the controller) too fast by so many parts per million; negative: too slow."""
        return self._impose("drift_clock", broker_id=broker_id, drift_ppm=drift_ppm)

    # Faults of links between brokers and of clients' connections.

    def cut_link(self, broker_id: int, other_id: int, *, silently: bool = False) -> FaultInForce:
        """Cut the link between two brokers (-2: the controller): a follower then falls out of the ISR.

        `silently`: requests between them fail after a second, as by a timeout, instead of at once.
        """
        return self._impose("cut_link", broker_id=broker_id, other_id=other_id, silently=silently)

    def isolate(self, broker_id: int, *, silently: bool = False) -> FaultInForce:
        """Cut the links of this broker to all other brokers and the controller; clients can still reach it.

        So it acts as a leader for a while after another one was elected. `silently`: as in `cut_link`.
        """
        return self._impose("isolate", broker_id=broker_id, silently=silently)

    def lose_messages(self, *, probability: float) -> FaultInForce:
        """Lose this share of the messages between brokers and controller, without an error."""
        return self._impose("lose_messages", probability=probability)

    def stall(self, *, probability: float, delay_max_ms: int) -> FaultInForce:
        """Delay this share of what clients send, and of messages among brokers and controller, by up to `delay_max_ms`.

        `fired` counts the delayed messages. It also grows when no client is connected, because brokers send messages to
        each other and to the controller.
        """
        return self._impose("stall", probability=probability, delay_max_ms=delay_max_ms)

    # Faults of logs and leaders.

    def corrupt(self, topic: str, partition: int, offset: int, *, broker_id: int) -> FaultInForce:
        """Change one byte of the batch that holds this offset, in the file of this broker's replica, for good."""
        return self._impose("corrupt", topic=topic, partition=partition, offset=offset, broker_id=broker_id)

    def corrupt_unsynced(self, topic: str, partition: int, *, broker_id: int) -> FaultInForce:
        """Kill this broker, and change one byte of that log that was not synced; healed, the broker runs again."""
        return self._impose("corrupt_unsynced", topic=topic, partition=partition, broker_id=broker_id)

    def unclean_election(self, topic: str, partition: int) -> FaultInForce:
        """If no replica in sync can lead, let one lead that is not in sync: records that it lacks are lost."""
        return self._impose("unclean_election", topic=topic, partition=partition)

    def move_coordinator(self, *, group: str | None = None, transactional_id: str | None = None) -> FaultInForce:
        """Let another broker coordinate a group or a transactional id from now on.

        UserMistake if no other one can, or nothing is coordinated yet.
        """
        topic, partition = self._coordinating(group, transactional_id)
        return self._impose("move_leader", topic=topic, partition=partition)

    def move_leader(self, topic: str, partition: int) -> FaultInForce:
        """Let another replica in sync lead a partition from now on; UserMistake if there is none."""
        return self._impose("move_leader", topic=topic, partition=partition)
