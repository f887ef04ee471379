"""Spark drivers are killed in front of each step of the exactly-once sink, and started again from their checkpoints.

Afterwards a read_committed reader finds every row once, each key's rows in order, and no transaction is open on any
broker, though no transaction timeout has passed. A kill counts only where the barrier was reached. The controls undergo
the same with the sink that is at least once, and must show duplicates of every micro-batch that Spark repeats:
otherwise the kills prove nothing.

One driver has a query for every barrier. The driver's own death hits all of them, other kills some of each kind of
process: starting drivers and queries is what these tests spend their time on. OTTLA_SOAK=1 has a broker killed in front
of every step, too, and `test_sink_kills_soak` has more.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.soak import IS_SOAK, SOAK
from tests.spark.sink_engine import TASKS, Brokers, Engine, Stop, running_engine
from tests.spark.sink_kills import (
    CONTROLS,
    KINDS,
    QUERIES,
    STOPS,
    QueryFault,
    Say,
    kill_broker,
    kill_driver,
    kill_unanswered,
)

import ottla
from ottla.sink.barriers import Barrier

pytestmark = pytest.mark.spark

# One in each process there is: planning, a task, committing.
SOME = {name: STOPS[name] for name in (Barrier.PLAN_SWEEP, Barrier.TASK_PREPARE, f"{Barrier.COMMIT_BETWEEN}-2")}
# Of a broker's kill without OTTLA_SOAK=1: what it coordinates is another thing in each of these.
BROKER_STOPS = {
    name: stop
    for name, stop in STOPS.items()
    if IS_SOAK
    or name in (*SOME, Barrier.TASK_ROWS, Barrier.COMMIT_DECISION, Barrier.COMMIT_ASKED, Barrier.COMMIT_APPLY)
}
# Their topics have one replica of each partition: without its broker, a task stores a part of its rows and fails.
FRAIL_STEPS, FRAIL_CONTROLS = ["one-replica"], ["control-one-replica"]
FRAIL = dict.fromkeys([*FRAIL_STEPS, *FRAIL_CONTROLS], Stop(Barrier.TASK_ROWS))
# The driver's own transaction is open while a query is held there. It may last half the margin, by default 30 seconds:
# too short for a slow machine to hold all others meanwhile and to kill a broker.
OPEN_DECISION = {Barrier.COMMIT_ASKED: {"sink.margin.ms": "600000"}}
IMPATIENT = {"kafka.request.timeout.ms": "3000", "kafka.delivery.timeout.ms": "10000", "kafka.max.block.ms": "10000"}
# What becomes of the request that commits the decision: it was carried out, or it never came.
UNANSWERED = {"unanswered-carried-out": "drop_ack", "unanswered-lost": "drop_request"}


@pytest.fixture(scope="module")
def engine(find_java: None, brokers: Brokers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A driver that can have a query for every barrier."""
    told = QUERIES | {"controls": [*CONTROLS, *FRAIL_CONTROLS], "replicas": dict.fromkeys(FRAIL, 1)}
    names, options = [*STOPS, *CONTROLS, *FRAIL, *UNANSWERED], dict.fromkeys(FRAIL, IMPATIENT) | OPEN_DECISION
    with running_engine(brokers, tmp_path_factory.mktemp("kills"), names, options=options, **told) as engine:
        yield engine


@pytest.fixture(scope="module")
def driver_killed(engine: Engine) -> QueryFault:
    return kill_driver(engine, STOPS | CONTROLS)


@pytest.mark.parametrize("step", STOPS)
def test_every_row_is_there_once_after_the_driver_was_killed(driver_killed: QueryFault, step: str, say: Say) -> None:
    driver_killed.assert_every_row_once(step, say)


@pytest.mark.parametrize("control", CONTROLS)
def test_the_control_has_duplicates_after_the_driver_was_killed(
    driver_killed: QueryFault, control: str, say: Say
) -> None:
    driver_killed.assert_copies(control, {2}, say)


@pytest.fixture(scope="module", params=["first", pytest.param("second", marks=SOAK), pytest.param("third", marks=SOAK)])
def broker_killed(engine: Engine, request: pytest.FixtureRequest) -> QueryFault:
    """A broker was killed: an embedded one that coordinated everything; of Apache Kafka's each coordinates a part."""
    return kill_broker(engine, BROKER_STOPS | CONTROLS, FRAIL)


@pytest.mark.parametrize("step", [*BROKER_STOPS, *FRAIL_STEPS])
def test_every_row_is_there_once_after_a_broker_was_killed(broker_killed: QueryFault, step: str, say: Say) -> None:
    broker_killed.assert_every_row_once(step, say)


def test_the_broker_that_was_killed_coordinated_what_was_held(broker_killed: QueryFault, brokers: Brokers) -> None:
    roles = [broker_killed.roles[step] for step in BROKER_STOPS]
    assert len(broker_killed.roles[Barrier.COMMIT_APPLY].tasks) == TASKS
    how_many = all if isinstance(brokers, ottla.Cluster) else any
    assert how_many(each.driver for each in roles)
    assert how_many(is_coordinator for each in roles for is_coordinator in each.tasks)
    # The last of three of Apache Kafka need not lead the decisions any more: its predecessors did.
    assert all(each.decision for each in roles) or len(broker_killed.engine.killed) == 3


@pytest.mark.parametrize("control", CONTROLS)
def test_the_control_has_no_duplicates_after_a_broker_was_killed(
    broker_killed: QueryFault, control: str, say: Say
) -> None:
    # Its producers are idempotent, all replicas have its rows, and Spark repeats nothing.
    broker_killed.assert_copies(control, {1}, say)


@pytest.mark.parametrize("control", FRAIL_CONTROLS)
def test_the_control_has_duplicates_where_the_death_of_a_broker_fails_its_tasks(
    broker_killed: QueryFault, control: str, say: Say
) -> None:
    # What was for the other brokers was stored, and Spark repeats the micro-batch.
    broker_killed.assert_copies(control, {1, 2}, say)


@pytest.fixture(scope="module", params=KINDS)
def killed(engine: Engine, request: pytest.FixtureRequest) -> QueryFault:
    """One kind of kill for all queries, each in another process."""
    return KINDS[request.param](engine, SOME | CONTROLS)


@pytest.mark.parametrize("step", SOME)
def test_every_row_is_there_once_after_kills_of_one_kind(killed: QueryFault, step: str, say: Say) -> None:
    killed.assert_every_row_once(step, say)


@pytest.mark.parametrize("control", CONTROLS)
def test_the_control_has_duplicates_after_kills_of_one_kind(killed: QueryFault, control: str, say: Say) -> None:
    killed.assert_copies(control, {2}, say)


@pytest.fixture(scope="module")
def killed_unanswered(engine: Engine, brokers: Brokers) -> QueryFault:
    assert isinstance(brokers, ottla.Cluster)
    return kill_unanswered(engine, brokers, UNANSWERED)


@pytest.mark.parametrize("brokers", ["embedded"], indirect=True)
@pytest.mark.parametrize("step", UNANSWERED)
def test_every_row_is_there_once_after_a_kill_while_the_decision_is_unanswered(
    killed_unanswered: QueryFault, step: str, say: Say
) -> None:
    killed_unanswered.assert_every_row_once(step, say)
