"""Our capture file: what is written is read, up to its last whole line, and what is none is told with its place."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from tests.tap.talk import answered, asked, batch, conversation, heard, produce, produced

from ottla.errors import UserMistake
from ottla.tap.capture import CaptureReader, CaptureWriter
from ottla.tap.exchange import Entry, Way, to_plain

REQUEST, RESPONSE = Way.TO_BROKER, Way.TO_CLIENT


def some_entries() -> list[Entry]:
    pieces = [(REQUEST, asked(produce(batch()), 9)), (RESPONSE, answered(produced(5, 7), 9)), (REQUEST, b"GET /")]
    return heard(conversation(payloads=True), *pieces)


def written(path: Path, entries: list[Entry]) -> Path:
    with CaptureWriter(path, upstream="kafka:9092") as writer:
        for entry in entries:
            writer.write(entry)
    return path


def test_entries_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = written(tmp_path / "a.capture", some_entries())
    with path.open("rb") as file:
        reader = CaptureReader(file, "a.capture")
        assert list(reader.entries()) == some_entries()
        assert reader.head == {"ottla_capture": 1, "upstream": "kafka:9092"}
        assert reader.cut_off is None


def test_each_entry_is_in_the_file_as_soon_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.capture"
    writer = CaptureWriter(path)
    writer.write(some_entries()[0])
    assert path.read_bytes().count(b"\n") == 2
    writer.close()


def test_a_file_is_not_overwritten(tmp_path: Path) -> None:
    path = written(tmp_path / "a.capture", [])
    with pytest.raises(UserMistake, match=r"a\.capture is there already: name a new file"):
        CaptureWriter(path)


def test_wherever_a_capture_is_cut_off_its_whole_lines_are_read(tmp_path: Path) -> None:
    data = written(tmp_path / "a.capture", some_entries()).read_bytes()
    ends = [number for number, byte in enumerate(data, 1) if byte == 10]
    for size in range(len(data)):
        reader = CaptureReader(io.BytesIO(data[:size]), "it")
        lines = sum(end <= size for end in ends)
        assert list(reader.entries()) == some_entries()[: max(0, lines - 1)]
        position = max([0, *(end for end in ends if end <= size)])
        expected = None if position == size else (lines + 1, position, size - position)
        assert reader.cut_off == expected


def test_what_is_written_later_is_read_later(tmp_path: Path) -> None:
    path = tmp_path / "a.capture"
    first, *others = some_entries()
    with CaptureWriter(path) as writer, path.open("rb") as file:
        reader = CaptureReader(file, "it")
        assert list(reader.entries()) == []
        writer.write(first)
        assert list(reader.entries()) == [first]
        for entry in others:
            writer.write(entry)
        assert list(reader.entries()) == others


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"nonsense\n", "line 2: not JSON"),
        (b"[" * 100_000 + b"\n", "line 2: not JSON"),
        (b"[]\n", "line 2: neither an exchange nor a remark"),
        (b'{"other": {}}\n', "line 2: 'other' is neither an exchange nor a remark"),
        (b'{"exchange": {"client": "a"}}\n', "line 2: not what Exchange is written as: .*missing"),
        (b'{"exchange": {"client": 7}}\n', "line 2: not what Exchange is written as: 7 is no str"),
        (b'{"exchange": {"request_us": true}}\n', "True is no int"),
        (b'{"exchange": {"outcome": "perhaps"}}\n', "'perhaps' is not a valid Outcome"),
        (b'{"exchange": {"request_frame": "!"}}\n', "line 2: not what Exchange is written as"),
        (b'{"exchange": {"partitions": 4}}\n', "4 is no list"),
    ],
)
def test_a_line_that_is_no_entry_is_told_with_its_number(line: bytes, why: str) -> None:
    reader = CaptureReader(io.BytesIO(b'{"ottla_capture":1}\n' + line), "it")
    with pytest.raises(UserMistake, match=why):
        list(reader.entries())


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (b"{}\n", "it is not a capture: its first line does not say so"),
        (b'{"ottla_capture": "1"}\n', "it is not a capture"),
        (b'{"ottla_capture": 2}\n', "it is a capture of format 2, which a newer ottla has written"),
    ],
)
def test_a_file_that_is_no_capture_of_ours_is_refused(first: bytes, why: str) -> None:
    with pytest.raises(UserMistake, match=why):
        list(CaptureReader(io.BytesIO(first), "it").entries())


def test_fields_that_came_later_are_passed_over() -> None:
    entry = some_entries()[0]
    path = io.BytesIO()
    path.write(b'{"ottla_capture":1}\n')
    plain = to_plain(entry)
    plain["exchange"]["weather"] = "fine"
    path.write(json.dumps(plain).encode() + b"\n")
    path.seek(0)
    assert list(CaptureReader(path, "it").entries()) == [entry]
