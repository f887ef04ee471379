"""Writes the reference of the command line from the commands themselves: what `--help` says, on one page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.cli.app import COMMANDS, GROUPS, make_app

INTRODUCTION = """\
# Command line

What `ottla COMMAND --help` says of each command. Exit status: 0 done, 1 it failed, 2 something given cannot be used,
130 after Ctrl+C, 143 after SIGTERM.
"""


def write_commands() -> str:
    """commands.md."""
    import typer

    app = typer.main.get_command(make_app((*COMMANDS, *GROUPS)))
    return INTRODUCTION + "\n".join(line for name in (*COMMANDS, *GROUPS) for line in told(name, app.commands[name]))  # type: ignore[attr-defined]


def told(path: str, command: Any) -> Iterator[str]:
    """One command, or a group with the commands in it."""
    depth = "##" if " " not in path else "###"
    yield f"\n{depth} ottla {path}\n"
    yield plain(command.help or "")
    inner = getattr(command, "commands", {})
    if not inner:
        context = command.context_class(command, info_name=f"ottla {path}")
        usage = " ".join(command.collect_usage_pieces(context))
        yield f"\n```\nottla {path} {usage}\n```\n"
        yield from table(command, context)
    for name in inner:
        yield from told(f"{path} {name}", inner[name])


def table(command: Any, context: Any) -> Iterator[str]:
    """What can be given to a command, a row each."""
    rows = [
        row
        for each in command.get_params(context)
        if not getattr(each, "hidden", False)
        for row in [tell(each, context)]
    ]
    if rows:
        yield "| what | default | what it does |\n|---|---|---|"
        yield from rows


def tell(param: Any, context: Any) -> str:
    """One argument or option."""
    if param.param_type_name == "argument":
        name = param.make_metavar(context)
    else:
        value = "" if param.is_flag else f" {param.metavar or param.type.name.upper()}"
        name = ", ".join([*param.opts, *param.secondary_opts]) + value
    default = param.get_default(context, call=False)
    is_told = default is not None and default != [] and default != () and not callable(default) and default is not False
    shown = f"`{default}`" if is_told else ""
    if is_told and default is True:
        shown = "on"
    words = " ".join((getattr(param, "help", "") or "").split())
    return f"| `{name}` | {escaped(shown)} | {escaped(words)} |"


def plain(help_text: str) -> str:
    """A help text as Markdown: click's mark for lines that are kept (backspace) becomes a block of code."""
    parts = []
    for paragraph in help_text.strip().split("\n\n"):
        if paragraph.startswith("\b"):
            parts.append("```\n" + paragraph.removeprefix("\b").strip("\n") + "\n```")
        else:
            parts.append(paragraph.replace("<", "\\<"))
    return "\n\n".join(parts)


def escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "\\<")
