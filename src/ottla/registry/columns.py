"""A column of values as records have them <-> a column of what they say, by the schemas of a registry.

Each value names the schema it was written with. Values of one schema are decoded together: a column has few schemas,
whatever its length. pyarrow takes the column apart and puts it together; the kernels in `schemas/` do the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from ottla.errors import ConfigError, DeserializationError, RegistryError, UserMistake
from ottla.registry.client import RegistryClient
from ottla.registry.registered import AVRO, PROTOBUF, RegisteredSchema, SchemaReference
from ottla.schemas.framing import KEY_HEADER, VALUE_HEADER, FramingError, id_prefix, read_frame

FORMATS: Final[Mapping[str, str]] = {"avro": AVRO, "protobuf": PROTOBUF}
"""What `value_format` may be for columns, and the registry's word for it."""
MODES: Final = ("fail", "null")

_MAGIC_BYTES = 1
_NOT_FOUND = 404
_ID_BYTES, _GUID_BYTES = 5, 17
_DECODERS_MOST = 1_000


def client_of(registry: Any) -> RegistryClient:
    """The client of a registry that is named by its address (or several), or is one already; ConfigError."""
    if isinstance(registry, RegistryClient):
        return registry
    if registry is None:
        raise ConfigError("registry is missing: give the address of a schema registry, or an ottla.RegistryClient.")
    return RegistryClient(registry)


class ColumnDecoder:
    """Decodes columns of keys or values into columns of `type`; threads may share one.

    Avro is resolved from the schema that each value names to `schema`, the reader's, by the specification's rules.
    Protobuf is read by `schema` alone, as its field numbers allow.
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
    ) -> None:
        """`mode`: a value that cannot be decoded is an error ("fail"), or null ("null"); ConfigError."""
        if mode not in MODES:
            raise ConfigError(f"mode={mode!r:.60} is not known; allowed are {', '.join(MODES)}.")
        self._registry = registry
        self._kind = kind_of(value_format)
        if schema.kind != self._kind:
            raise ConfigError(f"The schema is of type {schema.kind}, and {value_format!r} is asked for.")
        self._schema = schema
        self._message = message
        self._mode = mode
        self._header = KEY_HEADER if part == "key" else VALUE_HEADER
        self._part = part
        self._decoders: dict[bytes, tuple[Any, int]] = {}
        self._reader = self._decoder_of(schema)

    @property
    def type(self) -> Any:
        """The type of what comes out."""
        pa, _ = _arrow()

        return pa.field(self._reader).type

    def decode(self, values: Any, headers: Any = None, *, first_row: int = 0) -> Any:
        """One value for each of `values` (binary), null for null. `headers` are those of the records, where known.

        DeserializationError names the row, counted from `first_row`, and the place in the value; RegistryError where
        a schema cannot be had, in either mode.
        """
        pa, pc = _arrow()

        values = _whole(values)
        prefixes = self._prefixes(values, headers)
        encoded = prefixes.dictionary_encode()
        found: list[bytes | None] = encoded.dictionary.to_pylist()
        if not found:
            return pa.nulls(len(values), self.type)
        if len(found) == 1 and not encoded.null_count:
            return self._decode(found[0] or b"", values, None, first_row)
        # Nulls are a group of their own at the end.
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
        # Where each row is now.
        back = pc.sort_indices(order)
        return pa.concat_arrays(pieces).take(back)

    def _prefixes(self, values: Any, headers: Any) -> Any:
        """What names the schema of each value, null for null."""
        pa, pc = _arrow()

        magic = pc.binary_slice(values, 0, _MAGIC_BYTES)
        by_guid = pc.equal(magic, pa.scalar(b"\1", magic.type))
        prefixes = pc.if_else(by_guid, pc.binary_slice(values, 0, _GUID_BYTES), pc.binary_slice(values, 0, _ID_BYTES))
        if headers is not None:
            named = _header(_whole(headers), self._header)
            if named is not None:
                # A mark in front tells what stands in a header from the same in the value.
                mark = pa.scalar(b"H", pa.binary())
                told = pc.binary_join_element_wise(mark, named, pa.scalar(b"", pa.binary()))
                prefixes = pc.if_else(values.is_valid(), pc.coalesce(told, prefixes.cast(pa.binary())), None)
        return prefixes

    def _decode(self, prefix: bytes, values: Any, rows: Any, first_row: int) -> Any:
        """The values of one prefix; `rows` says which rows these are (None: all)."""
        pa, _ = _arrow()

        def place(row: int) -> int:
            return first_row + (row if rows is None else rows[row].as_py())

        try:
            decoder, skip = self._known(prefix)
        except (RegistryError, UserMistake) as error:
            # A registry that does not answer says nothing of the values.
            if isinstance(error, RegistryError) and error.status != _NOT_FOUND:
                raise
            if self._mode == "null":
                return pa.nulls(len(values), self.type)
            raise DeserializationError(f"Row {place(0)}: the {self._part} cannot be decoded: {error}") from error
        decoded: Any = decoder.decode(values, skip=skip, mode="null")
        failed = decoded.failed_rows
        if failed and self._mode == "fail":
            row, reason = failed[0]
            raise DeserializationError(f"Row {place(row)}: the {self._part} cannot be decoded: {reason}.")
        return pa.array(decoded)

    def _known(self, prefix: bytes) -> tuple[Any, int]:
        known = self._decoders.get(prefix)
        if known is None:
            in_header = prefix[:1] == b"H"
            frame = read_frame(prefix[1:] if in_header else prefix)
            schema = self._registered(frame.schema_id, frame.guid)
            if schema.kind != self._kind:
                raise FramingError(f"its schema is of type {schema.kind}, not {self._kind}")
            known = self._decoder_of(schema), 0 if in_header else frame.payload_at
            if len(self._decoders) >= _DECODERS_MOST:
                self._decoders.clear()
            self._decoders[prefix] = known
        return known

    def _registered(self, schema_id: int | None, guid: UUID | None) -> RegisteredSchema:
        return self._registry.by_id(schema_id or 0) if guid is None else self._registry.by_guid(str(guid))

    def _decoder_of(self, writer: RegisteredSchema) -> Any:
        if self._kind == AVRO:
            from ottla.schemas.avro.decode import AvroDecoder

            references = {**self._registry.referred(writer), **self._registry.referred(self._schema)}
            return AvroDecoder(writer.text, self._schema.text, references=references)
        raise ConfigError(f"{self._kind} is not decoded by columns.")


class ColumnEncoder:
    """Encodes columns as values of one registered schema."""

    def __init__(self, registry: RegistryClient, schema: RegisteredSchema) -> None:
        from ottla.schemas.avro.encode import AvroEncoder

        self._encoder = AvroEncoder(schema.text, references=registry.referred(schema))
        self._prefix = id_prefix(schema.id)

    def encode(self, columns: Any) -> Any:
        """A binary column, as `__arrow_c_array__`, of a table's columns or a struct's fields; RecordError."""
        return self._encoder.encode(columns, prefix=self._prefix)


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
    if text is not None:
        return RegisteredSchema(0, "", kind_of(value_format), text, tuple(references))
    return registry.version(subject)


def _arrow() -> tuple[Any, Any]:
    """pyarrow and its functions, whose own types know nothing of columns of any type."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pa, pc


def _whole(column: Any) -> Any:
    """One array of what may be chunks."""
    pa, _ = _arrow()
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column if isinstance(column, pa.Array) else pa.array(column)


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
    # Of two, the later one stays.
    places = np.full(len(headers), -1, np.int64)
    places[parents.to_numpy()] = np.arange(len(found))
    return found.take(pa.array(places, mask=places < 0))
