"""Keys that are not text: `send_table` and `ottla produce` send the same bytes, the value's JSON text."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ottla
from ottla.cli import main
from ottla.records.plain import partition_for_key

INT64, UINT64 = (1 << 63) - 1, (1 << 64) - 1
COLUMNS: dict[str, tuple[pa.Array[Any], list[bytes | None]]] = {
    "int64": (
        pa.array([7, -7, None, 0, INT64, -INT64 - 1]),
        [b"7", b"-7", None, b"0", b"9223372036854775807", b"-9223372036854775808"],
    ),
    "int8": (pa.array([-128, None, 127], pa.int8()), [b"-128", None, b"127"]),
    "uint64": (pa.array([UINT64, 0, None], pa.uint64()), [b"18446744073709551615", b"0", None]),
    "dictionary": (pa.array([5, None, -5, 5]).dictionary_encode(), [b"5", None, b"-5", b"5"]),
    "boolean": (pa.array([True, False, None]), [b"true", b"false", None]),
    "float": (pa.array([0.1, 3.0, None]), [b"0.1", b"3.0", None]),
    "decimal": (pa.array([decimal.Decimal("1.50"), None]), [b"1.50", None]),
    "date": (pa.array([datetime.date(2013, 1, 1), None]), [b"2013-01-01", None]),
    "timestamp": (pa.array([0, None], pa.timestamp("s", "UTC")), [b"1970-01-01T00:00:00Z", None]),
    "nothing": (pa.nulls(2), [None, None]),
    "text": (pa.array(["a", None, ""]), [b"a", None, b""]),
}


def keys_and_partitions(cluster: ottla.Cluster, topic: str) -> list[tuple[int, bytes | None, int]]:
    rows = ottla.read_table(cluster.bootstrap_servers, topic).to_pylist()
    return sorted((json.loads(row["value"])["row"], row["key"], row["partition"]) for row in rows)


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("skip", [0, 1], ids=["whole", "sliced"])
def test_keys_are_written_alike_by_tables_and_by_the_command_line(
    kafka_cluster: ottla.Cluster, kafka_name: str, tmp_path: Path, kind: str, skip: int
) -> None:
    keys, texts = COLUMNS[kind]
    table = pa.table({"id": keys, "row": range(len(keys))}).slice(skip)
    pq.write_table(table, tmp_path / "rows.parquet")
    mine, theirs = f"{kafka_name}-mine", f"{kafka_name}-theirs"
    for topic in (mine, theirs):
        kafka_cluster.create_topic(topic, partitions=3)
    ottla.write_table(kafka_cluster.bootstrap_servers, mine, table, key="id", value=["row"], value_format="json")
    file = str(tmp_path / "rows.parquet")
    assert main(["produce", theirs, "-b", kafka_cluster.bootstrap_servers, "--input", file, "--key", "id"]) == 0
    found = keys_and_partitions(kafka_cluster, mine)
    assert [key for _, key, _ in found] == texts[skip:]
    assert all(key is None or partition == partition_for_key(key, 3) for _, key, partition in found)
    assert [row[:2] for row in keys_and_partitions(kafka_cluster, theirs)] == [row[:2] for row in found]


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (pa.array([[1]]), "Column 'id', named as key, is of type list; it has to be text or binary, or a number"),
        (pa.array([{"a": 1}]), "named as key, is of type struct"),
        (pa.array([1], pa.duration("s")), "named as key, is of type"),
        (pa.array([0.5, float("nan")]), "Column 'id', named as key, holds NaN or an infinity in row 1"),
        (pa.array([0.5, 0.5, float("inf")]).dictionary_encode(), "holds NaN or an infinity in row 2"),
    ],
)
def test_what_is_no_key_is_refused(
    kafka_cluster: ottla.Cluster, kafka_topic: str, keys: pa.Array[Any], sentence: str
) -> None:
    table = pa.table({"id": keys, "value": ["x"] * len(keys)})
    with pytest.raises(ottla.RecordError, match=sentence):
        ottla.write_table(kafka_cluster.bootstrap_servers, kafka_topic, table, key="id", value="value")
