"""Files become tables, and what is wrong with a file becomes one sentence."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ottla.errors import UserMistake
from ottla.trial.inputs import first_rows, key_strings, open_source, read_source


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
