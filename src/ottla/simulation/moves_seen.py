"""Notes which replicas are being moved in a run, how far each move has come, and which faults happened meanwhile.

All of it goes into the states of the run. A simulation without faults during moves proves little about moves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.broker.events import PartitionImage
from ottla.broker.topic_names import INTERNAL_TOPICS

if TYPE_CHECKING:
    from ottla.simulation.run import Run


class MovesSeen:
    """The moves of one run; `moving` are the partitions whose replicas are being moved."""

    def __init__(self, run: Run) -> None:
        self.moving: dict[tuple[str, int], PartitionImage] = {}
        self._run = run

    def note(self, topic: str, index: int, before: PartitionImage | None, after: PartitionImage) -> None:
        """Note a change of a partition in the controller's image."""
        if after.is_moving:
            self.moving[topic, index] = after
        else:
            self.moving.pop((topic, index), None)
        whose = "an internal topic's replicas" if topic in INTERNAL_TOPICS else "a topic's replicas"
        for step in _steps(before, after) if before is not None else ():
            self._run.states.seen[f"{whose} {step}"] = None

    def note_end(self, kind: str) -> None:
        """Note that a broker has ended."""
        if self.moving:
            self._run.states.seen[f"replicas moving when a broker went down by {kind}"] = None
            self.note_what_they_meet()

    def note_what_they_meet(self) -> None:
        """If replicas are being moved, note which brokers are down and which faults are in force."""
        if not self.moving:
            return
        seen, world = self._run.states.seen, self._run.world
        down = [broker_id for broker_id, runner in world.brokers.items() if runner.is_dead]
        if down:
            seen["replicas moving while a broker is down"] = None
        for part in self.moving.values():
            if any(each in down for each in part.replicas):
                seen["replicas moving while one of their brokers is down"] = None
            if part.leader < 0:
                seen["replicas moving while nobody leads"] = None
        if not world.host.has_controller:
            seen["replicas moving while there is no controller"] = None
        self._run.faults.note_moves()


def has_arrived(before: PartitionImage, after: PartitionImage) -> bool:
    """Whether a move was completed, because its last new replicas are now in sync.

    Not if there was an unclean election: it begins one leader epoch, and the removal of replicas another one.
    """
    return (
        before.is_moving
        and not after.is_moving
        and all(each in after.replicas for each in before.adding)
        and len(after.isr) == len(after.replicas)
        and after.leader_epoch <= before.leader_epoch + 1
    )


def _steps(before: PartitionImage, after: PartitionImage) -> Iterator[str]:
    """How far the move has come; nothing if there is none."""
    if before.is_moving and after.is_moving:
        if (before.adding, before.removing) != (after.adding, after.removing):
            yield "sent elsewhere on their way"
    elif after.is_moving:
        yield "began to move"
    elif before.is_moving:
        is_stopped = any(each not in after.replicas for each in before.adding)
        yield "stopped on their way" if is_stopped or after.replicas == before.replicas else "moved"
    elif before.replicas != after.replicas:
        yield "moved at once"
