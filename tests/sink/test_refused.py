"""What the sink refuses: before anything becomes visible, with the reason and the remedy."""

from __future__ import annotations

import dataclasses
import logging
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.cli import main
from ottla.producer.transaction_states import TransactionIdentity
from ottla.sink import topics
from ottla.sink.barriers import Barrier
from ottla.sink.batch import WRITE, Attempt, BatchId, Entry, Totals
from ottla.sink.commit import commit
from ottla.sink.decision import Decision
from ottla.sink.decision_writer import DecisionWriter
from ottla.sink.planning import plan
from ottla.sink.recovery import describe
from ottla.sink.session import session_of
from ottla.sink.settings import SinkSettings

from . import driver
from .conftest import Engine, assert_every_row_once, await_ends, await_quiet, busy, visible_rows
from .driver import Checkpoint, Job, prepare_rows, run_batch, run_task


def test_a_lost_checkpoint_is_refused(job: Job) -> None:
    driver.main(job.text())
    shutil.rmtree(job.checkpoint)
    job.query_id = "query-2"
    with pytest.raises(ottla.UserMistake, match=r"belongs to batch 2 of query query-1, and this is batch 0 of query q"):
        driver.main(job.text())
    assert_every_row_once(job)


def test_a_sink_id_used_by_another_query_is_refused(job: Job, tmp_path: Path) -> None:
    driver.main(job.text())
    other = dataclasses.replace(job, query_id="query-2", checkpoint=str(tmp_path / "other"))
    with pytest.raises(ottla.UserMistake, match=r"another query has the same sink.id; .* give this query a sink.id of"):
        driver.main(other.text())
    assert_every_row_once(job)


def test_a_sink_of_another_query_is_refused_before_that_one_is_fenced(job: Job) -> None:
    settings = job.settings()
    run_batch(job, settings, 0)
    planned = plan(session_of(settings), "query-1")
    messages = [run_task(job, settings, planned, 1, task, task) for task in range(job.tasks)]
    with pytest.raises(
        ottla.UserMistake, match=r"belongs to batch 0 of query query-1, and this is query query-2: .*sink\.id"
    ):
        plan(session_of(settings), "query-2")
    # The one that runs goes on as if nothing had been.
    commit(session_of(settings), messages)
    plan(session_of(settings), "query-1")
    assert_every_row_once(job, batches=2)


@pytest.mark.parametrize("is_known_at_plan", [True, False])
def test_a_checkpoint_that_was_moved_is_recognised_by_its_query(job: Job, is_known_at_plan: bool) -> None:
    job.query_id = f"query-of-{job.topic}"
    job.sink_id, job.of_checkpoint = f"/old/{job.topic}", True
    run_batch(job, job.settings(), 0)
    moved = dataclasses.replace(job, sink_id=f"/new/{job.topic}")
    session = session_of(moved.settings())
    old = f"'/old/{job.topic}'"
    told = f"query {job.query_id} has written as sink {old}.*give the query the option sink.id={old}"
    # The checkpoint may be where the driver cannot look into it: then tasks are the first to tell.
    begin = partial(plan, session, job.query_id) if is_known_at_plan else partial(run_batch, moved, moved.settings(), 0)
    with pytest.raises(ottla.UserMistake, match=told):
        begin()
    named = dataclasses.replace(moved, sink_id=job.sink_id, of_checkpoint=False)
    for batch in (0, 1):
        run_batch(named, named.settings(), batch)
    assert busy(moved) == []
    assert_every_row_once(named, batches=2)


def test_a_sink_id_that_was_changed_before_the_batch_was_noted_is_refused(job: Job) -> None:
    job.query_id, job.of_stream = f"query-of-{job.topic}", True
    run_batch(job, job.settings(), 0)
    changed = dataclasses.replace(job, sink_id=f"{job.sink_id}-2")
    # The driver died before the engine noted that the batch is done.
    told = f"sink '{job.sink_id}' has decided batch 0 .* written twice.*the option sink.id='{job.sink_id}'"
    with pytest.raises(ottla.UserMistake, match=told):
        run_batch(changed, changed.settings(), 0)
    assert busy(changed) == []
    run_batch(job, job.settings(), 0)
    # Now it is noted.
    run_batch(changed, changed.settings(), 1)
    assert_every_row_once(dataclasses.replace(job, sink_id=changed.sink_id), batches=2)


def test_one_query_may_have_several_sinks_in_foreach_batch(job: Job) -> None:
    job.query_id = f"query-of-{job.topic}"
    run_batch(job, job.settings(), 0)
    other = dataclasses.replace(job, sink_id=f"{job.sink_id}-2")
    run_batch(other, other.settings(), 0)


def test_two_queries_that_are_named_after_their_checkpoints_do_not_meet(job: Job, tmp_path: Path) -> None:
    job.query_id, job.of_checkpoint = f"query-of-{job.topic}", True
    other = dataclasses.replace(job, sink_id=f"{job.sink_id}-2", query_id=f"{job.query_id}-2")
    for batch in (0, 1):
        run_batch(dataclasses.replace(job, rows_per_batch=30), job.settings(), 2 * batch)
        run_batch(dataclasses.replace(other, rows_per_batch=30), other.settings(), 2 * batch + 1)
    assert_every_row_once(dataclasses.replace(job, rows_per_batch=30), batches=4)


def test_a_checkpoint_that_was_rolled_back_is_refused(job: Job) -> None:
    driver.main(job.text())
    Checkpoint(job.checkpoint).roll_back(0)
    with pytest.raises(
        ottla.UserMistake,
        match=r"has written batch 2, and this is batch 1 .* back; restore .* new checkpoint and a sink",
    ):
        driver.main(job.text())
    assert_every_row_once(job)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"run_id": "first"},
            "two writes of a micro-batch have the same sink.id: give the second one another sink.id",
        ),
        ({"run_id": ""}, "two writes of a micro-batch have the same sink.id"),
        ({"run_id": "second", "same_rows": True}, "and same_rows=True refuses that; restore the checkpoint"),
    ],
)
def test_a_decided_batch_with_other_rows_is_refused(changed: dict[str, Any], told: str, job: Job) -> None:
    job.run_id = "first"
    driver.main(job.text())
    Checkpoint(job.checkpoint).roll_back(1)
    other = dataclasses.replace(job, rows_per_batch=50, **changed)
    with pytest.raises(
        ottla.UserMistake, match=rf"has 50 rows where 60 were decided\. Nothing was written this time; .*{told}"
    ):
        driver.main(other.text())
    assert_every_row_once(job)


def test_a_batch_that_is_done_and_comes_again_with_other_rows_is_done_and_that_is_told(
    job: Job, engine: Engine, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    job.run_id = engine.job.run_id = "first"
    engine.kill_at(Barrier.COMMIT_SWEEP, after=2)
    for run_id in ("second", "third"):
        # Other rows in another number of tasks, as after a shuffle.
        run_batch(dataclasses.replace(job, run_id=run_id, rows_per_batch=50, tasks=2), job.settings(), 2)
        assert "This run wrote nothing. (If two writes" in caplog.text
        caplog.clear()
    await_ends(job)
    assert describe(session_of(job.settings())).decisions[-1].differed == 2
    assert main(["sink", "show", job.sink_id, "-b", job.bootstrap_servers]) == 0
    assert "run again 2 times with other rows, which were not written" in capsys.readouterr().out
    assert_every_row_once(job)


@pytest.mark.parametrize("again", [60, 50], ids=["the-same", "other"])
def test_a_run_that_found_a_batch_done_may_not_come_with_other_rows_for_it(again: int, job: Job) -> None:
    # Two writes of one micro-batch have this sink.id, and the program is started again as it is.
    job.run_id = "first"
    driver.main(job.text())
    for run_id in ("second", "third"):
        run_batch(dataclasses.replace(job, run_id=run_id, rows_per_batch=again), job.settings(), 2)
        for _ in range(2):
            with pytest.raises(
                ottla.UserMistake, match=r"40 rows where 60 were decided.*found to be done, in this same"
            ):
                run_batch(dataclasses.replace(job, run_id=run_id, rows_per_batch=40), job.settings(), 2)
    assert_every_row_once(job)


@pytest.mark.parametrize("same_rows", [None, True, False])
def test_a_write_that_comes_again_with_other_rows_is_done_only_if_the_settings_say_so(
    same_rows: bool | None, job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    settings = dataclasses.replace(job.settings(), same_rows=same_rows)
    session, batch = session_of(settings), BatchId("1", WRITE)

    def write(rows: list[int]) -> None:
        planned = plan(session)
        commit(session, [prepare_rows(session, planned, batch, 0, job, rows)])

    write(list(range(60)))
    if same_rows is False:
        write(list(range(50)))
        assert "It was run again, with 50 rows that are not all the same, or go to another topic" in caplog.text
        await_ends(job)
        assert describe(session).decisions[-1].differed == 1
    else:
        with pytest.raises(ottla.UserMistake, match=r"50 rows where 60 were decided.* set same_rows=False: then it is"):
            write(list(range(50)))
    write(list(range(60)))
    found = sorted(row for rows in visible_rows(job).values() for row in rows)
    assert found == list(range(60))


def test_two_writes_of_one_run_with_one_id_are_refused_whatever_the_settings_say(job: Job) -> None:
    settings = dataclasses.replace(job.settings(), same_rows=False)
    session, batch = session_of(settings), BatchId("1", WRITE)

    def write(rows: list[int]) -> None:
        planned = plan(session)
        commit(session, [prepare_rows(session, planned, batch, 0, job, rows, Attempt(0, 0, run_id="first"))])

    write(list(range(60)))
    with pytest.raises(ottla.UserMistake, match=r"in this same run of the query.* give the second one another sink.id"):
        write(list(range(50)))


def test_a_restart_with_other_parallelism_is_well(job: Job) -> None:
    settings = job.settings()
    run_batch(job, settings, 0)
    # Decided, and not yet in the engine's own log: it comes again, divided otherwise, and is skipped.
    wider = dataclasses.replace(job, tasks=5)
    for batch in (0, 1):
        run_batch(wider, settings, batch)
    run_batch(dataclasses.replace(job, tasks=1), settings, 2)
    assert_every_row_once(job)


def test_an_older_checkpoint_of_the_same_batch_is_skipped(job: Job) -> None:
    driver.main(job.text())
    Checkpoint(job.checkpoint).roll_back(1)
    driver.main(job.text())
    assert_every_row_once(job)


def test_a_transaction_timeout_beyond_the_brokers_is_refused_at_start(job: Job) -> None:
    settings = dataclasses.replace(job.settings(), transaction_timeout_ms=3_600_000)
    with pytest.raises(
        ottla.UserMistake, match=r"is more than the brokers allow \(transaction.max.timeout.ms=900000\)"
    ):
        plan(session_of(settings))


def test_a_batch_with_too_little_time_left_is_refused(job: Job) -> None:
    settings = dataclasses.replace(job.settings(), margin_ms=59_999)
    planned = plan(session_of(settings))
    messages = [run_task(job, settings, planned, 0, task, task) for task in range(job.tasks)]
    with pytest.raises(
        ottla.TransactionError, match=r"ms left of transaction.timeout.ms \(60000\), and 59999 are needed"
    ):
        commit(session_of(settings), messages)
    assert visible_rows(job) == {}


def test_a_batch_that_took_longer_than_its_transactions_is_refused(job: Job) -> None:
    settings = job.settings()
    planned = plan(session_of(settings))
    messages = [run_task(job, settings, planned, 0, task, task) for task in range(job.tasks)]
    assert messages[1].entry is not None  # type: ignore[union-attr]
    # What the coordinator does when the time is up.
    ottla.end_transactions([messages[1].entry.identity], False, job.bootstrap_servers)  # type: ignore[union-attr]
    with pytest.raises(
        ottla.TransactionError, match=r"task 1 of batch 0 .* before the batch was decided .* make batches"
    ):
        commit(session_of(settings), messages)
    run_batch(job, settings, 0)
    assert_every_row_once(job, batches=1)


def test_tasks_of_two_plans_are_not_committed_together(job: Job) -> None:
    settings = job.settings()
    messages = [run_task(job, settings, plan(session_of(settings)), 0, task, task) for task in range(2)]
    second = messages[1].plan
    with pytest.raises(ottla.OttlaError, match="tasks of two plans came to one commit"):
        commit(session_of(settings), messages)
    doubled = [run_task(job, settings, second, 0, 2, number) for number in (5, 6)]
    with pytest.raises(ottla.OttlaError, match="came to one commit twice"):
        commit(session_of(settings), doubled)
    assert visible_rows(job) == {}
    plan(session_of(settings))
    await_quiet(job)


def test_batch_writes_follow_one_another_each_under_its_own_id(job: Job) -> None:
    settings = job.settings()

    def write(name: str, rows_of: int) -> None:
        planned = plan(session_of(settings))
        messages = [
            driver.prepare_rows(
                session_of(settings), planned, BatchId(name, WRITE), task, job, job.rows_of(rows_of, task)
            )
            for task in range(job.tasks)
        ]
        commit(session_of(settings), messages)

    for _ in range(2):
        write("monday", 0)  # and again, by whoever was not sure
    write("tuesday", 1)
    assert_every_row_once(job, batches=2)
    with pytest.raises(ottla.UserMistake, match="belongs to write tuesday, and this is batch 2 of query q") as refused:
        run_batch(job, settings, 2)
    # A batch write has no checkpoint to be restored.
    assert "checkpoint" not in str(refused.value)
    assert str(refused.value).endswith("give this query a sink.id of its own")


def test_a_batch_write_with_the_sink_id_of_a_query_is_refused_without_a_word_of_checkpoints(job: Job) -> None:
    settings = job.settings()
    run_batch(job, settings, 0)
    planned = plan(session_of(settings))
    with pytest.raises(ottla.UserMistake) as refused:
        driver.prepare_rows(session_of(settings), planned, BatchId("monday", WRITE), 0, job, job.rows_of(0, 0))
    assert str(refused.value) == (
        f"sink {settings.sink_id!r} belongs to batch 0 of query query-1, and this is write monday: a sink.id is either "
        "of one query or of batch writes; give this write a sink.id of its own"
    )


def test_a_control_topic_that_forgets_is_refused(cluster: ottla.Cluster, job: Job) -> None:
    cluster.create_topic("forgetful")
    settings = dataclasses.replace(job.settings(), control_topic="forgetful")
    with pytest.raises(
        ottla.UserMistake, match=r"'forgetful' has cleanup.policy=delete, .*ottla topics alter forgetful"
    ):
        plan(session_of(settings))


def test_topics_are_made_as_safe_as_the_cluster_allows(job: Job) -> None:
    settings = dataclasses.replace(job.settings(), control_topic=f"{job.topic}-control")
    plan(session_of(settings))
    with ottla.Admin(job.bootstrap_servers) as admin:
        for topic in (settings.control_topic, settings.receipts_topic):
            assert [len(place.replicas) for place in admin.describe(topic).partitions] == [3]
            assert admin.describe_configs(topic=topic)["min.insync.replicas"].value == "2"


def test_where_brokers_refuse_their_settings_the_topics_are_only_compacted(
    job: Job, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # As managed services do, which have limits for these settings.
    monkeypatch.setattr(topics, "_RECEIPTS_SEGMENT_MS", -5)
    settings = dataclasses.replace(job.settings(), control_topic=f"{job.topic}-control")
    with caplog.at_level(logging.WARNING, "ottla.sink"):
        run_batch(job, settings, 0)
        run_batch(job, settings, 1)
    # Clients of other tests may log messages about their own brokers.
    (said,) = [record.getMessage() for record in caplog.records if record.name == "ottla.sink"]
    assert f"{settings.receipts_topic!r} is made with cleanup.policy=compact alone" in said
    assert "segment.ms" in said
    with ottla.Admin(job.bootstrap_servers) as admin:
        assert admin.describe_configs(topic=settings.receipts_topic)["cleanup.policy"].value == "compact"
        assert admin.describe_configs(topic=settings.control_topic)["max.message.bytes"].value == str(16 << 20)
    assert_every_row_once(job, batches=2)


def test_a_decision_that_does_not_fit_into_its_topic_is_refused(cluster: ottla.Cluster, job: Job) -> None:
    topic = f"{job.topic}-small"
    cluster.create_topic(topic, configs={"cleanup.policy": "compact", "max.message.bytes": "300"})
    settings = dataclasses.replace(job.settings(), control_topic=topic)
    told = (
        rf"batch 0 of query query-1 has 3 tasks, and its decision \(\d+ bytes\) does not fit into topic '{topic}'; "
        rf".*max\.message\.bytes.*ottla topics alter {topic} --config max\.message\.bytes=\d+.*fewer tasks"
    )
    with pytest.raises(ottla.UserMistake, match=told):
        run_batch(job, settings, 0)
    assert busy(job) == []
    assert visible_rows(job) == {}
    with ottla.Admin(job.bootstrap_servers) as admin:
        admin.alter_configs({"max.message.bytes": "100000"}, topic=topic)
    run_batch(job, settings, 0)
    assert_every_row_once(job, batches=1)


def test_a_receipt_that_does_not_fit_into_its_topic_is_refused(cluster: ottla.Cluster, job: Job) -> None:
    topic = f"{job.topic}-small"
    cluster.create_topic(topic, configs={"cleanup.policy": "compact"})
    cluster.create_topic(f"{topic}_markers", configs={"cleanup.policy": "compact", "max.message.bytes": "200"})
    settings = dataclasses.replace(job.settings(), control_topic=topic)
    told = (
        rf"^the receipt of task 0 of batch 0 of query query-1 does not fit into topic '{topic}_markers'.*"
        rf"ottla topics alter {topic}_markers --config max\.message\.bytes=65536 -b \S+\)$"
    )
    with pytest.raises(ottla.UserMistake, match=told):
        run_batch(job, settings, 0)
    assert busy(job) == []


@pytest.mark.parametrize("timeout_ms", [60_000, 100_000, 300_000, 900_000, 3_600_000])
def test_a_decision_is_taken_back_before_what_it_names_though_brokers_look_every_ten_seconds(timeout_ms: int) -> None:
    settings = SinkSettings("orders", "localhost:9092", transaction_timeout_ms=timeout_ms)
    # transaction.abort.timed.out.transaction.cleanup.interval.ms
    assert settings.decision_timeout_ms + 10_000 <= settings.margin <= timeout_ms // 4


def of_tasks(job: Job, tasks: int, driver_identity: TransactionIdentity) -> Decision:
    """A decision of so many tasks, which nobody has prepared."""
    entry = Entry(0, TransactionIdentity("ottla-sink-6-orders/0/0/0/60000", 1, 1), Totals(1, 1), 0)
    return Decision(job.sink_id, BatchId("query-1", 0), Totals(), tasks, (entry,) * tasks, driver_identity, 0)


def test_a_decision_does_not_have_to_fit_into_the_memory_that_rows_are_given(job: Job) -> None:
    settings = dataclasses.replace(job.settings(), client_settings={"buffer.memory": 50_000})
    planned = plan(session_of(settings))
    with DecisionWriter(session_of(settings), planned.driver_identity) as writer:
        writer.write_again(of_tasks(job, 1_000, planned.driver_identity))
    await_ends(job)
    assert session_of(settings).read_decision() == of_tasks(job, 1_000, planned.driver_identity)


def test_a_decision_of_more_tasks_than_one_record_holds_says_that_the_topic_does_not_matter(job: Job) -> None:
    planned = plan(session_of(job.settings()))
    told = r"150000 tasks, and its decision \(\d+ bytes\) is larger than 16777216 bytes;.* Write with fewer tasks \(coa"
    with (
        pytest.raises(ottla.UserMistake, match=told),
        DecisionWriter(session_of(job.settings()), planned.driver_identity) as writer,
    ):
        writer.write_again(of_tasks(job, 150_000, planned.driver_identity))
    assert session_of(job.settings()).read_decision() is None


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"sink_id": ""}, "sink.id='' cannot name a sink"),
        ({"sink_id": "a\nb"}, "cannot name a sink"),
        ({"sink_id": "x" * 201}, "longer than 200 bytes"),
        ({"transaction_timeout_ms": 10}, "transaction.timeout.ms=10 must be from 1000"),
        ({"margin_ms": 900_000}, "margin_ms=900000 must be less than transaction.timeout.ms"),
        ({"client_settings": {"transactional.id": "mine"}}, "transactional.id is set by the exactly-once sink itself"),
        ({"client_settings": {"acks": "1"}}, "acks is set by the exactly-once sink itself"),
        ({"client_settings": {"value_serializer": "json"}}, "value_serializer is set by the exactly-once sink itself"),
    ],
)
def test_settings_that_cannot_be_used_are_named(given: dict[str, object], told: str) -> None:
    with pytest.raises(ottla.ConfigError, match=told):
        SinkSettings(**{"sink_id": "orders", "bootstrap_servers": "localhost:9092", **given})  # type: ignore[arg-type]
