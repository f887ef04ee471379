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
from tests.spark.sink_engine import PATIENCE_S, ROWS, STEPS, Brokers, Engine, running_engine

from ottla.sink import barriers

pytestmark = pytest.mark.spark

CONTROLS = {"control-task": barriers.TASK_END, "control-commit": barriers.COMMIT_END}


# A micro-batch takes less, and downtime more.
SHORT_TIMEOUT = {"kafka.transaction.timeout.ms": "15000"}


@pytest.fixture(scope="module")
def engine(find_java: None, brokers: Brokers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A running driver with a query for every barrier."""
    folder, names = tmp_path_factory.mktemp("kills"), [*STEPS, *CONTROLS]
    with running_engine(brokers, folder, names, controls=list(CONTROLS), options=SHORT_TIMEOUT) as engine:
        yield engine


@pytest.fixture(scope="module")
def driver_away(engine: Engine) -> Engine:
    """The driver was killed, and when a new one came, every transaction had timed out."""
    engine.stop_at({name: name for name in STEPS})
    engine.driver.kill()
    engine.release()
    engine.assert_quiet(PATIENCE_S)
    # What these two had decided was taken back, from one of them a part.
    assert engine.count_visible(barriers.COMMIT_APPLY) == ROWS
    assert ROWS < engine.count_visible(barriers.COMMIT_BETWEEN) < 2 * ROWS
    engine.job.options = {}
    engine.start()
    engine.assert_quiet()
    return engine


@pytest.mark.parametrize("step", STEPS)
def test_every_row_is_there_once_after_downtime_beyond_the_transaction_timeout(
    driver_away: Engine, step: str
) -> None:
    driver_away.assert_every_row_once(step)


@pytest.fixture(scope="module")
def driver_killed(driver_away: Engine) -> Engine:
    """The driver was killed, JVM and Python, with every query in front of another step; a new one has gone on.

    Not that of `engine`: here no transaction may time out.
    """
    engine = driver_away
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


@pytest.fixture(scope="module", params=[1, 2, 3])
def broker_killed(driver_killed: Engine, request: pytest.FixtureRequest) -> Engine:
    """A broker was killed with every query in front of another step; they went on without it.

    One of the three is the coordinator of the query's transactions, and each leads some of the partitions.
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
