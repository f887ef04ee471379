"""`Reader.records`: one object for each record, for programs that handle records one by one.

Columns are the fast way (`for batch in reader`); this one costs about a microsecond a record, and the time of the
deserializers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.arrow import need_pyarrow
from ottla.connection.setting import nearest_name, shown
from ottla.errors import ConfigError, DeserializationError, OttlaError, RegistryError

if TYPE_CHECKING:
    from ottla.client.reader import Reader

Headers = tuple[tuple[str, bytes | None], ...]
_NOT_FOUND = 404
_Deserialize = Callable[[str, bytes, Headers], Any]


class ReadRecord(NamedTuple):
    """A record as it is stored, its key and value as their deserializers made them; `timestamp_ms` since 1970.

    `timestamp_type` is 0 where the producer gave the time, 1 where the broker did.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    timestamp_type: int
    key: Any
    value: Any
    headers: Headers


def records_of(reader: Reader, key_deserializer: Any, value_deserializer: Any) -> Iterator[ReadRecord]:
    """Every record of a reader's partitions; DeserializationError names the record that could not be read."""
    need_pyarrow("Reader.records")
    import pyarrow as pa

    of_key = _deserializer("key.deserializer", key_deserializer)
    of_value = _deserializer("value.deserializer", value_deserializer)
    for fetched in reader.iter_raw():
        batch = reader.decode(fetched)
        topic, partition = fetched.topic, fetched.partition
        columns = (batch.column(name).to_pylist() for name in ("offset", "timestamp_type", "key", "value", "headers"))
        times: list[int | None] = batch.column("timestamp").cast(pa.int64()).to_pylist()
        for time_ms, offset, kind, key, value, given in zip(times, *columns, strict=True):
            headers = tuple((each["key"], each["value"]) for each in given or ())
            place = topic, partition, offset
            yield ReadRecord(
                topic,
                partition,
                offset,
                time_ms,
                kind,
                _made(of_key, "key", key, headers, place),
                _made(of_value, "value", value, headers, place),
                headers,
            )


def _made(
    deserialize: _Deserialize | None, what: str, stored: bytes | None, headers: Headers, place: tuple[str, int, int]
) -> Any:
    if stored is None or deserialize is None:
        return stored
    try:
        return deserialize(place[0], stored, headers)
    except RegistryError as error:
        # An error of the registry itself: the record may be readable.
        if error.status != _NOT_FOUND:
            raise
        raise _unread(what, place, error) from error
    except Exception as error:
        raise _unread(what, place, error) from error


def _unread(what: str, place: tuple[str, int, int], error: Exception) -> DeserializationError:
    topic, partition, offset = place
    told = str(error) if isinstance(error, OttlaError) else f"{type(error).__name__}: {error}"
    return DeserializationError(
        f"the {what} of the record at offset {offset} of {topic}-{partition} cannot be read by {what}.deserializer: "
        f"{told[:500]}",
        topic=topic,
        partition=partition,
    )


def _deserializer(setting: str, given: Any) -> _Deserialize | None:
    if given is None:
        return None
    if isinstance(given, str):
        from ottla.schemas.deserializers import DESERIALIZERS

        known = DESERIALIZERS.get(given)
        if known is None:
            nearest = nearest_name(given, DESERIALIZERS)
            hint = f" Did you mean {nearest}?" if nearest else ""
            raise ConfigError(
                f"{setting}={shown(given)} is not known; allowed are {', '.join(DESERIALIZERS)}, a function, or an "
                f"object with a method deserialize(topic, bytes).{hint}"
            )
        return lambda topic, stored, headers: known(stored)
    # Only if it is imported: otherwise `given` cannot be one of its deserializers.
    confluent = sys.modules.get("confluent_kafka.serialization")
    if confluent is not None and isinstance(given, confluent.Deserializer):
        field = confluent.MessageField(setting.partition(".")[0])
        return lambda topic, stored, headers: given(stored, confluent.SerializationContext(topic, field, list(headers)))
    # A deserializer with a schema registry has to know whether it is for keys or values.
    if hasattr(given, "of_part"):
        given = given.of_part(setting.partition(".")[0])
    with_headers = getattr(given, "deserialize_with_headers", None)
    if with_headers is not None:
        return lambda topic, stored, headers: with_headers(topic, stored, headers)
    method = getattr(given, "deserialize", None)
    if method is not None:
        return lambda topic, stored, headers: method(topic, stored)
    return lambda topic, stored, headers: given(stored)
