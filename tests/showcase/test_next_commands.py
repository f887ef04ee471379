"""Commands shown to a user are commands that exist."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from ottla.cli.app import app
from ottla.inputs.source import open_source
from ottla.showcase.folders import make_folders
from ottla.showcase.next_commands import next_commands, program_name


def commands_of(lines: list[tuple[str, str]]) -> list[list[str]]:
    return [shlex.split(line)[len(shlex.split(program_name())) :] for line, _ in lines]


def test_three_commands_after_a_temporary_run_name_files_that_exist() -> None:
    source = open_source(None, None)
    with make_folders(None) as folders:
        found = commands_of(next_commands(source, folders))
    assert [words[0] for words in found] == ["run", "run", "serve"]
    other = found[1]
    open_source(other[other.index("--input") + 1], other[other.index("--key") + 1])


def test_three_commands_after_a_kept_run_go_on_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    ]


def test_commands_named_are_commands_of_the_program() -> None:
    known = {command.callback.__name__ for command in app.registered_commands if command.callback}
    groups = {group.name for group in app.registered_groups}
    assert {"run", "serve", "topics", "read"} <= known | groups


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
    assert program_name().endswith(" -m ottla.cli")
