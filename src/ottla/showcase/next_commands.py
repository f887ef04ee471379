"""What to try next: command lines that work as they stand, in the folder where the run was started."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from ottla.inputs.source import Source
from ottla.ledger.schema import AT_LEAST_ONCE
from ottla.showcase.folders import RunFolders

PREFIX = "--topic-prefix"
_OWN_REGISTRY = "http://127.0.0.1:8081"


@dataclass(slots=True, frozen=True)
class KafkaGiven:
    """The Kafka of a run, as a command line names it.

    `options`: those that say which Kafka it is, who the client is, and how the names of topics begin. `kept`: the name
    of the topic for at-least-once, where topics are kept there.
    """

    options: tuple[str, ...]
    kept: str | None = None


def next_commands(
    source: Source, folders: RunFolders, kafka: KafkaGiven | None = None, schema: tuple[str, ...] = ()
) -> list[tuple[str, str]]:
    """Some (command line, what it does): first those that go on with what this run has left behind.

    `schema`: the words that say how values are written, none for JSON.
    """
    program = program_name()
    again = f" --input {shlex.quote(str(source.path))} --key {shlex.quote(source.key)}" if not source.is_flights else ""
    again += f" {shlex.join(schema)}" if schema else ""
    if kafka is not None:
        return _on_that_kafka(program, again, folders, kafka)
    if folders.kept_in is None:
        return [
            (f"{program} run{again} --data-dir kept", "the same again, with topics and ledgers kept to look into"),
            _other_input(program, source),
            (f"{program} serve --topic orders:6", "a three-broker cluster of your own at port 9092, until Ctrl+C"),
        ]
    brokers = shlex.quote(_shorter(folders.kept_in / "brokers"))
    name = f"{source.name}-{AT_LEAST_ONCE}"
    topic = shlex.quote(name)
    serve, read = "", ""
    if schema:
        own = "--registry" not in schema
        where = _OWN_REGISTRY if own else schema[-1]
        serve = f" --registry {_OWN_REGISTRY.rpartition(':')[2]}" if own else ""
        read = f" --value-format {schema[1]} --registry {shlex.quote(where)}" if own else ""
    return [
        (
            f"{program} serve --data-dir {brokers}{serve}",
            f"the run's four topics{' and its schemas' if serve else ''}, served again at port 9092 until Ctrl+C",
        ),
        (f"{program} topics", "in a second terminal: the topics and how many records each holds"),
        (f"{program} read {topic} --limit 5{read}", "the first records of one of them"),
        (_audit(program, folders.ledgers, name), "that topic, audited again"),
    ]


def _on_that_kafka(program: str, again: str, folders: RunFolders, kafka: KafkaGiven) -> list[tuple[str, str]]:
    where = shlex.join(kafka.options)
    first = (f"{program} run{again} {where} --keep-topics", "the same again, with the topics kept on that Kafka")
    if kafka.kept is not None and folders.kept_in is not None:
        of_readers = shlex.join(_without_prefix(kafka.options))
        first = (f"{_audit(program, folders.ledgers, kafka.kept)} {of_readers}", "one of the topics, audited again")
    return [
        first,
        (f"{program} trial all {where}", "the trials that run on any Kafka"),
        (f"{program} run{again} --data-dir kept", "the same on an embedded cluster, of which all is seen"),
    ]


def _without_prefix(options: tuple[str, ...]) -> tuple[str, ...]:
    """The options that `ottla audit` has, too: it makes no topics."""
    if PREFIX not in options:
        return options
    at = options.index(PREFIX)
    return options[:at] + options[at + 2 :]


def _audit(program: str, ledgers: Path, topic: str) -> str:
    return f"{program} audit --ledger {shlex.quote(_shorter(ledgers))} --topic {shlex.quote(topic)}"


def program_name() -> str:
    """How to call ottla from here: by its name where that finds this very program, by its path otherwise."""
    called = Path(sys.argv[0]).absolute()
    if called.name != "ottla":
        return f"{shlex.quote(sys.executable)} -m ottla"
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
