"""Every command line of ottla that a page shows has the commands and options that there are."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.admin_options import NamingGroup
from ottla.cli.app import COMMANDS, GROUPS, make_app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@cache
def program() -> Any:
    import typer

    return typer.main.get_command(make_app((*COMMANDS, *GROUPS)))


def command_lines(page: Path) -> list[str]:
    """What stands in blocks of code and begins with `ottla`; a line that ends with a backslash goes on."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    text = "\n".join(block for language, block in blocks if language in ("", "sh", "text")).replace("\\\n", " ")
    return [line.split(" | ")[0] for line in re.findall(r"^ottla [^\n]*", text, flags=re.MULTILINE)]


def unknown(line: str) -> list[str]:
    """The words of a command line that no command has: a subcommand, or an option."""
    words = shlex.split(line, comments=True)[1:]
    command, names = program(), list[str]()
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    takes_names = isinstance(command, NamingGroup)
    if hasattr(command, "commands") and not takes_names and words and not words[0].startswith("-"):
        names.append(words[0])
    options = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"--help", "-h"}
    given = [word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    # What another program is given: --command "...".
    return names + [name for name in given if name not in options]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_shows_no_command_that_is_not_there(page: Path) -> None:
    assert [(line, unknown(line)) for line in command_lines(page) if unknown(line)] == []


@pytest.mark.parametrize("name", [*COMMANDS, *GROUPS])
def test_the_page_of_commands_has_each_command_in_its_table(name: str) -> None:
    page = (ROOT / "docs" / "command-line.md").read_text()
    table = "\n".join(re.findall(r"^\| (`.*?) \|", page, flags=re.MULTILINE))
    assert f"`{name}`" in table, f"docs/command-line.md needs a row for {name}"


def test_a_wrong_option_is_found() -> None:
    assert unknown("ottla topics create orders --replication-factor 3") == ["--replication-factor"]
    assert unknown("ottla topic list") == ["topic"]
    assert sum(len(command_lines(page)) for page in PAGES) > 60
