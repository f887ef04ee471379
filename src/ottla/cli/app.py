"""The table of commands: what `ottla --help` lists, in the order in which a newcomer needs them, groups last."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from importlib import import_module

import typer

from ottla.cli.narrow_help import Command, Group

# Each is the attribute of its name in the module of its name.
COMMANDS = (
    "run",
    "trial",
    "audit",
    "serve",
    "proxy",
    "produce",
    "read",
    "console",
    "inspect",
    "tap",
    "explain",
    "simulate",
    "bench",
    "docs",
)
GROUPS = "topics", "groups", "cluster", "sink"


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """What can run these arguments: the one command they begin with, else all, for help and mistakes.

    To load all commands takes longer than most commands do.
    """
    completing = completed_words()
    first = (arguments if completing is None else completing)[:1]
    is_one = bool({*first} & {*COMMANDS, *GROUPS})
    return make_app(first if is_one else (*COMMANDS, *GROUPS), has_completion=completing is not None or not is_one)


def completed_words() -> list[str] | None:
    """The words before the one that a shell wants to have completed; None where none does."""
    if not os.environ.get("_OTTLA_COMPLETE", "").startswith("complete_"):
        return None
    words = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    # The first is the program, the last one perhaps not written to its end.
    given = words.split()[1:]
    return given[: max(0, int(os.environ.get("COMP_CWORD") or len(given) + 1) - 1)]


def make_app(names: Iterable[str], *, has_completion: bool = True) -> typer.Typer:
    """An application of the commands and groups with these names."""
    app = typer.Typer(
        cls=Group,
        help="Send to Kafka from Python, and prove that every record arrived exactly once.",
        epilog=(
            "Begin with `ottla run`. Each command explains itself with --help.\n\n"
            "Exit status: 0 done, 1 it failed, 2 something given cannot be used, 130 after Ctrl+C, "
            "143 after SIGTERM, 141 if nobody reads stdout any more."
        ),
        no_args_is_help=True,
        add_completion=has_completion,
        # An unexpected error is for developers: Python's own traceback, whole and plain.
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback()(_options)
    for name in names:
        made = getattr(import_module(f"ottla.cli.{name}"), name)
        if name in GROUPS:
            app.add_typer(made, name=name)
        else:
            app.command(cls=Command)(made)
    return app


def _options(
    version: bool = typer.Option(False, "--version", "-V", help="Print the version and exit."),
) -> None:
    if version:
        from ottla import __version__

        typer.echo(f"ottla {__version__}")
        raise typer.Exit
