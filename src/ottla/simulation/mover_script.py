"""An admin client that asks for each move of replicas in a plan at its time, on a machine of its own.

It asks once and waits for the answer; the move itself goes on meanwhile. In the end its answers are compared with the
cluster: the brokers that were asked to hold a partition hold it, and no other broker has a log of it, unless its disk
failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.connection.request import ANY_NODE
from ottla.faults.failing_disk import FailingDisk
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.simulation.plan import SEVERE, MovePlan
from ottla.simulation.scripts import Script, Wait

if TYPE_CHECKING:
    from ottla.simulation.run import Run

_NAME = "mover"
_PATIENCE_MS = 5_000
_UNANSWERED = None


class MoverScript(Script):
    """Asks for all the moves of a plan, one after the other."""

    def __init__(self, run: Run) -> None:
        super().__init__(_NAME, run)
        self._moves = sorted(run.plan.moves, key=lambda each: each.at_us)
        # By partition: the moves asked for, with the answered error code (0: no error; None: no answer).
        self._told: dict[tuple[str, int], list[tuple[MovePlan, int | None]]] = {}
        self._broken = {each.fault.broker_id for each in run.plan.faults if isinstance(each.fault, FailingDisk)}
        self._admin = run.world.admin(_NAME)
        run.names[self._admin.client_name] = _NAME
        self._admin.when_acted(self.wake)

    def steps(self) -> Iterator[Wait]:
        """Ask for one move after the other."""
        for move in self._moves:
            yield self.until(None, max(0, self.run.began_us + move.at_us - self.run.world.scheduler.now_us))
            if self.run.plan.severity != SEVERE and self.run.is_power_cut_unnoticed():
                # Replicas that have all records might be replaced by one that has lost some.
                continue
            yield from self._ask(move)
        self._admin.die()

    def _ask(self, move: MovePlan) -> Iterator[Wait]:
        asked = ReassignablePartition(partition_index=move.partition, replicas=move.replicas)
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=_PATIENCE_MS, topics=[ReassignableTopic(name=move.topic, partitions=[asked])]
        )
        token = self._admin.ask(request, ANY_NODE, _PATIENCE_MS * 1000)
        yield self.until(self._admin.is_answered, _PATIENCE_MS * 1000)
        answer = self._admin.answers.get(token)
        told = self._told.setdefault((move.topic, move.partition), [])
        told.append((move, _UNANSWERED if answer is None else _error_of(answer.message)))

    def look_at_the_end(self) -> None:
        """Note partitions that other brokers hold in the end than those that were asked for."""
        run = self.run
        image = run.witness.image()
        for (topic, index), told in self._told.items():
            if topic not in image:
                continue
            holders = image[topic][index].replicas
            granted = [move for move, code in told if code == ErrorCode.NONE]
            # A move without an answer may have been carried out at any time.
            if granted and granted[-1].replicas is not None and all(code is not _UNANSWERED for _, code in told):
                asked = tuple(granted[-1].replicas)
                run.expect(holders == asked, f"{topic}-{index} was moved to brokers {asked} and is held by {holders}")
            for broker_id, disk in enumerate(run.world.disks):
                # If a disk fault prevented a removal, the log stays until the broker starts again.
                run.expect(
                    broker_id in holders or broker_id in self._broken or not disk.files(f"{topic}-{index}"),
                    f"broker {broker_id} still has a log of {topic}-{index}, which was moved to brokers {holders}",
                )


def _error_of(message: AlterPartitionReassignmentsResponse | None) -> int | None:
    if message is None:
        return _UNANSWERED
    if message.error_code:
        # The controller could not be reached, or could not write; it may carry out the move all the same.
        return _UNANSWERED
    return message.responses[0].partitions[0].error_code
