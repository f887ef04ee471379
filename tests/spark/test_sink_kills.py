"""Spark drivers are killed in front of each step of the exactly-once sink, and started again from their checkpoints.

Afterwards a read_committed reader finds every row once, each key's rows in order, and no transaction is open on any
broker, though no transaction timeout has passed. A kill counts only where the barrier was reached. The controls do the
same with the sink that is at least once, and must show duplicates: otherwise the kills prove nothing.

One driver has a query for every barrier, and each round of kills hits all of them: starting drivers is what these tests
spend their time on. With OTTLA_SOAK=1 all of it is repeated over Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.spark.sink_engine import ROWS, SOAK, STEPS, Brokers, Engine, running_engine

from ottla.sink import barriers

pytestmark = pytest.mark.spark

CONTROLS = {"control-task": barriers.TASK_END, "control-commit": barriers.COMMIT_END}


@pytest.fixture(scope="module")
def engine(find_java: None, brokers: Brokers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A running driver with a query for every barrier."""
    folder, names = tmp_path_factory.mktemp("kills"), [*STEPS, *CONTROLS]
    with running_engine(brokers, folder, names, controls=list(CONTROLS)) as engine:
        yield engine


@pytest.fixture(scope="module")
def driver_killed(engine: Engine) -> Engine:
    """The driver was killed, JVM and Python, with every query in front of another step; a new one has gone on."""
    engine.stop_at({name: name for name in STEPS} | CONTROLS)
    engine.driver.kill()
    engine.release()
    engine.start()
    engine.assert_quiet()
    return engine


@pytest.mark.parametrize("step", STEPS)
def test_every_row_is_there_once_after_the_driver_was_killed(
    driver_killed: Engine, step: str, say: Callable[[str], None]
) -> None:
    say(f"Spark's driver held at {step}, and killed there")
    driver_killed.assert_every_row_once(step)


@pytest.mark.parametrize("control", CONTROLS)
def test_the_control_at_least_once_shows_duplicates(driver_killed: Engine, control: str) -> None:
    # The second micro-batch, as a whole.
    assert driver_killed.duplicates(control) == list(range(ROWS, 2 * ROWS))


@pytest.fixture(scope="module", params=[1, pytest.param(2, marks=SOAK), pytest.param(3, marks=SOAK)])
def broker_killed(driver_killed: Engine, request: pytest.FixtureRequest) -> Engine:
    """A broker was killed with every query in front of another step; they went on without it.

    Each of the three leads some of the partitions, and coordinates the transactions of some of the sinks.
    """
    engine = driver_killed
    engine.stop_at({name: name for name in STEPS})
    with engine.without_broker(request.param):
        engine.release()
        for name in STEPS:
            engine.await_done(name)
    engine.assert_quiet()
    return engine


@pytest.mark.parametrize("step", STEPS)
def test_every_row_is_there_once_after_a_broker_was_killed(broker_killed: Engine, step: str) -> None:
    broker_killed.assert_every_row_once(step)
