"""Reads a file of rows into one Arrow table, and says of a broken one which line it is.

All rows are kept in memory: `bounds` says how many there may be.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from ottla.errors import UserMistake
from ottla.inputs.bounds import Room, size_as_json, take_ndjson
from ottla.inputs.files import CSV_NULLS, arrow_errors, delimiter_of, first_line, json_object, read_whole
from ottla.inputs.source import Source, unknown_key

if TYPE_CHECKING:
    import pyarrow as pa

# Few, because a value that a Parquet file has once can be in each of them.
_ROWS_AT_A_TIME = 1024


def read_source(source: Source, *, keeps_times: bool = False, keeps_zeros: bool = False) -> pa.Table:
    """The whole file as one Arrow table with one chunk per column, dictionaries decoded.

    With `keeps_times`, times of JSON and CSV stay the texts that they are there. With `keeps_zeros`, so do columns of a
    CSV file that have numbers with zeros in front (01234).

    Raises `UserMistake` with the line number where a row is broken, where there are no rows, and where they are more
    than are kept in memory.
    """
    with arrow_errors(source.path, source.format):
        if source.format == "parquet":
            table = _read_parquet(source)
        else:
            room = Room(source.path)
            content = read_whole(source.path, room)
            if source.format == "csv":
                table = _read_csv(source, content, room, keeps_times=keeps_times, keeps_zeros=keeps_zeros)
            else:
                table = _read_ndjson(source, content, room, keeps_times=keeps_times)
    if table.num_rows == 0:
        raise UserMistake(f"{source.path} has columns but not a single row: there is nothing to send")
    if source.key and source.key not in table.column_names:
        raise unknown_key(source.key, tuple(table.column_names), source.path)
    return table.combine_chunks()


def key_strings(table: pa.Table, source: Source) -> pa.ChunkedArray[Any]:
    """The key column as text (numbers and dates as written), nulls staying nulls."""
    import pyarrow as pa

    column = table.column(source.key)
    if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
        raise UserMistake(
            f"column {source.key!r} of {source.path} is of type {column.type} and cannot be a key: "
            "choose a column of text, numbers, dates or booleans with --key"
        )
    return column.cast(pa.string())


def _read_parquet(source: Source) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    room = Room(source.path)
    with pq.ParquetFile(source.path) as file:
        names = file.schema_arrow.names
        room.take_rows(file.metadata.num_rows, names)
        chunks: list[list[pa.Array[Any]]] = [[] for _ in names]
        for batch in file.iter_batches(batch_size=_ROWS_AT_A_TIME):
            columns = [_decoded(column) for column in batch.columns]
            room.take(sum(size_as_json(column) for column in columns))
            for known, column in zip(chunks, columns, strict=True):
                known.append(column)
        if not chunks or not chunks[0]:
            return file.schema_arrow.empty_table()
    # One column after the other, so that never all of them are there twice.
    return pa.Table.from_arrays([_joined(known) for known in chunks], names)


def _joined(chunks: list[pa.Array[Any]]) -> pa.ChunkedArray[Any]:
    """One chunk of many, which are forgotten; several where one could not hold them."""
    import pyarrow as pa

    joined: Any = pa.chunked_array(chunks).combine_chunks()
    chunks.clear()
    return pa.chunked_array(joined if isinstance(joined, pa.ChunkedArray) else [joined])


def _decoded(column: pa.Array[Any]) -> pa.Array[Any]:
    import pyarrow as pa

    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _read_csv(source: Source, content: bytearray, room: Room, *, keeps_times: bool, keeps_zeros: bool) -> pa.Table:
    import pyarrow as pa
    import pyarrow.csv as pc

    room.take_rows(max(content.count(b"\n"), content.count(b"\r")) + 1, source.columns)
    # One block, so that a column's type is inferred from all its values and not from the first megabyte of them.
    read = pc.ReadOptions(block_size=min(len(content) + 1, 2**31 - 1))
    parse = pc.ParseOptions(delimiter=delimiter_of(source.path), newlines_in_values=True)
    convert = pc.ConvertOptions(strings_can_be_null=True, null_values=list(CSV_NULLS), quoted_strings_can_be_null=False)
    given: Any = pa.BufferReader(content)
    try:
        table = pc.read_csv(given, read_options=read, parse_options=parse, convert_options=convert)
    except pa.ArrowInvalid:
        broken = _broken_csv_row(source, content)
        if broken is not None:
            raise broken from None
        raise
    # pyarrow closes a quote at the end of the file without an error; an odd number of quotes shows it.
    if content.count(b'"') % 2:
        broken = _broken_csv_row(source, content)
        if broken is not None:
            raise broken
    for field in table.schema:
        if pa.types.is_binary(field.type):
            raise UserMistake(f"column {field.name!r} of {source.path} is not UTF-8 text: save the file as UTF-8")
    as_text = [
        field.name
        for field in table.schema
        if (keeps_times and pa.types.is_temporal(field.type)) or (keeps_zeros and pa.types.is_integer(field.type))
    ]
    if not as_text:
        return table
    convert.column_types = dict.fromkeys(as_text, pa.string())
    given = pa.BufferReader(content)
    texts = pc.read_csv(given, read_options=read, parse_options=parse, convert_options=convert)
    for name in as_text:
        number = table.column_names.index(name)
        column, written = table.column(number), texts.column(number)
        if pa.types.is_temporal(column.type) or not column.cast(pa.string()).equals(written):
            table = table.set_column(number, name, written)
    return table


def _broken_csv_row(source: Source, content: bytearray) -> UserMistake | None:
    """The first broken row, found again with the standard library, which counts lines where pyarrow does not."""
    text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", errors="replace", newline="")
    rows = csv.reader(text, delimiter=delimiter_of(source.path), strict=True)
    began = 1
    try:
        for row in rows:
            if row and len(row) != len(source.columns):
                return UserMistake(
                    f"line {began} of {source.path} has {len(row)} columns where the header has "
                    f"{len(source.columns)}: mend or remove that line"
                )
            began = rows.line_num + 1
    except csv.Error as error:
        why = "opens a quote that is never closed" if "end of data" in str(error) else f"is broken ({error})"
        return UserMistake(f"line {began} of {source.path} {why}: mend or remove that line")
    return None


def _without_times(type_: pa.DataType) -> pa.DataType:
    """The same type with text in place of times."""
    import pyarrow as pa

    if pa.types.is_timestamp(type_):
        return pa.string()
    if pa.types.is_list(type_):
        return pa.list_(_without_times(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([(each.name, _without_times(each.type)) for each in type_])
    return type_


def _with_times(texts: pa.Table, times: pa.Table) -> pa.Table:
    """Texts, and times where all texts of a column have a time zone, or none has one; in objects they stay texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for number, (text, time) in enumerate(zip(texts.columns, times.columns, strict=True)):
        if not pa.types.is_timestamp(time.type):
            continue
        has_zone = pc.match_substring_regex(text, r"\d:\d\d.*([Zz]|[+-]\d\d(:?\d\d)?)$")
        zones, rows = pc.sum(has_zone.cast(pa.int64())).as_py() or 0, len(text) - text.null_count
        if zones == rows:
            texts = texts.set_column(number, texts.field(number).name, time.cast(pa.timestamp("s", "UTC")))
        elif not zones:
            texts = texts.set_column(number, texts.field(number).name, time)
    return texts


def _read_ndjson(source: Source, content: bytearray, room: Room, *, keeps_times: bool) -> pa.Table:
    import pyarrow as pa
    import pyarrow.json as pj

    take_ndjson(content, room, source.path)
    options = pj.ReadOptions(block_size=min(len(content) + 1, 2**31 - 1))
    given: Any = pa.BufferReader(content)
    try:
        table = pj.read_json(given, read_options=options)
        plain = pa.schema([(each.name, _without_times(each.type)) for each in table.schema])
        if plain == table.schema:
            return table
        # pyarrow takes some texts for times, and forgets their zones.
        given = pa.BufferReader(content)
        texts = pj.read_json(given, read_options=options, parse_options=pj.ParseOptions(explicit_schema=plain))
        return texts if keeps_times else _with_times(texts, table)
    except pa.ArrowInvalid as error:
        for number, line in enumerate(io.BytesIO(content), start=1):
            if line.strip():
                json_object(line.decode("utf-8", "replace"), source.path, number)
        raise UserMistake(f"{source.path} cannot be read as one table ({first_line(error)})") from None
