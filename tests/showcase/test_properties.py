"""The properties over a real run: nothing is found in it, and each judge convicts when its facts are doctored.

The run is the main job without Spark: three guarantees under faults on a real cluster, and a transactional producer in
the place of Spark's tasks. The second half takes guarantees out of the shipped cores instead.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from rich.console import Console
from tests.showcase.test_report import outcome, shown, verdict
from tools.mutation.weaknesses import weakened

import ottla
from ottla.audit import findings as kinds
from ottla.audit.chronicles.chronicle import Chronicle
from ottla.audit.properties import HELD, HELD_IN_PART, NOT_JUDGED, VIOLATED, PropertyVerdict
from ottla.cluster.cluster import Cluster
from ottla.evidence import witness as witness_module
from ottla.inputs.source import open_source
from ottla.inputs.table import read_source
from ottla.ledger.reader import read_ledger
from ottla.ledger.schema import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE, SEQUENCE_HEADER, pack_sequence
from ottla.screen import showing_steps
from ottla.showcase.folders import RunFolders, make_folders
from ottla.showcase.kafka import EmbeddedKafka
from ottla.showcase.outcome import STREAMED
from ottla.showcase.properties import (
    NOT_JUDGED as REASONS,
)
from ottla.showcase.properties import (
    judge_run,
    note_controls,
    note_streamed,
    streaming_witness,
)
from ottla.showcase.result import JsonResult
from ottla.showcase.run import BROKERS, _produce
from ottla.showcase.workload import Records, make_records

ROWS = 300
ABORTED = 20
VERDICTS = (verdict(AT_MOST_ONCE, lost=5), verdict(AT_LEAST_ONCE, duplicated=7), verdict(EXACTLY_ONCE))

Run = dict[str, Any]
"""A witness for each guarantee, and one for STREAMED."""


class Sent(NamedTuple):
    """The three guarantees' sends of one run, while its cluster is up."""

    cluster: Cluster
    records: Records
    topics: dict[str, str]
    witnesses: dict[str, Any]
    folders: RunFolders


@contextmanager
def sent(folder: Path) -> Iterator[Sent]:
    """All records sent under the faults, once for each guarantee."""
    lines = [f"{n},{'' if n % 50 == 7 else f'customer-{n % 9}'}" for n in range(ROWS)]
    (folder / "orders.csv").write_text("id,customer\n" + "\n".join(lines) + "\n")
    source = open_source(folder / "orders.csv", "customer")
    records = make_records(source, read_source(source))
    topics = {name: f"orders-{name}" for name in (AT_MOST_ONCE, AT_LEAST_ONCE, EXACTLY_ONCE)}
    quiet = Console(file=io.StringIO())
    with Cluster(brokers=BROKERS) as cluster, make_folders(folder / "kept") as folders, showing_steps(quiet) as steps:
        witnesses, _ = _produce(EmbeddedKafka(cluster), records, topics, folders, steps)
        yield Sent(cluster, records, topics, witnesses, folders)


def live(folder: Path) -> Run:
    """A small run and all that was seen of it."""
    with sent(folder) as run:
        ledger = run.folders.ledger(EXACTLY_ONCE)
        streaming = stream_by_hand(run.cluster, run.topics[EXACTLY_ONCE], ledger, run.records)
        for each in run.witnesses.values():
            each.take_stock()
    note_controls(run.witnesses[EXACTLY_ONCE], VERDICTS)
    return {**run.witnesses, STREAMED: streaming}


def stream_by_hand(cluster: Cluster, source: str, ledger: Path, records: Records) -> witness_module.TopicWitness:
    """What the streaming job does: an attempt is aborted, the next one is looked at before it is committed."""
    cluster.create_topic("orders-streamed", partitions=records.partitions)
    witness = streaming_witness(EmbeddedKafka(cluster), "orders-streamed", records.partitions)
    rows = read_ledger(ledger).to_pylist()
    with ottla.Producer(cluster.bootstrap_servers, transactional_id="tasks") as producer:

        def send(count: int) -> None:
            for row, sent in zip(rows[:count], records.made(range(records.count)).to_pylist(), strict=False):
                value = f'{{"from":"{source}-{row["partition"]}@{row["offset"]}","record":{sent["value"].decode()}}}'
                headers = [(SEQUENCE_HEADER, pack_sequence(row["sequence"]))]
                producer.send("orders-streamed", value.encode(), sent["key"], partition=0, headers=headers)
            producer.flush()

        producer.begin_transaction()
        send(ABORTED)
        producer.abort_transaction()
        producer.begin_transaction()
        send(ROWS)
        witness.choose_part()
        witness.read_part("while the driver is dead")
        asked_us = witness.clock.now_us
        producer.commit_transaction()
    witness.settle()
    witness.choose_part()
    witness.take_stock()
    note_streamed(witness, asked_us, source, ledger, records, JsonResult())
    witness.note_faults({"kill_driver": 1})
    return witness


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return live(tmp_path_factory.mktemp("properties"))


def test_two_runs_place_the_faults_on_the_same_records(tmp_path: Path) -> None:
    ledgers = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        with sent(tmp_path / name) as run:
            ledgers.append([read_ledger(run.folders.ledger(each)).drop(["run_id"]) for each in run.topics])
    assert ledgers[0] == ledgers[1]


def words(properties: tuple[PropertyVerdict, ...]) -> dict[int, str]:
    return {each.what.number: each.word for each in properties}


def test_a_run_as_promised_violates_nothing_and_says_what_it_did_not_see(run: Run) -> None:
    properties = judge_run(run.values(), VERDICTS)
    assert [each.why() for each in properties if each.word == VIOLATED] == []
    expected = {11: NOT_JUDGED, 12: HELD_IN_PART, 14: HELD_IN_PART, 16: NOT_JUDGED}
    assert words(properties) == {number: expected.get(number, HELD) for number in range(1, 17)}
    for each in properties:
        assert bool(each.why()) == (each.word != HELD)
    result = outcome()
    result.properties = properties
    assert result.exit_status == 0
    text = " ".join(shown(result).split())
    assert "11 not judged acked once all in-sync replicas had it not seen: which replicas had a record" in text
    assert result.figures()["properties"]["16"]["verdict"] == NOT_JUDGED  # type: ignore[index]


def test_what_was_seen_is_what_there_was(run: Run) -> None:
    exactly: Chronicle = run[EXACTLY_ONCE].chronicle
    assert [record.number for record in exactly.sent] == list(range(ROWS))
    assert {record.outcome for record in exactly.sent} == {"acked"}
    assert all(0 <= record.sent_us <= record.told_us for record in exactly.sent)
    # Who has led from the beginning is known before anything is sent.
    assert exactly.watermarks
    assert next(mark.at_us for mark in exactly.watermarks if mark.is_leader) <= exactly.sent[0].sent_us
    assert len(exactly.replicas or ()) == BROKERS
    finals = [read for read in exactly.reads if read.is_final]
    assert [len(read.records) for read in finals] == [ROWS, ROWS]
    at_least: Chronicle = run[AT_LEAST_ONCE].chronicle
    assert len(at_least.reads[0].records) == ROWS + at_least.faults[0].fired
    streamed: Chronicle = run[STREAMED].chronicle
    assert [len(read.records) for read in streamed.reads] == [ROWS + ABORTED, 0, ROWS + ABORTED, ROWS]


# ---- doctored facts -------------------------------------------------------------------------------------------------


def final(chronicle: Chronicle, level: str = "read_uncommitted") -> Any:
    return next(read for read in chronicle.reads if read.is_final and read.isolation_level == level)


def log(chronicle: Chronicle) -> Any:
    """The leader's."""
    assert chronicle.replicas
    assert chronicle.leaderships
    leader = chronicle.leaderships[-1].leader
    return next(replica for replica in chronicle.replicas if replica.broker_id == leader)


def other(chronicle: Chronicle, at: int, **changes: Any) -> None:
    """Change one record of the final read."""
    records = final(chronicle).records
    records[at] = replace(records[at], **changes)


def never_told(c: Chronicle) -> None:
    c.sent[3].outcome, c.sent[3].offset, c.sent[3].told_us = "unknown", -1, -1


def gone(c: Chronicle) -> None:
    del final(c).records[3]


def twice(c: Chronicle) -> None:
    other(c, 4, number=3)


def handed_over_again(c: Chronicle) -> None:
    c.sent.append(replace(c.sent[3]))
    other(c, 4, number=3)
    other(c, 5, number=3)


def failed(c: Chronicle) -> None:
    c.sent[3].outcome, c.sent[3].offset = "failed", -1


def told_elsewhere(c: Chronicle) -> None:
    c.sent[3].offset += 1


def another_value_before(c: Chronicle) -> None:
    c.reads[0].records[3] = replace(c.reads[0].records[3], value_crc=1)


def swapped(c: Chronicle) -> None:
    other(c, 3, number=4)
    other(c, 4, number=3)


def skipped(c: Chronicle) -> None:
    del c.reads[0].records[3]


def altered(c: Chronicle) -> None:
    c.sent[3].value_crc = 1


def misplaced(c: Chronicle) -> None:
    c.sent[3].chosen_partition = 1


def corrupt(c: Chronicle) -> None:
    log(c).batches[3].crc_is_right = False


def out_of_sequence(c: Chronicle) -> None:
    log(c).batches[3].base_sequence += 1


def refused(c: Chronicle) -> None:
    c.sent[3].outcome, c.sent[3].offset = "unknown", -1
    c.sent[3].error = "not stored: OUT_OF_ORDER_SEQUENCE_NUMBER: it is"


def fenced(c: Chronicle) -> None:
    log(c).batches[3].producer_epoch += 1


def older_leader(c: Chronicle) -> None:
    log(c).batches[-1].leader_epoch -= 1


def fallen(c: Chronicle) -> None:
    assert c.watermarks
    leader = next(mark for mark in reversed(c.watermarks) if mark.is_leader)
    c.watermarks.append(replace(leader, at_us=leader.at_us + 1, high_watermark=3, last_stable_offset=3))


def begun_late(c: Chronicle) -> None:
    assert c.watermarks
    leader = next(mark for mark in reversed(c.watermarks) if mark.is_leader)
    assert leader.log_start_offset == 0
    c.watermarks.append(replace(leader, at_us=leader.at_us + 1, log_start_offset=leader.high_watermark + 1))


def cut_off(c: Chronicle) -> None:
    assert c.watermarks
    follower = next(mark for mark in reversed(c.watermarks) if not mark.is_leader)
    low = {"high_watermark": 3, "last_stable_offset": 3, "log_end_offset": 3}
    c.watermarks.append(replace(follower, at_us=c.ended_us, **low))


def diverged(c: Chronicle) -> None:
    log(c).bytes_crc += 1


def aborted(c: Chronicle) -> None:
    for replica in c.replicas or ():
        [marker] = [batch for batch in replica.batches if batch.commits]
        marker.commits = False


def read_early(c: Chronicle) -> None:
    c.transactions[0].commit_asked_us = c.ended_us + 1


def hanging(c: Chronicle) -> None:
    for replica in c.replicas or ():
        del replica.batches[-1]


def stuck(c: Chronicle) -> None:
    c.stuck.append("it waits")


def overdue(c: Chronicle) -> None:
    c.sent[3].told_us += 60_000_000


def no_fault_fired(c: Chronicle) -> None:
    c.faults[0] = replace(c.faults[0], fired=0)


def no_control(c: Chronicle) -> None:
    c.controls = [replace(control, found={}) for control in c.controls or ()]


@pytest.mark.parametrize(
    ("number", "kind", "topic", "doctor"),
    [
        (1, kinds.UNSETTLED, EXACTLY_ONCE, never_told),
        (2, kinds.LOST, EXACTLY_ONCE, gone),
        (2, kinds.LOST, AT_LEAST_ONCE, lambda c: final(c).records.clear()),
        (3, kinds.DUPLICATED, EXACTLY_ONCE, twice),
        (3, kinds.REPEATED, EXACTLY_ONCE, handed_over_again),
        (4, kinds.FAILED_BUT_STORED, EXACTLY_ONCE, failed),
        (4, kinds.FAILED_BUT_STORED, AT_MOST_ONCE, failed),
        (5, kinds.WRONG_OFFSET, EXACTLY_ONCE, told_elsewhere),
        (5, kinds.CHANGED, EXACTLY_ONCE, another_value_before),
        (6, kinds.REORDERED, EXACTLY_ONCE, swapped),
        (7, kinds.MISPOLLED, AT_LEAST_ONCE, skipped),
        (8, kinds.ALTERED, AT_MOST_ONCE, altered),
        (8, kinds.MISPLACED, EXACTLY_ONCE, misplaced),
        (8, kinds.CORRUPT, AT_LEAST_ONCE, corrupt),
        (9, kinds.SEQUENCE, EXACTLY_ONCE, out_of_sequence),
        (9, kinds.REFUSED, EXACTLY_ONCE, refused),
        (9, kinds.FENCED, STREAMED, fenced),
        (10, kinds.EPOCH, AT_MOST_ONCE, older_leader),
        (10, kinds.WATERMARK, EXACTLY_ONCE, fallen),
        (10, kinds.WATERMARK, EXACTLY_ONCE, begun_late),
        (10, kinds.TRUNCATED, EXACTLY_ONCE, cut_off),
        (10, kinds.DIVERGED, STREAMED, diverged),
        (12, kinds.ABORTED_READ, STREAMED, aborted),
        (12, kinds.EARLY_READ, STREAMED, read_early),
        (12, kinds.HANGING, STREAMED, hanging),
        (13, kinds.BROKEN_PROMISE, EXACTLY_ONCE, twice),
        (14, kinds.STUCK, STREAMED, stuck),
        (14, kinds.OVERDUE, EXACTLY_ONCE, overdue),
        (15, kinds.FAULTLESS, STREAMED, no_fault_fired),
        (15, kinds.UNCONTROLLED, EXACTLY_ONCE, no_control),
    ],
)
def test_doctored_facts_violate_the_property_and_exit_with_one(
    run: Run, number: int, kind: str, topic: str, doctor: Callable[[Chronicle], None]
) -> None:
    chronicles = {name: each.chronicle for name, each in run.items()}
    chronicles[topic] = deepcopy(chronicles[topic])
    doctor(chronicles[topic])
    properties = judge_run([SimpleNamespace(chronicle=each) for each in chronicles.values()], VERDICTS)  # type: ignore[misc]
    judged = properties[number - 1]
    assert judged.word == VIOLATED
    assert [each for each in judged.findings if each.count and each.kind == kind]
    result = outcome()
    result.properties = properties
    assert result.exit_status == 1
    told = " ".join(shown(result).split())
    assert "Not as promised: property " in told
    assert f"property {number} ({judged.what.name})" in told


def test_what_sparks_audit_finds_counts_in_its_property(run: Run) -> None:
    properties = judge_run(run.values(), (*VERDICTS[:2], verdict(EXACTLY_ONCE, altered=1)))
    assert [number for number, word in words(properties).items() if word == VIOLATED] == [8, 13]


def test_every_reason_is_for_a_kind_there_is() -> None:
    assert REASONS.keys() <= {value for name, value in vars(kinds).items() if name.isupper()}


# ---- guarantees taken out of the cores ------------------------------------------------------------------------------


def violated_properties(folder: Path) -> set[int]:
    """Of a run."""
    properties = judge_run(live(folder).values(), VERDICTS)
    return {number for number, word in words(properties).items() if word == VIOLATED}


@pytest.mark.prove
@pytest.mark.parametrize(
    ("weakness", "violated"),
    [
        ("no_sequence_check", {3, 9, 13}),
        ("retries_with_new_sequence", {3, 13}),
        ("acks_told_before_answer", {1, 2, 5, 13}),
        ("lso_ignores_open_transactions", {12}),
        ("reads_aborted", {12}),
    ],
)
def test_a_guarantee_taken_out_of_a_core_violates_properties(weakness: str, violated: set[int], tmp_path: Path) -> None:
    with weakened(weakness) as control:
        assert control.call(violated_properties, tmp_path) == violated


# ---- bounds ---------------------------------------------------------------------------------------------------------


def test_the_part_judged_one_by_one_is_bounded_and_ends_behind_its_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(witness_module, "RECORDS_MAX", 20)
    seen = live(tmp_path)
    for each in seen.values():
        assert 20 <= len(final(each.chronicle).records) <= 41
    assert [verdict.why() for verdict in judge_run(seen.values(), VERDICTS) if verdict.word == VIOLATED] == []
    # All batches of all replicas were looked at all the same.
    assert len(log(seen[EXACTLY_ONCE].chronicle).batches) == ROWS
