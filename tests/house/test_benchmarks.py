"""`make bench` says by its exit status and in its last lines which bars were missed, when all is measured and kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks import __main__ as bench

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


def test_missed_bars_are_told_when_all_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = {"one": {"produce": {"acks=all": MISSED}, "start": REACHED}, "other": {"seeds": REACHED}}
    status, kept = measure(monkeypatch, tmp_path, figures)
    assert status == 1
    assert kept["other"]["seeds"] == REACHED
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "kept in results.json",
        "bar missed: one produce acks=all: ratio=0.9  must=1.0",
    ]


def test_reached_bars_end_with_0(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert measure(monkeypatch, tmp_path, {"one": {"start": REACHED}})[0] == 0


def test_a_bar_that_was_not_measured_now_is_not_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps({"one": {"produce": MISSED}}))
    status, kept = measure(monkeypatch, tmp_path, {"one": {"start": REACHED}}, "--only", "start")
    assert (status, kept["one"]["produce"]) == (0, MISSED)
