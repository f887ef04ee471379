"""The digest of rows: the same for the same rows in any order and layout, another one for any other rows."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import RecordError
from ottla.records.row_digest import digest_rows

NAMES = {name: name for name in ("topic", "key", "value", "headers", "partition", "timestamp")}
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": HEADERS,
        "partition": pa.int32(),
        "timestamp": pa.timestamp("us", "UTC"),
    }
)
MASK = (1 << 64) - 1

blobs = st.none() | st.binary(max_size=40)
rows = st.fixed_dictionaries(
    {
        "topic": st.none() | st.sampled_from(["a", "b"]),
        "key": blobs,
        "value": blobs,
        "headers": st.none()
        | st.lists(st.fixed_dictionaries({"key": st.text(max_size=3), "value": blobs}), max_size=2),
        "partition": st.none() | st.integers(0, 3),
        "timestamp": st.none() | st.integers(0, 1 << 40),
    }
)


def digest(table: pa.Table) -> int:
    return digest_rows(table, **NAMES)


def table_of(found: list[dict]) -> pa.Table:
    return pa.Table.from_pylist(found, schema=SCHEMA)


@given(st.lists(rows, max_size=12), st.randoms(), st.integers(0, 12))
def test_order_and_chunks_make_no_difference(found, random, cut):
    whole = digest(table_of(found))
    parts = [table_of(found[:cut]), table_of(found[cut:])]
    assert sum(map(digest, parts)) & MASK == whole
    assert digest(pa.concat_tables(parts)) == whole
    shuffled = random.sample(found, len(found))
    assert digest(table_of(shuffled)) == whole
    padded = table_of([{}, *shuffled, {}]).slice(1, len(found))
    assert digest(padded) == whole


@given(rows, st.sampled_from(sorted(NAMES)), st.data())
def test_a_row_that_differs_in_one_column_has_another_digest(row, name, data):
    other = data.draw(rows)[name]
    # A record without headers is the same record, whether the list is empty or null.
    same = (row[name] or []) == (other or []) if name == "headers" else row[name] == other
    assert (digest(table_of([row])) == digest(table_of([row | {name: other}]))) == same


def test_a_row_twice_is_not_no_row():
    row = {"value": b"v", "key": b"k"}
    assert digest(table_of([row, row])) not in (0, digest(table_of([row])))
    assert digest(table_of([])) == 0


def test_what_moves_from_one_column_to_its_neighbour_shows():
    sums = [
        digest(table_of([row]))
        for row in (
            {"key": b"ab", "value": b"c"},
            {"key": b"a", "value": b"bc"},
            {"key": b"abc", "value": b""},
            {"key": b"abc", "value": None},
            {"key": None, "value": b"abc"},
            {"value": b"\0" * 7},
            {"value": b"\0" * 8},
            {"value": b"\0" * 16},
        )
    ]
    assert len(set(sums)) == len(sums)


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.large_binary(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
    ],
)
def test_the_way_a_column_is_laid_out_makes_no_difference(kind):
    column = pa.array(["a", None, "", "a longer text than a view holds"])
    found = digest_rows(pa.table({"value": column.cast(kind)}), value="value")
    assert found == digest_rows(pa.table({"value": column, "key": pa.nulls(4)}), value="value", key="key")


def test_digests_stay_what_they_are():
    row = {
        "topic": "t",
        "key": b"key",
        "value": b"a value of some length, 33 bytes.",
        "headers": [{"key": "h", "value": b"1"}],
        "partition": 3,
        "timestamp": 1_767_323_045_006_000,
    }
    assert digest(table_of([row])) == 5129861830787422595
    assert digest_rows(pa.table({"value": ["v"]}), value="value") == 1284963030477592721


def test_a_column_of_another_type_is_refused_by_name():
    with pytest.raises(RecordError, match=r"'value'.*int64"):
        digest_rows(pa.table({"value": [1]}), value="value")
    with pytest.raises(RecordError, match=r"'partition'.*string"):
        digest_rows(pa.table({"partition": ["1"]}), partition="partition")
