"""The table of commands: what `ottla --help` lists, in the order in which a newcomer needs them, groups last."""

from __future__ import annotations

import typer

from ottla.cli.audit import audit
from ottla.cli.cluster import cluster
from ottla.cli.explain import explain
from ottla.cli.inspect import inspect
from ottla.cli.narrow_help import Command, Group
from ottla.cli.produce import produce
from ottla.cli.proxy import proxy
from ottla.cli.read import read
from ottla.cli.run import run
from ottla.cli.serve import serve
from ottla.cli.simulate import simulate
from ottla.cli.sink import sink
from ottla.cli.tap import tap
from ottla.cli.topics import topics
from ottla.cli.trial import trial

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
app.add_typer(topics, name="topics")
app.add_typer(cluster, name="cluster")
app.add_typer(sink, name="sink")
for command in (run, trial, audit, serve, proxy, produce, read, inspect, tap, explain, simulate):
    app.command(cls=Command)(command)


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", "-V", help="Print the version and exit."),
) -> None:
    if version:
        from ottla import __version__

        typer.echo(f"ottla {__version__}")
        raise typer.Exit
