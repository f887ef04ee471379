"""Files become tables, and what is wrong with a file becomes one sentence."""

from __future__ import annotations

import datetime
import gzip
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ottla.errors import UserMistake
from ottla.inputs import bounds
from ottla.inputs.source import first_rows, open_source
from ottla.inputs.table import key_strings, read_source


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def mistake(path: Path | None, key: str | None) -> str:
    with pytest.raises(UserMistake) as caught:
        read_source(open_source(path, key))
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def test_flights_are_found_without_importing_their_package_and_are_all_there() -> None:
    source = open_source(None, None)
    assert (source.key, source.name, source.is_flights, len(source.columns)) == ("tailnum", "flights", True, 19)
    table = read_source(source)
    assert table.num_rows == 336_776
    assert table.column("tailnum").null_count == 2_512
    assert table.schema.field("dep_delay").type == pa.int64()


def test_first_rows_of_the_flights_are_the_first_flights_of_2013() -> None:
    rows = first_rows(open_source(None, None), 4)
    assert [row["tailnum"] for row in rows] == ["N14228", "N24211", "N619AA", "N804JB"]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".csv.zip", ".ndjson", ".jsonl", ".parquet"])
def test_every_format_gives_the_same_rows(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows{suffix}"
    comma = "id,name\n1,Ada\n2,\n"
    if suffix == ".csv":
        write(path, "\ufeff" + comma)
    elif suffix == ".tsv":
        write(path, comma.replace(",", "\t"))
    elif suffix == ".csv.gz":
        write(path, gzip.compress(comma.encode()))
    elif suffix == ".csv.zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("rows.csv", comma)
    elif suffix == ".parquet":
        pq.write_table(pa.table({"id": [1, 2], "name": ["Ada", None]}), path)
    else:
        write(path, '{"id": 1, "name": "Ada"}\n\n{"id": 2, "name": null}\n')
    source = open_source(path, "name")
    assert read_source(source).to_pydict() == {"id": [1, 2], "name": ["Ada", None]}
    rows = first_rows(source, 5)
    assert [row["name"] for row in rows] == ["Ada", None]
    assert source.name == "rows"


def test_a_column_of_numbers_that_ends_in_words_is_text(tmp_path: Path) -> None:
    path = write(tmp_path / "late.csv", "id,note\n" + "1,7\n" * 400_000 + "2,late\n")
    assert read_source(open_source(path, "id")).schema.field("note").type == pa.string()


def test_numbers_dates_and_dictionaries_make_keys_of_text(tmp_path: Path) -> None:
    table = pa.table({"number": [7, None], "word": pa.array(["a", "b"]).dictionary_encode()})
    path = tmp_path / "keys.parquet"
    pq.write_table(table, path)
    for key, expected in (("number", ["7", None]), ("word", ["a", "b"])):
        source = open_source(path, key)
        assert key_strings(read_source(source), source).to_pylist() == expected


def test_nested_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "nested.parquet"
    pq.write_table(pa.table({"nest": [{"a": 1}]}), path)
    source = open_source(path, "nest")
    with pytest.raises(UserMistake, match="cannot be a key"):
        key_strings(read_source(source), source)


def test_missing_file_folder_and_empty_file_are_named(tmp_path: Path) -> None:
    assert "absent.csv does not exist" in mistake(tmp_path / "absent.csv", "a")
    assert "is a folder" in mistake(tmp_path, "a")
    assert "is empty" in mistake(write(tmp_path / "empty.csv", ""), "a")
    assert "not a single row" in mistake(write(tmp_path / "header.csv", "a,b\n"), "a")
    assert "only blank lines" in mistake(write(tmp_path / "blank.ndjson", "\n\n"), "a")
    assert "blank line" in mistake(write(tmp_path / "blank.csv", "\n\n"), "a")


def test_unknown_key_names_the_nearest_columns(tmp_path: Path) -> None:
    sentence = mistake(write(tmp_path / "a.csv", "tailnum,origin\nN1,JFK\n"), "Tail_num")
    assert "no column 'Tail_num'" in sentence
    assert "did you mean tailnum?" in sentence
    assert "tailnum, origin" in sentence
    assert "no column 'x'" in mistake(write(tmp_path / "a.ndjson", '{"y": 1}\n'), "x")
    assert "did you mean tailnum" in mistake(None, "tailnumber")


@pytest.mark.parametrize(("name", "separator"), [("a.csv", ";"), ("a.csv", "\t"), ("a.tsv", ",")])
def test_another_separator_is_told(tmp_path: Path, name: str, separator: str) -> None:
    header = f"id{separator}customer"
    sentence = mistake(write(tmp_path / name, f"{header}\n1{separator}ada\n"), "id")
    assert (
        f"no column 'id' for --key: it has a single column, {header}. {separator!r} seems to stand between" in sentence
    )
    assert sentence.endswith(": a .csv file has commas there, a .tsv file has tabs")


def test_input_without_a_key_lists_the_columns(tmp_path: Path) -> None:
    assert "--key" in mistake(write(tmp_path / "a.csv", "one,two\n1,2\n"), None)


def test_broken_csv_row_is_named_by_its_line(tmp_path: Path) -> None:
    short = write(tmp_path / "short.csv", 'a,b\n1,"x\ny"\n3\n')
    assert "line 4 of" in mistake(short, "a")
    assert "has 1 columns where the header has 2" in mistake(short, "a")
    assert "line 3 of" in mistake(write(tmp_path / "long.csv", "a,b\n1,2\n3,4,5\n"), "a")
    unclosed = mistake(write(tmp_path / "quote.csv", 'a,b\n1,2\n3,"4\n5,6\n'), "a")
    assert "line 3 of" in unclosed
    assert "never closed" in unclosed


def test_columns_named_twice_are_refused(tmp_path: Path) -> None:
    assert "names a more than once" in mistake(write(tmp_path / "twice.csv", "a,b,a\n1,2,3\n"), "b")


def test_broken_json_line_is_named_by_its_line(tmp_path: Path) -> None:
    assert "line 2 of" in mistake(write(tmp_path / "b.ndjson", '{"a": 1}\n{"a":\n'), "a")
    assert "line 2 of" in mistake(write(tmp_path / "l.ndjson", '{"a": 1}\n[1]\n'), "a")
    assert "cannot be read as one table" in mistake(write(tmp_path / "m.ndjson", '{"a": 1}\n{"a": "x"}\n'), "a")


def test_what_is_not_what_its_name_says_is_refused(tmp_path: Path) -> None:
    assert "zero bytes" in mistake(write(tmp_path / "image.csv", b"\x89PNG\r\n\0\0\0\r"), "a")
    assert "does not begin with PAR1" in mistake(write(tmp_path / "text.parquet", "a,b\n1,2\n"), "a")
    assert "damaged Parquet" in mistake(write(tmp_path / "cut.parquet", b"PAR1 and nothing more"), "a")
    assert "cannot be unpacked" in mistake(write(tmp_path / "a.csv.zip", "not a zip"), "a")
    assert "cannot be unpacked" in mistake(write(tmp_path / "a.csv.gz", "not a gzip"), "a")
    assert "cannot be unpacked" in mistake(write(tmp_path / "b.csv.gz", gzip.compress(b"a,b\n1,2\n")[:-4]), "a")
    assert "no format known" in mistake(write(tmp_path / "a.xlsx", "x"), "a")
    assert "UTF-8" in mistake(write(tmp_path / "latin.csv", b"a,b\n1,\xe9\n"), "a")
    with zipfile.ZipFile(tmp_path / "two.csv.zip", "w") as archive:
        archive.writestr("a.csv", "a\n")
        archive.writestr("b.csv", "a\n")
    assert "holds 2 files" in mistake(tmp_path / "two.csv.zip", "a")


def test_unreadable_file_says_why(tmp_path: Path) -> None:
    loop = tmp_path / "loop.csv"
    loop.symlink_to(loop)
    assert "cannot be read" in mistake(loop, "a")


# ---- bounds ---------------------------------------------------------------------------------------------------------


def allow(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(bounds, "ROWS_BYTES_MAX", size)


ROW = {"key": "a", "value": "x" * 100}
LARGE: dict[str, Callable[[int], bytes]] = {
    ".csv": lambda rows: b"key,value\n" + (b"a," + b"x" * 100 + b"\n") * rows,
    ".csv.gz": lambda rows: gzip.compress(LARGE[".csv"](rows)),
    ".csv.zip": lambda rows: zipped(LARGE[".csv"](rows)),
    ".ndjson": lambda rows: (json.dumps(ROW).encode() + b"\n") * rows,
    ".ndjson.gz": lambda rows: gzip.compress(LARGE[".ndjson"](rows)),
    ".parquet": lambda rows: parquet(pa.table({name: [text] * rows for name, text in ROW.items()})),
    # Text as one value that all rows share.
    ".pq": lambda rows: parquet(pa.table({n: pa.array([t] * rows).dictionary_encode() for n, t in ROW.items()})),
}


def zipped(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rows.csv", content)
    return file.getvalue()


def parquet(table: pa.Table) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


@pytest.mark.parametrize("suffix", LARGE)
def test_rows_are_kept_in_memory_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    allow(monkeypatch, 1 << 20)
    path = write(tmp_path / f"rows{suffix}", LARGE[suffix](4_000))
    assert read_source(open_source(path, "key")).num_rows == 4_000
    sentence = mistake(write(path, LARGE[suffix](20_000)), "key")
    assert sentence == (
        f"{path} holds more than 1 MiB of rows (unpacked, as JSON), and all rows are kept in memory: divide the file"
    )


def test_rows_count_although_they_are_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A null takes no memory in Parquet and a byte in CSV, and its column's name in each record."""
    allow(monkeypatch, 1 << 20)
    names = [f"column_{number}" for number in range(100)]
    commas = ",".join(names) + "\n" + (",".join([""] * 100) + "\n") * 1_000
    assert "holds more than 1 MiB" in mistake(write(tmp_path / "a.csv", commas), names[0])
    nulls = pa.table({name: pa.nulls(1_000) for name in names})
    assert "holds more than 1 MiB" in mistake(write(tmp_path / "a.parquet", parquet(nulls)), names[0])
    inside = pa.array([dict.fromkeys(names)] * 1_000)
    nested = pa.table({"key": ["a"] * 1_000, "list": pa.ListArray.from_arrays(list(range(1_001)), inside)})
    assert "holds more than 1 MiB" in mistake(write(tmp_path / "b.parquet", parquet(nested)), "key")


def test_names_that_one_row_has_count_in_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a table every row has the columns of all rows: a thousand rows with a name each are a million values."""
    allow(monkeypatch, 1 << 20)
    rows = "".join(f'{{"key": "a", "name_{number}": 1}}\n' for number in range(1_000))
    assert "holds more than 1 MiB" in mistake(write(tmp_path / "a.ndjson", rows), "key")


def test_a_line_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "LINE_BYTES_MAX", 1 << 20)
    for name in ("a.csv", "a.ndjson"):
        sentence = mistake(write(tmp_path / name, "x" * (1 << 21)), "key")
        assert sentence == f"line 1 of {tmp_path / name} is longer than 1 MiB: divide that line"


@pytest.mark.parametrize("line", ["[" * 200_000, '{"a":' * 200_000, '{"a": ' + "[[], " * 200_000])
@pytest.mark.parametrize("before", ["", '{"key": "a", "a": "[[[["}\n\n'])
def test_brackets_within_brackets_are_named_by_their_line(tmp_path: Path, before: str, line: str) -> None:
    path = write(tmp_path / "deep.ndjson", before + line + "\n")
    number = 1 + before.count("\n")
    assert mistake(path, "key") == (
        f"line {number} of {path} has more than 100 brackets within each other, as many as are allowed: "
        "mend or remove that line"
    )


def test_many_brackets_beside_each_other_are_read(tmp_path: Path) -> None:
    deep = "[" * 98 + "]" * 98
    text = r"\"[[[{{{" * 100
    path = write(tmp_path / "wide.ndjson", f'{{"key": "{text}", "list": [{"[1], " * 500}[2]], "deep": {deep}}}\n')
    table = read_source(open_source(path, "key"))
    assert table.num_rows == 1
    assert len(table.column("list")[0].as_py()) == 501


def peak_bytes(*arguments: str) -> tuple[int, str]:
    """The most memory that the program and those it started had at a time, and what it said on stderr."""
    command = [sys.executable, "-m", "ottla", *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 2, said
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024), said


@pytest.mark.prove
@pytest.mark.parametrize("kind", ["parquet", "csv.gz"])
def test_a_small_file_that_holds_four_gibibytes_is_refused_before_they_are_in_memory(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"bomb.{kind}"
    if kind == "parquet":
        value = pa.DictionaryArray.from_arrays(pa.array([0] * 40_000), pa.array(["x" * 100_000]))
        pq.write_table(pa.table({"key": pa.array(range(40_000)), "value": value}), path)
    else:
        rows = (b"1," + b"x" * 998 + b"\n") * 10_000
        with gzip.open(path, "wb", 9) as file:
            file.write(b"key,value\n")
            for _ in range(400):
                file.write(rows)
    assert path.stat().st_size < 16 << 20
    for command in (("run",), ("produce", "orders")):
        peak, said = peak_bytes(*command, "--input", str(path), "--key", "key")
        assert f"{path} holds more than 1,536 MiB of rows" in said
        assert peak < 2_048 << 20


@pytest.mark.parametrize(
    ("times", "type_"),
    [
        (["2024-01-01T10:00:00Z", "2024-01-01T12:00:00+02:00", None], pa.timestamp("s", "UTC")),
        (["2024-01-01T10:00:00", "2024-01-01"], pa.timestamp("s")),
        (["2024-01-01T10:00:00Z", "2024-01-01T10:00:00"], pa.string()),
        (["2024-01-01T10:00:00Z", "later"], pa.string()),
    ],
)
def test_times_of_json_keep_their_zone(tmp_path: Path, times: list[str], type_: pa.DataType) -> None:
    lines = "".join(json.dumps({"t": each, "inner": {"t": each}}) + "\n" for each in times)
    table = read_source(open_source(write(tmp_path / "a.ndjson", lines), "t"))
    assert table.schema.field("t").type == type_
    assert table.schema.field("inner").type == pa.struct([("t", pa.string())])
    if type_ == pa.timestamp("s", "UTC"):
        assert {each for each in table["t"].to_pylist() if each} == {
            datetime.datetime(2024, 1, 1, 10, tzinfo=datetime.UTC)
        }
