"""The table of commands: what `ottla --help` lists, in the order in which a newcomer needs them, groups last."""

from __future__ import annotations

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
)
GROUPS = "topics", "groups", "cluster", "sink"


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """What can run these arguments: the one command they begin with, else all, for help and mistakes.

    To load all commands takes longer than most commands do.
    """
    first = arguments[:1]
    return make_app(first if {*first} & {*COMMANDS, *GROUPS} else (*COMMANDS, *GROUPS))


def make_app(names: Iterable[str]) -> typer.Typer:
    """An application of the commands and groups with these names."""
    app = typer.Typer(
        cls=Group,
        help="Send to Kafka from Python, and prove that every record arrived exactly once.",
        epilog=(
            "`ottla run` is the place to begin. Each command explains itself with --help.\n\n"
            "Exit status: 0 done, 1 it failed, 2 something given cannot be used, 130 after Ctrl+C."
        ),
        no_args_is_help=True,
        add_completion=False,
        # An unexpected error is for whoever mends it: Python's own traceback, whole and plain.
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
