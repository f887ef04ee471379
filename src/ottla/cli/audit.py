"""`ottla audit`: a ledger compared with the topic it is about."""

from __future__ import annotations

from typing import Annotated

import typer

from ottla.cli.command_config import CommandConfig, client_arguments
from ottla.cli.options import DEFAULT_BOOTSTRAP, Json, JsonFile, Master, json_output
from ottla.errors import OttlaError, UserMistake

_PATIENCE_MS = 10_000


def audit(
    ledger: Annotated[
        str,
        typer.Option(
            "--ledger",
            help="The records that a program has sent, and their outcomes: a file (Parquet, JSON lines) or a folder.",
            metavar="PATH",
        ),
    ],
    topic: Annotated[str, typer.Option("--topic", "-t", help="The topic it was sent to.", metavar="TOPIC")],
    bootstrap_servers: Annotated[
        str,
        typer.Option(
            "--bootstrap-servers",
            "-b",
            help="Where the brokers are: host:port, several with commas.",
            metavar="ADDRESSES",
        ),
    ] = DEFAULT_BOOTSTRAP,
    claims: Annotated[
        str | None,
        typer.Option(
            "--claims",
            help="at-most-once, at-least-once or exactly-once. Without it: what the ledger says, or exactly-once.",
            metavar="GUARANTEE",
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            "--engine",
            help="process (this one), spark, or auto: in this process up to 5 million records, else on PySpark.",
            metavar="ENGINE",
        ),
    ] = "auto",
    master: Master = None,
    transactional: Annotated[
        bool,
        typer.Option("--transactional", help="For a topic with transactions: read committed records only."),
    ] = False,
    as_json: Json = False,
    json_file: JsonFile = None,
    command_config: CommandConfig = None,
    bootstrap: Annotated[str | None, typer.Option("--bootstrap", hidden=True)] = None,
) -> None:
    """Compare what a program was told about its records with what a topic holds, and name the guarantee that was kept.

    The ledger has a row for each record that was sent; each record carries its number in the header `ottla.sequence`.
    The page "Audit" of the documentation describes the format, and shows how to write a ledger with ottla's producer.

    For example:

        ottla audit --ledger orders.jsonl --topic orders -b localhost:9092

    Exit status: 0 when the guarantee claimed was kept, 1 when it was broken, 2 when a file, a name or an option cannot
    be used, or nothing is proved.
    """
    place = json_output(as_json, json_file)
    from ottla.reader.settings import ReaderSettings
    from ottla.topic_audit.run import AuditOptions, run_audit

    servers, settings = client_arguments(
        command_config,
        ReaderSettings,
        bootstrap or bootstrap_servers,
        DEFAULT_BOOTSTRAP,
        default_api_timeout_ms=_PATIENCE_MS,
    )
    options = AuditOptions(ledger, topic, servers, claims, engine, master, transactional, place, settings)
    try:
        status = run_audit(options)
    except OttlaError as error:
        # Exit status 1 says that the guarantee was broken; what kept the audit from its end is no verdict.
        raise UserMistake(str(error)) from error
    raise typer.Exit(status)
