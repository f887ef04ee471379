"""`ottla trial`: prove by experiment what a delivery guarantee is worth."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.errors import UserMistake

if TYPE_CHECKING:
    from ottla.trial.scenario import Scenario
    from ottla.trial.sender import Opening

_ALL = "all"
_STDOUT = "-"


def trial(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME | FILE.toml | all]...", help="Which trials; `ottla trial --list` shows all."),
    ] = None,
    lists: Annotated[bool, typer.Option("--list", help="Show the trials that come with ottla.")] = False,
    shows: Annotated[bool, typer.Option("--show", help="Print the files of these trials, and run nothing.")] = False,
    json_file: Annotated[
        str | None,
        typer.Option("--json", help="Also write the outcome to this file; - is stdout, alone.", metavar="FILE"),
    ] = None,
    client: Annotated[
        str | None,
        typer.Option(
            help="Who sends: ottla, confluent-kafka, aiokafka, kafka-python, java, franz-go or kafkajs.",
            metavar="NAME",
            show_default="ottla",
        ),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(help="Who sends: a program of yours (docs/trial-clients.md).", metavar="TEXT"),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show what client and brokers log.")] = False,
) -> None:
    """Break a cluster on purpose, and see which delivery guarantee holds.

    Each trial sends the same records under several settings to an embedded cluster, while the same things go wrong, and
    holds what the producer was told against what is stored. One side lacks the guarantee: where nothing is found there,
    the trial proves nothing, and says so.

    The records are sent by ottla's producer, or by the client that --client names. --command starts a program in any
    language that reads records and tells what became of them.

    A trial is a short TOML file. `ottla trial --show lost-ack > mine.toml` is a beginning for one of your own.

        ottla trial lost-ack
        ottla trial all --json outcome.json
        ottla trial mine.toml
        ottla trial lost-ack --client kafka-python
        ottla trial lost-ack --command "node client.js"

    Exit status: 0 when everything was as expected, 1 when it was not, 2 when something that was given cannot be used.
    """
    from ottla.screen import open_console

    console = open_console()
    if lists:
        from ottla.trial.report import show_list
        from ottla.trial.scenario import load_shipped, shipped_names

        scenarios = [load_shipped(name) for name in shipped_names()]
        if json_file is not None:
            raise UserMistake("--list shows the trials, and --json is about their outcome: give one of them")
        show_list(console, scenarios)
        return
    if not names:
        raise UserMistake("which trial? `ottla trial --list` shows all; `ottla trial lost-ack` is a beginning")
    if shows:
        for name in names:
            typer.echo(_text_of(name), nl=False)
        return
    scenarios = _wanted(names)
    open_sender = _sender(client, command)
    _log(verbose)
    raise typer.Exit(_run(scenarios, open_sender, json_file))


def _wanted(names: list[str]) -> list[Scenario]:
    from ottla.trial.scenario import load_file, load_shipped, shipped_names

    found: list[Scenario] = []
    for name in names:
        if name == _ALL:
            found += [load_shipped(each) for each in shipped_names()]
        else:
            found.append(load_file(Path(name)) if name.endswith(".toml") else load_shipped(name))
    return found


def _sender(client: str | None, command: str | None) -> Opening:
    from ottla.trial.client_choice import OTTLA, client_by_command, client_named

    if command is None:
        return client_named(client or OTTLA, lambda words: typer.echo(words, err=True))
    if client is not None:
        raise UserMistake("--client and --command both say who sends: give one of them")
    return client_by_command(command)


def _text_of(name: str) -> str:
    from ottla.trial.scenario import shipped_text

    if name.endswith(".toml") or name == _ALL:
        raise UserMistake(f"--show prints a trial that comes with ottla, and {name!r} is none: ottla trial --list")
    return shipped_text(name)


def _run(scenarios: list[Scenario], open_sender: Opening, json_file: str | None) -> int:
    from ottla.screen import open_console, showing_steps
    from ottla.trial.report import show_outcome, show_scenario, show_summary
    from ottla.trial.run import run_scenario
    from ottla.whole_file import check_place, write_whole

    console = open_console()
    # With --json - stdout is for the outcome alone.
    console.quiet = json_file == _STDOUT
    if json_file not in (None, _STDOUT):
        check_place(Path(str(json_file)), what="the outcome", option="--json")
    outcomes = []
    for scenario in scenarios:
        show_scenario(console, scenario)
        with showing_steps(console) as steps:
            outcome = run_scenario(scenario, steps.step, open_sender)
        show_outcome(console, outcome)
        outcomes.append(outcome)
    if len(outcomes) > 1:
        show_summary(console, outcomes)
    if json_file is not None:
        text = json.dumps([each.to_dict() for each in outcomes], indent=1) + "\n"
        if json_file == _STDOUT:
            typer.echo(text, nl=False)
        else:
            write_whole(Path(json_file), text, what="the outcome", option="--json")
    return 0 if all(each.passed for each in outcomes) else 1


def _log(verbose: bool) -> None:
    """What goes wrong here is meant to, so nobody needs a warning of it unless asked for."""
    logger = logging.getLogger("ottla")
    logger.propagate = False
    logger.addHandler(logging.StreamHandler() if verbose else logging.NullHandler())
