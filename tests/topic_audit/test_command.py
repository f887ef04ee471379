"""`ottla audit` in this process, against brokers of the embedded cluster."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.topic_audit.sent import send_numbered

import ottla
from ottla.cli import main
from ottla.client.admin import Admin
from ottla.errors import OttlaError
from ottla.ledger.schema import SEQUENCE_HEADER, pack_sequence
from ottla.topic_audit.reduced import read_reduced
from ottla.topic_audit.topic import check_still_there, look_at_topic

DOCS = Path(__file__).parents[2] / "docs"
RECORDS = 40
_numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=1) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: ottla.Cluster) -> str:
    name = f"orders-{next(_numbers)}"
    cluster.create_topic(name, partitions=2)
    return name


def send(cluster: ottla.Cluster, topic: str, ledger: Path, *, records: int = RECORDS, **settings: Any) -> None:
    send_numbered(cluster, topic, ledger, records, one_by_one=True, **settings)


def audit(
    cluster: ottla.Cluster, topic: str, ledger: Path, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[int, dict[str, Any]]:
    """The exit status, and the outcome."""
    status = audit_status(cluster, topic, ledger, "--json", *options)
    return status, json.loads(capsys.readouterr().out)


def audit_status(cluster: ottla.Cluster, topic: str, ledger: Path, *options: str) -> int:
    places = ("--ledger", str(ledger), "--topic", topic, "--bootstrap", cluster.bootstrap_servers)
    try:
        return main(["audit", *places, *options])
    except SystemExit as end:
        return int(end.code or 0)


def test_the_ledger_of_the_page_is_audited(
    cluster: ottla.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (DOCS / "audit.md").read_text(), flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    cluster.create_topic("orders", partitions=3)
    exec(compile(block.replace("localhost:9092", cluster.bootstrap_servers), "audit.md", "exec"), {})
    assert audit_status(cluster, "orders", tmp_path / "orders.jsonl") == 0
    told = capsys.readouterr().out
    assert "claimed  exactly-once: every record once, in order, unaltered" in told
    assert "seen     exactly-once: every record once, in order, unaltered" in told
    assert re.search(r"^stored +1,000$", told, flags=re.MULTILINE)
    assert "orders is as claimed, exactly-once: 1,000 records audited here in " in told


def test_a_lost_acknowledgement_shows_which_guarantee_was_kept(
    cluster: ottla.Cluster, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "ledger.jsonl"
    with cluster.faults.lose_ack(topic=topic, partition=0, nth=3):
        send(cluster, topic, ledger, enable_idempotence=False)
    status, outcome = audit(cluster, topic, ledger, capsys)
    assert (status, outcome["claimed"], outcome["seen"]) == (1, "exactly-once", "at-least-once")
    assert outcome["found"] == {"duplicated": 1}
    (copy,) = outcome["evidence"]
    assert (copy["sequence"], copy["partition"], copy["offsets"]) == (4, 0, [2, 3])
    assert audit(cluster, topic, ledger, capsys, "--claims", "at-least-once")[0] == 0
    assert audit_status(cluster, topic, ledger, "--claims", "at-least-once") == 0
    assert "claimed  at-least-once: nothing lost; duplicates are allowed" in capsys.readouterr().out
    assert audit_status(cluster, topic, ledger) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "duplicated: partition 0: record 4 is stored at offsets 2 and 3 (the same timestamp: the producer" in told
    assert f"{topic} is not exactly-once: 1 duplicated;" in told


def test_what_was_never_sent_and_what_was_changed_is_no_guarantee_at_all(
    cluster: ottla.Cluster, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "ledger.jsonl"
    send(cluster, topic, ledger)
    ledger.write_text(ledger.read_text().replace("value 7", "value 8"))
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        producer.send(topic, None, partition=1)
    status, outcome = audit(cluster, topic, ledger, capsys, "--claims", "at-most-once")
    assert (status, outcome["seen"], outcome["found"]) == (1, "none", {"altered": 2})
    details = [piece["detail"] for piece in outcome["evidence"]]
    assert details[0] == f"the record at offset {RECORDS // 2} has no record number: it is not of this ledger"
    assert details[1].startswith("record 7 is stored altered at offset 3: its value has CRC ")


def test_a_copy_in_another_partition_is_none_of_the_ledgers(
    cluster: ottla.Cluster, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "ledger.jsonl"
    send(cluster, topic, ledger)
    first = json.loads(ledger.read_text().splitlines()[0])
    other = 1 - first["partition"]
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        header = (SEQUENCE_HEADER, pack_sequence(0))
        producer.send(topic, first["value"], first.get("key"), partition=other, headers=[header]).result(60)
    status, outcome = audit(cluster, topic, ledger, capsys)
    assert (status, outcome["found"]) == (1, {"altered": 1})
    (piece,) = outcome["evidence"]
    assert piece["detail"].endswith(": by the ledger nobody sent it to this partition")


def test_lost_is_what_was_acknowledged_and_unknown_is_not(
    cluster: ottla.Cluster, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "ledger.jsonl"
    send(cluster, topic, ledger, records=4)
    rows = [
        {"sequence": 4, "outcome": "unknown", "partition": 1, "value": "v"},
        {"sequence": 5, "outcome": "failed", "value": "v"},
    ]
    with ledger.open("a") as book:
        book.writelines(json.dumps(each) + "\n" for each in rows)
    status, outcome = audit(cluster, topic, ledger, capsys)
    assert (status, outcome["tallies"]) == (0, {"in doubt, and not stored": 1})
    assert (outcome["figures"]["unknown"], outcome["figures"]["failed"]) == (1, 1)
    with ledger.open("a") as book:
        book.write(json.dumps({"sequence": 6, "outcome": "acked", "partition": 1, "offset": 9}) + "\n")
    status, outcome = audit(cluster, topic, ledger, capsys)
    assert (status, outcome["seen"], outcome["figures"]["lost"]) == (1, "at-most-once", 1)
    assert outcome["evidence"][0]["detail"].startswith("record 6: acknowledged at offset 9, and it is not in ")


def test_a_topic_that_is_deleted_while_it_is_read_is_no_verdict(
    cluster: ottla.Cluster,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = tmp_path / "ledger.jsonl"
    send(cluster, topic, ledger)

    def read_when_it_is_gone(*arguments: Any) -> Iterator[Any]:
        with Admin(cluster.bootstrap_servers) as admin:
            admin.delete_topics(topic)
        yield from read_reduced(*arguments)

    monkeypatch.setattr("ottla.topic_audit.local.read_reduced", read_when_it_is_gone)
    assert audit_status(cluster, topic, ledger) == 2
    assert f"The topic {topic} was deleted while it was read: what was read of it proves" in capsys.readouterr().err


def test_a_record_whose_partition_nobody_knows_may_be_stored_in_any(
    cluster: ottla.Cluster, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of most clients, which say no partition with an error."""
    ledger = tmp_path / "ledger.jsonl"
    send(cluster, topic, ledger)
    rows = [json.loads(line) for line in ledger.read_text().splitlines()]
    for number, told in ((2, "unknown"), (3, "failed")):
        rows[number] |= {"outcome": told, "partition": None, "offset": None}
    rows.append({"sequence": RECORDS, "outcome": "unknown", "value": "nowhere"})
    ledger.write_text("".join(json.dumps(each) + "\n" for each in rows))
    status, outcome = audit(cluster, topic, ledger, capsys)
    assert (status, outcome["found"]) == (1, {"failed but stored": 1})
    assert outcome["tallies"] == {"in doubt, and not stored": 1}


@pytest.mark.parametrize(
    ("guarantees", "words"),
    [
        (("exactly once",), "The ledger's column guarantee says 'exactly once', and has to say one of at-most-once,"),
        (("at-least-once", "exactly-once"), "The ledger's column guarantee says at-least-once and exactly-once: give"),
    ],
)
def test_a_guarantee_that_is_not_clear_has_to_be_given(
    cluster: ottla.Cluster,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    guarantees: tuple[str, ...],
    words: str,
) -> None:
    ledger = tmp_path / "ledger.jsonl"
    send(cluster, topic, ledger)
    rows = [json.loads(line) for line in ledger.read_text().splitlines()]
    for number, guarantee in enumerate(guarantees):
        rows[number]["guarantee"] = guarantee
    ledger.write_text("".join(json.dumps(each) + "\n" for each in rows))
    assert audit_status(cluster, topic, ledger) == 2
    assert words in capsys.readouterr().err
    status, outcome = audit(cluster, topic, ledger, capsys, "--claims", "at-least-once")
    assert (status, outcome["claimed"]) == (0, "at-least-once")


def test_a_partition_that_the_topic_does_not_have_is_told_with_its_place(
    cluster: ottla.Cluster, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text('{"sequence": 0, "outcome": "acked", "partition": 7, "offset": 0}\n')
    assert audit_status(cluster, topic, ledger) == 2
    told = f"partition in line 1 of {ledger} is 7, and the topic {topic} has the partitions 0 to 1."
    assert told in capsys.readouterr().err


def test_markers_are_no_gaps_where_transactions_are_told(
    cluster: ottla.Cluster, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "ledger.jsonl"
    with ledger.open("w") as book, ottla.Producer(cluster.bootstrap_servers, transactional_id=topic) as producer:
        for number in range(6):
            with producer.transaction():
                header = (SEQUENCE_HEADER, pack_sequence(number))
                delivery = producer.send(topic, f"{number}", headers=[header], partition=0)
            row = {"sequence": number, "outcome": "acked", "partition": 0, "offset": delivery.result().offset}
            book.write(json.dumps({**row, "value": f"{number}"}) + "\n")
    assert audit_status(cluster, topic, ledger) == 2
    told = capsys.readouterr().out
    assert "6 of the 12 offsets from 0 to 11 were not read" in told
    assert "This proves nothing: 6 misread." in told
    assert "seen     not known: 6 misread" in told
    assert "is not exactly-once" not in told
    assert "give --transactional" in " ".join(told.split())
    status, outcome = audit(cluster, topic, ledger, capsys)
    assert (status, outcome["void"], outcome["kept"]) == (2, "6 misread", False)
    assert audit(cluster, topic, ledger, capsys, "--transactional")[0] == 0


def test_records_of_an_aborted_transaction_are_failed_ones(
    cluster: ottla.Cluster, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "ledger.jsonl"
    with ledger.open("w") as book, ottla.Producer(cluster.bootstrap_servers, transactional_id=topic) as producer:
        for number, outcome in enumerate(("acked", "failed", "acked")):
            with contextlib.suppress(KeyError), producer.transaction():
                header = (SEQUENCE_HEADER, pack_sequence(number))
                offset = producer.send(topic, f"{number}", headers=[header], partition=0).result(60).offset
                if outcome == "failed":
                    raise KeyError("what the transaction was about")
            row = {"sequence": number, "outcome": outcome, "partition": 0, "offset": offset}
            book.write(json.dumps({**row, "value": f"{number}"}) + "\n")
    status, outcome_of = audit(cluster, topic, ledger, capsys, "--transactional")
    assert (status, outcome_of["found"], outcome_of["figures"]["failed"]) == (0, {}, 1)


def test_deleted_records_are_not_lost(
    cluster: ottla.Cluster, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "ledger.jsonl"
    send(cluster, topic, ledger)
    with ottla.Admin(cluster.bootstrap_servers) as admin:
        admin.delete_records(topic, {0: 5})
    assert audit_status(cluster, topic, ledger) == 0
    assert "The beginning of the log is gone" in capsys.readouterr().out
    status, outcome = audit(cluster, topic, ledger, capsys)
    assert (status, outcome["tallies"]) == (0, {"below the start of the log": 5})


def test_compacted_records_are_not_lost(
    cluster: ottla.Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.create_topic("compacted", partitions=1, configs={"cleanup.policy": "compact,delete"})
    assert look_at_topic(cluster.bootstrap_servers, "compacted", {}).is_compacted
    row = {"outcome": "acked", "partition": 0, "key": "k", "value": "v"}
    rows = [{**row, "sequence": number, "offset": number} for number in (0, 1)]
    (tmp_path / "ledger.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    status, outcome = audit(cluster, "compacted", tmp_path / "ledger.jsonl", capsys)
    # The older one may be gone, the newer one may not.
    assert (status, outcome["figures"]["lost"], outcome["tallies"]) == (1, 1, {"compacted away": 1})


def test_a_topic_that_is_not_there_or_goes_meanwhile_is_told(
    cluster: ottla.Cluster, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "ledger.jsonl"
    send(cluster, topic, ledger, records=2)
    seen = look_at_topic(cluster.bootstrap_servers, topic, {})
    check_still_there(cluster.bootstrap_servers, seen, {})
    with ottla.Admin(cluster.bootstrap_servers) as admin:
        admin.delete_topics(topic)
        with pytest.raises(OttlaError, match="was deleted while it was read"):
            check_still_there(cluster.bootstrap_servers, seen, {})
        assert audit_status(cluster, topic, ledger) == 2
        assert f"There is no topic {topic} at" in capsys.readouterr().err
        admin.create_topics(topic, partitions=2)
    with pytest.raises(OttlaError, match="was deleted and made anew while it was read"):
        check_still_there(cluster.bootstrap_servers, seen, {})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--claims", "exactly-twice"), "--claims exactly-twice is no guarantee: give one of at-most-once"),
        (("--engine", "dask"), "--engine dask is none of auto, process, spark"),
        (("--master", "mesos://host"), "--master mesos://host is no master of Spark"),
        (("--master", "local[0]"), "--master local[0] is no master of Spark"),
        (("--master", "local[2]", "--engine", "process"), "--master is about Spark"),
        (("--json-file", "/nowhere/outcome.json"), "the outcome cannot be written to /nowhere/outcome.json"),
    ],
)
def test_what_cannot_be_used_is_told(
    cluster: ottla.Cluster,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    words: str,
) -> None:
    (tmp_path / "ledger.jsonl").write_text('{"sequence": 0, "outcome": "failed"}\n')
    assert audit_status(cluster, topic, tmp_path / "ledger.jsonl", *options) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ledger", "words"),
    [
        ("nowhere", "There is no ledger at nowhere"),
        ("s3a://bucket/ledger", "--ledger s3a://bucket/ledger is read by Spark: leave --engine process away"),
    ],
)
def test_a_ledger_that_cannot_be_read_here_is_told(
    cluster: ottla.Cluster, topic: str, capsys: pytest.CaptureFixture[str], ledger: str, words: str
) -> None:
    places = ("--ledger", ledger, "--topic", topic, "--bootstrap", cluster.bootstrap_servers)
    assert main(["audit", *places, "--engine", "process"]) == 2
    assert words in capsys.readouterr().err


def test_a_run_of_which_everything_failed_proves_nothing(
    cluster: ottla.Cluster, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ledger.jsonl").write_text('{"sequence": 0, "outcome": "failed"}\n')
    status, outcome = audit(cluster, topic, tmp_path / "ledger.jsonl", capsys)
    assert (status, outcome["void"]) == (2, "every record failed")


def test_half_a_line_is_told_before_anything_is_read(
    cluster: ottla.Cluster, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "ledger.jsonl"
    send(cluster, topic, ledger, records=3)
    ledger.write_text(ledger.read_text()[:-9])
    assert audit_status(cluster, topic, ledger) == 2
    told = capsys.readouterr()
    assert f"line 3 of {ledger}, the last one, ends in the middle of a row" in told.err
    assert "read orders" not in told.out


def test_one_record_is_told_as_one(
    cluster: ottla.Cluster, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    send(cluster, topic, tmp_path / "ledger.jsonl", records=1)
    assert audit_status(cluster, topic, tmp_path / "ledger.jsonl") == 0
    assert f"{topic} is as claimed, exactly-once: 1 record audited here in " in capsys.readouterr().out
