"""`ottla produce`: lines from standard input, the rows of a file, or random records, into a topic."""

from __future__ import annotations

import json
import time
from pathlib import Path
from random import Random
from typing import Annotated

import typer

from ottla.cli.command_config import CommandConfig, client_arguments
from ottla.cli.completion import complete_topics
from ottla.cli.options import DEFAULT_BOOTSTRAP, BootstrapServers, Json, whole
from ottla.cli.output import counted
from ottla.cli.registry_options import (
    RegistryAccess,
    RegistryCa,
    RegistryPasswordFile,
    RegistryTokenFile,
    RegistryUrl,
    RegistryUser,
    told_as_options,
)
from ottla.cli.sending import Given, GivenLines, Sent, cut_lines, paced, read_rows, send_all, typed_bytes
from ottla.cli.value_schema import MessageName, SchemaFile, SchemaIdIn, ValueFormat, read_value_schema
from ottla.errors import UserMistake
from ottla.interruptible_reads import standard_input
from ottla.records.batch_header import CODECS

_PATIENCE_MS = 5_000


def produce(
    topic: Annotated[
        str,
        typer.Argument(help="The topic to send to; it must exist.", metavar="TOPIC", autocompletion=complete_topics),
    ],
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP,
    input_file: Annotated[
        str | None,
        typer.Option(
            "--input",
            help="Send the rows of this CSV, NDJSON or Parquet file as JSON; - is standard input.",
            metavar="FILE",
        ),
    ] = None,
    input_format: Annotated[
        str | None,
        typer.Option(
            "--input-format",
            help="With --input: csv, tsv, ndjson or parquet, where its name does not end with it.",
            metavar="FORMAT",
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", help="With --input: the key column; without it there are no keys.", metavar="COLUMN"),
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", help="With lines: the text before it is the key.", metavar="TEXT"),
    ] = None,
    random: Annotated[
        int | None,
        typer.Option(
            "--random",
            help="Send so many random records: JSON objects with a name, a location and a status.",
            parser=whole("--random", 1, such_as=1_000),
            metavar="COUNT",
        ),
    ] = None,
    rate: Annotated[
        int | None,
        typer.Option(
            "--rate",
            help="With --random: so many records a second.",
            parser=whole("--rate", 1, such_as=100),
            metavar="COUNT",
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", help="A header of every record; may be given several times.", metavar="NAME=VALUE"),
    ] = None,
    compression: Annotated[
        str | None,
        typer.Option(
            "--compression",
            help=f"{CODECS[0]} (the default), {', '.join(CODECS[1:-1])} or {CODECS[-1]}.",
            metavar="CODEC",
        ),
    ] = None,
    value_format: ValueFormat = None,
    registry: RegistryUrl = None,
    registry_user: RegistryUser = None,
    registry_password_file: RegistryPasswordFile = None,
    registry_token_file: RegistryTokenFile = None,
    registry_ca: RegistryCa = None,
    value_schema: SchemaFile = None,
    value_message: MessageName = None,
    schema_id_in: SchemaIdIn = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            "--ledger",
            help="Write the outcome of each record into this file, for ottla audit.",
            metavar="FILE.parquet",
        ),
    ] = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Send each line of standard input, or each row of a file, as one record, and wait for the acknowledgements.

    With --value-format lines are JSON, and are encoded with --value-schema, or with the topic's latest schema. So are
    the rows of a file; but for avro without --value-schema, a schema is made of the columns and registered. Random
    records have a schema of their own. With --ledger each record carries its number in a header; then `ottla audit`
    says whether the topic holds each of them once. The topic must be empty before.

    For example, while `ottla serve --topic orders` runs:

        echo ada:1 | ottla produce orders --key-separator :
        ottla produce orders --random 10000 --rate 500 --ledger sent.parquet
        ottla produce orders --input orders.csv --key customer --header source=shop
        ottla produce orders --value-format avro \\
            --registry http://localhost:8081 < orders.ndjson

    Exit status: 0 when all records were acknowledged, 1 when some were not, 2 when a topic, a file, an address or an
    option cannot be used.
    """
    _check_given(input_file, input_format, key, key_separator, random, rate)
    headers = _headers(header)
    access = RegistryAccess(registry or "", registry_user, registry_password_file, registry_token_file, registry_ca)
    schema = read_value_schema(value_format, access, value_schema, value_message, schema_id_in)
    from ottla.producer.settings import ProducerSettings

    bootstrap_servers, settings = client_arguments(
        command_config, ProducerSettings, bootstrap_servers, DEFAULT_BOOTSTRAP, max_block_ms=_PATIENCE_MS
    )
    if settings.get("transactional_id"):
        raise UserMistake(
            f"{command_config}: transactional.id is for programs that begin and commit transactions; `ottla produce` "
            "sends each record by itself: leave that line out"
        )
    if compression is not None:
        settings["compression_type"] = compression
    given: Given
    if input_file is not None:
        given = read_rows(input_file, input_format, key, schema)
    elif random is not None:
        from ottla.cli.random_records import SCHEMAS, random_records

        given = GivenLines(paced(random_records(random, Random()), rate), random)
        if schema is not None and schema.schema is None:
            schema = schema._replace(schema=SCHEMAS[schema.format])
    else:
        given = GivenLines(cut_lines(standard_input(), key_separator), None)
    began = time.monotonic()
    with told_as_options():
        sent = send_all(given, topic, bootstrap_servers, settings, headers=headers, schema=schema, ledger=ledger)
    _tell(topic, sent, ledger, time.monotonic() - began, is_answered=settings.get("acks") != "0", as_json=as_json)


def _check_given(
    input_file: str | None,
    input_format: str | None,
    key: str | None,
    key_separator: str | None,
    random: int | None,
    rate: int | None,
) -> None:
    """UserMistake for options that do not go together."""
    if input_file is not None and random is not None:
        raise UserMistake("--input sends a file and --random makes records up: give one of the two")
    if input_file is None and key is not None:
        raise UserMistake("--key names a column of a file: give the file with --input, or use --key-separator")
    if input_file is None and input_format is not None:
        raise UserMistake("--input-format is the format of a file: give the file with --input, - for standard input")
    if input_file is not None and key_separator is not None:
        raise UserMistake("--key-separator is for lines, --key for files: give one of the two")
    if random is not None and key_separator is not None:
        raise UserMistake("--key-separator is for lines, and random records have their name as key: leave it out")
    if key_separator == "":
        raise UserMistake("--key-separator is empty: give the text between key and value, such as :")
    if rate is not None and random is None:
        raise UserMistake("--rate is for random records: give --random with how many")


def _headers(given: list[str] | None) -> list[tuple[str, bytes]]:
    headers = []
    for each in given or ():
        name, equals, value = each.partition("=")
        if not name or not equals:
            raise UserMistake(f"--header {each} is no NAME=VALUE: give one such as source=shop")
        try:
            headers.append((typed_bytes(name).decode(), typed_bytes(value)))
        except UnicodeDecodeError:
            raise UserMistake(f"--header {each}: the name of a header is text, and this is no UTF-8") from None
    return headers


def _tell(topic: str, sent: Sent, ledger: Path | None, seconds: float, *, is_answered: bool, as_json: bool) -> None:
    failed, unknown = (0, 0) if sent.error is None else (sent.error.failed, sent.error.unknown)
    acked = sent.records - failed - unknown
    if as_json:
        told = {
            "topic": topic,
            "records": sent.records,
            "acked": acked if is_answered else 0,
            "failed": failed,
            "unknown": unknown if is_answered else sent.records - failed,
            "seconds": round(seconds, 3),
            "ledger": None if ledger is None else str(ledger),
        }
        typer.echo(json.dumps(told))
    if sent.interruption is not None:
        raise sent.interruption
    if sent.error is not None:
        raise sent.error
    if not as_json:
        said = "all acknowledged" if is_answered else "and with acks=0 nobody says whether they arrived"
        typer.echo(f"{counted(sent.records, 'record')} sent to {topic}, {said}", err=True)
