"""`ottla read`: a topic's records to standard output, or to a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.command_config import CommandConfig, client_arguments
from ottla.cli.completion import complete_topics
from ottla.cli.options import DEFAULT_BOOTSTRAP, JSON_TO_STDOUT, BootstrapServers, whole
from ottla.cli.output import counted, log_to_stderr
from ottla.cli.progress import Counter
from ottla.cli.read_span import Span, what_to_read
from ottla.cli.read_values import read_values
from ottla.cli.record_files import PARQUET, write_records, writer_of
from ottla.cli.record_lines import LINES, print_lines, print_table
from ottla.cli.registry_options import (
    RegistryAccess,
    RegistryCa,
    RegistryPasswordFile,
    RegistryTokenFile,
    RegistryUrl,
    RegistryUser,
    told_as_options,
)
from ottla.cli.value_schema import MessageName, SchemaFile, ValueFormat, read_value_schema
from ottla.cli.where import parse_where
from ottla.errors import UserMistake

if TYPE_CHECKING:
    import pyarrow as pa


_PATIENCE_MS = 5_000
_FOLLOW_PATIENCE_MS = 600_000
# A table is measured before it is shown, so all of its rows are kept until then.
TABLE_ROWS_MAX = 1_000
FORMATS_ALLOWED = *LINES, "table"


def read(
    topic: Annotated[str, typer.Argument(help="The topic to read.", metavar="TOPIC", autocompletion=complete_topics)],
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-n",
            help="Stop after so many records.",
            parser=whole("--limit", 1, such_as=20),
            metavar="COUNT",
        ),
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            "--start",
            help="Where to begin in each partition: earliest, latest, an offset, or a time such as 2026-11-27T09:00.",
            metavar="WHERE",
        ),
    ] = "earliest",
    end: Annotated[
        str,
        typer.Option(
            "--end",
            help="Where to end in each partition: latest (its end as it is now), or the first offset or time that is "
            "not read.",
            metavar="WHERE",
        ),
    ] = "latest",
    partition: Annotated[
        list[int] | None,
        typer.Option(
            "--partition",
            "-p",
            help="Read this partition alone; may be given several times.",
            parser=whole("--partition", 0, such_as=0),
            metavar="NUMBER",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on waiting for new records, and up to ten minutes for brokers.")
    ] = False,
    style: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="text (partition:offset, key, value; the default), value (values alone), json (one object a line) "
            "or table; on a terminal, control characters are spelled out.",
            metavar="FORMAT",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help=f"{JSON_TO_STDOUT} The same as --format json.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write a file instead: Parquet, CSV or NDJSON, as its name ends.",
            metavar="FILE",
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
    command_config: CommandConfig = None,
) -> None:
    """Print the records of a topic as they are stored now, partition by partition.

    With --value-format each value is decoded by the schema that it names in --registry, and shown as JSON, as `ottla
    produce` takes it. --start and --end are offsets, or times of the records; a time without a zone is UTC.

    For example, while `ottla serve --topic orders` runs:

        ottla read orders --limit 10 --format table
        ottla read orders --partition 0 --json \\
            --start 2026-11-27T09:00 --end 2026-11-27T10:00
        ottla read orders --output orders.csv
        ottla read orders --value-format avro --registry http://localhost:8081

    Exit status: 0 when all was read, 1 when a value cannot be decoded or brokers stop answering,
    2 when no broker can be reached, or a topic or an option cannot be used.
    """
    style = _style(style, as_json, follow, output)
    if output is not None and follow:
        raise UserMistake("--follow never ends and --output needs an end: give one of the two")
    write = None if output is None else writer_of(output)
    span = _span(start, end, follow)
    access = RegistryAccess(registry or "", registry_user, registry_password_file, registry_token_file, registry_ca)
    schema = read_value_schema(value_format, access, value_schema, value_message)
    from ottla.client.reader import Reader
    from ottla.reader.settings import ReaderSettings

    bootstrap_servers, settings = client_arguments(
        command_config, ReaderSettings, bootstrap_servers, DEFAULT_BOOTSTRAP, default_api_timeout_ms=_PATIENCE_MS
    )
    is_default = settings["default_api_timeout_ms"] == _PATIENCE_MS
    with told_as_options():
        asked = what_to_read(topic, partition, span, bootstrap_servers, settings)
    if follow:
        # Who waits for records also waits for brokers that are started again, and wants to know why nothing comes.
        if is_default:
            settings["default_api_timeout_ms"] = _FOLLOW_PATIENCE_MS
        log_to_stderr("WARNING", "ottla.client")
    with told_as_options(), Reader(bootstrap_servers, **asked, **settings) as reader:
        is_text = output is None or output.suffix.lower() not in PARQUET
        found = read_values(reader.schema, _limited(reader, limit), topic, schema, is_text=is_text)
        if output is not None and write is not None:
            with Counter(f"read {topic}", "records") as counter:
                write_records(output, write, found._replace(batches=counter.counted(found.batches)))
            typer.echo(f"{counted(counter.count, 'record')} written to {output}", err=True)
        elif style == "table":
            if print_table(found, TABLE_ROWS_MAX):
                said = f"ottla: the first {TABLE_ROWS_MAX:,} records; give --start, --partition or another --format"
                typer.echo(f"{said} for those after them", err=True)
        else:
            print_lines(found, LINES[style])


def _style(style: str | None, as_json: bool, follow: bool, output: Path | None) -> str:
    if style is not None and style not in FORMATS_ALLOWED:
        raise UserMistake(f"--format {style} is not one of {', '.join(FORMATS_ALLOWED)}")
    if as_json and style not in (None, "json"):
        raise UserMistake(f"--json is --format json, and --format {style} is another one: give one of the two")
    if output is not None and (style or as_json):
        raise UserMistake("--output writes what its name ends with; --format and --json are for what is printed")
    if style == "table" and follow:
        raise UserMistake("--format table needs an end, for all rows have the same columns: leave --follow out")
    return "json" if as_json else style or "text"


def _span(start: str, end: str, follow: bool) -> Span:
    if follow and end != "latest":
        raise UserMistake("--follow never ends and --end says where to end: give one of the two")
    span = Span(parse_where("--start", start), None if follow else parse_where("--end", end, ("latest",)))
    if isinstance(span.start, int) and isinstance(span.end, int) and span.end < span.start:
        raise UserMistake(f"--end {end} is before --start {start}: nothing would be read")
    return span


def _limited(batches: Any, limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches:
        if left is None or batch.num_rows < left:
            yield batch
        else:
            yield batch.slice(0, left)
            return
        if left is not None:
            left -= batch.num_rows
