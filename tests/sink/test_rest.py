"""A sink that is idle until the cluster has forgotten its transactional ids and its receipts, and then works on.

Brokers forget an idle transactional id after seven days. The sink must not need it for a batch that is decided: what
became of that stands in R, or in receipts that are kept for as long as R names them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator

import pytest
from tests.client.in_time import wait_until

import ottla
from ottla.cli import main
from ottla.sink.barriers import Barrier
from ottla.sink.commit import commit
from ottla.sink.decision import encode
from ottla.sink.identities import driver_id, prefix_of
from ottla.sink.planning import plan
from ottla.sink.recovery import describe, recover
from ottla.sink.session import Session, session_of
from ottla.sink.settings import SINK_TOPICS
from ottla.sink.transaction_log import Fate

from . import driver
from .conftest import Engine, assert_every_row_once, await_ends
from .driver import Job, producer_of

_TEN_DAYS_MS = 10 * 24 * 3_600_000
_EAGER = {
    "log_retention_check_interval_ms": 20,
    "log_retention_ms": -1,  # the rows stay, what the sink keeps for itself does not
    "producer_id_expiration_check_interval_ms": 20,
    "transaction_remove_expired_transaction_cleanup_interval_ms": 20,
}


@pytest.fixture(scope="module", params=[2, 1])
def cluster(request: pytest.FixtureRequest) -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=3, settings={**_EAGER, "transaction_version": request.param}) as cluster:
        yield cluster


def rest(cluster: ottla.Cluster, job: Job, forgotten: str | None = None) -> None:
    """Ten days go by, until brokers have forgotten all ids that begin so: by default those of the sink."""
    # A transaction that ended after the jump would be remembered for a week more.
    await_ends(job)
    with contextlib.ExitStack() as ten_days, ottla.Admin(job.bootstrap_servers) as admin:
        for broker_id in cluster.brokers():
            ten_days.enter_context(cluster.faults.jump_clock(broker_id, jump_ms=_TEN_DAYS_MS))
        wait_until(lambda: not admin.list_transactions(forgotten or prefix_of(job.sink_id)))


def one_more(job: Job) -> None:
    job.batches += 1
    driver.main(job.text())
    assert_every_row_once(job)


def test_a_batch_that_is_longer_than_brokers_remember_ids_says_what_to_raise(cluster: ottla.Cluster, job: Job) -> None:
    planned = plan(session_of(job.settings()))
    message = driver.run_task(job, job.settings(), planned, 0, 0, 0)
    # The task's own transaction is open, so its id stays.
    rest(cluster, job, driver_id(job.sink_id))
    said = r"transactional\.id\.expiration\.ms of the brokers: it must be longer"
    with pytest.raises(ottla.OttlaError, match=said):
        driver.run_task(job, job.settings(), planned, 0, 1, 0)
    with pytest.raises(ottla.OttlaError, match=said):
        commit(session_of(job.settings()), [message])


def test_a_driver_that_planned_since_under_another_producer_id_is_told_as_such(
    cluster: ottla.Cluster, job: Job
) -> None:
    planned = plan(session_of(job.settings()))
    message = driver.run_task(job, job.settings(), planned, 0, 0, 0)
    rest(cluster, job, driver_id(job.sink_id))
    plan(session_of(job.settings()))
    with pytest.raises(ottla.OttlaError, match="another query or write has begun a batch of this sink"):
        commit(session_of(job.settings()), [message])


def test_a_sink_goes_on_after_a_rest(cluster: ottla.Cluster, job: Job) -> None:
    driver.main(job.text())
    rest(cluster, job)
    one_more(job)


def test_a_kill_behind_the_mark_leaves_nothing_to_find_out(cluster: ottla.Cluster, job: Job, engine: Engine) -> None:
    engine.kill_at(Barrier.COMMIT_END, after=1)
    rest(cluster, job)
    driver.main(job.text())
    assert_every_row_once(job)


def test_a_kill_before_the_mark_is_made_good_after_a_rest(cluster: ottla.Cluster, job: Job, engine: Engine) -> None:
    engine.kill_at(Barrier.COMMIT_LANDED, after=1)
    rest(cluster, job)
    driver.main(job.text())
    assert_every_row_once(job)


def test_the_plan_that_notes_what_a_dead_driver_did_not_decides_under_another_identity(
    job: Job, engine: Engine
) -> None:
    # Before transaction version 2 an end leaves an identity as it is, and brokers would take the decision for the note,
    # sent again: both begin a producer's sequence.
    engine.kill_at(Barrier.COMMIT_LANDED, after=1)
    driver.Checkpoint(job.checkpoint).finish(1)
    engine.kill_at(Barrier.COMMIT_LANDED)
    assert marked(job) == (2, False)
    driver.main(job.text())
    assert_every_row_once(job)


def test_where_receipts_were_deleted_recover_ends_the_batch_with_what_is_there(
    cluster: ottla.Cluster, job: Job, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.kill_at(Barrier.COMMIT_LANDED, after=1)
    await_ends(job)
    receipts = SINK_TOPICS[1]
    with ottla.Admin(job.bootstrap_servers) as admin:
        # Records of a compacted topic cannot be deleted; somebody has found a way.
        admin.alter_configs({"cleanup.policy": "delete"}, topic=receipts)
        wait_until(lambda: admin.delete_records(receipts, admin.end_offsets(receipts)) is not None)
        admin.alter_configs({"cleanup.policy": "compact"}, topic=receipts)
    command = [job.sink_id, "-b", job.bootstrap_servers]
    assert main(["sink", "show", *command, "--json"]) == 0
    assert [task["state"] for task in json.loads(capsys.readouterr().out)["tasks"]] == ["unknown"] * job.tasks
    with pytest.raises(ottla.OttlaError, match=f"it is not known whether.*recover {job.sink_id} -b .* --accept-loss"):
        driver.main(job.text())
    assert main(["sink", "recover", *command, "--accept-loss"]) == 0
    assert "counts as done" in capsys.readouterr().out
    driver.main(job.text())
    assert_every_row_once(job)


@pytest.mark.parametrize("through", [plan, recover])
def test_whoever_proves_it_soon_after_such_a_kill_writes_it_down(
    through: Callable[[Session], object], cluster: ottla.Cluster, job: Job, engine: Engine
) -> None:
    engine.kill_at(Barrier.COMMIT_LANDED, after=1)
    through(session_of(job.settings()))
    rest(cluster, job)
    assert set(describe(session_of(job.settings())).fates.values()) == {Fate.COMMITTED}
    driver.main(job.text())
    assert_every_row_once(job)


def test_a_mark_that_cannot_be_written_fails_no_batch(job: Job, engine: Engine) -> None:
    settings = job.settings()
    engine.hold(Barrier.COMMIT_LANDED)
    engine.start()
    engine.await_held(Barrier.COMMIT_LANDED)
    engine.hold(Barrier.PLAN_FENCE)
    session_of(settings).fence()
    engine.release(Barrier.COMMIT_LANDED)
    engine.await_held(Barrier.PLAN_FENCE)
    assert marked(job) == (0, False)
    engine.hold(Barrier.PLAN_END)
    engine.release(Barrier.PLAN_FENCE)
    engine.await_held(Barrier.PLAN_END)
    assert marked(job) == (0, True)
    engine.release(Barrier.PLAN_END)
    engine.finish()
    assert_every_row_once(job)


def marked(job: Job) -> tuple[int, bool]:
    """Which batch was decided last, and whether R says that it has landed."""
    await_ends(job)
    last = session_of(job.settings()).read_decision()
    assert last is not None
    return last.batch.batch_id, all(entry.landed for entry in last.entries)


def test_a_batch_is_told_once_and_no_other_one_is_being_decided_while_it_is_marked(job: Job) -> None:
    settings = job.settings()
    for batch in range(2):
        driver.run_batch(job, settings, batch)
    assert marked(job) == (1, True)
    assert [each.batch.batch_id for each in describe(session_of(settings)).decisions] == [0, 1]
    # As a driver would that is delayed before its commit.
    session = session_of(settings)
    last = session.read_decision()
    assert last is not None
    with producer_of(settings, session.driver_id) as producer:
        producer.begin_transaction()
        producer.send(settings.control_topic, encode(last), settings.sink_id.encode(), partition=0).result(30)
        assert not describe(session_of(settings)).deciding
        producer.abort_transaction()
