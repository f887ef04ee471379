"""`make bench` says by its exit status and in its last lines which targets were missed, after all was measured."""

from __future__ import annotations

import json
import socket
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
from benchmarks import __main__ as bench
from benchmarks import bench_acks, paced_cells, parts
from benchmarks.paced_targets import targets
from benchmarks.slow_way import SlowWay

REACHED = {"figure": 1_200, "must": 1_000, "ok": True}
MISSED = {"ratio": 0.9, "must": 1.0, "ok": False}


def measure(
    monkeypatch: pytest.MonkeyPatch, folder: Path, benchmarks: dict[str, dict[str, Any]], *arguments: str
) -> tuple[int, Any]:
    """The exit status and what was kept of benchmarks that measure these figures."""
    results = folder / "results.json"
    monkeypatch.setattr(bench, "RESULTS", results)
    monkeypatch.setattr(bench, "BENCHMARKS", {name: lambda _, it=found: it for name, found in benchmarks.items()})
    monkeypatch.setattr("sys.argv", ["make bench", *arguments])
    return bench.main(), json.loads(results.read_text())


def test_missed_targets_are_told_when_all_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = {"one": {"produce": {"acks=all": MISSED}, "start": REACHED}, "other": {"seeds": REACHED}}
    status, kept = measure(monkeypatch, tmp_path, figures)
    assert status == 1
    assert kept["other"]["seeds"] == REACHED
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "kept in results.json",
        "target missed: one produce acks=all: ratio=0.9  must=1.0",
    ]


def test_clients_that_were_left_out_keep_their_figures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = {"one": {"cell": {"rounds": 3, "clients": {"ours": {"rate": 1}, "theirs": {"rate": 2}}}}}
    (tmp_path / "results.json").write_text(json.dumps(old))
    new = {"one": {"cell": {"rounds": 15, "clients": {"ours": {"rate": 7}}}}}
    kept = measure(monkeypatch, tmp_path, new, "--clients", "ours")[1]["one"]["cell"]
    assert kept == {"rounds": 15, "clients": {"ours": {"rate": 7}, "theirs": {"rate": 2}}}


@pytest.mark.parametrize(("count", "ranks"), [(5, None), (6, [1, 6]), (9, [2, 8]), (15, [4, 12]), (25, [8, 18])])
def test_the_median_of_ratios_lies_between_two_of_them(count: int, ranks: list[int] | None) -> None:
    # The ranks of the sign test at 95 %, as tables of it have them.
    found = parts.interval_of_median(list(range(count, 0, -1)), digits=0)
    assert found == ({} if ranks is None else {"within": ranks})


@pytest.mark.parametrize(("benchmark", "part"), [("producer", "apache-100-none"), ("paced", "r100")])
def test_a_client_that_is_not_there_is_named_with_those_that_are(
    benchmark: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["make bench", benchmark, "--only", part, "--clients", "send,nobody"])
    with pytest.raises(SystemExit, match=f"{benchmark} has no client '(send|nobody)'; there are "):
        bench.main()


def test_reached_bars_end_with_0(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert measure(monkeypatch, tmp_path, {"one": {"start": REACHED}})[0] == 0


def test_a_target_that_was_not_measured_now_is_not_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps({"one": {"produce": MISSED}}))
    status, kept = measure(monkeypatch, tmp_path, {"one": {"start": REACHED}}, "--only", "start")
    assert (status, kept["one"]["produce"]) == (0, MISSED)


@pytest.mark.parametrize("failure", bench_acks.FAILURES)
def test_the_table_of_acks_tries_every_combination_under_every_failure(failure: str) -> None:
    trial = bench_acks.trial_of(bench_acks.FAILURES[failure])
    assert [side.name for side in trial.sides] == [cell.name for cell in bench_acks.CELLS]
    assert {(side.producer["acks"], side.topic["min.insync.replicas"]) for side in trial.sides} == {
        (acks, least) for acks in (0, 1, "all") for least in ("1", "2")
    }
    assert sum(side.topic.get("flush.messages") == "1" for side in trial.sides) == len(trial.sides) / 2
    assert trial.faults


def test_paced_cells_bring_every_value_together_with_every_other() -> None:
    settings: dict[str, tuple[object, ...]] = {
        "rate": paced_cells.RATES,
        "service_ms": paced_cells.SERVICES_MS,
        "linger_ms": paced_cells.LINGERS_MS,
        "partitions": paced_cells.PARTITIONS,
        "keyed": (False, True),
    }
    apart = [
        (one, value, other, its)
        for one, other in combinations(settings, 2)
        for value, its in product(settings[one], settings[other])
        if not any((getattr(cell, one), getattr(cell, other)) == (value, its) for cell in paced_cells.BELOW_CELLS)
    ]
    assert apart == []


def test_paced_cells_stay_below_what_the_broker_takes_or_go_beyond_it() -> None:
    below, beyond = (
        {cell.name: cell.share for cell in cells} for cells in (paced_cells.BELOW_CELLS, paced_cells.BEYOND_CELLS)
    )
    assert (len(below), len(beyond)) == (24, 4)
    assert {name for name, share in below.items() if share >= 0.7} == set()
    assert {name for name, share in beyond.items() if share <= 1} == set()


def test_what_a_paced_broker_takes_is_one_full_batch_a_partition_for_each_answer() -> None:
    cell = paced_cells.Cell(20_000, 19, 0, 6, keyed=True)
    assert cell.capacity == 6 * ((16_384 - 61) // 119) * 50
    # A request holds no more than max.request.size, however many partitions there are.
    assert paced_cells.Cell(20_000, 19, 0, 100, keyed=True).capacity == 1_048_576 // 119 * 50


PACED = {
    "p99_ms": 25.0,
    "first_quarter_p99_ms": 24.0,
    "last_quarter_p99_ms": 26.0,
    "requests": 100,
    "sent": 4_000,
    "stored": 4_000,
    "stored_per_s": 1_000,
    "failed": 0,
    "unknown": 0,
    "not_told": 0,
    "flushed": True,
    "grown_mib": 3.0,
}


@pytest.mark.parametrize(
    ("ours", "missed"),
    [
        ({}, set()),
        ({"p99_ms": 30.1}, {"p99_ms"}),
        ({"last_quarter_p99_ms": 60.0}, {"does not grow"}),
        ({"requests": 101}, {"requests"}),
        ({"stored": 3_999}, {"every record stored once"}),
        ({"stored": 4_001}, {"every record stored once"}),
        ({"unknown": 1}, {"every record stored once"}),
        ({"flushed": False, "not_told": 1}, {"every record stored once", "does not grow"}),
    ],
)
def test_bars_of_a_paced_cell(ours: dict[str, Any], missed: set[str]) -> None:
    cell = paced_cells.Cell(1_000, 20, 5, 1, keyed=False)
    held = targets(cell, {"ottla": PACED | ours, "java": PACED, "confluent": PACED | {"p99_ms": 40.0}})
    assert {name for name, target in held.items() if not target["ok"]} == missed


@pytest.mark.parametrize(
    ("ours", "missed"),
    [
        ({"p99_ms": 9_000.0, "requests": 1_000}, set()),
        ({"grown_mib": 68.1}, {"grown_mib"}),
        ({"stored_per_s": 949}, {"stored_per_s"}),
        ({"not_told": 1}, {"every record stored once"}),
    ],
)
def test_bars_of_a_paced_cell_beyond_what_the_broker_takes(ours: dict[str, Any], missed: set[str]) -> None:
    held = targets(paced_cells.BEYOND_CELLS[0], {"ottla": PACED | ours, "java": PACED})
    assert {name for name, target in held.items() if not target["ok"]} == missed


# Length, kind (0 for Produce, 3 for Metadata), version, correlation id.
REQUESTS = [b"\0\0\0\x08\0" + kind + b"\0\x09\0\0\0" + number for kind, number in ((b"\0", b"1"), (b"\3", b"2"))]
ANSWERS = [b"\0\0\0\x04\0\0\0" + number for number in (b"1", b"2")]


def exchange(way: SlowWay, broker: socket.socket) -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection through the way, on which the client has sent both requests at once."""
    way.broker = "{}:{}".format(*broker.getsockname())
    client = socket.create_connection(("127.0.0.1", way.port), 10)
    client.sendall(b"".join(REQUESTS))
    accepted, _ = broker.accept()
    accepted.settimeout(10)
    return client, accepted


def received(sock: socket.socket, nbytes: int) -> bytes:
    """So many bytes, and none of those behind them."""
    content = b""
    while len(content) < nbytes:
        piece = sock.recv(nbytes - len(content))
        assert piece, "hung up"
        content += piece
    return content


def test_a_serial_way_brings_a_request_when_the_answer_before_has_left() -> None:
    with socket.create_server(("127.0.0.1", 0)) as broker, SlowWay(0.001) as way:
        client, accepted = exchange(way, broker)
        with client, accepted:
            assert received(accepted, 12) == REQUESTS[0]
            accepted.sendall(ANSWERS[0])
            assert received(accepted, 12) == REQUESTS[1]
            client.setblocking(False)
            assert client.recv(100) == ANSWERS[0]
        assert way.produce_requests == 1


def test_a_far_way_brings_requests_while_answers_are_owed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as broker, SlowWay(0.001, is_serial=False) as way:
        client, accepted = exchange(way, broker)
        with client, accepted:
            assert received(accepted, 24) == b"".join(REQUESTS)
            accepted.sendall(b"".join(ANSWERS))
            assert received(client, 16) == b"".join(ANSWERS)
        assert way.produce_requests == 1
