"""Our messages against kio's, an implementation generated from the same descriptors by other people.

For every message and every version the two write the same bytes and read each other's. kio turns some integers into
richer types (error codes, times) and refuses some values; those are tried on our side alone, over the full range.
"""

from __future__ import annotations

import dataclasses
import io
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import import_module
from typing import Any, get_args, get_type_hints
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from ottla.protocol import frames
from ottla.protocol.apis import REQUESTS, RESPONSES
from ottla.protocol.errors import MalformedMessage, ProtocolError
from ottla.protocol.message import ApiMessage, Message
from ottla.protocol.messages import MODULES, headers
from ottla.protocol.primitives import Decoder, Encoder

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
# kio takes times through floats of seconds, which lose the microsecond later than this (year 2096).
LAST_DATETIME_MS = 4_000_000_000_000
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


# What kio can hold, by the type it gives a field.
KIO_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int8": integers(8),
    "int16": integers(16),
    "int32": integers(32),
    "int64": integers(64),
    "uint16": st.integers(0, (1 << 16) - 1),
    "float64": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "string": TEXT,
    "records": st.binary(max_size=50),
    "uuid": st.uuids(),
    "error_code": st.sampled_from(list(ErrorCode)),
    "bytes": st.binary(max_size=50),
    "timedelta_i32": integers(32).map(lambda ms: ms * MILLISECOND),
    "timedelta_i64": integers(32).map(lambda ms: ms * MILLISECOND),
    "datetime_i64": st.integers(0, LAST_DATETIME_MS).map(lambda ms: EPOCH + ms * MILLISECOND),
}
# What the protocol can hold.
ALL_VALUES = KIO_VALUES | {
    "uuid": st.binary(min_size=16, max_size=16),
    "error_code": integers(16),
    "timedelta_i32": integers(32),
    "timedelta_i64": integers(64),
    "datetime_i64": integers(64),
}


def cases() -> list[Any]:
    """(our class, version, kio's class) for all messages."""
    found = []
    for api_key, (module, _) in MODULES.items():
        for kind, classes in (("request", REQUESTS), ("response", RESPONSES)):
            found.append((classes[api_key], module, kind))
    found.append((headers.RequestHeader, "request_header", "header"))
    found.append((headers.ResponseHeader, "response_header", "header"))
    return [
        pytest.param(
            ours,
            version,
            getattr(import_module(f"kio.schema.{module}.v{version}.{kind}"), ours.__name__),
            id=f"{ours.__name__}-v{version}",
        )
        for ours, module, kind in found
        for version in range(ours.MIN_VERSION, ours.MAX_VERSION + 1)
    ]


CASES = cases()


@cache
def fields_of(kio_class: type) -> list[tuple[Any, Any, bool, bool]]:
    """(field, type of an element, whether there are many, whether it may be None) of a kio class."""
    found = []
    hints = get_type_hints(kio_class)
    for field in dataclasses.fields(kio_class):
        hint = hints[field.name]
        nullable = type(None) in get_args(hint)
        if nullable:
            (hint,) = (part for part in get_args(hint) if part is not type(None))
        many = bool(get_args(hint))
        found.append((field, get_args(hint)[0] if many else hint, many, nullable))
    return found


def strategy(kio_class: type, leaves: dict[str, st.SearchStrategy[Any]], build: Any) -> st.SearchStrategy[Any]:
    """Instances of `build(kio_class)`, whose fields are as kio describes them."""
    parts = {}
    for field, element, many, nullable in fields_of(kio_class):
        if dataclasses.is_dataclass(element):
            values = strategy(element, leaves, build)
        else:
            values = leaves[field.metadata["kafka_type"]]
        if many:
            values = st.lists(values, max_size=2)
        # Where kio has None for a zero UUID or for -1, the protocol itself has no null.
        if nullable and (leaves is KIO_VALUES or field.metadata.get("kafka_type") not in ("uuid", "datetime_i64")):
            values = st.none() | values
        parts[field.name] = values
    return st.builds(build(kio_class), **parts)


def kio_class_itself(kio_class: type) -> Any:
    return lambda **fields: kio_class(
        **{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    )


def struct_of_ours(ours: type[Message], name: str) -> Any:
    """Our class of that name; where a request and its response name different structs alike, that of `ours`."""
    module = import_module(ours.__module__)
    kind = "Request" if ours.__name__.endswith("Request") else "Response"
    return getattr(module, name, None) or getattr(module, f"{kind}{name}")


def class_of_ours(ours: type[Message], kio_class: type) -> Any:
    """Our class for the same struct, taking kio's field names."""
    found = struct_of_ours(ours, kio_class.__name__)
    return lambda **fields: found(**{name_of_ours(found, name): value for name, value in fields.items()})


def name_of_ours(ours: type[Message], name: str) -> str:
    """kio drops the unit from the fields it makes times of."""
    return name if name in ours.__slots__ else f"{name}_ms"


def to_ours(ours: type[Message], theirs: Any) -> Any:
    """The same message in our classes and plain integers."""
    if isinstance(theirs, ErrorCode):
        return int(theirs)
    if isinstance(theirs, timedelta):
        return theirs // MILLISECOND
    if isinstance(theirs, datetime):
        return (theirs - EPOCH) // MILLISECOND
    if isinstance(theirs, UUID):
        return theirs.bytes
    if isinstance(theirs, tuple):
        return [to_ours(ours, element) for element in theirs]
    if not dataclasses.is_dataclass(theirs):
        return theirs
    found = struct_of_ours(ours, type(theirs).__name__)
    values = {}
    for field, element, many, nullable in fields_of(type(theirs)):
        value = getattr(theirs, field.name)
        converted = to_ours(ours, value)
        if nullable and value is None and element is UUID:
            converted = bytes(16)
        elif nullable and value is None and field.metadata.get("kafka_type") == "datetime_i64":
            converted = -1
        elif "tag" in field.metadata and dataclasses.is_dataclass(element) and not many and value == field.default:
            converted = None
        values[name_of_ours(found, field.name)] = converted
    return found(**values)


def written(message: Any, version: int) -> bytes:
    encoder = Encoder()
    message.write(encoder, version)
    data = b"".join(encoder.chunks())
    assert encoder.size == len(data)
    return data


def read(ours: type[Message], data: bytes, version: int) -> Any:
    decoder = Decoder(data)
    message = ours.read(decoder, version)
    decoder.finish()
    return message


def written_by_kio(theirs: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(theirs))(out, theirs)
    return out.getvalue()


@pytest.mark.parametrize(("ours", "version", "kio_class"), CASES)
def test_both_write_the_same_and_read_each_other(ours: type[Message], version: int, kio_class: type) -> None:
    @settings(max_examples=40, deadline=None, database=None)
    @given(strategy(kio_class, KIO_VALUES, kio_class_itself))
    def check(theirs: Any) -> None:
        message = to_ours(ours, theirs)
        data = written_by_kio(theirs)
        assert written(message, version) == data
        assert read(ours, data, version) == message
        assert entity_reader(kio_class)(data, 0) == (theirs, len(data))

    check()


@pytest.mark.parametrize(("ours", "version", "kio_class"), CASES)
def test_every_value_survives_and_no_other_length_is_accepted(
    ours: type[Message], version: int, kio_class: type
) -> None:
    @settings(max_examples=20, deadline=None, database=None)
    @given(strategy(kio_class, ALL_VALUES, lambda found: class_of_ours(ours, found)), st.binary(min_size=1, max_size=3))
    def check(message: Any, trailing: bytes) -> None:
        data = written(message, version)
        assert read(ours, data, version) == message
        for length in range(len(data)):
            with pytest.raises(MalformedMessage):
                read(ours, data[:length], version)
        with pytest.raises(MalformedMessage, match="too many"):
            read(ours, data + trailing, version)

    check()


@pytest.mark.parametrize(
    ("ours", "version", "kio_class"), [case for case in CASES if hasattr(case.values[0], "API_KEY")]
)
def test_a_frame_fed_byte_by_byte_gives_the_message(ours: type[ApiMessage], version: int, kio_class: type) -> None:
    is_request = ours in [REQUESTS[key] for key in REQUESTS]

    @settings(max_examples=5, deadline=None, database=None)
    @given(strategy(kio_class, ALL_VALUES, lambda found: class_of_ours(ours, found)), integers(32))
    def check(message: Any, correlation_id: int) -> None:
        if is_request:
            chunks = frames.encode_request(correlation_id, "me", message, version)
        else:
            chunks = frames.encode_response(correlation_id, message, version)
        buffer, found = frames.FrameBuffer(1 << 20), []
        for byte in b"".join(chunks):
            buffer.get_buffer()[0] = byte
            found += buffer.advance(1)
        (frame,) = found
        if is_request:
            header, decoded = frames.decode_request(frame)
            assert (header.correlation_id, header.client_id) == (correlation_id, "me")
        else:
            assert frames.correlation_id_of(frame) == correlation_id
            seen, decoded = frames.decode_response(frame, REQUESTS[ours.API_KEY], version)
            assert seen == correlation_id
        assert decoded == message

    check()


@settings(max_examples=300, deadline=None, database=None)
@given(st.sampled_from(CASES), st.data())
def test_damaged_bytes_give_a_message_or_a_protocol_error(case: Any, data: st.DataObject) -> None:
    ours, version, kio_class = case.values
    message = data.draw(strategy(kio_class, ALL_VALUES, lambda found: class_of_ours(ours, found)))
    damaged = bytearray(written(message, version))
    for _ in range(data.draw(st.integers(1, 4)) if damaged else 0):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ProtocolError):
        read(ours, damaged, version)
