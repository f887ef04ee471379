"""Values of `ottla run --schema avro`: two versions of a schema in one topic, as fastavro reads them."""

from __future__ import annotations

import datetime
import io
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from zlib import crc32

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ottla.cluster.cluster import Cluster
from ottla.embedded_registry.registry import Registry
from ottla.errors import RegistryError, UserMistake
from ottla.inputs.source import open_source
from ottla.inputs.table import read_source
from ottla.registry.client import RegistryClient
from ottla.showcase.avro import AvroValues
from ottla.showcase.kafka import EmbeddedKafka
from ottla.showcase.registry import RunRegistry
from ottla.showcase.streaming_job import read_result

ROWS = 107


class Run:
    """A registry of a user's, for the length of a run."""

    def __init__(self, cluster: Cluster, registry: Registry, *, keeps: bool = False) -> None:
        self.stack = ExitStack()
        self.said: list[str] = []
        self.client = RegistryClient(registry.url)
        kafka = EmbeddedKafka(cluster)
        self.registry = RunRegistry(registry.url, kafka, self.stack, keeps=keeps, say=self.said.append)

    def values(self, path: Path, table: pa.Table | None = None) -> AvroValues:
        source = open_source(path, "id")
        return AvroValues(source, read_source(source) if table is None else table, self.registry)

    def read(self, payload: bytes, reader: Any = None) -> Any:
        """By fastavro, with the schema that the payload names."""
        assert payload[0] == 0
        writer = json.loads(self.client.by_id(int.from_bytes(payload[1:5], "big")).text)
        return fastavro.schemaless_reader(io.BytesIO(payload[5:]), writer, reader)


@pytest.fixture
def run(kafka_cluster: Cluster, schema_registry: Registry) -> Run:
    return Run(kafka_cluster, schema_registry)


def write_rows(folder: Path, rows: int = ROWS, header: str = "id,name") -> Path:
    path = folder / "rows.csv"
    path.write_text(f"{header}\n" + "".join(f"{n},{'' if n % 3 == 2 else f'name-{n % 7}'}\n" for n in range(rows)))
    return path


def test_a_second_version_is_registered_when_the_sender_comes_to_it(run: Run, tmp_path: Path) -> None:
    with run.stack:
        values = run.values(write_rows(tmp_path))
        (before, *_), at = list(values.pieces()), values.since
        values.begin("first", before)
        (subject,) = run.client.subjects(run.registry._before)
        assert run.client.versions(subject) == [1]
        values.begin("first", range(at, at + 1))
        values.begin("second", range(ROWS))
        assert [each.version for each in values.registered["first"]] == [1, 2]
        first, second = (values.registered[topic] for topic in ("first", "second"))
        assert [each.id for each in first] == [each.id for each in second]
        assert {each.subject for each in first}.isdisjoint(each.subject for each in second)


def test_old_records_lack_the_new_field_and_get_its_default(run: Run, tmp_path: Path) -> None:
    with run.stack:
        values = run.values(write_rows(tmp_path))
        values.begin("topic", range(ROWS))
        made = values.made(range(ROWS)).to_pylist()
        written = [run.read(payload) for payload in made]
        assert [row["id"] for row in written] == list(range(ROWS))
        assert [row["name"] for row in written] == [None if n % 3 == 2 else f"name-{n % 7}" for n in range(ROWS)]
        numbers = list(range(values.since, ROWS))
        assert 0.4 * ROWS < len(numbers) < 0.6 * ROWS
        assert [row.get("row") for row in written] == [None] * values.since + numbers
        newest = json.loads(values.registered["topic"][1].text)
        assert [run.read(payload, newest)["row"] for payload in made] == [-1] * values.since + numbers
        assert [each for numbers in values.pieces() for each in values.made(numbers).to_pylist()] == made
        assert values.checksums().to_pylist() == [crc32(payload) for payload in made]
        assert values.size_bytes() == sum(map(len, made))


def test_what_is_streamed_on_is_the_same_by_columns_and_by_objects(run: Run, tmp_path: Path) -> None:
    with run.stack:
        values = run.values(write_rows(tmp_path))
        values.begin("topic", range(ROWS))
        result = read_result(values.result("streamed").to_dict())
        made = values.made(range(ROWS))
        stored = pa.record_batch({"offset": pa.array(range(7, 7 + ROWS), pa.int64()), "value": made})
        by_columns = result.values("topic", 2, stored).to_pylist()
        assert by_columns == [result.value("topic", 2, 7 + n, value) for n, value in enumerate(made.to_pylist())]
        first = run.read(by_columns[0])
        assert first == {"from": "topic-2@7", "record": {"id": 0, "name": "name-0", "row": -1}}


def test_columns_are_cast_to_types_that_avro_and_spark_have(run: Run, tmp_path: Path) -> None:
    at = datetime.datetime(2024, 1, 2, 3, 4, 5)
    columns: dict[str, Any] = {
        "id": pa.array([1, 2], pa.uint64()),
        "row": pa.array(["a", "b"]),
        "nothing": pa.nulls(2),
        "at": pa.array([at, None], pa.timestamp("s")),
        "exact": pa.array([at, None], pa.timestamp("ns")),
        "time": pa.array([datetime.time(9, 30), None], pa.time32("s")),
    }
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table(columns), path)
    with run.stack:
        values = run.values(path, pa.table(columns))
        values.begin("topic", range(2))
        assert values.field == "row_"
        first, second = (run.read(payload) for payload in values.made(range(2)).to_pylist())
        assert first == {"id": 1, "row": "a", "nothing": None, "at": at, "exact": at, "time": "09:30:00"}
        assert (second["at"], second["row_"]) == (None, 1)


@pytest.mark.parametrize(
    ("header", "rows", "said"),
    [
        ("id,first name", 3, r"--schema avro cannot write .*rows.csv: Column 'first name' cannot be a field of Avro"),
        ("id,name", 1, "two rows at least"),
    ],
)
def test_an_input_that_cannot_be_avro_is_refused(run: Run, tmp_path: Path, header: str, rows: int, said: str) -> None:
    with run.stack, pytest.raises(UserMistake, match=said):
        run.values(write_rows(tmp_path, rows, header))


def test_a_number_too_large_for_avro_is_refused_with_its_column(run: Run, tmp_path: Path) -> None:
    with run.stack, pytest.raises(UserMistake, match=r"column 'id' of .*rows.csv"):
        run.values(write_rows(tmp_path), pa.table({"id": pa.array([1, (1 << 64) - 1], pa.uint64())}))


@pytest.mark.parametrize("keeps", [False, True])
def test_subjects_in_a_users_registry_are_deleted_unless_kept(
    kafka_cluster: Cluster, schema_registry: Registry, tmp_path: Path, keeps: bool
) -> None:
    run = Run(kafka_cluster, schema_registry, keeps=keeps)
    with run.stack:
        values = run.values(write_rows(tmp_path))
        values.begin("topic", range(ROWS))
        values.result("streamed")
        names = run.client.subjects(run.registry._before, deleted=True)
        assert len(names) == 2
    assert run.client.subjects(run.registry._before, deleted=True) == (names if keeps else [])
    assert run.said == []


def test_a_registry_that_does_not_answer_is_told_before_anything_is_sent(kafka_cluster: Cluster) -> None:
    with ExitStack() as stack, pytest.raises(RegistryError, match=r"127\.0\.0\.1:9"):
        RunRegistry("http://127.0.0.1:9", EmbeddedKafka(kafka_cluster), stack, keeps=False, say=print)


def test_a_registry_of_the_runs_own_is_beside_its_kafka(kafka_cluster: Cluster) -> None:
    with ExitStack() as stack:
        registry = RunRegistry(None, EmbeddedKafka(kafka_cluster), stack, keeps=False, say=print)
        assert registry.is_own
        assert registry.register("own", '"long"').subject == "own-value"
