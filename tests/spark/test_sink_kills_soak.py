"""More ways to kill a Spark driver in front of each step of the exactly-once sink; with OTTLA_SOAK=1, for the time.

Downtime beyond the transaction timeout, the JVM alone, the Python processes alone, `query.stop()` in the middle, a
driver that is paused and wakes up when its successor has gone on: all of it over the embedded cluster and over Apache
Kafka. Then 300 kills drawn by seed. What must hold afterwards is what `test_sink_kills` says. Each round is a fixture
that finds all queries at rest and leaves them so.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from random import Random

import pytest
from tests.spark.sink_engine import ROWS, SOAK, STEPS, Brokers, Engine, running_engine, send_signal

from ottla.sink import barriers

pytestmark = [pytest.mark.spark, SOAK]

KILLS_A_ROUND = 10
SOAK_ROUNDS = 30
# Their driver stays away until their transactions have timed out.
AWAY = {
    "away-before-the-decision": barriers.COMMIT_DECISION,
    "away-after-the-decision": barriers.COMMIT_APPLY,
    "away-between-two-ends": barriers.COMMIT_BETWEEN,
}
# A micro-batch takes less, on a busy machine too.
SHORT_TIMEOUT = {"kafka.transaction.timeout.ms": "60000"}


@pytest.fixture(scope="module")
def engine(find_java: None, brokers: Brokers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A running driver with a query for every barrier."""
    folder, options = tmp_path_factory.mktemp("kills"), dict.fromkeys(AWAY, SHORT_TIMEOUT)
    with running_engine(brokers, folder, [*STEPS, *AWAY], options=options) as engine:
        yield engine


@pytest.fixture(scope="module")
def driver_away(engine: Engine) -> Engine:
    """The driver was killed, and when a new one came, transactions had timed out."""
    engine.stop_at(AWAY)
    engine.driver.kill()
    engine.release()
    for name in AWAY:
        engine.await_timeouts(name)
    # Of the second micro-batch nothing is left, though it was decided, but for what was committed before the kill.
    left = [engine.count_visible(name) - ROWS for name in AWAY]
    assert left[:2] == [0, 0]
    assert 0 < left[2] < ROWS
    engine.start()
    engine.assert_quiet()
    return engine


@pytest.mark.parametrize("away", AWAY)
def test_every_row_is_there_once_after_downtime_beyond_the_transaction_timeout(driver_away: Engine, away: str) -> None:
    driver_away.assert_every_row_once(away)


@pytest.fixture(scope="module")
def java_killed(engine: Engine) -> Engine:
    """The JVM alone was killed; its Python processes were let go on as soon as it was gone."""
    engine.stop_at({name: name for name in STEPS})
    old = engine.driver
    old.kill_java()
    engine.release()
    engine.start()
    old.kill()
    engine.assert_quiet()
    return engine


@pytest.mark.parametrize("step", STEPS)
def test_every_row_is_there_once_after_the_jvm_alone_was_killed(java_killed: Engine, step: str) -> None:
    java_killed.assert_every_row_once(step)


@pytest.fixture(scope="module")
def python_killed(engine: Engine) -> Engine:
    """The Python processes in front of each step were killed; the JVM saw its queries fail, and they were started."""
    held = engine.stop_at({name: name for name in STEPS})
    for pids in held.values():
        for pid in pids:
            send_signal(pid, signal.SIGKILL)
    engine.release()
    for name in STEPS:
        engine.driver.tell("end", name)
        engine.go_on(name)
    engine.assert_quiet()
    return engine


@pytest.mark.parametrize("step", STEPS)
def test_every_row_is_there_once_after_a_python_process_was_killed(python_killed: Engine, step: str) -> None:
    python_killed.assert_every_row_once(step)


@pytest.fixture(scope="module")
def stopped(engine: Engine) -> Engine:
    """Each query was stopped in front of another step, and started again."""
    engine.stop_at({name: name for name in STEPS})
    for name in STEPS:
        engine.driver.tell("stop", name, wait=False)
    for name in STEPS:
        engine.driver.await_said(f"stopping:{name}")
    engine.release()
    for name in STEPS:
        engine.driver.await_said(f"stop:{name}")
        engine.go_on(name)
    engine.assert_quiet()
    return engine


@pytest.mark.parametrize("step", STEPS)
def test_every_row_is_there_once_after_the_query_was_stopped(stopped: Engine, step: str) -> None:
    stopped.assert_every_row_once(step)


@pytest.fixture(scope="module")
def woken_up_late(engine: Engine) -> Engine:
    """The driver was paused as a whole; when it woke up, a new one with other parallelism had gone on for a batch."""
    engine.stop_at({name: name for name in STEPS})
    old = engine.driver
    old.signal_all(signal.SIGSTOP)
    engine.release()
    engine.start(tasks=3)
    for name in STEPS:
        engine.add_file(name)
        engine.await_done(name)
    old.signal_all(signal.SIGCONT)
    for name in STEPS:
        old.tell("end", name)
    old.kill()
    engine.assert_quiet()
    return engine


@pytest.mark.parametrize("step", STEPS)
def test_a_driver_that_wakes_up_late_changes_nothing(woken_up_late: Engine, step: str) -> None:
    woken_up_late.assert_every_row_once(step)


@pytest.mark.parametrize("brokers", ["embedded"], indirect=True)
@pytest.mark.parametrize("number", range(SOAK_ROUNDS))
def test_every_row_is_there_once_after_kills_drawn_by_seed(engine: Engine, number: int) -> None:
    random = Random(number)
    engine.stop_at(dict(zip(random.sample(STEPS, KILLS_A_ROUND), random.sample(STEPS, KILLS_A_ROUND), strict=True)))
    if random.random() < 0.5:
        engine.driver.kill()
        engine.release()
    else:
        engine.driver.kill_java()
        engine.release()
        engine.driver.kill()
    # Two at least: with one task there is one transaction, and the next round comes to nothing between two ends.
    engine.start(tasks=random.randint(2, 4))
    engine.assert_quiet()
    for name in engine.names:
        engine.assert_every_row_once(name)
