"""`ottla read`: a topic's records to standard output, or to a file."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.command_config import CommandConfig, client_arguments
from ottla.cli.options import DEFAULT_BOOTSTRAP, BootstrapServers, whole
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
from ottla.cli.value_schema import MessageName, SchemaFile, ValueFormat, ValueSchema, read_value_schema
from ottla.errors import UserMistake
from ottla.printable import printable
from ottla.whole_file import writing_whole

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.client.reader import Reader

_PATIENCE_MS = 5_000


def read(
    topic: Annotated[str, typer.Argument(help="The topic to read.", metavar="TOPIC")],
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
            "--start", help="earliest, latest, or an offset from which each partition is read.", metavar="WHERE"
        ),
    ] = "earliest",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on waiting for new records.")] = False,
    style: Annotated[
        str,
        typer.Option(
            "--format",
            help="text (place, key, value), value (values alone) or json (one object a line); "
            "on a terminal, control characters are spelled out.",
            metavar="FORMAT",
        ),
    ] = "text",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write a Parquet file instead.", metavar="FILE.parquet")
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

    With --value-format each value is decoded by the schema that it names in --registry, and shown as JSON.

    For example:

    - `ottla read orders --limit 10 --format json`

    - `ottla read orders --output orders.parquet`

    - `ottla read orders --value-format avro --registry http://localhost:8081`

    Exit status: 0 when all was read, 2 when a topic, an address or an option cannot be used.
    """
    line_of = _FORMATS.get(style)
    if line_of is None:
        raise UserMistake(f"--format {style} is not one of {', '.join(_FORMATS)}")
    if output is not None and follow:
        raise UserMistake("--follow never ends and --output needs an end: give one of the two")
    access = RegistryAccess(registry or "", registry_user, registry_password_file, registry_token_file, registry_ca)
    schema = read_value_schema(value_format, access, value_schema, value_message)
    from ottla.client.reader import Reader
    from ottla.reader.settings import ReaderSettings

    bootstrap_servers, settings = client_arguments(
        command_config, ReaderSettings, bootstrap_servers, DEFAULT_BOOTSTRAP, default_api_timeout_ms=_PATIENCE_MS
    )
    end: Any = None if follow else "latest"
    with (
        told_as_options(),
        Reader(bootstrap_servers, topic, start=_parse_start(start), end=end, **settings) as reader,
    ):
        if schema is None:
            shape, batches = reader.schema, _limited(reader, limit)
        else:
            shape, batches = _decoded(reader, topic, schema, limit)
        if output is not None:
            _write_parquet(output, shape, batches)
            return
        _print(batches, line_of)


def _decoded(
    reader: Reader, topic: str, schema: ValueSchema, limit: int | None
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    decoder = schema.decoder(topic)
    return decoder.schema_of(reader.schema), (decoder.decode_batch(batch, topic) for batch in _limited(reader, limit))


def _print(batches: Iterator[pa.RecordBatch], line_of: Callable[[dict[str, Any]], bytes]) -> None:
    out = sys.stdout.buffer
    # A record may hold what would clear the screen or worse; into a pipe or a file it goes as it is.
    is_obeyed = sys.stdout.isatty()
    for batch in batches:
        for record in batch.to_pylist(maps_as_pydicts="lossy"):
            line = line_of(record)
            out.write(_spelled_out(line) if is_obeyed else line)
        out.flush()


def _spelled_out(line: bytes) -> bytes:
    return printable(line.decode("utf-8", "backslashreplace"), besides="\t\n").encode()


def _parse_start(text: str) -> int | str:
    if text in ("earliest", "latest"):
        return text
    if text.isascii() and text.isdecimal():
        return int(text)
    raise UserMistake(f"--start {text} is neither earliest, latest nor an offset")


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


def _write_parquet(path: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
    import pyarrow.parquet as pq

    rows = 0
    with (
        writing_whole(path, what="the records", option="--output") as place,
        pq.ParquetWriter(place, schema) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    typer.echo(f"{counted(rows, 'record')} written to {path}", err=True)


def _as_text(record: dict[str, Any]) -> bytes:
    place = f"{record['partition']}:{record['offset']}".encode()
    return b"\t".join((place, record["key"] or b"", _value(record))) + b"\n"


def _as_value(record: dict[str, Any]) -> bytes:
    return _value(record) + b"\n"


def _as_json(record: dict[str, Any]) -> bytes:
    timestamp = record["timestamp"]
    shown = {
        "partition": record["partition"],
        "offset": record["offset"],
        "timestamp": None if timestamp is None else timestamp.isoformat(timespec="milliseconds"),
        "key": _as_words(record["key"]),
        "value": _plain(record["value"]),
        "headers": [[_as_words(h["key"]), _as_words(h["value"])] for h in record["headers"] or ()],
    }
    return json.dumps(shown, ensure_ascii=False).encode() + b"\n"


def _value(record: dict[str, Any]) -> bytes:
    value = record["value"]
    if value is None or isinstance(value, bytes):
        return value or b""
    return json.dumps(_plain(value), ensure_ascii=False).encode()


def _plain(value: Any) -> Any:
    """A decoded value as JSON has it: bytes and times as text, decimals too, which would lose digits as numbers."""
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, bytes):
        return _as_words(value)
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _as_words(data: bytes | str | None) -> str | None:
    """Text as it is; bytes that are no UTF-8 with their odd ones escaped."""
    return data.decode("utf-8", "backslashreplace") if isinstance(data, bytes) else data


_FORMATS: dict[str, Callable[[dict[str, Any]], bytes]] = {"text": _as_text, "value": _as_value, "json": _as_json}
