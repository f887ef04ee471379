"""Commands shown to a user are commands that exist."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from ottla.cli.app import COMMANDS, GROUPS
from ottla.inputs.source import open_source
from ottla.showcase.folders import make_folders
from ottla.showcase.next_commands import KafkaGiven, next_commands, program_name


def commands_of(lines: list[tuple[str, str]]) -> list[list[str]]:
    return [shlex.split(line)[len(shlex.split(program_name())) :] for line, _ in lines]


def test_three_commands_after_a_temporary_run_name_files_that_exist() -> None:
    source = open_source(None, None)
    with make_folders(None) as folders:
        found = commands_of(next_commands(source, folders))
    assert [words[0] for words in found] == ["run", "run", "serve"]
    other = found[1]
    open_source(other[other.index("--input") + 1], other[other.index("--key") + 1])


def test_commands_after_a_kept_run_go_on_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my orders.csv").write_text("a,b\n1,2\n")
    source = open_source("my orders.csv", "a")
    with make_folders(Path("kept here")) as folders:
        folders.keep()
        found = commands_of(next_commands(source, folders))
    assert found == [
        ["serve", "--data-dir", "kept here/run-1/brokers"],
        ["topics"],
        ["read", "my-orders-at-least-once", "--limit", "5"],
        ["audit", "--ledger", "kept here/run-1/ledger", "--topic", "my-orders-at-least-once"],
    ]


def test_commands_on_a_kafka_say_who_the_client_is_and_how_topics_begin(tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("a,b\n1,2\n")
    source = open_source(tmp_path / "orders.csv", "a")
    who = ("--bootstrap-servers", "kafka:9093", "--command-config", "my client.properties")
    given = KafkaGiven((*who, "--topic-prefix", "mine-"))
    with make_folders(None, has_brokers=False) as folders:
        again, trials, embedded = commands_of(next_commands(source, folders, given))
    at = ["--input", str(tmp_path / "orders.csv"), "--key", "a"]
    assert again == ["run", *at, *who, "--topic-prefix", "mine-", "--keep-topics"]
    assert trials == ["trial", "all", *who, "--topic-prefix", "mine-"]
    assert embedded == ["run", *at, "--data-dir", "kept"]


def test_topics_kept_on_a_kafka_are_audited_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("orders.csv").write_text("a,b\n1,2\n")
    who = ("--bootstrap-servers", "kafka:9093", "--command-config", "client.properties")
    given = KafkaGiven((*who, "--topic-prefix", "mine-"), kept="mine-1234-orders-at-least-once")
    with make_folders(Path("kept here"), has_brokers=False) as folders:
        first, *_ = commands_of(next_commands(open_source("orders.csv", "a"), folders, given))
    place = ["--ledger", "kept here/run-1/ledger", "--topic", "mine-1234-orders-at-least-once"]
    assert first == ["audit", *place, *who]


def test_commands_named_are_commands_of_the_program() -> None:
    assert {"run", "serve", "topics", "read", "audit", "trial"} <= {*COMMANDS, *GROUPS}


def test_program_is_called_as_it_was_called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "bin" / "ottla"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(script)])
    assert program_name() == "bin/ottla"
    monkeypatch.setenv("PATH", str(script.parent))
    assert program_name() == "ottla"
    monkeypatch.setattr("sys.argv", [str(tmp_path / "__main__.py")])
    assert program_name().endswith(" -m ottla")
