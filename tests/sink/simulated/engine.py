"""Spark in small, in the simulated world: a driver that plans, runs tasks and commits, and its checkpoint.

What of Spark matters here: a batch that was begun and not finished is run again with new tasks; tasks are tried again,
and copies of them run beside them (speculation); whichever attempt ends first counts, and nobody tells the others; a
failed commit is followed by abort with the same messages; who finishes a batch that is finished already ends.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ottla.client.admin import transactions_of
from ottla.client.producer import Producer
from ottla.errors import OttlaError
from ottla.producer.transaction_states import TransactionIdentity
from ottla.simulation.chance import Chance
from ottla.simulation.world import World
from ottla.sink.batch import Attempt, BatchId, Plan, Prepared, Skipped, Totals
from ottla.sink.commit import abort, commit
from ottla.sink.identities import driver_id
from ottla.sink.planning import plan
from ottla.sink.session import Session
from ottla.sink.settings import SinkSettings
from ottla.sink.task import prepare

from .kafka import PlaceOfProcess, SimulatedKafka
from .processes import Process, Processes

TOPIC = "rows"
PARTITIONS = 3
QUERY_ID = "query-1"
_ATTEMPTS_MAX = 4
_JOB_US = 3_600_000_000
# What a commit says of a task's transaction that somebody has ended.
_MISSED = ("lost its transaction before", "did not last until they could be committed")


class Superseded(Exception):
    """Another driver has finished this batch: Spark ends who comes second."""


@dataclass
class Written:
    """What an attempt was given to write: `run` is the run of the batch that it belongs to."""

    batch: int
    run: int
    partition_id: int
    tasks: int
    rows: list[str]


@dataclass
class Query:
    """The query's checkpoint and all that was ever written for it. `repeats`: a batch has the same rows each time."""

    world: World
    processes: Processes
    settings: SinkSettings
    batch_rows: list[int]
    repeats: bool
    chance: Chance
    draw_tasks: Callable[[int], int]
    draw_fate: Callable[[Process, str], None]
    copies_share: float = 0.0
    # Of one task.
    copies_most: int = 1
    # How long after one task the next one begins: batches may be longer than their transactions.
    between_tasks_us: int = 0
    days_ms: int = 0
    # Whether tasks know, from earlier tasks of the same worker, which brokers coordinated ids.
    remembers: bool = False
    # By how much the clock of a process is ahead of the brokers'.
    draw_clock_ms: Callable[[], int] = lambda: 0
    committed: list[int] = field(default_factory=list)
    written: dict[int, Written] = field(default_factory=dict)
    attempts: int = 0
    runs: int = 0
    taken_back: list[str] = field(default_factory=list)
    # Of commits that missed a transaction which had time left.
    missed: list[str] = field(default_factory=list)
    _identities: set[TransactionIdentity] = field(default_factory=set)
    _coordinators: dict[str, int] = field(default_factory=dict)

    def session(self, process: Process) -> Session:
        ahead_ms = self.draw_clock_ms()
        place = PlaceOfProcess(self.world, process)
        return Session(self.settings, SimulatedKafka(self.settings, place, lambda: self.days_ms + ahead_ms, self._take))

    def _take(self, identity: TransactionIdentity) -> None:
        """No two attempts may send under one identity."""
        if identity.transactional_id == driver_id(self.settings.sink_id):
            return
        if identity in self._identities:
            self.taken_back.append(f"two attempts have {identity}")
        self._identities.add(identity)

    def is_finished(self) -> bool:
        return len(self.committed) == len(self.batch_rows)

    # ---- the driver -----------------------------------------------------------------------------------------------

    def drive(self, process: Process) -> None:
        """The work of a driver: batch after batch until all are finished."""
        planning, committing = self.session(process), self.session(process)
        while not self.is_finished():
            batch = len(self.committed)
            self.runs += 1
            self._run_batch(process, planning, committing, batch, self.runs)
            process.wait(None, 0)
            if batch in self.committed:
                raise Superseded(f"batch {batch} is finished already")
            self.committed.append(batch)

    def _run_batch(self, process: Process, planning: Session, committing: Session, batch: int, run: int) -> None:
        planned_us = process.now_us
        planned = plan(planning)
        tasks = self.draw_tasks(batch)
        messages, last_error = self._run_tasks(process, planned, batch, run, tasks)
        known = [message for message in messages if message is not None]
        if len(known) < tasks:
            abort(committing, messages, planned)
            raise OttlaError(f"a task of batch {batch} has failed: {last_error}")
        try:
            commit(committing, known)
        except OttlaError as error:
            self._suspect(error, run, process.now_us - planned_us)
            abort(committing, messages)
            raise

    def _suspect(self, error: OttlaError, run: int, passed_us: int) -> None:
        """A commit must miss no transaction that had time left, while no other driver has planned."""
        is_missed = any(said in str(error) for said in _MISSED)
        if is_missed and run == self.runs and passed_us < 1000 * self.settings.transaction_timeout_ms // 2:
            self.missed.append(f"after {passed_us / 1e6:.3f} s: {error}")

    def _run_tasks(
        self, driver: Process, planned: Plan, batch: int, run: int, tasks: int
    ) -> tuple[list[Prepared | Skipped | None], Exception | None]:
        """The message of the first attempt at each task that succeeds, None where none does, and the last error."""
        started: list[list[Process]] = [[] for _ in range(tasks)]

        def start(task: int, number: int) -> None:
            self.attempts += 1
            attempt = Attempt(self.attempts, task, number, driver.name)
            name = f"task {task} of run {run} of batch {batch}, attempt {attempt.task_attempt_id}"
            work = self._task(planned, batch, run, tasks, attempt)
            process = self.processes.start(name, work)
            self.draw_fate(process, "task")
            started[task].append(process)

        for task in range(tasks):
            start(task, 0)
            if self.between_tasks_us and self._has_to_write(planned, batch, task):
                driver.wait(None, self.between_tasks_us)
        # A copy of a task begins in the middle of it, as a rule. Its number is 0 too, as when a stage is run again.
        copied = [task for task in range(tasks) if self.chance.random() < self.copies_share]
        for task in copied:
            for _ in range(self.chance.randint(1, self.copies_most) if self.copies_most > 1 else 1):
                driver.wait(None, self.chance.randint(0, 200_000))
                start(task, 0)

        def settled(attempts: list[Process]) -> bool:
            return any(each.is_over and each.result is not None for each in attempts) or all(
                each.is_over for each in attempts
            )

        while True:
            driver.wait(lambda: all(map(settled, started)), _JOB_US)
            again = [
                task
                for task, attempts in enumerate(started)
                if settled(attempts) and not any(each.result for each in attempts) and len(attempts) < _ATTEMPTS_MAX
            ]
            if not again:
                break
            if not self._may_end_by_itself(started, again):
                break
            for task in again:
                start(task, len(started[task]))
        errors = [each.error for attempts in started for each in attempts if each.error is not None]
        messages = [next((each.result for each in attempts if each.result), None) for attempts in started]
        return messages, errors[-1] if errors else None

    @staticmethod
    def _has_to_write(planned: Plan, batch: int, task: int) -> bool:
        """A task of which all rows are there ends at once."""
        last = planned.last
        return last is None or last.batch.batch_id != batch or task not in last.kept

    @staticmethod
    def _may_end_by_itself(started: list[list[Process]], again: list[int]) -> bool:
        """A mistake of the user's is not mended by trying again; it ends the job sooner here than in Spark."""
        errors = [attempt.error for task in again for attempt in started[task]]
        return not any(type(error).__name__ == "UserMistake" for error in errors)

    # ---- tasks ----------------------------------------------------------------------------------------------------

    def _task(
        self, planned: Any, batch: int, run: int, tasks: int, attempt: Attempt
    ) -> Callable[[Process], Prepared | Skipped]:
        number = attempt.task_attempt_id
        rows = self._rows(batch, attempt.partition_id, tasks, number)
        self.written[number] = Written(batch, run, attempt.partition_id, tasks, rows)

        def work(process: Process) -> Prepared | Skipped:
            def write(producer: Callable[[], Producer]) -> Totals:
                for row in rows:
                    producer().send(TOPIC, row.encode(), None, partition=_partition_of(row))
                    if self.chance.random() < 0.2:
                        process.wait(None, self.chance.randint(0, 50_000))
                return _totals(rows)

            session = self.session(process)
            known = transactions_of(session.port._admin)._coordinators
            if self.remembers:
                known.update(self._coordinators)
            message = prepare(session, planned, BatchId(QUERY_ID, batch), attempt, write, lambda: _totals(rows))
            self._coordinators.update(known)
            return message

        return work

    def _rows(self, batch: int, task: int, tasks: int, number: int) -> list[str]:
        """`batch.row` where rows repeat themselves; with the attempt's number, and some more rows, where not."""
        count = self.batch_rows[batch] + (0 if self.repeats else number % 3)
        mine = [row for row in range(count) if row % tasks == task]
        return [f"{batch}.{row}" if self.repeats else f"{batch}.{row}.{number}" for row in mine]


def _partition_of(row: str) -> int:
    return int(row.split(".")[1]) % PARTITIONS


def _totals(rows: list[str]) -> Totals:
    totals = Totals()
    for row in rows:
        totals = totals.plus(Totals(1, int.from_bytes(hashlib.blake2b(row.encode(), digest_size=8).digest(), "big")))
    return totals
