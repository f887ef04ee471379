"""`ottla run`: the main job, from a file of rows to a verdict."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ottla.cli.command_config import CommandConfig
from ottla.cli.foreign_kafka import Bootstrap, KeepTopics, OwnKafka, TopicPrefix, given_kafka
from ottla.cli.options import Json, JsonFile, Master, Port, json_output
from ottla.cli.registry_options import URL_WORDS, RegistryUrl, told_as_options
from ottla.errors import UserMistake

_TOPIC_PREFIX = "ottla-run-"


def run(
    input_file: Annotated[
        str | None,
        typer.Option("--input", help="A CSV, NDJSON or Parquet file instead of the flights of 2013.", metavar="FILE"),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="The column that becomes the record's key.", metavar="COLUMN")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir", help="Keep topics and ledgers here, each run in a folder of its own.", metavar="DIR"
        ),
    ] = None,
    as_json: Json = False,
    json_file: JsonFile = None,
    report_file: Annotated[
        Path | None,
        typer.Option(
            "--report", help="Also write a page to this file: verdict, figures, evidence.", metavar="FILE.html"
        ),
    ] = None,
    port: Port = 0,
    master: Master = None,
    bootstrap_servers: OwnKafka = None,
    command_config: CommandConfig = None,
    topic_prefix: TopicPrefix = None,
    keep_topics: KeepTopics = False,
    bootstrap: Bootstrap = None,
    schema: Annotated[
        str | None,
        typer.Option("--schema", help="Write values as avro, with a schema that changes half-way.", metavar="FORMAT"),
    ] = None,
    registry: RegistryUrl = None,
    tour: Annotated[
        bool, typer.Option("--tour", help="Change one producer setting at a time, and show the producer's metrics.")
    ] = False,
) -> None:
    """Send a file three times while acknowledgements get lost, and see what each guarantee is worth.

    Every row becomes a record, sent once per delivery guarantee (at-most-once, at-least-once, exactly-once) to a
    cluster of three brokers with faults: every 10th request is stored, but its acknowledgement is lost; every 25th
    request is lost before it is stored. PySpark then reads what the brokers hold and compares it with what the
    producer was told. The simulation's checkers also judge each property of the run, and say which ones they cannot
    judge.

    With --bootstrap-servers all of it happens on a Kafka of yours: topics of its own, requests through a proxy on this
    computer, Spark reading from the Kafka itself. What only an embedded cluster can show is reported as unseen.

    With --schema avro the rows are Avro, with schemas in a registry beside the cluster (or at --registry). Half-way a
    second version adds a field with a default, and PySpark reads all records as the newest version.

    With --tour a record of three fields is sent to six partitions instead, again and again, with one setting of the
    producer changed at a time (batch.size, linger.ms, compression, partitioner, acks). It shows the producer's metrics
    before and after, its diagnosis, and what was learned. That takes less than a minute, without Spark and Java.

    For example:

        ottla run --tour
        ottla run --input orders.csv --key customer --data-dir kept

    Exit status: 0 when every guarantee showed what it promises, 1 when one did not, a property was violated or a fault
    never fired, 2 when something that was given cannot be used.
    """
    place = json_output(as_json, json_file)
    if tour:
        others = {
            "--input": input_file,
            "--key": key,
            "--data-dir": data_dir,
            "--report": report_file,
            "--port": port or None,
            "--master": master,
            "--bootstrap-servers": bootstrap_servers or bootstrap,
            "--command-config": command_config,
            "--topic-prefix": topic_prefix,
            "--keep-topics": keep_topics or None,
            "--schema": schema,
        }
        raise typer.Exit(_tour(place, [name for name, value in others.items() if value is not None]))
    if schema is not None and schema != "avro":
        raise UserMistake(f"--schema {schema} is not known: give avro, or leave it out for JSON")
    if schema is None:
        # The environment may name a registry for every command.
        if registry is not None and registry != os.environ.get("OTTLA_REGISTRY"):
            raise UserMistake("--registry needs --schema avro: without it values are JSON, and have no schema")
        registry = None
    from ottla.showcase.run import RunOptions, run_showcase

    kafka = given_kafka(
        bootstrap_servers,
        bootstrap,
        command_config,
        topic_prefix,
        default_prefix=_TOPIC_PREFIX,
        keeps_topics=keep_topics,
    )
    given = () if kafka is None else _given_again(kafka.bootstrap_servers, command_config, topic_prefix)
    options = RunOptions(input_file, key, data_dir, place, report_file, port, master, given, schema, registry)
    if kafka is None:
        with told_as_options(URL_WORDS):
            raise typer.Exit(run_showcase(options))
    if port:
        raise UserMistake("--port is for the embedded cluster, which --bootstrap-servers replaces: give one of them")
    with kafka, told_as_options(URL_WORDS):
        raise typer.Exit(run_showcase(options, kafka))


def _tour(json_file: str | None, others: list[str]) -> int:
    """The tour, which takes a file for its figures and nothing else."""
    if others:
        raise UserMistake(f"--tour makes its own records and brokers: leave out {', '.join(others)}, or --tour")
    from ottla.showcase.tour import run_tour

    return run_tour(json_file)


def _given_again(servers: str, command_config: Path | None, topic_prefix: str | None) -> tuple[str, ...]:
    """The words of another command line for the same Kafka."""
    from ottla.showcase.next_commands import PREFIX

    config = () if command_config is None else ("--command-config", str(command_config))
    prefix = () if topic_prefix is None else (PREFIX, topic_prefix)
    return ("--bootstrap-servers", servers, *config, *prefix)
