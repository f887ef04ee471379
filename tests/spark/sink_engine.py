"""Holds Spark queries at barriers of the sink's mechanism, kills their driver or parts of it, goes on, and checks.

The driver (`sink_driver`) runs in a session of processes of its own: Python, the JVM, and the JVM's Python processes
that plan, write and commit. It has many queries, so that each can be held at another barrier and one kill hits all:
holds are set from the last barrier to the first, and no query comes to those of the others. Files of rows are given to
a query one by one, so that nothing runs between two of them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tests import exactly_once
from tests.client.in_time import wait_until
from tests.spark import sink_driver
from tests.spark.sink_driver import KEYS, ROWS, Job
from tests.spark.slow_start import STARTED_TOO_SLOWLY

import ottla
from ottla.sink.barriers import BARRIERS_FOLDER, Barrier, hold
from ottla.sink.identities import driver_id, prefix_of
from ottla.sink.settings import CONTROL_TOPIC

PATIENCE_S = 240
QUIET_S = 60
TASKS = 2
TRANSACTIONS_TOPIC = "__transaction_state"


class Stop(NamedTuple):
    """A barrier, and how often a process passes it before it is held there."""

    barrier: Barrier
    after: int = 0


class Roles(NamedTuple):
    """What a broker is to a sink that is held: coordinator of its driver's id and of the ids of its open transactions
    (one by one), leader of the partition its decision is written to.
    """

    driver: bool
    tasks: tuple[bool, ...]
    decision: bool


class Driver:
    """One run of the driver program."""

    def __init__(self, job: Job, said: Path, barriers_folder: Path) -> None:
        self.said = said
        root = str(Path(sink_driver.__file__).parents[2])
        path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        with said.open("w") as out:
            self._process = subprocess.Popen(
                [sys.executable, sink_driver.__file__, job.text()],
                env={**os.environ, BARRIERS_FOLDER: str(barriers_folder), "PYTHONPATH": path},
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def tell(self, command: str, name: str, *arguments: object, until: str | None = None) -> None:
        """Have it carry out a command, and wait until it has, or until it says another word of it."""
        word = f"{until or command}:{name}"
        times = self.times_said(word)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command} {name} {' '.join(map(str, arguments))}\n".encode())
        self._process.stdin.flush()
        self.await_said(word, times + 1)

    def await_said(self, word: str, times: int = 1) -> None:
        """Wait until it has said a word (so often)."""
        self.await_true(lambda: self.times_said(word) >= times, f"it never said {word}")

    def times_said(self, word: str) -> int:
        """How often it has said it."""
        return self.said.read_text().split().count(word)

    def failures(self, name: str) -> list[str]:
        """The errors that the query has ended with."""
        lines = self.said.read_text().splitlines(keepends=True)
        begins = [number for number, line in enumerate(lines) if line.startswith(f"failed:{name} ")]
        return ["".join(lines[begin : begin + 60]) for begin in begins]

    def await_true(self, question: Callable[[], bool], otherwise: str) -> None:
        """Wait while it lives."""

        def answered() -> bool:
            if question():
                return True
            ended = self._process.poll()
            assert ended is None, self._told(f"{otherwise}: it ended with {ended}")
            return False

        wait_until(answered, lambda: self._told(otherwise), PATIENCE_S)

    def _told(self, otherwise: str) -> str:
        """What did not come, before and behind the end of what it said: of a long text often one end alone is shown."""
        return f"{otherwise}\n--- {self.said.name}\n{self.said.read_text()[-4000:]}\n--- {otherwise}"

    def processes(self) -> dict[int, str]:
        """Its processes and their commands. Workers make groups of their own; the session is what they share."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            try:
                after_name = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if int(after_name[3]) == self._process.pid and after_name[0] != "Z":
                found[int(entry.name)] = command
        return found

    def signal_all(self, number: int) -> None:
        """The JVM first, lest it hear of its children's end."""
        processes = self.processes()
        for pid in sorted(processes, key=lambda pid: not _is_java(processes[pid])):
            send_signal(pid, number)

    def kill(self) -> None:
        """All of it, at once."""
        while self.processes():
            self.signal_all(signal.SIGKILL)
            self._process.poll()
            time.sleep(0.01)
        self._process.wait()

    def kill_java(self) -> None:
        """The JVM alone; its Python processes find out."""
        [java] = [pid for pid, command in self.processes().items() if _is_java(command)]
        send_signal(java, signal.SIGKILL)


class Brokers(Protocol):
    """Three brokers with ids 1 to 3: an `ottla.Cluster`, or nodes of Apache Kafka."""

    @property
    def bootstrap_servers(self) -> str: ...
    def kill(self, broker_id: int, /) -> None: ...
    def start(self, broker_id: int, /) -> Any: ...


class Engine:
    """Queries, driver after driver, and what has become of their rows."""

    def __init__(
        self,
        brokers: Brokers,
        folder: Path,
        names: list[str],
        *,
        tasks: Mapping[str, int] = {},
        replicas: Mapping[str, int] = {},
        **more: object,
    ) -> None:
        self._folder = folder
        self._barriers = folder / "barriers"
        self._barriers.mkdir(parents=True)
        self._brokers = brokers
        self.names = names
        self.job = Job(brokers.bootstrap_servers, str(folder), **more)  # type: ignore[arg-type]
        for name in names:
            self.job.rows(name).mkdir(parents=True)
        with ottla.Admin(brokers.bootstrap_servers) as admin:
            for name in names:
                admin.create_topics(name, partitions=3, replication_factor=replicas.get(name, 3))
            admin.create_topics(
                [source for name in names if (source := self.job.source(name))], partitions=3, replication_factor=3
            )
        self.files = dict.fromkeys(names, 0)
        # How many tasks a micro-batch of each has, unless it is started with another number; and had when last started.
        self._given_tasks = {name: tasks.get(name, TASKS) for name in names}
        self.tasks = dict(self._given_tasks)
        self._running: set[str] = set()
        self.killed: list[int] = []
        self._drivers: list[Driver] = []
        # How many failures of each query its driver had told when that was last started.
        self._failures: dict[str, int] = {}

    # ---- driving ------------------------------------------------------------------------------------------------

    @property
    def driver(self) -> Driver:
        """The one that was started last."""
        return self._drivers[-1]

    def start(self, names: Iterable[str], *, tasks: int | None = None) -> None:
        """Start a driver and, one after the other, these queries, each until it has nothing to do."""
        said = self._folder / f"driver-{len(self._drivers)}.out"
        self._drivers.append(Driver(self.job, said, self._barriers))
        self.driver.await_said("ready")
        self._running.clear()
        for name in names:
            self.go_on(name, tasks)

    def run(self, names: Iterable[str]) -> None:
        """Start those of these queries that this driver does not run yet."""
        for name in names:
            if name not in self._running:
                self.go_on(name)

    def go_on(self, name: str, tasks: int | None = None) -> None:
        """Start the query and wait until it has nothing to do: a first micro-batch, or what it was held in."""
        if self.files[name] == 0 and name not in self.job.modes:
            self.add_file(name)
        self.tasks[name] = tasks or self._given_tasks[name]
        self._start(name)
        self._running.add(name)
        if self.files[name]:
            self.await_done(name)

    def add_file(self, name: str) -> None:
        """Give the query its next micro-batch."""
        number = self.files[name]
        rows = range(number * ROWS, (number + 1) * ROWS)
        source = self.job.source(name)
        if source is not None:
            with ottla.Producer(self.job.bootstrap_servers) as producer:
                for row in rows:
                    producer.send(source, str(row), str(row % KEYS))
        partial = self._folder / name / "partial"
        partial.write_text("\n".join(map(str, rows)) + "\n")
        partial.rename(self.job.rows(name) / f"{number:05}.txt")
        self.files[name] += 1

    def await_done(self, name: str) -> None:
        """Wait until Spark has written down that the query's last micro-batch is done.

        A query that Spark has ended for a slow start is started again meanwhile, as its user would do. AssertionError
        for one that has ended otherwise.
        """
        number = self.files[name] - 1
        commit = self.job.checkpoint(name) / "commits" / str(number)

        def is_done() -> bool:
            if commit.exists():
                return True
            for failure in self.driver.failures(name)[self._failures[name] :]:
                first_line = failure.partition("\n")[0]
                assert STARTED_TOO_SLOWLY in first_line, f"micro-batch {number} of {name} was not done:\n{failure}"
                self._start(name)
            return False

        self.driver.await_true(is_done, f"micro-batch {number} of {name} was not done")

    def _start(self, name: str) -> None:
        self._failures[name] = len(self.driver.failures(name))
        self.driver.tell("start", name, self.tasks[name])

    def choose_broker(self) -> int:
        """One that was not killed yet: whoever leads the decisions, if it is such a one.

        As far as the brokers let themselves be told, it leads them from here on, and coordinates all transactions.
        """
        with ottla.Admin(self.job.bootstrap_servers) as admin:
            leader = admin.describe(CONTROL_TOPIC).partitions[0].leader
            broker_id = next(each for each in (leader, 1, 2, 3) if each is not None and each not in self.killed)
            if isinstance(self._brokers, ottla.Cluster):
                for topic in (CONTROL_TOPIC, TRANSACTIONS_TOPIC):
                    for place in admin.describe(topic).partitions:
                        if place.leader != broker_id:
                            self._brokers.move_leader(topic, place.partition, broker_id)
        return broker_id

    def roles(self, broker_id: int, names: Iterable[str]) -> dict[str, Roles]:
        """What it is now, by its own account, to the sinks of these queries that are exactly once."""
        with ottla.Admin(self.job.bootstrap_servers) as admin:
            decision = admin.describe(CONTROL_TOPIC).partitions[0].leader == broker_id
            listed = admin.list_transactions()
        coordinates = {each.transactional_id: each.coordinator_id == broker_id for each in listed}
        ongoing = [each.transactional_id for each in listed if each.state == "Ongoing"]
        found = {}
        for name in set(names).difference(self.job.controls):
            driver = driver_id(name)
            tasks = [each for each in ongoing if each.startswith(prefix_of(name)) and each != driver]
            found[name] = Roles(coordinates[driver], tuple(coordinates[each] for each in tasks), decision)
        return found

    def await_visible(self, name: str) -> None:
        """Wait until there are as many rows as the query was given, in however many micro-batches."""
        count = self.files[name] * ROWS
        self.driver.await_true(lambda: self.count_visible(name) >= count, f"{name} did not write {count} rows")

    @contextlib.contextmanager
    def without_broker(self, broker_id: int) -> Iterator[None]:
        """Kill a broker, and start it again afterwards."""
        self._brokers.kill(broker_id)
        self.killed.append(broker_id)
        yield
        self._brokers.start(broker_id)
        with ottla.Admin(self.job.bootstrap_servers) as admin:
            for topic in (*self.names, CONTROL_TOPIC, f"{CONTROL_TOPIC}_markers", TRANSACTIONS_TOPIC):
                self._await_in_sync(admin, topic)

    def _await_in_sync(self, admin: ottla.Admin, topic: str) -> None:
        def in_sync() -> bool:
            return all(len(place.isr) == len(place.replicas) for place in admin.describe(topic).partitions)

        self.driver.await_true(in_sync, f"not all replicas of {topic} came back")

    def end(self) -> None:
        """Nothing of it stays."""
        for driver in self._drivers:
            driver.kill()

    # ---- barriers -----------------------------------------------------------------------------------------------

    def stop_at(self, stops: Mapping[str, Stop]) -> dict[str, list[int]]:
        """{query: where}: begin a micro-batch of each and have it held there; who is held.

        That it is held proves that the barrier was reached. Queries that this driver does not run yet are started.
        """
        for old in self._barriers.iterdir():
            old.unlink()
        self.run(stops)
        held: dict[str, list[int]] = {}
        for name in sorted(stops, key=lambda name: list(Barrier).index(stops[name].barrier), reverse=True):
            barrier, after = stops[name]
            # Whoever is held there already looks only at whether there is such a file.
            hold(self._barriers, barrier, after)
            before = self.held(barrier)
            # All tasks come to a task's barrier; from a topic, as many as rows had come to when the micro-batch began.
            all_come = barrier.startswith("task-") and self.job.source(name) is None
            count = len(before) + (self.tasks[name] if all_come else 1)
            if barrier.startswith("abort-"):
                self._fail(name)
            else:
                self.add_file(name)
            self.driver.await_true(lambda b=barrier, c=count: len(self.held(b)) >= c, f"{name} came not to {barrier}")  # type: ignore[misc]
            held[name] = sorted(self.held(barrier) - before)
        assert self.driver.processes().keys() >= {pid for pids in held.values() for pid in pids}
        return held

    def _fail(self, name: str) -> None:
        """Begin a micro-batch, of which one task dies amid its rows when another one is done."""
        held_by = hold(self._barriers, Barrier.TASK_PREPARE)
        self.add_file(name)
        self.driver.await_true(lambda: len(self.held(Barrier.TASK_PREPARE)) == TASKS, f"{name} sent not all rows")
        dies = min(self.held(Barrier.TASK_PREPARE))
        send_signal(dies, signal.SIGSTOP)
        held_by.unlink()
        # Spark uses the process of the other task again.
        for held in self._barriers.glob(f"{Barrier.TASK_PREPARE}.*.held"):
            held.unlink()
        self.driver.tell("await-one", name)
        send_signal(dies, signal.SIGKILL)

    def slow_down(self, name: str, barrier: str) -> set[int]:
        """Begin a micro-batch and hold its tasks at a barrier that others pass; who is held."""
        hold(self._barriers, barrier)
        before = self.held(barrier)
        self.add_file(name)
        self.driver.await_true(lambda: len(self.held(barrier) - before) >= TASKS, f"{name} came not to {barrier}")
        hold(self._barriers, barrier, sys.maxsize)
        return self.held(barrier) - before

    def release(self) -> None:
        """Let all go on that are held and alive."""
        for held_by in self._barriers.glob("*.hold"):
            held_by.unlink()

    def held(self, barrier: str) -> set[int]:
        """The processes that were held there."""
        return {int(path.name.split(".")[-2]) for path in self._barriers.glob(f"{barrier}.*.held")}

    # ---- proof --------------------------------------------------------------------------------------------------

    def visible_rows(self, name: str) -> dict[int, list[int]]:
        """What a read_committed reader finds, by partition in offset order."""
        return exactly_once.visible_rows(self.job.bootstrap_servers, name)

    def count_visible(self, name: str) -> int:
        """How many rows a read_committed reader finds."""
        return sum(map(len, self.visible_rows(name).values()))

    def copies(self, name: str) -> Counter[int]:
        """How often each row is there."""
        return Counter(row for rows in self.visible_rows(name).values() for row in rows)

    def count_open(self, name: str) -> int:
        """How many transactions of the query's last micro-batch are open, and nobody has asked for their end."""
        sink_id = self.job.sink_id(name, self.files[name] - 1)
        return len(exactly_once.ongoing(self.job.bootstrap_servers, prefix_of(sink_id)))

    def assert_quiet(self) -> None:
        """No transaction is open on any broker, without waiting for a timeout, which is minutes away."""
        self._await_quiet("", QUIET_S)

    def await_timeouts(self, name: str) -> None:
        """Wait until the brokers have ended the query's transactions, as nobody else does."""
        self._await_quiet(prefix_of(name), PATIENCE_S)

    def _await_quiet(self, prefix: str, patience_s: float) -> None:
        def busy() -> list[object]:
            return exactly_once.busy(self.job.bootstrap_servers, prefix)

        wait_until(lambda: not busy(), lambda: f"still open: {busy()}", patience_s)

    def assert_every_row_once(self, name: str) -> None:
        """Every row of every file once for a read_committed reader, each key's rows in order."""
        exactly_once.assert_rows_once(self.visible_rows(name), self.files[name] * ROWS, KEYS)


@contextlib.contextmanager
def running_engine(brokers: Brokers, folder: Path, names: list[str], **more: Any) -> Iterator[Engine]:
    """A running driver that can have these queries."""
    engine = Engine(brokers, folder, names, **more)
    try:
        engine.start([])
        yield engine
    finally:
        engine.end()


def send_signal(pid: int, number: int) -> None:
    """To a process that may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _is_java(command: str) -> bool:
    return "java" in command.partition(" ")[0]
