"""`--help` on a terminal of fewer than 80 columns: each option in lines of its own, what it is for indented below.

typer draws options as a table, which cuts their names off there ("--bootstrap-serv…") and leaves a few letters a line
for the words about them. Neither form shows Python's types. Every command is declared with `Command` or `Group`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand, TyperGroup

from ottla.cli.foreign_words import instead_of
from ottla.cli.missing_values import check_values
from ottla.errors import UserMistake

if TYPE_CHECKING:
    from rich.console import RenderableType

_WIDE = 80


class _Narrow:
    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for each in params:
            if each.param_type_name == "argument" or getattr(each, "is_flag", False):
                # Else the table shows a Python type there: <bool>, <list[str]>. Where typer asks differs by version.
                each.display_type_rich = _no_type
                if each.param_type_name == "argument" and hasattr(each, "type"):
                    each.type = copy(each.type)
                    each.type.get_metavar = _no_type_name
        return params

    def format_help(self, ctx: Any, formatter: Any) -> None:
        if not _narrow_help(self, ctx):
            super().format_help(ctx, formatter)  # type: ignore[misc]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = [*args]
        try:
            parsed: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        except Exception as error:
            # click's own class for it moved from one typer to the next.
            name = getattr(error, "option_name", None)
            instead = instead_of(ctx.command_path, name) if name and not ctx.resilient_parsing else None
            if instead is None:
                if name and not ctx.resilient_parsing:
                    self._explain(ctx, name, given)
                raise
            raise UserMistake(f"`{ctx.command_path}` has no option {name}: {instead}") from error
        return parsed

    def _explain(self, ctx: Any, option: str, given: list[str]) -> None:
        """UserMistake where it can be said what was meant by an option that there is not."""


class Command(_Narrow, TyperCommand):
    """A command whose help can be read on any terminal, and whose options do not take each other for values."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # A shell that completes a line wants no words about it.
        if not ctx.resilient_parsing:
            check_values(self.get_params(ctx), args)
        return super().parse_args(ctx, args)

    def _explain(self, ctx: Any, option: str, given: list[str]) -> None:
        """A number below zero looks like an option: the argument that takes numbers says which."""
        below_zero = [each for each in given if re.fullmatch(r"-[0-9.]+", each) and each.startswith(option)]
        for param in self.get_params(ctx) if below_zero else ():
            parse = getattr(param.type, "func", None) if param.param_type_name == "argument" else None
            if parse is not None:
                parse(below_zero[0])


class Group(_Narrow, TyperGroup):
    """A group of commands whose help can be read on any terminal, and which knows the commands of other tools."""

    def _explain(self, ctx: Any, option: str, given: list[str]) -> None:
        """An option of its commands stands behind the command."""
        names = [each for each in given if each in self.commands] or list(self.commands)
        for name in names:
            if any(option in each.opts for each in self.commands[name].get_params(ctx)):
                command = f"{ctx.command_path} {name}"
                raise UserMistake(f"put {option} after the command: `{command} ... {option} ...`")

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and not ctx.resilient_parsing:
            self.answer_foreign(ctx, args[0])
        return super().resolve_command(ctx, args)

    def answer_foreign(self, ctx: Any, word: str) -> None:
        """UserMistake for a command of other tools: it says what there is instead."""
        instead = instead_of(ctx.command_path, word)
        if instead is not None:
            raise UserMistake(f"`{ctx.command_path}` has no command {word}: {instead}")


def _no_type_name(param: Any, ctx: Any) -> str:
    return ""


def _no_type(ctx: Any) -> None:
    """In place of typer's function that names the type of a parameter: no type is shown (flags, arguments)."""


def _narrow_help(command: Any, ctx: Any) -> bool:
    """Print the help where the terminal is narrow, and say whether it is."""
    from rich.console import Console

    console = Console(highlight=False)
    if console.width >= _WIDE:
        return False
    for part in _parts(command, ctx):
        console.print(part, overflow="fold")
    return True


def _parts(command: Any, ctx: Any) -> Iterator[RenderableType]:
    from inspect import cleandoc

    from rich.markdown import Markdown
    from rich.text import Text

    # click has broken it into lines, for other widths.
    yield Text(" ".join(command.get_usage(ctx).split()), "bold")
    yield ""
    yield Markdown(cleandoc(command.help or ""))
    for kind, title in (("argument", "Arguments:"), ("option", "Options:")):
        params = [each for each in command.get_params(ctx) if each.param_type_name == kind]
        yield from _entries(title, [record for each in params if (record := each.get_help_record(ctx))])
    if isinstance(command, TyperGroup):
        inner = [(name, cleandoc(command.commands[name].help or "")) for name in command.list_commands(ctx)]
        yield from _entries("Commands:", [(name, words.split("\n\n")[0].replace("\n", " ")) for name, words in inner])
    if command.epilog:
        yield ""
        yield Markdown(command.epilog)


def _entries(title: str, entries: list[tuple[str, str]]) -> Iterator[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    if entries:
        yield ""
        yield Text(title, "bold")
    for name, words in entries:
        yield Padding(Text(name, "bold cyan"), (0, 0, 0, 2))
        # Some versions of typer write [default: 1] as rich's markup wants it.
        yield Padding(Text(words.replace("\\[", "[")), (0, 0, 0, 6))
