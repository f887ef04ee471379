"""The values of `ottla run --schema avro`: each row as Avro, the second half with a schema that has one field more.

Each topic has a subject of its own, `TOPIC-value`. Its first version is registered before its first record, the second
one when the sender comes to the second half: the same columns and `row`, the row's number, with the default -1. Spark
reads all records as the second version, and the streaming job writes what it has read with a third schema.

Invariant: a schema has one id, whatever the subject (as registries do it): a record has the same bytes in each topic.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla.errors import OttlaError, UserMistake
from ottla.ledger.checksum import crc_column
from ottla.registry.client import RegistryClient
from ottla.registry.columns import ColumnDecoder, ColumnEncoder
from ottla.registry.registered import AVRO, RegisteredSchema
from ottla.schemas.avro.derived import derive_schema
from ottla.schemas.avro.encode import AvroEncoder
from ottla.schemas.framing import PREFIX_BYTES, id_prefix
from ottla.showcase.result import FROM, Result
from ottla.showcase.values import Values

if TYPE_CHECKING:
    from pyspark.sql import Column

    from ottla.inputs.source import Source
    from ottla.showcase.registry import RunRegistry

DEFAULT = -1
"""What `row` is in a record that was written without it."""
_ROW = "row"
# Types that Avro has not, and the ones that hold the same values.
_WIDER = (
    (pa.types.is_null, pa.string()),
    (pa.types.is_uint64, pa.int64()),
    (pa.types.is_time, pa.string()),
)


class AvroValues(Values):
    """The rows of a table; `UserMistake` for a column that Avro has no type for, or a table of a single row.

    `since` is the number of the first row of the second version, `field` the name of its new field. `registered` has
    the versions of each topic; `registry_shown` is the address of a registry of the user's, "" for the run's own.
    """

    def __init__(self, source: Source, rows: pa.Table, registry: RunRegistry) -> None:
        super().__init__(rows)
        if self.count < 2:
            raise UserMistake(
                f"{source.path} has a single row, and --schema avro writes two versions: give two rows at least"
            )
        self._registry = registry
        self.registry_shown = "" if registry.is_own else registry.url
        first = _as_avro_has_it(source, rows)
        self.field = _ROW
        while self.field in first.column_names:
            self.field += "_"
        pieces = list(self.pieces())
        self.since = pieces[len(pieces) // 2].start
        numbers: Any = pa.array(range(self.count), pa.int64())
        self._rows = first, first.append_column(self.field, numbers)
        self.texts = _texts(source, first, self.field)
        self._encoders = [AvroEncoder(text) for text in self.texts]
        self._versions: list[RegisteredSchema] = []
        self.registered: dict[str, list[RegisteredSchema]] = {}
        self._checksums: pa.Int64Array | None = None

    def begin(self, topic: str, numbers: range) -> None:
        """Register what these rows are written with, where the topic has come to it."""
        of_topic = self.registered.setdefault(topic, [])
        for version, (text, since) in enumerate(zip(self.texts, (0, self.since), strict=True)):
            if version < len(of_topic) or numbers.stop <= since:
                continue
            found = self._registry.register(topic, text)
            of_topic.append(found)
            if version == len(self._versions):
                self._versions.append(found)
            elif self._versions[version].id != found.id:
                raise OttlaError(
                    f"the registry at {self._registry.url} gives the same schema the id {self._versions[version].id} "
                    f"and, for the subject {found.subject}, the id {found.id}: ottla run needs one that keeps to one id"
                )

    def made(self, numbers: range) -> Any:
        """The values, each behind the id of its schema; the schemas must be registered by then."""
        return self._encoded(numbers, [id_prefix(version.id) for version in self._versions])

    def _encoded(self, numbers: range, prefixes: list[bytes]) -> Any:
        begins = numbers.start, max(numbers.start, min(self.since, numbers.stop)), numbers.stop
        made: list[Any] = []
        for version in range(2):
            begin, end = begins[version : version + 2]
            if end > begin:
                rows: Any = self._rows[version].slice(begin, end - begin)
                encoded: Any = self._encoders[version].encode(rows, prefix=prefixes[version])
                made.append(pa.array(encoded))
        return made[0] if len(made) == 1 else pa.concat_arrays(made)

    def size_bytes(self) -> int:
        """An id takes the same four bytes whatever it is."""
        zero = [bytes(PREFIX_BYTES)] * 2
        return sum(pc.sum(pc.binary_length(self._encoded(piece, zero))).as_py() or 0 for piece in self.pieces())

    def sample(self) -> bytes:
        """Of the first rows, without an id."""
        return b"".join(self._encoded(range(min(self.count, 2_000)), [b"", b""]).to_pylist())

    def checksums(self) -> pa.Int64Array:
        """Computed once, when the ids are known."""
        if self._checksums is None:
            self._checksums = pa.concat_arrays([crc_column(self.made(piece)) for piece in self.pieces()])
        return self._checksums

    def fields(self, types: str) -> Column:
        """All fields of the second version."""
        from ottla.spark.schema_functions import from_avro

        return from_avro("value", registry=self._registry.url, schema=self._versions[1])

    def result(self, topic: str) -> AvroResult:
        """Where a record stood, and its values, with a schema of its own."""
        fields = [{"name": "from", "type": "string"}, {"name": "record", "type": json.loads(self.texts[1])}]
        text = json.dumps({"type": "record", "name": "Streamed", "fields": fields})
        found = self._registry.register(topic, text)
        self.registered[topic] = [found]
        return AvroResult(self._registry.url, self.texts[1], text, found.id)


class AvroResult(Result):
    """A record of `from` and `record`: what was read as one schema, written with another one."""

    def __init__(self, registry: str, read_as: str, text: str, schema_id: int) -> None:
        self._given = registry, read_as, text, schema_id

    def column(self) -> Column:
        """By the functions for DataFrames."""
        from pyspark.sql import functions as F  # noqa: N812

        from ottla.spark.schema_functions import from_avro, to_avro

        registry, read_as, text, schema_id = self._given
        record = from_avro("value", registry=registry, schema=read_as)
        result = F.struct(F.expr(FROM).alias("from"), record.alias("record"))
        return to_avro(result, registry=registry, schema=RegisteredSchema(schema_id, "", AVRO, text), subject="")

    def read(self) -> Column:
        """The column `value` of the result as a struct."""
        from ottla.spark.schema_functions import from_avro

        return from_avro("value", registry=self._given[0], schema=self._given[2])

    def values(self, topic: str, partition: int, records: pa.RecordBatch) -> Any:
        """By columns."""
        decoder, encoder = _by_columns(*self._given)
        offsets = records.column("offset").cast(pa.string())
        compute: Any = pc  # whose stubs know no scalars here
        stood = compute.binary_join_element_wise(f"{topic}-{partition}@", offsets, "")
        record = decoder.decode(records.column("value"))
        return pa.array(encoder.encode(pa.table({"from": stood, "record": record})))

    def value(self, topic: str, partition: int, offset: int, value: bytes | None) -> bytes:
        """By objects."""
        registry, read_as, text, schema_id = self._given
        if value is None:
            raise ValueError("a record of a run has a value")
        record = _reader(registry, int.from_bytes(value[1:PREFIX_BYTES], "big"), read_as).decode_one(
            value, PREFIX_BYTES
        )
        written = _writer(text).encode_one({"from": f"{topic}-{partition}@{offset}", "record": record})
        return id_prefix(schema_id) + bytes(written)

    def to_dict(self) -> dict[str, Any]:
        """Its own arguments."""
        return dict(zip(("registry", "read_as", "text", "schema_id"), self._given, strict=True))


@lru_cache(maxsize=4)
def _by_columns(registry: str, read_as: str, text: str, schema_id: int) -> tuple[ColumnDecoder, ColumnEncoder]:
    client = RegistryClient(registry)
    read, written = RegisteredSchema(0, "", AVRO, read_as), RegisteredSchema(schema_id, "", AVRO, text)
    return ColumnDecoder(client, "avro", read), ColumnEncoder(client, written)


@lru_cache(maxsize=4)
def _reader(registry: str, schema_id: int, read_as: str) -> Any:
    from ottla.schemas.avro.decode_rows import AvroRowDecoder

    with RegistryClient(registry) as client:
        return AvroRowDecoder(client.by_id(schema_id).text, read_as)


@lru_cache(maxsize=4)
def _writer(text: str) -> Any:
    from ottla.schemas.avro.encode_rows import AvroRowEncoder

    return AvroRowEncoder(text)


def _texts(source: Source, rows: pa.Table, field: str) -> tuple[str, str]:
    """The schema of these columns, and the same with one more field."""
    try:
        first = derive_schema(rows.schema, source.name)
    except UserMistake as error:
        raise UserMistake(f"--schema avro cannot write {source.path}: {error}") from None
    schema = json.loads(first)
    schema["fields"].append({"name": field, "type": "long", "default": DEFAULT})
    return first, json.dumps(schema, separators=(",", ":"))


def _as_avro_has_it(source: Source, rows: pa.Table) -> pa.Table:
    """The same values in types that Avro and Spark have: microseconds, and no column of nulls alone."""
    columns: list[Any] = []
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        kind: Any = column.type
        wanted = next((wider for is_it, wider in _WIDER if is_it(kind)), kind)
        if pa.types.is_timestamp(kind) and kind.unit in ("s", "ns"):
            wanted = pa.timestamp("ms" if kind.unit == "s" else "us", kind.tz)
        try:
            columns.append(column if wanted == kind else column.cast(wanted))
        except pa.ArrowInvalid as error:
            raise UserMistake(f"--schema avro cannot write column {name!r} of {source.path}: {error}") from None
    return pa.table(columns, names=rows.column_names)
