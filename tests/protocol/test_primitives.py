"""Primitive types: round trips, limits, and what a decoder refuses without allocating anything for it."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import InvalidValue, MalformedMessage
from ottla.protocol.primitives import Decoder, Encoder


def written(method: str, value: Any) -> bytes:
    encoder = Encoder()
    getattr(encoder, method)(value)
    return b"".join(encoder.chunks())


@pytest.mark.parametrize(
    ("value", "data"),
    [(0, b"\0"), (1, b"\1"), (127, b"\x7f"), (128, b"\x80\1"), (300, b"\xac\2"), (2**32 - 1, b"\xff\xff\xff\xff\x0f")],
)
def test_unsigned_varints_are_as_the_protocol_says(value: int, data: bytes) -> None:
    assert written("uvarint", value) == data
    assert Decoder(data).uvarint() == value


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1))
def test_signed_varints_survive(small: int, large: int) -> None:
    assert Decoder(written("varint", small)).varint() == small
    assert Decoder(written("varlong", large)).varlong() == large


@pytest.mark.parametrize(("value", "data"), [(0, b"\0"), (-1, b"\1"), (1, b"\2"), (-64, b"\x7f"), (64, b"\x80\1")])
def test_signed_varints_are_zigzag(value: int, data: bytes) -> None:
    assert written("varint", value) == data
    assert written("varlong", value) == data


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\1", b"\xff" * 20])
def test_a_varint_of_more_than_32_bits_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessage, match="32 bits"):
        Decoder(data).uvarint()


@pytest.mark.parametrize("method", ["nullable_string", "nullable_compact_string"])
@given(value=st.none() | st.text(st.characters(exclude_categories=["Cs"])))
def test_nullable_strings_survive(method: str, value: str | None) -> None:
    decoder = Decoder(written(method, value))
    assert getattr(decoder, method)() == value
    decoder.finish()


@pytest.mark.parametrize("method", ["nullable_byte_string", "nullable_compact_byte_string"])
@given(value=st.none() | st.binary())
def test_nullable_bytes_survive(method: str, value: bytes | None) -> None:
    decoder = Decoder(written(method, value))
    assert getattr(decoder, method)() == value
    decoder.finish()


@pytest.mark.parametrize(
    ("method", "data"),
    [
        ("string", b"\xff\xff"),
        ("compact_string", b"\0"),
        ("byte_string", b"\xff\xff\xff\xff"),
        ("compact_byte_string", b"\0"),
    ],
)
def test_null_is_refused_where_none_is_allowed(method: str, data: bytes) -> None:
    with pytest.raises(MalformedMessage, match="null"):
        getattr(Decoder(data), method)()


def test_a_null_array_is_refused_where_none_is_allowed() -> None:
    with pytest.raises(MalformedMessage, match="null array"):
        Decoder(b"\xff\xff\xff\xff").count(1)
    with pytest.raises(MalformedMessage, match="null array"):
        Decoder(b"\0").compact_count(1)
    assert Decoder(b"\xff\xff\xff\xff").nullable_count(1) == -1
    assert Decoder(b"\0").nullable_compact_count(1) == -1


@pytest.mark.parametrize(
    ("method", "data"),
    [
        ("nullable_string", b"\xff\xfe"),
        ("string", b"\x7f\xffabc"),
        ("compact_string", b"\xff\xff\xff\xff\x0fabc"),
        ("nullable_byte_string", b"\x80\0\0\0"),
        ("byte_string", b"\x7f\xff\xff\xffabc"),
        ("compact_byte_string", b"\xff\xff\xff\xff\x0fabc"),
    ],
)
def test_impossible_lengths_are_refused_and_allocate_nothing(method: str, data: bytes) -> None:
    decoder = Decoder(data)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessage):
            getattr(decoder, method)()
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("method", "data"),
    [
        ("count", b"\x7f\xff\xff\xff"),
        ("count", b"\0\0\0\x03"),
        ("nullable_count", b"\xff\xff\xff\xfe"),
        ("compact_count", b"\xff\xff\xff\xff\x0f"),
        ("nullable_compact_count", b"\x04"),
    ],
)
def test_an_array_that_cannot_fit_is_refused_before_it_is_built(method: str, data: bytes) -> None:
    # Two elements of four bytes would fit behind the count, three do not.
    with pytest.raises(MalformedMessage):
        getattr(Decoder(data + bytes(11)), method)(4)


def test_numbers_behind_the_end_are_refused() -> None:
    with pytest.raises(MalformedMessage, match="8 bytes wanted at byte 0, where 7 are left"):
        Decoder(bytes(7)).numbers(2, "i", 4)


def test_a_string_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="not UTF-8"):
        Decoder(b"\0\2\xff\xfe").string()


def test_a_struct_that_may_be_null_begins_with_minus_one_or_one() -> None:
    assert Decoder(b"\1").has_struct()
    assert not Decoder(b"\xff").has_struct()
    with pytest.raises(MalformedMessage, match="begins with 2"):
        Decoder(b"\2").has_struct()


@given(st.lists(st.tuples(st.integers(0, 2**20), st.binary(max_size=200)), max_size=5))
def test_unknown_tagged_fields_are_passed_over(fields: list[tuple[int, bytes]]) -> None:
    encoder = Encoder()
    encoder.tagged_fields([(tag, Encoder(value)) for tag, value in fields])
    data = b"".join(encoder.chunks())
    decoder = Decoder(data)
    decoder.skip_tags()
    decoder.finish()
    assert [(tag, bytes(field.buffer)) for tag, field in Decoder(data).tagged_fields()] == fields
    for length in range(len(data)):
        with pytest.raises(MalformedMessage):
            Decoder(data[:length]).skip_tags()
        with pytest.raises(MalformedMessage):
            Decoder(data[:length]).tagged_fields()


@pytest.mark.parametrize(
    ("method", "value", "said"),
    [
        ("string", None, "a string is wanted, not NoneType"),
        ("compact_string", 3, "a string is wanted, not int"),
        ("string", "x" * 32768, "32,768 bytes; the protocol allows 32,767"),
        ("compact_string", "x" * 32768, "32,768 bytes; the protocol allows 32,767"),
        ("string", "\ud800", "cannot be written as UTF-8"),
        ("byte_string", None, "bytes are wanted, not NoneType"),
        ("compact_byte_string", "x", "bytes are wanted, not str"),
        ("uuid", b"short", "a UUID has 16 bytes, not 5"),
        ("records", 3, "records must be bytes-like"),
        ("records", ["x"], "records must be bytes-like"),
        ("count", None, "a list is wanted, not NoneType"),
        ("nullable_compact_count", 7, "a list is wanted, not int"),
    ],
)
def test_values_of_the_wrong_kind_are_named(method: str, value: Any, said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        written(method, value)
