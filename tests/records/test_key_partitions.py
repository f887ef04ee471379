"""Where keys go, told before they are sent: the same place to which a producer sends them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import RecordError
from ottla.records.key_partitions import key_partitions
from ottla.records.plain import partition_for_key


@given(st.lists(st.none() | st.binary(max_size=20), max_size=20), st.integers(1, 100), st.integers(0, 3))
def test_keys_go_where_kafkas_clients_send_them(keys, count, cut):
    column = pa.array(keys, pa.binary()).slice(cut)
    found = memoryview(key_partitions(column, count)).cast("i").tolist()
    assert found == [-1 if key is None else partition_for_key(key, count) for key in keys[cut:]]


def test_text_is_its_utf_8_and_numbers_are_no_keys():
    assert key_partitions(pa.array(["ä"]), 1000) == key_partitions(pa.array(["ä".encode()]), 1000)
    with pytest.raises(RecordError, match=r"'key'.*int64"):
        key_partitions(pa.array([1]), 3)
