"""`write_table` and `read_table`: a whole table to a topic and back, in one call each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from ottla.client.arrow import need_pyarrow
from ottla.client.producer import Producer
from ottla.client.reader import End, Reader, Start
from ottla.connection.setting import named_in_help
from ottla.errors import ConfigError
from ottla.producer.settings_table import PRODUCER_SETTINGS
from ottla.reader.settings import READER_SETTINGS

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.client.producer_settings_keywords import ProducerSettingsKeywords
    from ottla.client.reader_settings_keywords import ReaderSettingsKeywords
    from ottla.client.table_delivery import TableDelivery
    from ottla.registry.client import RegistryClient
    from ottla.registry.record_decoder import RecordDecoder
    from ottla.registry.registered import RegisteredSchema


@named_in_help(PRODUCER_SETTINGS)
def write_table(
    bootstrap_servers: str | Sequence[str],
    topic: str,
    data: Any,
    *,
    key: str | None = None,
    value: str | Sequence[str] | None = None,
    headers: str | None = None,
    partition: str | None = None,
    timestamp_ms: str | None = None,
    value_format: str = "raw",
    registry: str | Sequence[str] | RegistryClient | None = None,
    value_schema: str | RegisteredSchema | None = None,
    value_message: str | None = None,
    schema_id_in: str = "prefix",
    **settings: Unpack[ProducerSettingsKeywords],
) -> TableDelivery:
    """Send every row of an Arrow table as a record and return when all are stored.

    Data and columns as in `Producer.send_table`, settings as for `Producer`. Raises DeliveryError when a row failed or
    is unknown. `result()` of the TableDelivery says where each row was stored. An exception that ends it, Ctrl+C too,
    has the TableDelivery as its attribute `table`, once sending has begun: `failures()` has the rows that are not known
    to be stored.
    """
    delivery = None
    try:
        with Producer(bootstrap_servers, **settings) as producer:
            delivery = producer.send_table(
                topic,
                data,
                key=key,
                value=value,
                headers=headers,
                partition=partition,
                timestamp_ms=timestamp_ms,
                value_format=value_format,
                registry=registry,
                value_schema=value_schema,
                value_message=value_message,
                schema_id_in=schema_id_in,
            )
            producer.flush()
    except BaseException as error:
        if delivery is not None:
            delivery.go_with(error)
        raise
    return delivery


@named_in_help(READER_SETTINGS)
def read_table(
    bootstrap_servers: str | Sequence[str],
    topic: str | Sequence[str],
    *,
    start: Start = "earliest",
    end: End = "latest",
    value_format: str = "raw",
    registry: str | Sequence[str] | RegistryClient | None = None,
    value_schema: str | RegisteredSchema | None = None,
    value_message: str | None = None,
    undecodable: str = "fail",
    **settings: Unpack[ReaderSettingsKeywords],
) -> pa.Table:
    """Read topics into one Arrow table, up to where they end now; rows in the order of topic, partition, offset.

    Arguments, settings and columns as in `Reader`; an `end` of None would never be reached and is a ConfigError.
    LogTruncated if a topic loses records while it is read: no table has records from both before and after.

    With value_format="avro", "protobuf" or "json" the column `value` has decoded values. Each is decoded by the schema
    that it names in `registry` (its address, or a `RegistryClient`), and read as `value_schema`, by default the topic's
    latest one; with a Protobuf file as its message `value_message`. DeserializationError names the record that cannot
    be decoded; undecodable="null" makes it null.
    """
    need_pyarrow("read_table")
    import pyarrow as pa

    if end is None:
        raise ConfigError('end=None would read for ever; give "latest" or an offset, or take a Reader')
    for name in ("key_deserializer", "value_deserializer"):
        if settings.get(name) not in (None, "bytes"):
            raise ConfigError(
                f"{name} has no effect here: a table has keys and values as bytes. Cast the column, give value_format, "
                "or read record by record: Reader(...).records()."
            )
    decoder = _decoder(topic, value_format, registry, value_schema, value_message, undecodable)
    with Reader(bootstrap_servers, topic, start=start, end=end, **settings) as reader:
        found: dict[tuple[str, int], list[pa.RecordBatch]] = {}
        for fetched in reader.iter_raw():
            batch = reader.decode(fetched)
            if decoder is not None:
                batch = decoder.decode_batch(batch, fetched.topic)
            found.setdefault((fetched.topic, fetched.partition), []).append(batch)
        batches = [batch for key in sorted(found) for batch in found[key]]
        schema = reader.schema if decoder is None else decoder.schema_of(reader.schema)
        return pa.Table.from_batches(batches, schema=schema)


def _decoder(
    topic: str | Sequence[str],
    value_format: str,
    registry: Any,
    value_schema: str | RegisteredSchema | None,
    message: str | None,
    undecodable: str,
) -> RecordDecoder | None:
    if value_format == "raw":
        if (registry, value_schema, message, undecodable) != (None, None, None, "fail"):
            raise ConfigError(
                "registry, value_schema, value_message and undecodable are for value_format='avro', 'protobuf' and "
                "'json'."
            )
        return None
    from ottla.registry.record_decoder import RecordDecoder

    return RecordDecoder.of(
        registry, value_format, topic, schema=value_schema, message=message, undecodable=undecodable
    )
