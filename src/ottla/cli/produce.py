"""`ottla produce`: lines from standard input, or the rows of a file, into a topic."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.command_config import CommandConfig, client_arguments
from ottla.cli.options import DEFAULT_BOOTSTRAP, BootstrapServers
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
from ottla.cli.signals import Ended
from ottla.cli.value_schema import MessageName, SchemaFile, ValueFormat, ValueSchema, read_value_schema
from ottla.errors import DeliveryError, RecordError, UserMistake

if TYPE_CHECKING:
    from ottla.client.producer import Producer

_PATIENCE_MS = 5_000
# How long brokers may still acknowledge what was sent before an interruption.
_LAST_ANSWERS_S = 2


def produce(
    topic: Annotated[str, typer.Argument(help="The topic to send to; it must exist.", metavar="TOPIC")],
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP,
    input_file: Annotated[
        str | None,
        typer.Option("--input", help="Send the rows of this CSV, NDJSON or Parquet file as JSON.", metavar="FILE"),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", help="With --input: the key column; without it records have no keys.", metavar="COLUMN"),
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", help="With lines: what stands before it is the key.", metavar="TEXT"),
    ] = None,
    compression: Annotated[
        str | None,
        typer.Option("--compression", help="none (the default), gzip, snappy, lz4 or zstd.", metavar="CODEC"),
    ] = None,
    value_format: ValueFormat = None,
    registry: RegistryUrl = None,
    registry_user: RegistryUser = None,
    registry_password_file: RegistryPasswordFile = None,
    registry_token_file: RegistryTokenFile = None,
    registry_ca: RegistryCa = None,
    value_schema: SchemaFile = None,
    value_message: MessageName = None,
    command_config: CommandConfig = None,
) -> None:
    """Send each line of standard input, or each row of a file, as one record, and wait for the acknowledgements.

    With --value-format lines are JSON objects, and are written by --value-schema, or by the topic's latest schema. So
    are the rows of a file; without --value-schema their columns' own Avro schema is registered for the topic.

    For example:

    - `echo ada:1 | ottla produce orders --key-separator :`

    - `ottla produce orders --input orders.csv --key customer`

    - `ottla produce orders --value-format avro --registry http://localhost:8081 < orders.ndjson`

    Exit status: 0 when all records were acknowledged, 1 when some were not, 2 when a topic, a file, an address or an
    option cannot be used.
    """
    if input_file is None and key is not None:
        raise UserMistake("--key names a column of a file: give the file with --input, or use --key-separator")
    if input_file is not None and key_separator is not None:
        raise UserMistake("--key-separator is for lines, --key for files: give one of the two")
    if key_separator == "":
        raise UserMistake("--key-separator is empty: give the text between key and value, such as :")
    access = RegistryAccess(registry or "", registry_user, registry_password_file, registry_token_file, registry_ca)
    schema = read_value_schema(value_format, access, value_schema, value_message)
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
    with told_as_options():
        if input_file is None:
            if schema is not None:
                settings["value_serializer"] = schema.serializer()
            count = _send_lines(bootstrap_servers, topic, key_separator, settings)
        else:
            count = _send_rows(bootstrap_servers, topic, input_file, key, settings, schema)
    told = "and with acks=0 nobody says whether they arrived" if settings.get("acks") == "0" else "all acknowledged"
    typer.echo(f"{counted(count, 'record')} sent to {topic}, {told}", err=True)


def _deliver(bootstrap_servers: str, settings: dict[str, Any], send: Callable[[Producer], int]) -> int:
    """Send and wait for the acknowledgements; interrupted, not for long, and what was not delivered is told."""
    from ottla.client.producer import Producer

    with Producer(bootstrap_servers, **settings) as producer:
        try:
            count = send(producer)
            # Here already: most of the waiting is done in it.
            producer.close()
        except (KeyboardInterrupt, Ended) as interruption:
            number = interruption.number if isinstance(interruption, Ended) else signal.SIGINT
            raise Ended(number, _give_up(producer)) from None
    return count


def _give_up(producer: Producer) -> str:
    """Close, and tell what was not delivered."""
    try:
        producer.close(_LAST_ANSWERS_S)
    except DeliveryError as error:
        counts = {"not stored": error.failed, "not known to be stored": error.unknown}
        return ", ".join(f"{counted(count, 'record')} {what}" for what, count in counts.items() if count)
    return ""


def _send_lines(bootstrap_servers: str, topic: str, separator: str | None, settings: dict[str, Any]) -> int:
    cut = None if separator is None else separator.encode()

    def send(producer: Producer) -> int:
        # Asked before the first line is typed: whether anybody is there, and has the topic.
        producer.partitions_for(topic)
        count = 0
        for line in sys.stdin.buffer:
            value = line.rstrip(b"\r\n")
            key = None
            if cut is not None and cut in value:
                key, value = value.split(cut, 1)
            try:
                producer.send(topic, value, key)
            except RecordError as error:
                told = f"line {count + 1}: {str(error).removesuffix('.')}. The lines before it ({count}) were sent."
                raise UserMistake(told) from error
            count += 1
        return count

    return _deliver(bootstrap_servers, settings, send)


def _send_rows(
    bootstrap_servers: str,
    topic: str,
    input_file: str,
    key: str | None,
    settings: dict[str, Any],
    schema: ValueSchema | None,
) -> int:
    from ottla.inputs.source import open_source
    from ottla.inputs.table import read_source

    source = open_source(input_file, key, needs_key=False)
    table = read_source(source)

    def send(producer: Producer) -> int:
        how = {"value_format": "json"} if schema is None else schema.of_table(topic)
        producer.send_table(topic, table, key=source.key or None, **how)
        rows: int = table.num_rows
        return rows

    return _deliver(bootstrap_servers, settings, send)
