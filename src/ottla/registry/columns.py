"""A column of encoded values, as records have them <-> a column of decoded ones, by the schemas of a registry.

Each value names the schema it was written with. Values of one schema are decoded together: a column has few schemas,
whatever its length. pyarrow takes the column apart and puts it together; the kernels in `schemas/` do the rest.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from ottla.errors import (
    ConfigError,
    DeserializationError,
    OttlaError,
    RecordError,
    RegistryError,
    UserMistake,
    fresh,
    of_row,
    renumbered,
)
from ottla.registry.cache import Cache
from ottla.registry.client import RegistryClient
from ottla.registry.decimals import as_whole_numbers, avro_decimals, rescaled
from ottla.registry.forks import tell_of_forks
from ottla.registry.registered import AVRO, JSON, PROTOBUF, RegisteredSchema, SchemaReference, check_schema
from ottla.schemas.framing import KEY_HEADER, VALUE_HEADER, FramingError, guid_header, id_prefix, read_frame

FORMATS: Final[Mapping[str, str]] = {"avro": AVRO, "protobuf": PROTOBUF, "json": JSON}
"""What `value_format` may be for columns, and the registry's word for it."""
MODES: Final = ("fail", "null")
ID_IN: Final = ("prefix", "header")
"""Where a record names its schema."""

_MAGIC_BYTES = 1
_REASONS_AT_ONCE = 256
_ID_BYTES, _GUID_BYTES = 5, 17
_DECODERS_MOST = 1_000
# How many ids without a schema are remembered, and how long: after that the registry is asked for them again.
_UNKNOWN_MOST, _UNKNOWN_S = 10_000, 60.0


def client_of(registry: Any) -> RegistryClient:
    """The client for a registry's address (or several addresses); a client is returned as it is. ConfigError."""
    if isinstance(registry, RegistryClient):
        return registry
    if registry is None:
        raise ConfigError("registry is missing: give the address of a schema registry, or an ottla.RegistryClient.")
    if not isinstance(registry, (str, list, tuple)):
        told = f"registry is a {type(registry).__name__}: give the registry's address, or an ottla.RegistryClient."
        raise ConfigError(told)
    return RegistryClient(registry)


class ColumnDecoder:
    """Decodes columns of keys or values into columns of `type`, an Arrow type; threads may share one.

    Avro is resolved from the schema that each value names to `schema`, the reader's, by the specification's rules.
    Protobuf is read by `schema` alone, as its field numbers allow. JSON has to match the schema that it names, and its
    parts have to fit the columns of `schema`.
    """

    def __init__(
        self,
        registry: RegistryClient,
        value_format: str,
        schema: RegisteredSchema,
        *,
        part: str = "value",
        message: str | None = None,
        mode: str = "fail",
        time_unit: str = "ns",
        references: Mapping[str, str] | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`time_unit` is that of Protobuf's times, "us" or "ns"; ConfigError.

        `references` are the texts that `schema` refers to, by name, where it is not one of the registry's.

        `mode`: a value that cannot be decoded is an error ("fail"), or null ("null"). Then the registry is not asked
        again for a schema that it does not have, until 60 seconds have passed by the clock `now_s`.
        """
        if mode not in MODES:
            raise ConfigError(f"mode={mode!r:.60} is not known; allowed are {', '.join(MODES)}.")
        self._registry = registry
        self._kind = kind_of(value_format)
        if schema.kind != self._kind:
            which = "The schema" if schema.subject is None else f"The schema of {schema.subject!r}"
            asked = f"{value_format!r} is asked for: ask for {schema.kind.lower()!r}, or give another schema"
            raise ConfigError(f"{which} is of type {schema.kind}, and {asked}.")
        check_message(message, self._kind)
        self._schema = schema
        self._message = message
        self._time_unit = time_unit
        self._mode = mode
        self._header = KEY_HEADER if part == "key" else VALUE_HEADER
        self._part = part
        self._decoders: dict[bytes, _Written] = {}
        # Prefix -> the error of the registry, which does not have the schema.
        self._unknown = Cache(_UNKNOWN_MOST, now_s)
        # The decoder for columns of several schemas, and the prefixes whose schemas it was given.
        self._framed: Any
        self._added: set[bytes]
        self.after_fork_in_child()
        tell_of_forks(self)
        self._references = registry.referred(schema) if references is None else dict(references)
        if self._kind == PROTOBUF:
            from ottla.schemas.protobuf.schema import ProtobufSchema

            self._message = ProtobufSchema(schema.text, references=self._references).message(message).full_name
        pa, _ = _arrow()
        nothing = pa.array([], pa.binary())
        self.type: Any = pa.array(self._decoder_of(schema).decode(nothing)).type

    def after_fork_in_child(self) -> None:
        """Begin anew: a thread of the parent may hold the lock, and may have added a schema only in part."""
        self._framed, self._added = None, set()
        self._lock = threading.Lock()

    def decode(self, values: Any, headers: Any = None, *, first_row: int = 0) -> Any:
        """One value for each of `values` (binary), null for null. `headers` are those of the records, where known.

        DeserializationError names the row, counted from `first_row`, and the place in the value; RegistryError,
        in either mode, where a registry does not answer; RecordError for a column that is not binary.
        """
        pa, pc = _arrow()

        values = _binary(values)
        prefixes = self._prefixes(values, headers)
        encoded = prefixes.dictionary_encode()
        found: list[bytes | None] = encoded.dictionary.to_pylist()
        if not found:
            return pa.nulls(len(values), self.type)
        if len(found) == 1 and not encoded.null_count:
            return self._decode(found[0] or b"", values, None, first_row)
        ids = [prefix for prefix in found if prefix and prefix[0] == 0 and len(prefix) == _ID_BYTES]
        if self._kind == AVRO and len(ids) == len(found):
            return self._decode_framed(values, encoded, ids, first_row)
        # Nulls are a group of their own, the last one.
        groups = pc.fill_null(encoded.indices, len(found))
        order = pc.sort_indices(groups)
        pieces: list[Any] = []
        begin = 0
        counts: Any = pc.value_counts(groups)
        sizes = {entry["values"]: entry["counts"] for entry in counts.to_pylist()}
        for number in range(len(found) + 1):
            rows = order.slice(begin, sizes.get(number, 0))
            begin += len(rows)
            if not len(rows):
                continue
            if number == len(found):
                pieces.append(pa.nulls(len(rows), self.type))
            else:
                pieces.append(self._decode(found[number] or b"", values.take(rows), rows, first_row))
        # Bring the rows back into their order.
        back = pc.sort_indices(order)
        return pa.concat_arrays(pieces).take(back)

    def reasons(self, values: Any, headers: Any, rows: Sequence[int]) -> list[str]:
        """Why the values in these `rows` cannot be decoded; "" for one that can be decoded, and has the value null.

        As in mode "null", the registry is not asked again and again for a schema that it does not have.
        """
        pa, _ = _arrow()
        found = [""] * len(rows)
        values = _whole(values).take(pa.array(rows, pa.int64()))
        headers = None if headers is None else _whole(headers).take(pa.array(rows, pa.int64()))
        with_prefix: dict[bytes | None, list[int]] = {}
        for index, prefix in enumerate(self._prefixes(values, headers).to_pylist()):
            with_prefix.setdefault(prefix, []).append(index)
        for prefix, of_prefix in with_prefix.items():
            try:
                self._known(prefix or b"", ask_again=False)
            except (RegistryError, UserMistake) as error:
                self._pass_on(error)
                for index in of_prefix:
                    found[index] = self._told(error).lstrip()
                continue
            for begin in range(0, len(of_prefix), _REASONS_AT_ONCE):
                self._find_reasons(values, headers, of_prefix[begin : begin + _REASONS_AT_ONCE], found)
        return found

    def _find_reasons(self, values: Any, headers: Any, places: list[int], found: list[str]) -> None:
        """Write into `found`, at these indexes, why the values at them cannot be decoded."""
        pa, _ = _arrow()
        begin = 0
        while begin < len(places):
            at = pa.array(places[begin:], pa.int64())
            try:
                self.decode(values.take(at), None if headers is None else headers.take(at))
                return
            except DeserializationError as error:
                if error.row is None or error.around is None:
                    raise
                failed = begin + error.row
                found[places[failed]] = error.around[1].lstrip(":, ")
                # Wrong message indexes are found first, in whatever row: rows before that one may have other errors.
                self._find_reasons(values, headers, places[begin:failed], found)
                begin = failed + 1

    def _decode_framed(self, values: Any, encoded: Any, found: list[bytes], first_row: int) -> Any:
        """Decode values of several Avro schemas, each named by an id in front, in one pass."""
        pa, pc = _arrow()
        with self._lock:
            if len(self._added) >= _DECODERS_MOST:
                self._framed, self._added = None, set()
            for number, prefix in enumerate(found):
                try:
                    self._add(prefix)
                except (RegistryError, UserMistake) as error:
                    self._pass_on(error)
                    if self._mode == "fail":
                        row = pc.index(encoded.indices, number).as_py()
                        raise self._failed(first_row + row, error) from error
            framed = self._framed
        try:
            return pa.array(framed.decode(values, mode=self._mode))
        except UserMistake as error:
            raise self._failed_by_kernel(error, lambda row: first_row + row) from error

    def _add(self, prefix: bytes) -> None:
        """Give the decoder for several schemas the one that this prefix names."""
        if prefix in self._added:
            return
        from ottla.schemas.avro.decode import FramedAvroDecoder

        if self._framed is None:
            self._framed = FramedAvroDecoder(self._schema.text, references=self._references)
        writer = self._writer(prefix, ask_again=self._mode == "fail")
        # Not the reader's: a schema that both refer to may have changed.
        named = self._registry.referred(writer)
        self._framed.add(int.from_bytes(prefix[1:], "big"), writer.text, references=named)
        self._added.add(prefix)

    def _prefixes(self, values: Any, headers: Any) -> Any:
        """The bytes that name the schema of each value, from a header or the value itself; null for null."""
        pa, pc = _arrow()

        magic = pc.binary_slice(values, 0, _MAGIC_BYTES)
        by_guid = pc.equal(magic, pa.scalar(b"\1", magic.type))
        prefixes = pc.if_else(by_guid, pc.binary_slice(values, 0, _GUID_BYTES), pc.binary_slice(values, 0, _ID_BYTES))
        if headers is not None:
            named = _header(_whole(headers), self._header)
            if named is not None:
                # An H in front shows that the bytes are from a header, and not from the value.
                mark = pa.scalar(b"H", pa.binary())
                told = pc.binary_join_element_wise(mark, named, pa.scalar(b"", pa.binary()))
                prefixes = pc.if_else(values.is_valid(), pc.coalesce(told, prefixes.cast(pa.binary())), None)
        return prefixes

    def _decode(self, prefix: bytes, values: Any, rows: Any, first_row: int) -> Any:
        """Decode the values of one prefix; `rows` says which rows these are (None: all)."""
        pa, _ = _arrow()

        def where(row: int) -> int:
            return first_row + int(row if rows is None else rows[row].as_py())

        try:
            written = self._known(prefix, ask_again=self._mode == "fail")
        except (RegistryError, UserMistake) as error:
            self._pass_on(error)
            if self._mode == "null":
                return pa.nulls(len(values), self.type)
            raise self._failed(where(0), error) from error
        if written.message_indexes:
            values = self._of_message(written, values, where)
        try:
            return pa.array(written.decoder.decode(values, skip=len(written.begin), mode=self._mode))
        except UserMistake as error:
            raise self._failed_by_kernel(error, where) from error

    def _of_message(self, written: _Written, values: Any, where: Callable[[int], int]) -> Any:
        """The same values, each with its indexes as we write them; null for those that are another message."""
        pa, pc = _arrow()
        begin = pa.scalar(written.begin, values.type)
        is_it = pc.fill_null(pc.equal(pc.binary_slice(values, 0, len(written.begin)), begin), values.is_null())
        if pc.all(is_it).as_py():
            return values
        # Other clients write the indexes (0,) out, and a varint may be longer than it has to be.
        rows = pc.indices_nonzero(pc.invert(is_it))
        rewritten: list[bytes | None] = []
        for row, value in zip(rows.to_pylist(), values.take(rows).to_pylist(), strict=True):
            try:
                frame = read_frame(value, has_indexes=True)
                if frame.message_indexes != written.message_indexes:
                    raise FramingError(f"it is another message than {self._message}")
                rewritten.append(written.begin + value[frame.payload_at :])
            except FramingError as error:
                if self._mode == "fail":
                    raise self._failed(where(row), error) from error
                rewritten.append(None)
        replacing: Any = pc.replace_with_mask
        return replacing(values, pc.invert(is_it), pa.array(rewritten, values.type))

    def _pass_on(self, error: OttlaError) -> None:
        """Raise an error that is not about the values, such as that of a registry that does not answer."""
        if isinstance(error, RegistryError) and not error.says_unknown:
            raise error

    def _failed_by_kernel(self, error: UserMistake, where: Callable[[int], int]) -> DeserializationError:
        if error.row is None or error.around is None:
            return DeserializationError(f"{str(error).removesuffix('.')} ({self._part}).")
        before, behind = error.around
        behind = f"{behind.removesuffix('.')} ({self._part})."
        return of_row(DeserializationError, where(error.row), behind, before=before)

    def _failed(self, row: int, why: object) -> DeserializationError:
        return of_row(DeserializationError, row, self._told(why))

    def _told(self, why: object) -> str:
        return f" cannot be decoded ({self._part}): {str(why).removesuffix('.')}."

    def _known(self, prefix: bytes, *, ask_again: bool) -> _Written:
        known = self._decoders.get(prefix)
        if known is None:
            known = self._written(self._writer(prefix, ask_again=ask_again), prefix, in_header=prefix[:1] == b"H")
            if len(self._decoders) >= _DECODERS_MOST:
                self._decoders.clear()
            self._decoders[prefix] = known
        return known

    def _writer(self, prefix: bytes, *, ask_again: bool) -> RegisteredSchema:
        """The schema that a prefix names; `ask_again`: ask the registry also if it lately did not have the schema."""
        unknown = None if ask_again else self._unknown.find(prefix)
        if unknown is not None:
            raise fresh(unknown)
        frame = read_frame(prefix[1:] if prefix[:1] == b"H" else prefix)
        registry = self._registry
        try:
            schema = registry.by_guid(str(frame.guid)) if frame.guid else registry.by_id(frame.schema_id or 0)
        except RegistryError as error:
            if error.says_unknown:
                self._unknown.put(prefix, fresh(error), keep_s=_UNKNOWN_S)
            raise
        if schema.kind != self._kind:
            raise FramingError(f"its schema is of type {schema.kind}, not {self._kind}")
        return schema

    def _written(self, writer: RegisteredSchema, prefix: bytes, *, in_header: bool) -> _Written:
        decoder = self._decoder_of(writer)
        if self._kind != PROTOBUF:
            return _Written(decoder, b"" if in_header else prefix)
        from ottla.schemas.protobuf.schema import ProtobufSchema

        written = ProtobufSchema(writer.text, references=self._registry.referred(writer))
        message = written.message(self._message)
        if in_header:
            # In a header the indexes are part of the prefix.
            if read_frame(prefix[1:], has_indexes=True).message_indexes != written.indexes_of(message):
                raise FramingError(f"it is another message than {self._message}")
            return _Written(decoder, b"")
        indexes = written.indexes_of(message)
        return _Written(decoder, prefix + id_prefix(0, indexes)[_ID_BYTES:], indexes)

    def _decoder_of(self, writer: RegisteredSchema) -> Any:
        references = self._references
        if self._kind == AVRO:
            from ottla.schemas.avro.decode import AvroDecoder

            written = references if writer is self._schema else self._registry.referred(writer)
            return AvroDecoder(writer.text, self._schema.text, references=written, reader_references=references)
        if self._kind == JSON:
            from ottla.schemas.json_schema_decode import JsonSchemaDecoder

            written = self._registry.referred(writer)
            return JsonSchemaDecoder(writer.text, self._schema.text, references=written, reader_references=references)
        from ottla.schemas.protobuf.decode import ProtobufDecoder

        # Fields are found by their numbers; the names in the writer's schema do not matter.
        unit: Any = self._time_unit
        return ProtobufDecoder(self._schema.text, self._message, references=references, time_unit=unit)


class _Written:
    """How values of one prefix are decoded: the decoder, and the bytes in front of the payload.

    `message_indexes` are those of Protobuf, if these bytes have them.
    """

    __slots__ = ("begin", "decoder", "message_indexes")

    def __init__(self, decoder: Any, begin: bytes, message_indexes: tuple[int, ...] = ()) -> None:
        self.decoder = decoder
        self.begin = begin
        self.message_indexes = message_indexes


class ColumnEncoder:
    """Encodes columns as values of one registered schema.

    With a Protobuf file they are encoded as its message `message`, by default its first one. `header` is the header
    that each record needs with schema_id_in="header", else None.
    """

    def __init__(
        self,
        registry: RegistryClient,
        schema: RegisteredSchema,
        *,
        message: str | None = None,
        schema_id_in: str = "prefix",
    ) -> None:
        check_message(message, schema.kind)
        references = registry.referred(schema)
        indexes = None
        self._is_json, self._is_protobuf = schema.kind == JSON, schema.kind == PROTOBUF
        self._encoder: Any
        self._decimals: dict[str, Any] = {}
        if schema.kind == AVRO:
            from ottla.schemas.avro.encode import AvroEncoder

            self._encoder = AvroEncoder(schema.text, references=references)
            self._decimals = avro_decimals(schema.text, references)
        elif schema.kind == PROTOBUF:
            from ottla.schemas.protobuf.encode import ProtobufEncoder
            from ottla.schemas.protobuf.schema import ProtobufSchema

            file = ProtobufSchema(schema.text, references=references)
            self._encoder = ProtobufEncoder(file, message)
            indexes = file.indexes_of(file.message(message))
        elif schema.kind == JSON:
            from ottla.schemas.json_schema_columns import JsonSchemaEncoder

            self._encoder = JsonSchemaEncoder(schema.text, references=references)
        else:
            raise ConfigError(f"The schema is of type {schema.kind}; columns are encoded as {', '.join(FORMATS)}.")
        self.header: tuple[str, bytes] | None = None
        if check_schema_id_in(schema_id_in) == "prefix":
            self._prefix = id_prefix(schema.id, indexes)
        else:
            self._prefix = b""
            self.header = VALUE_HEADER, schema_header(schema, indexes)

    def encode(self, columns: Any, *, first_row: int = 0) -> Any:
        """A binary column, as `__arrow_c_array__`, of a table's columns or a struct's fields.

        RecordError names the row, counted from `first_row`, and the field that the schema does not hold.
        """
        pa, _ = _arrow()
        valid = None
        if self._is_json and isinstance(columns, pa.StructArray) and columns.null_count:
            # The JSON kernel takes rows of a table, which are never null.
            valid = columns.is_valid()
            columns = columns.drop_null()
        if self._decimals:
            columns = rescaled(columns, self._decimals)
        elif self._is_protobuf:
            columns = as_whole_numbers(columns)
        try:
            made = self._encoder.encode(columns, prefix=self._prefix)
        except RecordError as error:
            raise renumbered(RecordError, error, lambda row: first_row + _row_of(row, valid)) from error
        return made if valid is None else pa.array(made).take(_places(valid))


def _row_of(row: int, valid: Any) -> int:
    """The row of a column whose valid rows alone were encoded, from its number among these; None: all were."""
    return row if valid is None else int(_arrow()[1].indices_nonzero(valid)[row].as_py())


def _places(valid: Any) -> Any:
    """The index of each row among the valid ones; null for the others."""
    import numpy as np

    pa, _ = _arrow()
    is_valid = valid.to_numpy(zero_copy_only=False)
    return pa.array(np.cumsum(is_valid) - 1, mask=~is_valid)


def headers_type() -> Any:
    """The Arrow type of a column of headers."""
    pa, _ = _arrow()
    return pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def append_header(given: Any, header: tuple[str, bytes]) -> Any:
    """A column of headers with one more at the end of each row."""
    import numpy as np

    pa, pc = _arrow()
    counts = pc.fill_null(pc.list_value_length(given), 0).to_numpy()
    offsets = np.concatenate([[0], np.cumsum(counts + 1)])
    places = np.arange(offsets[-1])
    entries = given.flatten()
    # The last header of each row is the new one.
    is_new = np.zeros(len(places), bool)
    is_new[offsets[1:] - 1] = True
    places = np.where(is_new, len(entries), places - np.cumsum(is_new))
    added = pa.array([dict(zip(("key", "value"), header, strict=True))], entries.type)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.concat_arrays([entries, added]).take(places))


def check_schema_id_in(schema_id_in: str) -> str:
    """Return `schema_id_in`; ConfigError for a word that is not in `ID_IN`."""
    if schema_id_in not in ID_IN:
        raise ConfigError(f"schema_id_in={schema_id_in!r:.60} is not known; allowed are {', '.join(ID_IN)}.")
    return schema_id_in


def check_message(message: str | None, kind: str) -> None:
    """ConfigError where a message is named in a schema that has none."""
    if message is not None and kind != PROTOBUF:
        raise ConfigError(f"The message {message!r:.60} is named, and {kind} has none: leave value_message out.")


def schema_header(schema: RegisteredSchema, indexes: tuple[int, ...] | None) -> bytes:
    """The value of the header that names a schema; ConfigError where the registry has not given a GUID."""
    if not schema.guid:
        raise ConfigError("The registry gives schemas no GUIDs; use schema_id_in='prefix' with it.")
    return guid_header(UUID(schema.guid), indexes)


def kind_of(value_format: str) -> str:
    """The registry's word for a format of columns; ConfigError."""
    found = FORMATS.get(value_format)
    if found is None:
        raise ConfigError(f"format {value_format!r:.60} has no schemas; allowed are {', '.join(FORMATS)}.")
    return found


def reader_schema(
    registry: RegistryClient,
    value_format: str,
    subject: str,
    text: str | None,
    references: Sequence[SchemaReference] = (),
) -> RegisteredSchema:
    """The schema to read as: the one that is given, else the latest one of the subject."""
    kind = kind_of(value_format)
    check_schema("the schema to read as", text)
    if text is not None:
        return RegisteredSchema(0, "", kind, text, tuple(references))
    return registry.latest(subject, "give the schema to read as")


def _arrow() -> tuple[Any, Any]:
    """pyarrow and its functions, as Any: its type hints do not allow columns of unknown type."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pa, pc


def _whole(column: Any) -> Any:
    """The column as one array, also if it has chunks."""
    pa, _ = _arrow()
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column if isinstance(column, pa.Array) else pa.array(column)


def _binary(column: Any) -> Any:
    """The column as one array of bytes; RecordError for a column of another type."""
    pa, _ = _arrow()
    values = _whole(column)
    is_ = pa.types
    if is_.is_dictionary(values.type):
        values = values.dictionary_decode()
    if any(check(values.type) for check in (is_.is_binary_view, is_.is_null, is_.is_fixed_size_binary)):
        values = values.cast(pa.binary())
    if not (is_.is_binary(values.type) or is_.is_large_binary(values.type)):
        raise RecordError(
            f"The column to decode has type {values.type}; values with a schema are bytes: give a binary column, as it "
            "was read."
        )
    return values


def _header(headers: Any, name: str) -> Any:
    """The value of the last header of this name in each row, null where there is none; None where no row has one."""
    import numpy as np

    pa, pc = _arrow()

    entries: Any = pc.list_flatten(headers)
    is_named = pc.equal(entries.field("key"), name)
    if not pc.any(is_named).as_py():
        return None
    parents = pc.filter(pc.list_parent_indices(headers), is_named)
    found = pc.filter(entries.field("value"), is_named)
    # If a row has two, the later one is written last, and stays.
    places = np.full(len(headers), -1, np.int64)
    places[parents.to_numpy()] = np.arange(len(found))
    return found.take(pa.array(places, mask=places < 0))
