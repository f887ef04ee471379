"""What docs/proxy.md shows works as it stands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from typer.main import get_command

from ottla.cli.app import app_for
from ottla.faults.fault import AFTER_APPEND, BEFORE_APPEND
from ottla.faults.fault_file import read_faults
from ottla.proxy.faults_in_force import KINDS, check_proxied

PAGE = (Path(__file__).parents[2] / "docs" / "proxy.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_the_program_runs() -> None:
    [program] = blocks("python")
    exec(compile(program, "docs/proxy.md", "exec"), {})


def test_the_file_of_faults_is_one() -> None:
    [text] = blocks("toml")
    assert [fault.kind for fault in read_faults(text, "lost-ack.toml", check_proxied)] == ["lose_ack"]


def test_the_commands_have_these_options() -> None:
    command = get_command(app_for([]))
    for line in "".join(blocks("sh")).splitlines():
        words = shlex.split(line)[1:]
        found = command
        while words and words[0] in getattr(found, "commands", {}):
            found = found.commands[words.pop(0)]  # type: ignore[attr-defined]
        known = {option for parameter in found.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, line


def test_the_page_names_every_fault_that_a_proxy_can_carry_out() -> None:
    section = PAGE.partition("## Which faults")[2].partition("## While")[0]
    table = "".join(line for line in section.splitlines() if line.startswith("|"))
    named = {*re.findall(r"`(\w+)`", table)}
    if "faults.md#before-the-append" in table and "faults.md#after-the-append" in table:
        named |= {*BEFORE_APPEND, *AFTER_APPEND}
    assert named == {*KINDS}
