"""What is told of a sink, and what is done for one whose driver does not come back; by function and by command."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.cli import main
from ottla.sink.barriers import Barrier
from ottla.sink.commit import _to_decide, commit
from ottla.sink.deciding import decide
from ottla.sink.decision_writer import DecisionWriter
from ottla.sink.identities import driver_id
from ottla.sink.planning import plan
from ottla.sink.recovery import describe, recover
from ottla.sink.session import session_of
from ottla.sink.transaction_log import Fate

from . import driver
from .conftest import Engine, assert_every_row_once, await_ends, await_quiet, busy, make_job, visible_rows
from .driver import Job
from .test_lost_after_decision import decided


def run(*arguments: str) -> int:
    return main(["sink", *arguments])


def told(capsys: pytest.CaptureFixture[str], job: Job, verb: str, *more: str) -> Any:
    assert run(verb, job.sink_id, "-b", job.bootstrap_servers, "--json", *more) == 0
    return json.loads(capsys.readouterr().out)


def test_a_micro_batchs_offsets_are_told(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    driver.main(job.text())
    found = told(capsys, job, "show", "--history")
    assert (found["batch"]["query"], found["batch"]["batch"], found["batch"]["rows"]) == ("query-1", 2, 60)
    assert [task["state"] for task in found["tasks"]] == ["committed"] * 3
    # Row by row: the offsets of each batch hold its rows, and all rows of it.
    rows: dict[int, set[int]] = {}
    with ottla.Reader(job.bootstrap_servers, job.topic, isolation_level="read_committed") as reader:
        for batch in reader:
            for partition, offset, value in zip(
                *(batch.column(name).to_pylist() for name in ("partition", "offset", "value")), strict=True
            ):
                for number, each in enumerate(found["history"]):
                    for task in each["tasks"]:
                        for span in task["offsets"]:
                            inside = span["first_offset"] <= offset <= span["last_offset"]
                            if span["partition"] == partition and inside:
                                assert int(value) // 60 == each["batch"] == number
                                rows.setdefault(number, set()).add(int(value))
    assert {number: len(of_batch) for number, of_batch in rows.items()} == {0: 60, 1: 60, 2: 60}


def test_a_person_is_shown_the_same(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    driver.main(job.text())
    assert run("show", job.sink_id, "-b", job.bootstrap_servers, "--history") == 0
    shown = capsys.readouterr().out
    assert f"sink {job.sink_id}: batch 2 of query query-1, 60 rows of 3 tasks, decided 20" in shown
    assert "committed" in shown
    assert "earlier batches that are still known:" in shown
    assert f"{job.topic}-0" in shown


def test_earlier_batches_do_not_show_lost_rows_as_written(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    decided(job, lost=(1,), landed=(0, 2))
    assert run("recover", job.sink_id, "-b", job.bootstrap_servers, "--accept-loss") == 0
    job.batches, job.run_id = 2, "later"
    driver.main(job.text())
    capsys.readouterr()
    first = told(capsys, job, "show", "--history")["history"][0]
    assert [task["state"] for task in first["tasks"]] == ["committed", "lost by timeout", "committed"]
    assert run("show", job.sink_id, "-b", job.bootstrap_servers, "--history") == 0
    earlier = capsys.readouterr().out.partition("earlier batches")[2]
    assert "40 of 60" in earlier
    assert f"{job.topic}-1" not in earlier


def test_what_a_dead_driver_decided_is_brought_to_its_end(
    job: Job, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.kill_at(Barrier.COMMIT_BETWEEN, after=2)
    await_ends(job)
    found = told(capsys, job, "show")
    assert sorted(task["state"] for task in found["tasks"]) == ["committed", "to be committed", "to be committed"]
    done = told(capsys, job, "recover")
    assert (len(done["committed"]), done["aborted"], done["lost"]) == (2, [], [])
    assert_every_row_once(job, batches=2)
    assert told(capsys, job, "recover")["committed"] == []
    driver.main(job.text())
    assert_every_row_once(job)


def test_what_a_dead_driver_did_not_decide_is_taken_back(
    job: Job, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.kill_at(Barrier.COMMIT_DECISION)
    found = told(capsys, job, "show")
    assert found["batch"] is None
    assert len(found["open"]) == 3
    assert run("show", job.sink_id, "-b", job.bootstrap_servers) == 0
    assert "3 transactions of tasks open that no decision names" in capsys.readouterr().out
    assert run("recover", job.sink_id, "-b", job.bootstrap_servers) == 0
    assert "0 transactions committed, 3 aborted" in capsys.readouterr().out
    await_quiet(job)
    assert visible_rows(job) == {}


def test_a_decision_that_is_being_written_is_told_and_ended(job: Job, engine: Engine) -> None:
    engine.kill_at(Barrier.COMMIT_ASKED, after=1)
    assert describe(session_of(job.settings())).deciding
    recover(session_of(job.settings()))
    state = describe(session_of(job.settings()))
    assert not state.deciding
    assert state.decisions[-1].batch.batch_id == 0


def test_the_decision_of_a_driver_that_died_with_its_first_batch_is_ended(job: Job, engine: Engine) -> None:
    engine.kill_at(Barrier.COMMIT_ASKED)
    # All that is known of this sink is open: its decision, and what its tasks have sent.
    assert driver_id(job.sink_id) in [each.transactional_id for each in busy(job)]
    assert run("recover", job.sink_id, "-b", job.bootstrap_servers) == 0
    await_quiet(job)
    assert visible_rows(job) == {}
    assert describe(session_of(job.settings())).decisions == ()


def test_rows_that_are_lost_are_told(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    decided(job, lost=(1,), landed=(0,))
    state = describe(session_of(job.settings()))
    assert sorted(fate.value for fate in state.fates.values() if fate) == ["aborted", "committed", "open"]
    assert run("show", job.sink_id, "-b", job.bootstrap_servers) == 0
    assert "lost by timeout" in capsys.readouterr().out
    assert run("recover", job.sink_id, "-b", job.bootstrap_servers) == 1
    assert "20 rows of batch 0 of query query-1 are lost, because" in capsys.readouterr().err
    driver.main(job.text())
    assert_every_row_once(job)


def test_a_query_that_runs_is_fenced_by_recovery(job: Job) -> None:
    settings = job.settings()
    planned = plan(session_of(settings))
    messages = [driver.run_task(job, settings, planned, 0, task, task) for task in range(job.tasks)]
    assert len(recover(session_of(settings)).aborted) == 3
    with pytest.raises(ottla.ProducerFenced, match="another query or write has begun a batch"):
        commit(session_of(settings), messages)
    driver.main(job.text())
    assert_every_row_once(job)


def test_who_is_overtaken_by_another_recovery_is_told_so(
    job: Job, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = job.settings()
    planned = plan(session_of(settings))
    driver.run_task(job, settings, planned, 0, 0, 0)

    def reach(barrier: Barrier) -> None:
        monkeypatch.setattr("ottla.sink.planning.reach", lambda _: None)
        assert len(recover(session_of(settings)).aborted) == 1

    monkeypatch.setattr("ottla.sink.planning.reach", reach)
    assert run("recover", job.sink_id, "-b", job.bootstrap_servers) == 1
    said = capsys.readouterr().err
    assert f"another ottla sink recover has begun to end the transactions of sink '{job.sink_id}' meanwhile" in said
    assert said.count("\n") == 1


def test_a_query_that_runs_goes_on_where_recovery_came_between_two_batches(job: Job) -> None:
    settings = job.settings()
    for batch in range(2):
        driver.run_batch(job, settings, batch)
        assert recover(session_of(settings))[1:] == ((), (), ())
    assert_every_row_once(job, batches=2)


def test_telling_changes_nothing(job: Job) -> None:
    settings = job.settings()
    planned = plan(session_of(settings))
    messages = [driver.run_task(job, settings, planned, 0, task, task) for task in range(job.tasks)]
    assert len(describe(session_of(settings)).open) == 3
    commit(session_of(settings), messages)
    assert set(describe(session_of(settings)).fates.values()) == {Fate.COMMITTED}
    assert_every_row_once(job, batches=1)


@pytest.mark.parametrize("verb", ["show", "recover"])
def test_a_sink_nobody_knows_is_a_plain_sentence(
    verb: str, cluster: ottla.Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for more in ((), ("--control-topic", "nowhere")):
        assert run(verb, "ordres", "-b", cluster.bootstrap_servers, *more) == 2
        said = capsys.readouterr().err
        assert "no sink 'ordres' is known at 127.0.0.1:" in said
        assert "ottla sink list shows the sinks there" in said
        assert said.count("\n") == 1


def test_a_mistyped_sink_is_told_the_name_that_is_there(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    driver.main(job.text())
    assert run("show", f"/{job.sink_id}/", "-b", job.bootstrap_servers) == 2
    assert f"did you mean '{job.sink_id}'?" in capsys.readouterr().err


def test_the_list_has_all_sinks_of_a_control_topic(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    own = f"{job.topic}_decisions"
    where = ("-b", job.bootstrap_servers, "--control-topic", own)
    assert run("list", *where) == 0
    assert f"there is no topic '{own}' at {job.bootstrap_servers}: no sink has written there" in capsys.readouterr().out

    for name, batches in (("first", 2), ("second", 1)):
        for batch in range(batches):
            other = dataclasses.replace(job, sink_id=name)
            driver.run_batch(other, dataclasses.replace(other.settings(), control_topic=own), batch)
    # Decided, and not committed yet.
    settings = dataclasses.replace(job.settings(), control_topic=own)
    planned = plan(session_of(settings))
    messages = [driver.run_task(job, settings, planned, 0, task, task) for task in range(job.tasks)]
    decision = _to_decide(session_of(settings), planned, messages[0].batch, messages, messages)  # type: ignore[arg-type]
    with DecisionWriter(session_of(settings), planned.driver_identity) as writer:
        decide(writer, planned, decision, messages)  # type: ignore[arg-type]

    await_ends(job)
    assert run("list", *where, "--json") == 0
    found = json.loads(capsys.readouterr().out)["sinks"]
    assert [(each["sink"], each["batch"], each["rows"], each["state"]) for each in found] == [
        (job.sink_id, 0, 60, "to be committed"),
        ("second", 0, 60, "committed"),
        ("first", 1, 60, "committed"),
    ]
    assert run("list", *where) == 0
    assert "to be committed" in capsys.readouterr().out
    assert run("recover", job.sink_id, *where) == 0


def test_a_record_that_is_no_decision_is_named_and_the_list_has_the_others(
    job: Job, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    own = f"{job.topic}_decisions"
    where = ("-b", job.bootstrap_servers, "--control-topic", own)
    driver.run_batch(job, dataclasses.replace(job.settings(), control_topic=own), 0)
    with ottla.Producer(job.bootstrap_servers, transactional_id=job.topic) as producer, producer.transaction():
        offset = producer.send(own, b"no decision", "stray").result(30).offset
    await_ends(job)
    assert run("list", *where, "--json") == 0
    assert [each["sink"] for each in json.loads(capsys.readouterr().out)["sinks"]] == [job.sink_id]
    assert f"left out: the record at offset {offset} of topic '{own}' is no decision of a sink" in caplog.text
    assert run("show", "stray", *where) == 1
    assert f"offset {offset} of topic '{own}' is no decision" in capsys.readouterr().err


def test_help_says_what_is_for_whom(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    assert "recover" in capsys.readouterr().out
    assert run("recover", "--help") == 0
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "A query that is writing a batch meanwhile is fenced" in said
    assert "1 when rows of the last batch are lost" in said


def test_a_sink_with_another_control_topic_is_not_known_without_it(
    job: Job, cluster: ottla.Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    own = {"control_topic": f"{job.topic}_decisions"}
    settings = dataclasses.replace(job.settings(), **own)
    planned = plan(session_of(settings))
    messages = [driver.run_task(job, settings, planned, 0, task, task) for task in range(job.tasks)]
    decision = _to_decide(session_of(settings), planned, messages[0].batch, messages, messages)  # type: ignore[arg-type]
    with DecisionWriter(session_of(settings), planned.driver_identity) as writer:
        decide(writer, planned, decision, messages)  # type: ignore[arg-type]
    session_of(job.settings()).ensure_topics()
    # What is decided there would be aborted here, as in no decision.
    assert run("recover", job.sink_id, "-b", job.bootstrap_servers) == 2
    assert "If the query has another control topic, give --control-topic" in capsys.readouterr().err
    assert run("recover", job.sink_id, "-b", job.bootstrap_servers, "--control-topic", own["control_topic"]) == 0
    assert "3 transactions committed, 0 aborted" in capsys.readouterr().out
    assert_every_row_once(job, batches=1)


def test_brokers_that_allow_short_transactions_alone_do_not_keep_a_sink_from_being_recovered(
    kafka_name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ottla.Cluster(brokers=1, settings={"transaction.max.timeout.ms": 30_000}) as cluster:
        job = make_job(cluster, kafka_name, tmp_path, transaction_timeout_ms=30_000, margin_ms=3_000)
        planned = plan(session_of(job.settings()))
        driver.run_task(job, job.settings(), planned, 0, 0, 0)
        assert run("recover", job.sink_id, "-b", job.bootstrap_servers) == 0
        assert "0 transactions committed, 1 aborted" in capsys.readouterr().out
