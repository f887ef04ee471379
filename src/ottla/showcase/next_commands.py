"""What to try next: command lines that work as they stand, in the folder where the run was started."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from ottla.inputs.source import Source
from ottla.ledger.schema import AT_LEAST_ONCE
from ottla.showcase.folders import RunFolders


def next_commands(source: Source, folders: RunFolders, kafka: str = "") -> list[tuple[str, str]]:
    """Three (command line, what it does): first those that go on with what this run has left behind."""
    program = program_name()
    again = f" --input {shlex.quote(str(source.path))} --key {shlex.quote(source.key)}" if not source.is_flights else ""
    if kafka:
        where = f"--bootstrap-servers {shlex.quote(kafka)}"
        return [
            (f"{program} run{again} {where} --keep-topics", "the same again, with the topics kept on that Kafka"),
            (f"{program} trial all {where}", "the trials that run on any Kafka"),
            (f"{program} run{again} --data-dir kept", "the same on an embedded cluster, of which all is seen"),
        ]
    if folders.kept_in is None:
        return [
            (f"{program} run{again} --data-dir kept", "the same again, with topics and ledgers kept to look into"),
            _other_input(program, source),
            (f"{program} serve --topic orders:6", "a three-broker cluster of your own at port 9092, until Ctrl+C"),
        ]
    brokers = shlex.quote(_shorter(folders.kept_in / "brokers"))
    topic = shlex.quote(f"{source.name}-{AT_LEAST_ONCE}")
    return [
        (f"{program} serve --data-dir {brokers}", "the run's four topics, served again at port 9092 until Ctrl+C"),
        (f"{program} topics", "in a second terminal: the topics and how many records each holds"),
        (f"{program} read {topic} --limit 5", "the first records of one of them"),
    ]


def program_name() -> str:
    """How to call ottla from here: by its name where that finds this very program, by its path otherwise."""
    called = Path(sys.argv[0]).absolute()
    if called.name != "ottla":
        return f"{shlex.quote(sys.executable)} -m ottla.cli"
    found = shutil.which("ottla")
    if found is not None and Path(found).absolute() == called:
        return "ottla"
    return shlex.quote(_shorter(called))


def _other_input(program: str, source: Source) -> tuple[str, str]:
    if source.is_flights:
        planes = source.path.with_name("planes.csv")
        shown = shlex.quote(_shorter(planes))
        return (
            f"{program} run --input {shown} --key tailnum",
            "another file: the planes; any CSV, NDJSON or Parquet will do",
        )
    return f"{program} run", "the flights of 2013"


def _shorter(path: Path) -> str:
    """The path from here or from the root, whichever is shorter to type."""
    return min(os.path.relpath(path), str(path.absolute()), key=len)
