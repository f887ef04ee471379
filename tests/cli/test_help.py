"""`--help` of every command: on wide terminals as typer draws it, on narrow ones whole all the same."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any

import pytest
import typer.main

from ottla.cli import FAILED, INTERRUPTED, PIPE_CLOSED, USAGE, main
from ottla.cli.app import COMMANDS, GROUPS, app_for


def commands(outer: Any, *path: str) -> Iterator[tuple[str, ...]]:
    yield path
    for name, inner in getattr(outer, "commands", {}).items():
        yield from commands(inner, *path, name)


def command(path: tuple[str, ...]) -> Any:
    found: Any = typer.main.get_command(app_for([]))
    for name in path:
        found = found.commands[name]
    return found


def params(path: tuple[str, ...]) -> list[Any]:
    return list(command(path).params)


def shown(
    path: tuple[str, ...], width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main([*path, "--help"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert max(map(len, said.out.splitlines())) <= width
    return said.out


ALL = pytest.mark.parametrize(
    "path", list(commands(typer.main.get_command(app_for([])))), ids=lambda path: " ".join(path) or "ottla"
)


@ALL
@pytest.mark.parametrize("width", [20, 40, 60, 79])
def test_everything_can_be_read_on_a_narrow_terminal(
    path: tuple[str, ...], width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(path, width, monkeypatch, capsys)
    assert "…" not in text
    # A long word is broken where a line ends.
    unbroken = "".join(text.split())
    for param in params(path):
        names = [*param.opts, *param.secondary_opts] if param.param_type_name == "option" else []
        assert all(name in (unbroken if width < 40 else text) for name in names)
        for words in (param.metavar or "", param.help or ""):
            assert "".join(words.split()) in unbroken


@ALL
def test_on_a_wide_terminal_options_stand_in_columns(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(path, 80, monkeypatch, capsys)
    assert "╭─ Options ─" in text
    assert "…" not in text
    # No type of Python's.
    assert not re.search(r"<\w+(\[\w+\])?>", text)


def test_every_command_tells_its_exit_statuses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is under a group is told with the group."""
    names = [path for path in commands(typer.main.get_command(app_for([]))) if len(path) < 2]
    assert len(names) > 10
    for path in names:
        told = shown(path, 80, monkeypatch, capsys)
        assert "Exit status: 0 " in told, f"the docstring of {path} must say: Exit status: 0 when ..."


def test_the_help_of_all_tells_every_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = " ".join(shown((), 79, monkeypatch, capsys).split())
    told = words[words.index("Exit status: ") :]
    ends = {FAILED, USAGE, INTERRUPTED, PIPE_CLOSED, 128 + signal.SIGTERM}
    assert {int(number) for number in re.findall(r"\b\d+\b", told)} == {0, *ends}


def test_a_narrow_help_names_commands_arguments_and_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line.rstrip() for line in shown(("produce",), 40, monkeypatch, capsys).splitlines()]
    at = lines.index("Options:")
    assert lines[at + 1 : at + 5] == [
        "  -b, --bootstrap-servers ADDRESSES",
        "      Where the brokers are: host:port,",
        "      several with commas.  [default:",
        "      localhost:9092]",
    ]
    lines = [line.rstrip() for line in shown(("topics",), 40, monkeypatch, capsys).splitlines()]
    at = lines.index("Commands:")
    at = lines.index("  describe", at)
    assert lines[at : at + 3] == [
        "  describe",
        "      Show a topic's partitions, and the",
        "      settings it has of its own.",
    ]


# They do nothing but list their commands.
WITHOUT_JSON = {(), ("cluster",), ("sink",)}


def test_json_is_the_same_flag_of_every_command_and_a_file_for_it_has_another_name() -> None:
    every = list(commands(typer.main.get_command(app_for([]))))

    def options(name: str) -> dict[tuple[str, ...], Any]:
        return {
            path: param
            for path in every
            for param in params(path)
            if param.param_type_name == "option" and name in param.opts
        }

    flags, files = options("--json"), options("--json-file")
    lacking = set(every) - flags.keys() - WITHOUT_JSON
    assert not lacking, f"{sorted(lacking)} need `as_json: Json = False` (cli/options.py)"
    assert set(every) - flags.keys() == WITHOUT_JSON
    assert {("trial",), ("simulate",), ("run",), ("audit",)} <= files.keys() <= flags.keys()
    for path, option in flags.items():
        assert option.is_flag, path
        assert (option.help or "").startswith("Print JSON to stdout instead of text."), path
    assert {option.help for option in files.values()} == {"Also write that JSON to this file."}


@pytest.mark.parametrize("path", sorted(WITHOUT_JSON), ids=lambda path: " ".join(path) or "ottla")
def test_what_has_no_json_does_nothing_without_a_command(path: tuple[str, ...]) -> None:
    command: Any = typer.main.get_command(app_for([]))
    for name in path:
        command = command.commands[name]
    assert command.no_args_is_help
    assert not command.invoke_without_command


def test_json_goes_to_stdout_or_into_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in (
        (["--json", "--json-file", str(tmp_path / "a")], "--json prints JSON instead of text, --json-file writes it"),
        (["--json-file", "-"], "--json-file takes the name of a file: give --json for stdout"),
    ):
        assert main(["trial", "--list", *arguments]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", [*COMMANDS, *GROUPS])
def test_a_command_that_is_loaded_alone_is_the_same_as_among_all(name: str) -> None:
    alone: Any = typer.main.get_command(app_for([name, "--help"]))
    among: Any = typer.main.get_command(app_for([]))
    assert list(alone.commands) == [name]
    one, other = alone.commands[name], among.commands[name]
    assert (one.help, [each.name for each in one.params]) == (other.help, [each.name for each in other.params])


def test_one_command_loads_no_other() -> None:
    code = (
        "import sys; from ottla.cli.app import app_for; app_for(['topics', 'list'])"
        "; print(*[m for m in sys.modules if m.startswith(('ottla.tap', 'ottla.broker', 'ottla.remote'))])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


@ALL
def test_examples_fit_into_a_terminal_of_80_columns_and_stand_one_in_a_line(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = cleandoc(command(path).help or "")
    text = shown(path, 80, monkeypatch, capsys)
    for example in re.findall("^    (.*)$", words, re.MULTILINE):
        assert f"  {example} " in text
    assert not re.search("[Ff]or example[^:]*: *`", words)
