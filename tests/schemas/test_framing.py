"""The wire format: what names a schema is read back, from a prefix or a header; anything else is refused."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.schemas.framing import FramingError, guid_header, id_prefix, read_frame

GUID = UUID("89791762-2336-4186-9674-299b90a802e2")
INDEXES = st.lists(st.integers(0, (1 << 31) - 1), min_size=1, max_size=20).map(tuple)


@given(st.integers(0, (1 << 31) - 1), INDEXES, st.binary(max_size=10))
def test_an_id_is_read_back_and_the_payload_begins_behind_it(schema_id, indexes, payload):
    assert read_frame(id_prefix(schema_id) + payload) == (schema_id, None, (), 5)
    prefix = id_prefix(schema_id, indexes)
    assert read_frame(prefix + payload, has_indexes=True) == (schema_id, None, indexes, len(prefix))


@given(st.uuids(), INDEXES)
def test_a_guid_is_read_back(guid, indexes):
    assert read_frame(guid_header(guid)) == (None, guid, (), 17)
    header = guid_header(guid, indexes)
    assert read_frame(header, has_indexes=True) == (None, guid, indexes, len(header))


def test_the_bytes_are_those_of_confluents_clients():
    assert id_prefix(258) == b"\0\0\0\1\2"
    assert id_prefix(1, (0,)) == b"\0\0\0\0\1\0"
    assert id_prefix(1, (1, 0, 64)) == b"\0\0\0\0\1\6\2\0\x80\1"
    assert guid_header(GUID, (0,)) == b"\1" + GUID.bytes + b"\0"


@given(st.binary(max_size=40), st.booleans())
def test_any_bytes_are_read_or_refused_in_a_sentence(framed, has_indexes):
    try:
        frame = read_frame(framed, has_indexes=has_indexes)
    except FramingError as refused:
        assert str(refused).endswith(".")  # noqa: PT017
    else:
        assert frame.payload_at <= len(framed)


@pytest.mark.parametrize(
    ("framed", "said"),
    [
        (b"", "there are 0 bytes"),
        (b"{}", "magic byte is 123"),
        (b"\0\0\0\1", "There are 4 bytes; the schema's id or GUID alone needs 5"),
        (b"\1" + bytes(15), "There are 16 bytes; the schema's id or GUID alone needs 17"),
        (b"\0\0\0\0\1", "end inside the message indexes"),
        (b"\0\0\0\0\1\xfe\xff\xff\xff\x0f\2", "There cannot be 2147483647 message indexes in the 1 bytes"),
        (b"\0\0\0\0\1\1", "There cannot be -1 message indexes"),
        (b"\0\0\0\0\1\2\1", "not -1"),
        (b"\0\0\0\0\1" + b"\xff" * 11, "longer than ten bytes"),
    ],
)
def test_what_names_no_schema_is_told(framed, said):
    with pytest.raises(FramingError, match=said):
        read_frame(framed, has_indexes=True)


@pytest.mark.parametrize("number", [-1, 1 << 31])
def test_an_id_that_four_bytes_cannot_hold_is_refused(number):
    with pytest.raises(FramingError, match="0 to 2147483647"):
        id_prefix(number)


@pytest.mark.parametrize("indexes", [(), (-1,), (1 << 31,)])
def test_indexes_that_name_no_message_are_refused(indexes):
    with pytest.raises(FramingError, match="numbers from 0 on"):
        id_prefix(1, indexes)
