"""An option that stands where the value of another one should: an error, and no file of that name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cli import main


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("trial", "lost-ack", "--report", "--junit", "out.xml"),
            "--report needs FILE.html behind it, and --junit is another option: give --report FILE.html",
        ),
        (
            ("trial", "--list", "--json-file", "--verbose"),
            "--json-file needs FILE behind it, and --verbose is another option",
        ),
        (("trial", "lost-ack", "--junit", "--help"), "--junit needs FILE.xml behind it, and --help is another option"),
        (("simulate", "--story", "--no-shrink"), "--story needs FILE behind it, and --no-shrink is another option"),
        (("proxy", "--record", "--payloads", "--upstream", "x:1"), "--record needs FILE behind it, and --payloads is"),
        (("topics", "create", "x", "-b", "--partitions", "3"), "-b needs ADDRESSES behind it, and --partitions is"),
    ],
)
def test_an_option_is_not_taken_for_the_value_of_another(
    arguments: tuple[str, ...],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    status = main(arguments)
    (line,) = capsys.readouterr().err.splitlines()
    assert (status, words in line) == (2, True), line
    assert list(tmp_path.iterdir()) == []


def test_a_value_may_look_like_an_option_where_it_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["trial", "--list", "--json-file", "--other"]) == 0
    assert (tmp_path / "--other").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("audit", "--ledger", "a.jsonl", "--ledger", "b.jsonl", "-t", "x"), "--ledger is given more than once"),
        (("audit", "--ledger=a.jsonl", "--ledger=b.jsonl", "-t", "x"), "--ledger is given more than once"),
        (("audit", "--ledger", "a.jsonl", "-t", "x", "--topic", "y"), "--topic is given more than once"),
        (("run", "--input", "a.csv", "--input", "b.csv", "--key", "id"), "--input is given more than once"),
    ],
)
def test_an_option_given_twice_loses_no_value(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(arguments)
    (line,) = capsys.readouterr().err.splitlines()
    assert (status, line) == (2, f"ottla: {words}, and takes one value: give it once")


def test_of_other_options_the_last_value_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trial", "--list", "--json-file", str(tmp_path / "a"), "--json-file", str(tmp_path / "b")]) == 0
    assert [each.name for each in tmp_path.iterdir()] == ["b"]
