"""The application whose records a side sends: at its pace, in transactions or not, started again where it has ended.

    hand over -> at a boundary: wait, note, or commit -> at `restart_at`: ends without warning -> the next start goes on

What an application knows after its start is what it has noted. With transactions that is where the last committed one
ended; with `notes_every` how far it was at the last note; otherwise which records were acknowledged.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ottla.ledger.schema import ACKED
from ottla.trial.fault_schedule import FaultSchedule
from ottla.trial.instance import Ended, Instance
from ottla.trial.ledger import SideLedger
from ottla.trial.scenario import Scenario, Side
from ottla.trial.side_cluster import SideCluster
from ottla.trial.workload import Workload

# How often an application sends again what was in an aborted transaction.
_TRIES = 3


class Application:
    """The application of one side, on one cluster. `ledger`: what its producers were told."""

    def __init__(
        self, cluster: SideCluster, scenario: Scenario, side: Side, faults: FaultSchedule, advance: Callable[[], None]
    ) -> None:
        self.ledger = SideLedger()
        self._cluster = cluster
        self._scenario = scenario
        self._side = side
        self._faults = faults
        self._advance = advance
        self._workload = Workload(scenario)
        self._noted = self._starts = 0
        self._instance = self._started()

    def run(self) -> None:
        """Hand over all records and learn what becomes of them."""
        scenario, began = self._scenario, time.monotonic()
        zombie: Instance | None = None
        try:
            for number in range(scenario.records):
                self._wait_for_pace(began, number)
                if number == scenario.restart_at:
                    zombie = self._restart(number)
                self._faults.pass_record(number)
                if number == scenario.abort_at:
                    self._instance.abort()
                self._hand_over(self._instance, number)
                self._reach(number + 1)
                self._advance()
            self._faults.pass_record(scenario.records)
            if self._side.transaction_records:
                self._commit()
            self._instance.settle()
            if zombie is not None:
                self._go_on(zombie)
        except BaseException:
            # Do not wait, least of all after Ctrl+C.
            for instance in filter(None, (self._instance, zombie)):
                instance.die()
            raise
        for instance in filter(None, (self._instance, zombie)):
            instance.close()

    def _started(self) -> Instance:
        self._starts += 1
        return Instance(self._cluster, self._side, self._starts, self.ledger)

    def _wait_for_pace(self, began: float, number: int) -> None:
        pace = self._side.records_per_second
        if pace:
            time.sleep(max(0.0, began + number / pace - time.monotonic()))

    def _hand_over(self, instance: Instance, number: int) -> None:
        instance.hand_over(self._workload.record(number))

    def _reach(self, count: int) -> None:
        """Do what is due when so many records were handed over."""
        side, flush_every = self._side, self._scenario.flush_every
        if side.transaction_records and count % side.transaction_records == 0:
            self._commit()
        if flush_every and count % flush_every == 0:
            self._instance.settle()
            self.ledger.note_flush()
        if side.notes_every and count % side.notes_every == 0:
            self._instance.settle()
            self._noted = count

    def _commit(self) -> None:
        """Commit, and send again what was aborted; the next start goes on if this one cannot."""
        for left in reversed(range(_TRIES)):
            records = self._instance.open_records
            ended = self._instance.commit() if records else Ended.COMMITTED
            if self._instance.is_over:
                self._instance.die()
                self._instance = self._started()
            if ended is not Ended.ABORTED or not left:
                return
            for number in records:
                self._hand_over(self._instance, number)

    def _restart(self, number: int) -> Instance | None:
        """Start the application again, from what was noted; returns the old instance if it goes on, too."""
        self._faults.await_fired()
        old, side = self._instance, self._side
        in_transaction = old.open_records
        if not self._scenario.zombie:
            old.die()
        self._faults.pass_record(number)
        self._instance = self._started()
        if side.transaction_records:
            again = in_transaction
        elif side.notes_every:
            again = list(range(self._noted, number))
        else:
            again = [each for each in range(number) if self.ledger.outcome[each] != ACKED]
        for each in again:
            self._hand_over(self._instance, each)
        return old if self._scenario.zombie else None

    def _go_on(self, zombie: Instance) -> None:
        """The instance that was replaced does not know it, and goes on from where it was."""
        every = self._side.transaction_records
        for number in range(self._scenario.restart_at or 0, self._scenario.records):
            if zombie.is_over:
                return
            self._hand_over(zombie, number)
            if every and (number + 1) % every == 0:
                zombie.commit()
        zombie.settle()
