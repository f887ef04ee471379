"""The kinds of kills that queries undergo while each of them is held in front of another step of the sink.

Each kind has queries held, kills, has them go on, and waits until they have nothing to do: they are at rest before and
afterwards. What it returns says of each query what was done to it, and where, and proves what must hold. The controls
are queries whose sink is at least once, held where their rows are stored and Spark has not yet written down that they
are.
"""

from __future__ import annotations

import contextlib
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tests.spark.sink_driver import ROWS
from tests.spark.sink_engine import TASKS, Driver, Engine, Roles, Stop, send_signal

import ottla
from ottla.sink.barriers import Barrier

STEPS = [name for name in Barrier if not name.startswith("abort-")]
# So many transactions has a micro-batch that is killed between two ends: behind the first, the second, the third.
ENDS = 4
GAPS = {Barrier.COMMIT_BETWEEN if gap == 0 else f"{Barrier.COMMIT_BETWEEN}-{gap + 1}": gap for gap in range(ENDS - 1)}
STOPS = {name: Stop(name) for name in STEPS} | {name: Stop(Barrier.COMMIT_BETWEEN, gap) for name, gap in GAPS.items()}
CONTROLS = {"control-task": Stop(Barrier.TASK_END), "control-commit": Stop(Barrier.COMMIT_END)}
# As many tasks as may be held at once, and a batch beside them.
CORES = ENDS * (sum(name.startswith("task-") for name in STEPS) + 2)
# What `Engine` is told of these queries.
QUERIES: dict[str, Any] = {"tasks": dict.fromkeys(GAPS, ENDS), "controls": list(CONTROLS), "cores": CORES}

_OFTEN = ("lost", "once", "twice", "three times")

Say = Callable[[str], None]


class Held(NamedTuple):
    """Where a query was held, by which processes, in which micro-batch, and what of its transactions was open there."""

    stop: Stop
    pids: list[int]
    batch: int
    tasks: int
    open: int


class QueryFault:
    """What was done to queries, each held where `stops` says, in its last micro-batch."""

    def __init__(self, engine: Engine, kind: str, stops: Mapping[str, Stop]) -> None:
        self.engine = engine
        self.kind = kind
        self.held: dict[str, Held] = {}
        self.roles: dict[str, Roles] = {}
        self.hold(stops)

    def hold(self, stops: Mapping[str, Stop]) -> None:
        """Have queries held, beside those that are."""
        engine = self.engine
        for name, pids in engine.stop_at(stops).items():
            batch = engine.files[name] - 1
            self.held[name] = Held(stops[name], pids, batch, engine.tasks[name], engine.count_open(name))

    def told(self, name: str) -> str:
        """What was done to this query, and where it was held."""
        stop, _, batch, tasks, open_now = self.held[name]
        where = f"{self.kind}{self._role(name)}: {name}, {tasks} tasks, held at {stop.barrier} in micro-batch {batch}"
        if name in self.engine.job.controls:
            return f"{where}, at least once"
        return f"{where}, {open_now} transactions open"

    def _role(self, name: str) -> str:
        if name not in self.roles:
            return ""
        driver, tasks, decision = self.roles[name]
        said = [f"coordinates {sum(tasks)} of {len(tasks)} open transactions"] * bool(tasks)
        said += ["coordinates the driver"] * driver + ["leads the decisions"] * decision
        return f" ({', '.join(said) or 'no coordinator of this sink'})"

    def assert_every_row_once(self, name: str, say: Say) -> None:
        """Every row once, each key's rows in order; one that was held between two ends was so behind the right one."""
        say(self.told(name))
        held = self.held[name]
        if held.stop.barrier == Barrier.COMMIT_BETWEEN:
            assert held.open == held.tasks - held.stop.after - 1
        self.engine.assert_every_row_once(name)

    def assert_copies(self, name: str, copies: set[int], say: Say) -> None:
        """The rows of a control's micro-batch are there so often."""
        found = self.engine.copies(name)
        first = self.held[name].batch * ROWS
        counts = Counter(found[row] for row in range(first, first + ROWS))
        say(f"{self.told(name)}: {', '.join(f'{counts[each]} rows {_OFTEN[each]}' for each in sorted(counts))}")
        assert counts.keys() == copies


def kill_driver(engine: Engine, stops: Mapping[str, Stop], *, tasks: int | None = None) -> QueryFault:
    """JVM and Python at once; a new driver goes on."""
    return _succeeded("Spark's driver killed, JVM and Python", Driver.kill, engine, stops, tasks)


def kill_java(engine: Engine, stops: Mapping[str, Stop], *, tasks: int | None = None) -> QueryFault:
    """The JVM alone; its Python processes are let go on as soon as it is gone, and a new driver comes."""
    return _succeeded("the JVM alone killed", Driver.kill_java, engine, stops, tasks)


def _succeeded(
    kind: str, kill: Callable[[Driver], None], engine: Engine, stops: Mapping[str, Stop], tasks: int | None
) -> QueryFault:
    fault = QueryFault(engine, kind, stops)
    old = engine.driver
    kill(old)
    engine.release()
    engine.start(stops, tasks=tasks)
    # What the kill has left of it.
    old.kill()
    engine.assert_quiet()
    return fault


def kill_python(engine: Engine, stops: Mapping[str, Stop]) -> QueryFault:
    """The Python processes that are held, tasks' or the driver's; their queries fail, and are started again."""
    fault = QueryFault(engine, "the Python process killed", stops)
    for held in fault.held.values():
        for pid in held.pids:
            send_signal(pid, signal.SIGKILL)
    engine.release()
    for name in stops:
        engine.driver.tell("end", name)
        engine.go_on(name)
    engine.assert_quiet()
    return fault


def stop_queries(engine: Engine, stops: Mapping[str, Stop]) -> QueryFault:
    """`query.stop()`; whoever is held goes on when the query's thread has been interrupted, and it is started again."""
    fault = QueryFault(engine, "query.stop()", stops)
    driver = engine.driver
    times = {name: driver.times_said(f"stop:{name}") + 1 for name in stops}
    for name in stops:
        driver.tell("stop", name, until="stopping")
    engine.release()
    for name in stops:
        driver.await_said(f"stop:{name}", times[name])
        engine.go_on(name)
    engine.assert_quiet()
    return fault


def wake_up_late(engine: Engine, stops: Mapping[str, Stop]) -> QueryFault:
    """The driver is paused as a whole; it wakes up when a new one with other parallelism has gone on for a batch."""
    fault = QueryFault(engine, "Spark's driver paused, and woken up behind its successor", stops)
    old = engine.driver
    old.signal_all(signal.SIGSTOP)
    engine.release()
    engine.start(stops, tasks=TASKS + 1)
    for name in stops:
        engine.add_file(name)
        engine.await_done(name)
    old.signal_all(signal.SIGCONT)
    for name in stops:
        old.tell("end", name)
    old.kill()
    engine.assert_quiet()
    return fault


def kill_broker(engine: Engine, stops: Mapping[str, Stop], failing: Mapping[str, Stop]) -> QueryFault:
    """A broker; the queries go on without it, but for those that are `failing`, which are started again with it."""
    # Before that there is nothing that anybody could coordinate.
    engine.run([*stops, *failing])
    broker_id = engine.choose_broker()
    fault = QueryFault(engine, f"broker {broker_id} killed", {**stops, **failing})
    fault.roles = engine.roles(broker_id, fault.held)
    with engine.without_broker(broker_id):
        engine.release()
        for name in stops:
            engine.await_done(name)
        for name in failing:
            engine.driver.tell("end", name)
    for name in failing:
        engine.go_on(name)
    engine.assert_quiet()
    return fault


def kill_unanswered(engine: Engine, cluster: ottla.Cluster, verbs: Mapping[str, str]) -> QueryFault:
    """{query: verb of `cluster.faults`}: the driver, when the commit of each one's decision has no answer."""
    stop = Stop(Barrier.COMMIT_ASKED)
    fault = QueryFault(engine, "Spark's driver killed with the commit of the decision unanswered", {})
    with contextlib.ExitStack() as stack:
        for name, verb in verbs.items():
            fault.hold({name: stop})
            lost = stack.enter_context(getattr(cluster.faults, verb)(api="EndTxn", nth=1))
            engine.release()
            # Nobody else is about to end a transaction.
            engine.driver.await_true(lambda lost=lost: lost.fired == 1, f"{name} did not ask for the commit")  # type: ignore[misc]
        engine.driver.kill()
    engine.start(verbs)
    engine.assert_quiet()
    return fault


# What hits processes while their queries are held; Spark repeats the micro-batch each time.
KINDS = {"jvm": kill_java, "python": kill_python, "stop": stop_queries}
