"""Runs simulated seeds in processes of their own, as many at once as asked for.

`simulation` is pure and knows of no processes; here it is spread over a machine's processors. Each process gets one
seed ahead of the one it runs, so that it never waits. If a process dies or never ends, its seed is known: that is a
finding like any other, and the seeds after it go on in a new process. Ctrl+C reaches only the process that asked: it
ends the others, and they die by themselves if it dies.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import signal
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from itertools import count, islice
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from ottla.audit.chronicles.case import Case
from ottla.audit.chronicles.chronicle import Chronicle
from ottla.audit.chronicles.repeatability import check_repeatability
from ottla.delayed_signals import delayed_signals
from ottla.simulation.draw import draw
from ottla.simulation.outcome import Outcome
from ottla.simulation.plan import Plan
from ottla.simulation.run import execute

# A run takes a fraction of a second; one that takes so long will never end.
PATIENCE_S = 300.0
_LOOK_S = 1.0
_TWICE_EVERY = 50
# The seed that is run and the next one.
_IN_HAND = 2
# For `gc.set_threshold`: the first number is larger than what a run leaves in cycles, some ten thousand objects.
_COLLECT_AFTER = (200_000, 5, 5)
# After so many runs a full collection follows; after all others only the youngest objects are collected.
_COLLECT_ALL_EVERY = 100


def run_seed(seed: int) -> Outcome:
    """Draw a seed, run it, judge it; whatever is raised on the way is part of the outcome.

    Every so many seeds are run twice: both must leave the same trace.
    """
    try:
        outcome = execute(draw(seed))
        if seed % _TWICE_EVERY == 0:
            _compare(outcome, execute(draw(seed)))
    except Exception:
        return Outcome(seed, "", crashed=traceback.format_exc())
    return outcome


def _compare(outcome: Outcome, again: Outcome) -> None:
    found = check_repeatability(Case(Chronicle(trace_hashes=(outcome.trace_hash, again.trace_hash))))
    if found.count:
        outcome.findings.append(found)


def run_plan(plan: Plan, *, patience_s: float = PATIENCE_S) -> Outcome:
    """Run one plan as `run_seeds` does a seed: a process that dies, or never comes to an end, is a finding.

    Unlike with `run_seed` it is not run twice.
    """
    with closing(PlanRuns()) as runs:
        return runs.run(plan, patience_s)


def run_seeds(
    seeds: Iterable[int],
    jobs: int,
    *,
    run: Callable[[int], Outcome] = run_seed,
    patience_s: float = PATIENCE_S,
) -> Generator[Outcome, None, None]:
    """The outcome of every seed, as they come, with `jobs` processes at work; they end when the iterator is closed.

    `run` is what each does with a seed; it must be a function that can be imported.
    """
    left = iter(seeds)
    workers: list[_Worker] = []
    try:
        while True:
            while len(workers) < jobs and (more := _some(left)):
                workers.append(_Worker(run, more))
            if not workers:
                return
            wait([worker.connection for worker in workers], min(_LOOK_S, patience_s))
            for worker in list(workers):
                outcome = worker.outcome(patience_s)
                if outcome is None:
                    continue
                if worker.is_dead:
                    workers.remove(worker)
                    if worker.in_hand:
                        workers.append(_Worker(run, list(worker.in_hand)))
                else:
                    worker.hand(_some(left, 1))
                    if not worker.in_hand:
                        worker.end()
                        workers.remove(worker)
                yield outcome
    finally:
        for worker in workers:
            worker.end()


def _some(seeds: Iterator[int], count: int = _IN_HAND) -> list[int]:
    return list(islice(seeds, count))


class PlanRuns:
    """Runs one plan after the other, for a caller that needs the outcome of one before the next.

    As with `run_plan` a process that dies, or never comes to an end, is a finding; all others share one process.
    """

    def __init__(self) -> None:
        self._worker: _Worker | None = None

    def run(self, plan: Plan, patience_s: float = PATIENCE_S) -> Outcome:
        """The outcome of this plan."""
        worker = self._worker
        if worker is None:
            worker = self._worker = _Worker(execute, [plan])
        else:
            worker.hand([plan])
        while (outcome := worker.outcome(patience_s)) is None:
            wait([worker.connection], min(_LOOK_S, patience_s))
        if worker.is_dead:
            self._worker = None
        return outcome

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            self._worker.end()


class _Worker:
    """A process and the seeds (or plans) it was handed; the first of them is the one it runs."""

    def __init__(self, run: Callable[[Any], Outcome], seeds: list[Any]) -> None:
        # Not a fork: in a copy of a process with threads, a lock that one of them held is never released.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.in_hand: deque[Any] = deque()
        self.is_dead = False
        self._process = context.Process(target=_work, args=(theirs, run), daemon=True)
        # Otherwise the first `start` below would start the resource tracker, which unblocks Ctrl+C.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            # A process that is started while Ctrl+C is blocked never gets it, not even while it is loading.
            with delayed_signals(signal.SIGINT):
                self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self._since = 0.0
        self.hand(seeds)

    def hand(self, seeds: list[Any]) -> None:
        """Give it more to run."""
        if not self.in_hand:
            self._since = time.monotonic()
        self.in_hand.extend(seeds)
        for seed in seeds:
            try:
                self.connection.send(seed)
            except OSError:
                return  # the process has died: the next call of `outcome` notices that

    def outcome(self, patience_s: float) -> Outcome | None:
        """The outcome of the seed that it runs, or None while that is still running."""
        took_s = time.monotonic() - self._since
        try:
            if self.connection.poll():
                found: Outcome = self.connection.recv()
                self.in_hand.popleft()
                self._since = time.monotonic()
                return found
        except (EOFError, OSError):
            self._process.join()
            return self._lost(f"the process that ran it died: {_cause(self._process.exitcode)}")
        if took_s > patience_s:
            return self._lost(f"it had not come to an end after {took_s:.0f} s of real time")
        return None

    def _lost(self, why: str) -> Outcome:
        self.is_dead = True
        self.end()
        lost = self.in_hand.popleft()
        return Outcome(lost.seed if isinstance(lost, Plan) else lost, "", crashed=why)

    def end(self) -> None:
        """Kill the process, and wait until it has ended."""
        self.connection.close()
        self._process.kill()
        self._process.join()


def _cause(status: int | None) -> str:
    if status is not None and status < 0:
        return signal.strsignal(-status) or f"signal {-status}"
    return f"exit status {status}"


def _work(connection: Connection, run: Callable[[Any], Outcome]) -> None:
    """Run one seed after the other for as long as the asking process gives some."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Simulated brokers log their errors; what matters of these is in the outcome.
    logging.getLogger().addHandler(logging.NullHandler())
    # A run makes hundreds of thousands of objects, most of which live to its end: to collect garbage as often as Python
    # does by default takes a seventh of the time. So garbage is collected after each run, while it is still in the
    # processor's caches; if it were left for several runs, all of them would be slower. What was imported is never
    # garbage.
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    try:
        for number in count(1):
            connection.send(run(connection.recv()))
            gc.collect(2 if number % _COLLECT_ALL_EVERY == 0 else 0)
    except (EOFError, OSError):
        # The process that asked has ended; what is left is not worth an orderly end.
        os._exit(0)
