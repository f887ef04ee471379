"""Kills where Spark writes otherwise than by a plain streaming query, and kills amid an abort.

Those of `test_sink_kills` for batch writes within foreachBatch and for batch writes with write.id, which are run again
by the next driver: the driver, JVM and Python, is killed in front of each step that this way of writing passes. Beside
them, writes fail while one of their tasks lives on, and drivers are killed while they give up. Afterwards every row is
there once, each key's rows in order, and no transaction is open on any broker.

One driver has a query for every barrier and way, and one kill hits all. Without OTTLA_SOAK=1, which goes through all
barriers of all ways, over Apache Kafka, too, these are in a task, around the decision, and amid an abort.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from tests.soak import IS_SOAK
from tests.spark.sink_engine import TASKS, Brokers, Engine, Stop, running_engine, send_signal
from tests.spark.sink_kills import CORES, STEPS, QueryFault, Say, kill_driver

from ottla.sink.barriers import Barrier

pytestmark = pytest.mark.spark

ABORTS = [name for name in Barrier if name.startswith("abort-")]
PASSED = {
    "stream": ABORTS,
    "foreachBatch": STEPS,
    "batch": [*STEPS, *ABORTS],
}
SOME = (Barrier.TASK_PREPARE, Barrier.COMMIT_DECISION, Barrier.COMMIT_APPLY, Barrier.COMMIT_BETWEEN, *ABORTS)
STOPS = {
    f"{mode}-{barrier}": Stop(barrier)
    for mode, passed in PASSED.items()
    for barrier in passed
    if IS_SOAK or barrier in SOME
}
CONTROLS = {
    "foreachBatch-control": Stop(Barrier.COMMIT_END),
    "batch-control-task": Stop(Barrier.TASK_END),
    "batch-control-commit": Stop(Barrier.COMMIT_END),
}
# Where the task is that lives on when its write has failed.
FAILING = {
    f"batch-fails-{name}": Stop(name) for name in (Barrier.TASK_IDENTITY, Barrier.TASK_ROWS, Barrier.TASK_PREPARE)
}


@pytest.fixture(scope="module")
def engine(find_java: None, brokers: Brokers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A driver that can have a query for every barrier and way to write."""
    folder, names = tmp_path_factory.mktemp("modes"), [*STOPS, *CONTROLS, *FAILING]
    modes = {name: name.partition("-")[0] for name in names if not name.startswith("stream-")}
    cores = len(PASSED) * CORES
    with running_engine(brokers, folder, names, cores=cores, controls=list(CONTROLS), modes=modes) as engine:
        yield engine


@pytest.mark.parametrize("name", FAILING)
def test_a_batch_write_that_fails_leaves_nothing_open_though_a_task_lives_on(
    engine: Engine, name: str, say: Say
) -> None:
    dies, lives_on = engine.stop_at({name: FAILING[name]})[name]
    assert len({dies, lives_on}) == TASKS
    send_signal(dies, signal.SIGKILL)
    engine.driver.await_said(f"failed:{name}")
    alive = "alive" if lives_on in engine.driver.processes() else "killed by Spark"
    engine.assert_quiet()
    say(f"a batch write failed, its other task {alive} at {FAILING[name].barrier}: nothing was open")
    # It goes on, if Spark has not killed it; then it fails, too.
    engine.release()
    engine.driver.await_true(lambda: lives_on not in engine.driver.processes(), "the other task did not end")
    engine.assert_quiet()
    engine.go_on(name)
    engine.assert_every_row_once(name)


@pytest.fixture(scope="module")
def driver_killed(engine: Engine) -> QueryFault:
    return kill_driver(engine, STOPS | CONTROLS)


@pytest.mark.parametrize("name", STOPS)
def test_every_row_is_there_once_after_the_driver_was_killed(driver_killed: QueryFault, name: str, say: Say) -> None:
    driver_killed.assert_every_row_once(name, say)


@pytest.mark.parametrize("control", CONTROLS)
def test_the_control_at_least_once_shows_duplicates(driver_killed: QueryFault, control: str, say: Say) -> None:
    driver_killed.assert_copies(control, {2}, say)
