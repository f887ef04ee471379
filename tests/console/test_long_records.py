"""Records that are longer than what is shown of them: shown in part, downloaded whole, and never copied whole."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tracemalloc
import urllib.request
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.drawn import fixed_seeds
from tests.tiers import some_tested

import ottla
from ottla.console.long_records import LongBatch, all_batches, parts_of
from ottla.console.rows import Rows
from ottla.console.shown import LIST_BYTES, RECORD_BYTES
from ottla.reader.events import Fetched
from ottla.reader.settings import ReaderSettings
from ottla.records.batch_header import CODECS, CorruptBatch
from ottla.records.decode_columns import decode_columns
from ottla.records.plain import Record, encode_batch

from .conftest import Asking

SETTINGS = ReaderSettings({"bootstrap_servers": "localhost:9092"})
HUGE_BYTES = 99 << 20


def fetched(stored: bytes | bytearray, offset: int = 0) -> Fetched:
    """A buffer as a reader gives it."""
    return Fetched("t", 0, offset, memoryview(stored), 1 << 40, 1 << 40)


def drawn_records(random: Random) -> list[Record]:
    def blob() -> bytes | None:
        size = random.choice([-1, 0, 1, 100, LIST_BYTES - 1, LIST_BYTES + 1, 70_000])
        return None if size < 0 else random.randbytes(size // 2) + bytes(size - size // 2)

    offset, records = random.randrange(1 << 40), []
    for _ in range(random.randrange(1, 8)):
        headers = tuple((f"häh {number}", blob()) for number in range(random.randrange(3)))
        records.append(Record(offset, random.randrange(1 << 42), blob(), blob(), headers))
        offset += random.randrange(1, 3)
    return records


def begun(stored: bytes | None, most_bytes: int) -> tuple[int, bytes | None]:
    return (0, None) if stored is None else (len(stored), stored[:most_bytes])


@pytest.mark.parametrize("seed", fixed_seeds(4, soak=200))
@pytest.mark.parametrize("codec", CODECS)
def test_the_beginnings_are_those_of_what_was_encoded(codec: str, seed: int) -> None:
    random = Random(seed)
    records = drawn_records(random)
    append_time = random.choice([None, 1_700_000_000_000])
    stored = encode_batch(records, codec=codec, log_append_time_ms=append_time)
    first, end = random.choice(records).offset, random.choice(records).offset + 1
    [batch] = all_batches(fetched(stored, first))
    found = list(batch.records(end, 100, SETTINGS))
    wanted = [each for each in records if first <= each.offset < end]
    assert [each.offset for each in found] == [each.offset for each in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert one.timestamp_ms == (other.timestamp_ms if append_time is None else append_time)
        assert (one.key, one.value) == (begun(other.key, 100), begun(other.value, 100))
        assert one.headers.first == [(name, begun(value, LIST_BYTES)) for name, value in other.headers]
        assert one.headers.total == len(other.headers)
    for each in records:
        [batch] = all_batches(fetched(stored, each.offset))
        for part, content in (("key", each.key), ("value", each.value)):
            told = batch.part(part, SETTINGS)
            assert told is not None
            assert (told[0], b"".join(told[1])) == ((-1, b"") if content is None else (len(content), content))


@pytest.mark.parametrize("codec", CODECS)
def test_bytes_that_are_no_records_are_said_to_be_so(codec: str) -> None:
    random = Random(codec)
    whole = encode_batch([Record(5, 0, b"key", random.randbytes(9000), (("name", b"x"),))], codec=codec)
    unchecked = ReaderSettings({"bootstrap_servers": "localhost:9092", "check_crcs": False})
    told: list[str] = []
    for place in [*range(61, 75), *range(75, len(whole), 501)]:
        broken = bytearray(whole)
        broken[place] ^= 0xFF
        [batch] = all_batches(fetched(broken, 5))
        with pytest.raises(CorruptBatch, match=r"^t-0: .*CRC"):
            list(batch.records(6, 100, SETTINGS))
        # Unchecked, the bytes may be another record; an error of another kind they are never.
        try:
            list(batch.records(6, 100, unchecked))
        except CorruptBatch as error:
            told.append(str(error))
    assert {each[:5] for each in told} == {"t-0: "}


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd", "snappy"])
def test_what_grows_beyond_what_is_allowed_is_not_decompressed(codec: str) -> None:
    little = ReaderSettings({"bootstrap_servers": "localhost:9092", "decompressed_batch_max_bytes": 1 << 20})
    [batch] = all_batches(fetched(encode_batch([Record(0, 0, None, bytes(2 << 20))], codec=codec)))
    with pytest.raises(CorruptBatch, match=r"^t-0: .* 1048576 bytes"):
        list(batch.records(1, 100, little))


def test_a_buffer_is_divided_into_long_batches_and_what_is_between_them() -> None:
    sizes = 1, 1, 9000, 9000, 1
    batches = [encode_batch([Record(offset, 0, None, bytes(size))]) for offset, size in enumerate(sizes)]
    kinds: list[Any] = [
        each.header.base_offset if isinstance(each, LongBatch) else bytes(each.records)
        for each in parts_of(fetched(b"".join(batches)))
    ]
    assert kinds == [batches[0] + batches[1], 2, 3, batches[4]]


def test_of_a_long_value_only_the_beginning_is_copied() -> None:
    stored = encode_batch([Record(0, 0, b"key", bytes(32 << 20), (("name", bytes(8 << 20)),))])
    [batch] = all_batches(fetched(stored))
    tracemalloc.start()
    try:
        [record] = batch.records(1, 1000, SETTINGS)
        told = batch.part("value", SETTINGS)
        assert told is not None
        size = sum(map(len, told[1]))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (record.value[0], len(record.value[1] or b""), size) == (32 << 20, 1000, 32 << 20)
    assert peak < 2 << 20


def many_headers(count: int, value: bytes = b"") -> bytes:
    """A batch of one record; its headers compress well."""
    headers = tuple((f"n{number}", value) for number in range(count))
    return encode_batch([Record(0, 0, b"key", b"value", headers)], codec="zstd")


def rows_by(stored: bytes, *, as_long: bool, most_bytes: int = LIST_BYTES) -> list[dict[str, Any]]:
    """Rows of all records of a batch, by one way or the other."""
    rows = Rows("t", 0, most_bytes, None)
    if not as_long:
        return list(rows.of_columns(pa.record_batch(decode_columns(stored))))
    [batch] = all_batches(fetched(stored))
    return list(rows.of_long(batch.header, batch.records(1, rows.taken_bytes, SETTINGS, rows.room)))


@pytest.mark.parametrize("as_long", [False, True])
def test_of_many_headers_the_first_are_shown_and_the_others_counted(as_long: bool) -> None:
    stored = many_headers(20_000)
    [row] = rows_by(stored, as_long=as_long)
    assert [each["name"] for each in row["headers"]] == [f"n{number}" for number in range(100)]
    assert row["headers_more"] == 19_900
    [row] = rows_by(stored, as_long=as_long, most_bytes=RECORD_BYTES)
    assert (len(row["headers"]), row["headers_more"]) == (1_000, 19_000)
    # Large ones are fewer, and of a long name the beginning is shown.
    [row] = rows_by(many_headers(50, bytes(1 << 20)), as_long=as_long)
    assert (len(row["headers"]), row["headers_more"]) == (8, 42)
    headers = (("x" * 3_000_000, None), ("", b""), ("last", b"1"))
    [row] = rows_by(encode_batch([Record(0, 0, None, None, headers)], codec="zstd"), as_long=as_long)
    assert [each["name"] for each in row["headers"]] == ["x" * 1024 + "…", "", "last"]
    assert [each["value"] and each["value"]["bytes"] for each in row["headers"]] == [None, 0, 1]
    assert row["headers_more"] == 0


def test_headers_of_each_row_are_its_own() -> None:
    counts = [0, 3, 150, 0, 1, 101]
    records = [
        Record(place, 0, None, None, tuple((f"{place}-{number}", b"x") for number in range(count)))
        for place, count in enumerate(counts)
    ]
    piece = pa.record_batch(decode_columns(encode_batch(records)))
    for first in range(len(counts)):
        rows = list(Rows("t", 0, LIST_BYTES, None).of_columns(piece.slice(first)))
        assert [len(row["headers"]) + row["headers_more"] for row in rows] == counts[first:]
        for row in rows:
            wanted = [f"{row['offset']}-{number}" for number in range(min(counts[row["offset"]], 100))]
            assert [each["name"] for each in row["headers"]] == wanted


@pytest.mark.parametrize("as_long", [False, True])
def test_headers_that_are_not_shown_are_no_objects(as_long: bool) -> None:
    stored = many_headers(200_000)
    rows_by(many_headers(1), as_long=as_long)
    tracemalloc.start()
    try:
        rows_by(stored, as_long=as_long)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20


@pytest.mark.parametrize("codec", some_tested(CODECS, "lz4"))
def test_long_and_short_records_stand_in_one_page(
    asking: Asking, cluster: ottla.Cluster, kafka_name: str, codec: str
) -> None:
    cluster.create_topic(kafka_name)
    long = json.dumps({"text": "häh" * 200_000}, ensure_ascii=False).encode()
    values = [b"short", long, b"\xff" * 300_000, b"last"]
    with ottla.Producer(cluster.bootstrap_servers, compression_type=codec) as producer:
        for value in values:
            producer.send(kafka_name, value, b"key", headers=[("name", value[:5000])]).result(30)
    page = asking.get(f"api/topics/{kafka_name}/records?start=oldest")
    assert [each["value"]["bytes"] for each in page["records"]] == [len(value) for value in values]
    assert [each["offset"] for each in page["records"]] == [0, 1, 2, 3]
    assert (page["errors"], page["newer"]) == ([], None)
    shown = page["records"][1]["value"]
    assert (shown["as"], shown["cut"], shown["shown_bytes"]) == ("text", True, LIST_BYTES)
    assert page["records"][2]["value"]["as"] == "hex"
    assert page["records"][1]["headers"][0]["value"]["bytes"] == 5000
    one = asking.get(f"api/topics/{kafka_name}/records/0/1")
    assert (one["value"]["shown_bytes"], one["batch"]["records"]) == (256 << 10, 1)
    assert long.decode().startswith(one["value"]["text"])
    for offset, value in enumerate(values):
        assert asking.raw("GET", f"api/topics/{kafka_name}/records/0/{offset}/value")[2] == value


def memory_mib(pid: int) -> int:
    """The most memory that a process has had."""
    told = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", told)
    assert found
    return int(found[1]) >> 10


@pytest.mark.prove
@pytest.mark.skipif(sys.platform != "linux", reason="what a process has had of memory is told by Linux")
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_record_of_99_mib_is_viewed_and_downloaded_within_300_mib(codec: str) -> None:
    size = 110 << 20
    # It compresses, but to no less than three quarters.
    random = Random(4711)
    value = b"".join(random.randbytes(3 << 18) + bytes(1 << 18) for _ in range(HUGE_BYTES >> 20))
    with ottla.Cluster(1, settings={"message.max.bytes": size}) as cluster:
        cluster.create_topic("huge", configs={"max.message.bytes": str(size)})
        settings: dict[str, Any] = {"max_request_size": size, "buffer_memory": 2 * size, "compression_type": codec}
        with ottla.Producer(cluster.bootstrap_servers, **settings) as producer:
            producer.send("huge", value).result(120)
        command = [sys.executable, "-m", "ottla", "console", "-b", cluster.bootstrap_servers, "--listen", "0", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as console:
            try:
                assert console.stdout is not None
                path = json.loads(console.stdout.readline())["url"] + "api/topics/huge/records"
                for _ in range(2):
                    with urllib.request.urlopen(path) as answer:
                        assert json.load(answer)["records"][0]["value"]["bytes"] == len(value)
                    with urllib.request.urlopen(f"{path}/0/0") as answer:
                        assert json.load(answer)["value"]["cut"]
                    with urllib.request.urlopen(f"{path}/0/0/value") as answer:
                        assert sum(map(len, iter(lambda: answer.read(1 << 20), b""))) == len(value)
                assert memory_mib(console.pid) < 300
            finally:
                console.terminate()
