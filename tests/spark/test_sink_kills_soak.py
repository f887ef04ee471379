"""More ways to kill a Spark driver in front of each step of the exactly-once sink; with OTTLA_SOAK=1, for the time.

Downtime beyond the transaction timeout, the JVM alone, the Python processes alone, `query.stop()` in the middle, a
driver that is paused and wakes up when its successor has gone on: all of it over the embedded cluster and over Apache
Kafka. Then 300 kills drawn by seed, over three nodes of Apache Kafka. What must hold afterwards is what
`test_sink_kills` says, and so are the controls. Each round is a fixture that finds all queries at rest and leaves them
so.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from tests.soak import SOAK
from tests.spark.sink_driver import ROWS
from tests.spark.sink_engine import Brokers, Engine, Stop, running_engine
from tests.spark.sink_kills import (
    CONTROLS,
    KINDS,
    QUERIES,
    STEPS,
    STOPS,
    QueryFault,
    Say,
    kill_driver,
    kill_java,
    wake_up_late,
)

from ottla.sink.barriers import Barrier

pytestmark = [pytest.mark.spark, SOAK]

KILLS_A_ROUND = 10
SOAK_ROUNDS = 30
# Their driver stays away until their transactions have timed out.
AWAY = {
    "away-before-the-decision": Stop(Barrier.COMMIT_DECISION),
    "away-after-the-decision": Stop(Barrier.COMMIT_APPLY),
    "away-between-two-ends": Stop(Barrier.COMMIT_BETWEEN),
}
# A micro-batch takes less, on a busy machine too.
SHORT_TIMEOUT = {"kafka.transaction.timeout.ms": "60000"}
ALL_KINDS = KINDS | {"late": wake_up_late}


@pytest.fixture(scope="module")
def engine(find_java: None, brokers: Brokers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A driver that can have a query for every barrier."""
    names, options = [*STOPS, *CONTROLS, *AWAY], dict.fromkeys(AWAY, SHORT_TIMEOUT)
    with running_engine(brokers, tmp_path_factory.mktemp("kills"), names, options=options, **QUERIES) as engine:
        yield engine


@pytest.fixture(scope="module")
def driver_away(engine: Engine) -> QueryFault:
    """The driver was killed, and when a new one came, transactions had timed out."""
    fault = QueryFault(engine, "Spark's driver killed, and away until transactions had timed out", AWAY)
    engine.driver.kill()
    engine.release()
    for name in AWAY:
        engine.await_timeouts(name)
    # Of the second micro-batch nothing is left, though it was decided, but for what was committed before the kill.
    left = [engine.count_visible(name) - ROWS for name in AWAY]
    assert left[:2] == [0, 0]
    assert 0 < left[2] < ROWS
    engine.start(AWAY)
    engine.assert_quiet()
    return fault


@pytest.mark.parametrize("away", AWAY)
def test_every_row_is_there_once_after_downtime_beyond_the_transaction_timeout(
    driver_away: QueryFault, away: str, say: Say
) -> None:
    driver_away.assert_every_row_once(away, say)


@pytest.fixture(scope="module", params=ALL_KINDS)
def killed(engine: Engine, request: pytest.FixtureRequest) -> QueryFault:
    """One kind of kill for all queries, each held before another step."""
    return ALL_KINDS[request.param](engine, STOPS | CONTROLS)


@pytest.mark.parametrize("step", STOPS)
def test_every_row_is_there_once_after_kills_of_one_kind(killed: QueryFault, step: str, say: Say) -> None:
    killed.assert_every_row_once(step, say)


@pytest.mark.parametrize("control", CONTROLS)
def test_the_control_has_duplicates_after_kills_of_one_kind(killed: QueryFault, control: str, say: Say) -> None:
    killed.assert_copies(control, {2}, say)


@pytest.mark.parametrize("brokers", ["apache"], indirect=True)
@pytest.mark.parametrize("number", range(SOAK_ROUNDS))
def test_every_row_is_there_once_after_kills_drawn_by_seed(engine: Engine, number: int, say: Say) -> None:
    random = Random(number)
    # Any will do: what they have their names from is drawn.
    names = STEPS[:KILLS_A_ROUND]
    gap = random.random()
    stops = {
        name: Stop(barrier, int(gap * (engine.tasks[name] - 1)) if barrier == Barrier.COMMIT_BETWEEN else 0)
        for name, barrier in zip(names, random.sample(STEPS, KILLS_A_ROUND), strict=True)
    }
    kill = random.choice([kill_driver, kill_java])
    # Two at least: with one task there is one transaction, and the next round comes to nothing between two ends.
    fault = kill(engine, stops | CONTROLS, tasks=random.randint(2, 4))
    for name in names:
        fault.assert_every_row_once(name, say)
    for control in CONTROLS:
        fault.assert_copies(control, {2}, say)
