"""Where somebody has deleted the topic of receipts: what became of the last batch is not known, and it can be ended."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

import pytest

import ottla
from ottla.cli import main
from ottla.client.producer import Producer
from ottla.sink.batch import Attempt, BatchId, Totals
from ottla.sink.commit import _to_decide
from ottla.sink.deciding import decide
from ottla.sink.decision_writer import DecisionWriter
from ottla.sink.planning import plan
from ottla.sink.recovery import recover
from ottla.sink.session import session_of
from ottla.sink.settings import SinkSettings
from ottla.sink.task import prepare

from .conftest import assert_every_row_once, await_quiet
from .driver import Job, run_batch, run_task


def decided_without_receipts(cluster: ottla.Cluster, job: Job, committed: bool) -> SinkSettings:
    """A batch that is ended, of which R does not say so yet, in topics of its own; that of receipts is deleted."""
    settings = dataclasses.replace(job.settings(), control_topic=f"{job.topic}_own")
    planned = plan(session_of(settings))
    messages = [run_task(job, settings, planned, 0, task, task) for task in range(job.tasks)]
    decision = _to_decide(session_of(settings), planned, messages[0].batch, messages, messages)  # type: ignore[arg-type]
    with DecisionWriter(session_of(settings), planned.driver_identity) as writer:
        decide(writer, planned, decision, messages)  # type: ignore[arg-type]
    told = ottla.end_transactions([each.identity for each in decision.entries], committed, job.bootstrap_servers)
    assert not any(told.values())
    await_quiet(job)
    cluster.delete_topic(settings.receipts_topic)
    # How long the sink tries to find out what is not known.
    session_of(settings).port.patience_s = 1
    return settings


def test_the_batch_is_told_as_unknown_and_given_up_when_somebody_says_so(
    cluster: ottla.Cluster, job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = decided_without_receipts(cluster, job, committed=True)
    arguments = [job.sink_id, "-b", job.bootstrap_servers, "--control-topic", settings.control_topic]
    assert main(["sink", "show", *arguments, "--json"]) == 0
    assert [task["state"] for task in json.loads(capsys.readouterr().out)["tasks"]] == ["unknown"] * job.tasks
    assert main(["sink", "recover", *arguments]) == 1
    assert "it is not known whether" in capsys.readouterr().err
    assert main(["sink", "recover", *arguments, "--accept-loss"]) == 0
    assert "counts as done; 60 rows of 60 are lost, or may be" in capsys.readouterr().out


def test_a_topic_that_was_made_again_does_not_promise_that_the_next_start_commits(
    cluster: ottla.Cluster, job: Job
) -> None:
    settings = decided_without_receipts(cluster, job, committed=False)
    with ottla.Admin(job.bootstrap_servers) as admin:
        admin.create_topics(settings.receipts_topic, partitions=1, configs={"cleanup.policy": "compact"})
    for again in (plan, recover):
        with pytest.raises(ottla.OttlaError, match=r"it is not known whether.* deleted .* --accept-loss$"):
            again(session_of(settings))
    assert len(recover(session_of(settings), accept_loss=True).lost) == job.tasks
    planned = plan(session_of(settings))
    assert planned.last is not None
    assert planned.last.lost == {}


def test_a_control_marker_where_the_receipt_was_does_not_say_that_rows_are_lost(
    cluster: ottla.Cluster, job: Job
) -> None:
    job.tasks = 1
    settings = decided_without_receipts(cluster, job, committed=True)
    # Another sink makes the topic again, and its first attempt fails: only a control marker comes from that.
    other = dataclasses.replace(settings, sink_id=f"{job.sink_id}-other")

    def fail(producer: Callable[[], Producer]) -> Totals:
        producer().send(job.topic, b"not to be read").result()
        raise ottla.OttlaError("the task fails here")

    planned = plan(session_of(other))
    with pytest.raises(ottla.OttlaError, match="the task fails here"):
        prepare(session_of(other), planned, BatchId("other", 0), Attempt(0, 0), fail, Totals)
    await_quiet(job)
    with pytest.raises(ottla.OttlaError, match="it is not known whether"):
        run_batch(job, settings, 0)
    assert_every_row_once(job, batches=1)
