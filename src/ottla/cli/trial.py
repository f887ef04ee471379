"""`ottla trial`: show by experiment what a delivery guarantee promises, and what it does not."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.command_config import CommandConfig
from ottla.cli.foreign_kafka import Bootstrap, KeepTopics, OwnKafka, TopicPrefix, given_kafka
from ottla.cli.options import Json, JsonFile, json_output
from ottla.errors import OttlaError, UserMistake
from ottla.json_output import OPTION, STDOUT, check_json_output, write_json

if TYPE_CHECKING:
    from rich.console import Console

    from ottla.foreign.kafka import ForeignKafka
    from ottla.trial.outcome import BrokenOff, LeftOut, TrialOutcome
    from ottla.trial.scenario import Scenario
    from ottla.trial.sender import Opening

_ALL = "all"
_MATRIX = "matrix"


def trial(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME | FILE.toml | all | matrix", help="Which trials; `ottla trial --list` shows all."),
    ] = None,
    lists: Annotated[bool, typer.Option("--list", help="Show the trials that come with ottla.")] = False,
    shows: Annotated[bool, typer.Option("--show", help="Print the files of these trials, and run nothing.")] = False,
    as_json: Json = False,
    json_file: JsonFile = None,
    report_file: Annotated[
        Path | None,
        typer.Option(
            "--report",
            help="Also write a page to this file: verdicts, evidence, and a timeline of each side.",
            metavar="FILE.html",
        ),
    ] = None,
    junit_file: Annotated[
        Path | None,
        typer.Option("--junit", help="Also write the outcome as JUnit XML to this file.", metavar="FILE.xml"),
    ] = None,
    client: Annotated[
        list[str] | None,
        typer.Option(
            help="The client that sends: ottla, confluent-kafka, aiokafka, kafka-python, java, franz-go, kafkajs or "
            "rskafka; may be given several times.",
            metavar="NAME",
            show_default="ottla",
        ),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            help='A program of yours that sends; the page "Any client in a trial" describes how.', metavar="TEXT"
        ),
    ] = None,
    bootstrap_servers: OwnKafka = None,
    command_config: CommandConfig = None,
    topic_prefix: TopicPrefix = None,
    keep_topics: KeepTopics = False,
    bootstrap: Bootstrap = None,
    capture: Annotated[
        Path | None,
        typer.Option(
            "--from", help="Make a trial of what this capture shows to be broken, and run it.", metavar="CAPTURE"
        ),
    ] = None,
    keep: Annotated[
        Path | None, typer.Option("--keep", help="With --from: write the trial to this file.", metavar="FILE.toml")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show what client and brokers log.")] = False,
) -> None:
    """Cause faults in a cluster on purpose, and see which delivery guarantee holds.

    Each trial sends the same records to an embedded cluster under several settings, with the same faults, and compares
    what the producer was told with what is stored. One side is without the guarantee. If that side shows no damage, the
    trial proves nothing, and says so.

    The records are sent by ottla's producer, or by the client that --client names. --command starts a program in any
    language that sends them and reports what became of them. `ottla trial matrix` runs every trial with every client
    that this computer has the tools for.

    With --bootstrap-servers the trial runs on a Kafka of yours: it makes topics of its own there, sends through a proxy
    that causes the faults, reads the topics, and deletes them. Trials with faults of brokers do not run there; --list
    shows which do. What cannot be seen there is reported as unseen.

    A trial is a short TOML file. Begin one of your own with `ottla trial --show lost-ack > mine.toml`.

        ottla trial lost-ack
        ottla trial all --json-file outcome.json
        ottla trial all --report report.html --junit junit.xml
        ottla trial mine.toml
        ottla trial lost-ack --client kafka-python
        ottla trial lost-ack --command "node client.js"
        ottla trial all --bootstrap-servers kafka:9092
        ottla trial lost-ack -b kafka:9093 --command-config client.properties
        ottla trial --from orders.capture --keep incident.toml

    Exit status: 0 if everything was as expected, 1 if it was not, 2 if a file, a name or an option cannot be used.
    """
    from ottla.screen import open_console
    from ottla.trial.client_choice import OTTLA
    from ottla.trial.foreign_side import TOPIC_PREFIX

    place = json_output(as_json, json_file)
    console = open_console()
    if lists:
        _list(console, place, {"--report": report_file, "--junit": junit_file})
        return
    if keep is not None and capture is None:
        raise UserMistake("--keep writes the trial that --from makes of a capture: give both, or neither")
    names = names or []
    if capture is not None and (names or shows):
        raise UserMistake("--from makes a trial of a capture: give no name of another one beside it")
    if capture is None and not names:
        raise UserMistake("which trial? `ottla trial --list` shows all; begin with `ottla trial lost-ack`")
    if shows:
        for name in names:
            typer.echo(_text_of(name), nl=False)
        return
    kafka = given_kafka(
        bootstrap_servers,
        bootstrap,
        command_config,
        topic_prefix,
        default_prefix=TOPIC_PREFIX,
        keeps_topics=keep_topics,
    )
    if capture is not None:
        scenarios = [_made_of(capture, keep)]
    else:
        for_ottla = command is None and (not client or OTTLA in client)
        scenarios = _wanted(names, for_ottla=for_ottla, is_embedded=kafka is None)
    clients = _clients(client or [], command, is_matrix=_MATRIX in names)
    files = _Files(place, report_file, junit_file)
    files.check()
    with _logging(verbose):
        if kafka is None:
            status = _run(scenarios, clients, files)
        else:
            with kafka:
                possible, left_out = _possible(scenarios, names, kafka)
                status = _run(possible, clients, files, kafka, left_out)
    raise typer.Exit(status)


def _made_of(capture: Path, keep: Path | None) -> tuple[str, Scenario]:
    """The trial that shows what a capture shows, and its name."""
    from ottla.cli.explain import explained
    from ottla.explain.scenario_text import scenario_text
    from ottla.trial.scenario_file import read_scenario
    from ottla.whole_file import check_path, write_whole

    if keep is not None:
        check_path(keep, what="the trial", option="--keep")
    text = scenario_text(explained(str(capture)), capture.name)
    name = capture.stem if keep is None else keep.stem
    scenario = read_scenario(name, text, str(keep or capture))
    if keep is not None:
        write_whole(keep, text, what="the trial", option="--keep")
    return str(keep or name), scenario


def _wanted(names: list[str], *, for_ottla: bool, is_embedded: bool) -> list[tuple[str, Scenario]]:
    """Each trial by its name on the command line, read for the client that sends and the Kafka it is sent to."""
    from ottla.trial.scenario_file import load_file, load_shipped, shipped_names

    found: list[tuple[str, Scenario]] = []
    for name in names:
        for each in shipped_names() if name in (_ALL, _MATRIX) else [name]:
            if each.endswith(".toml"):
                found.append((each, load_file(Path(each), for_ottla=for_ottla, is_embedded=is_embedded)))
            else:
                found.append((each, load_shipped(each)))
    return found


def _clients(names: list[str], command: str | None, *, is_matrix: bool) -> dict[str, Opening | None]:
    """The clients that send, by name; for a matrix all that can be had here."""
    from ottla.trial.client_choice import CLIENTS, OTTLA, client_by_command, client_named

    def say(words: str) -> None:
        typer.echo(words, err=True)

    if command is not None:
        if names:
            raise UserMistake("--client and --command both say who sends: give one of them")
        return {command: client_by_command(command)}
    if names or not is_matrix:
        return {name: client_named(name, say) for name in names or [OTTLA]}
    found: dict[str, Opening | None] = {}
    for name in CLIENTS:
        try:
            found[name] = client_named(name, say)
        except UserMistake as missing:
            say(f"Left out: {missing}")
    return found


def _text_of(name: str) -> str:
    from ottla.trial.scenario_file import shipped_text

    if name.endswith(".toml") or name in (_ALL, _MATRIX):
        raise UserMistake(f"--show prints a trial that comes with ottla, and {name!r} is not one: `ottla trial --list`")
    return shipped_text(name)


@dataclass(slots=True, frozen=True)
class _Files:
    """Where the outcome is written besides; None for nowhere."""

    json_file: str | None
    report_file: Path | None
    junit_file: Path | None

    def check(self) -> None:
        """UserMistake where one of them cannot be written, or two would be the same."""
        from ottla.whole_file import check_path

        given = {OPTION: self.json_file, "--report": self.report_file, "--junit": self.junit_file}
        places: dict[str, str] = {}
        for option, file in given.items():
            if file in (None, STDOUT) or (Path(str(file)).exists() and not Path(str(file)).is_file()):
                continue
            other = places.setdefault(os.path.realpath(str(file)), option)
            if other != option:
                raise UserMistake(f"{other} and {option} both write to {file}: give each a file of its own")
        check_json_output(self.json_file, what="the outcome")
        if self.report_file is not None:
            check_path(self.report_file, what="the report", option="--report")
        if self.junit_file is not None:
            check_path(self.junit_file, what="the JUnit file", option="--junit")

    def write(
        self, outcomes: list[TrialOutcome], left_out: Sequence[LeftOut], broken_off: BrokenOff | None = None
    ) -> None:
        """All of them; of a first trial that an error has ended, only the JUnit file has something to tell."""
        from ottla.whole_file import write_whole

        if self.junit_file is not None:
            from ottla.trial.junit import as_junit

            text = as_junit(outcomes, left_out, broken_off)
            write_whole(self.junit_file, text, what="the JUnit file", option="--junit")
        if broken_off is not None and not outcomes:
            return
        if self.json_file is not None:
            _write_json(
                self.json_file, [*(each.to_dict() for each in outcomes), *(each.to_dict() for each in left_out)]
            )
        if self.report_file is not None:
            from ottla.trial.report_page import as_report

            write_whole(self.report_file, as_report(outcomes, left_out), what="the report", option="--report")


def _write_json(place: str, content: Any) -> None:
    write_json(place, json.dumps(content, indent=1) + "\n", what="the outcome")


def _list(console: Console, json_file: str | None, others: dict[str, Path | None]) -> None:
    """The trials that come with ottla, and which of them run on any Kafka."""
    from ottla.trial.foreign_side import why_not
    from ottla.trial.report import show_list
    from ottla.trial.scenario_file import load_shipped, shipped_names

    for option, given in others.items():
        if given is not None:
            raise UserMistake(f"--list shows the trials, and {option} writes their outcome: give one of them")
    shipped = [load_shipped(name) for name in shipped_names()]
    elsewhere = {each.name: why_not(each) for each in shipped}
    if json_file != STDOUT:
        show_list(console, shipped, elsewhere)
    if json_file is not None:
        _write_json(
            json_file,
            [
                {
                    "trial": each.name,
                    "title": each.title,
                    "sides": [side.name for side in each.sides],
                    "any_kafka": elsewhere[each.name] is None,
                    "why_not": elsewhere[each.name],
                }
                for each in shipped
            ],
        )


def _run(
    scenarios: list[tuple[str, Scenario]],
    clients: dict[str, Opening | None],
    files: _Files,
    kafka: ForeignKafka | None = None,
    left_out: Sequence[LeftOut] = (),
) -> int:
    from ottla.screen import open_console, showing_steps
    from ottla.trial.matrix import Row, show_matrix
    from ottla.trial.outcome import BrokenOff
    from ottla.trial.report import show_left_out, show_outcome, show_scenario, show_summary
    from ottla.trial.run import run_scenario

    console = open_console()
    # With --json - stdout is for the outcome alone.
    console.quiet = files.json_file == STDOUT
    rows: list[Row] = []
    outcomes: list[TrialOutcome] = []
    try:
        for given, scenario in scenarios:
            show_scenario(console, scenario)
            row = {}
            for name, open_sender in clients.items():
                with showing_steps(console) as steps:
                    is_recorded = files.report_file is not None
                    row[name] = run_scenario(scenario, steps.step, open_sender, is_recorded=is_recorded, kafka=kafka)
                outcomes.append(row[name])
                show_outcome(console, row[name])
            rows.append(Row(given, row))
    except OttlaError as error:
        # What has ended before the error is known all the same.
        files.write(outcomes, left_out, BrokenOff(scenario, " ".join(str(error).split())))
        raise
    if len(clients) > 1:
        show_matrix(console, rows)
    elif len(outcomes) > 1:
        show_summary(console, outcomes)
    show_left_out(console, left_out)
    files.write(outcomes, left_out)
    if files.report_file is not None:
        console.print(f"The report is {files.report_file}.", soft_wrap=True, highlight=False)
    return 0 if all(each.passed for each in outcomes) else 1


def _possible(
    scenarios: list[tuple[str, Scenario]], names: list[str], kafka: ForeignKafka
) -> tuple[list[tuple[str, Scenario]], list[LeftOut]]:
    """Those that run on this Kafka, and those of `all` that do not; UserMistake for one that was asked for by name."""
    from ottla.trial.foreign_side import why_not
    from ottla.trial.outcome import LeftOut

    possible, left_out = [], []
    for given, scenario in scenarios:
        why = why_not(scenario, kafka)
        if why is None:
            possible.append((given, scenario))
        elif given in names:
            raise UserMistake(f"the trial {given} does not run on a foreign Kafka: {why}")
        else:
            left_out.append(LeftOut(scenario, why))
    return possible, left_out


@contextmanager
def _logging(verbose: bool) -> Iterator[None]:
    """The faults are meant to happen, so their warnings are shown only with --verbose."""
    logger, handler = logging.getLogger("ottla"), logging.StreamHandler() if verbose else logging.NullHandler()
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = True
        logger.removeHandler(handler)
