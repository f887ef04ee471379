"""`ottla inspect`: what a file of a broker's data folder holds, ours or Apache Kafka's."""

from __future__ import annotations

import base64
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from ottla.broker.log.survey import SEGMENT_KINDS, Damage, Kind, Row, Survey, kind_of
from ottla.cli.characters import show_exactly
from ottla.cli.options import Json, JsonFile, json_output, whole
from ottla.cli.output import counted, has_colors
from ottla.errors import UserMistake
from ottla.json_output import OPTION, STDOUT
from ottla.printable import printable
from ottla.whole_file import writing_whole

_FAILED = 1
# So many lines are looked at before the columns get their width; later lines may widen them.
_ALIGNED_TOGETHER = 1_000
_KNOWN = (
    "a segment (.log), an index (.index, .timeindex, .txnindex), a producer snapshot (.snapshot), "
    "leader-epoch-checkpoint or partition.metadata"
)
_BATCH_COLUMNS = (
    ("position", "position"),
    ("size", "size_bytes"),
    ("base offset", "base_offset"),
    ("last offset", "last_offset"),
    ("records", "record_count"),
    ("base timestamp", "base_timestamp_ms"),
    ("max timestamp", "max_timestamp_ms"),
    ("leader epoch", "leader_epoch"),
    ("producer", "producer_id"),
    ("epoch", "producer_epoch"),
    ("sequence", "base_sequence"),
)


def inspect(
    path: Annotated[Path, typer.Argument(help="A file of a partition's folder, or the folder.", metavar="FILE|FOLDER")],
    records: Annotated[
        bool, typer.Option("--records", help="Show a segment's records instead of its batches.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-n",
            help="Show so many rows; all of the file is checked.",
            parser=whole("--limit", 0, such_as=20),
            metavar="COUNT",
        ),
    ] = None,
    as_json: Json = False,
    json_file: JsonFile = None,
) -> None:
    """Show what a segment, an index or a producer snapshot holds, and where it is damaged.

    Works on the data folder of an embedded cluster and of Apache Kafka alike, and never changes it. A folder of a
    partition is shown as a list of its files. Offsets, positions and timestamps are as they are stored.

    For example:

        ottla inspect kept/broker-1/orders-0
        ottla inspect kept/broker-1/orders-0/00000000000000000000.log --records

    Exit status: 0 when the file is sound, 1 when it is torn or corrupt, 2 when it is no file of a broker's.
    """
    paths = _files_of(path) if path.is_dir() else [path]
    kinds = [(each, _certain_kind(each)) for each in paths]
    if records and not any(kind.name in SEGMENT_KINDS for _, kind in kinds):
        raise UserMistake(f"{path} is no segment, and only segments hold records: leave --records out")
    job = _Job(path, kinds, records, limit)
    # JSON is UTF-8 wherever it goes.
    place = json_output(as_json, json_file)
    show_exactly("utf-8" if place == STDOUT else None)
    if place is not None:
        _to_json(job, place)
    if place != STDOUT:
        _to_terminal(job)
    sys.stdout.flush()
    if job.damaged:
        raise typer.Exit(_FAILED)


class _File:
    """A file as a survey reads it, as long as it was when it was opened: a running broker writes on."""

    def __init__(self, handle: io.BufferedReader) -> None:
        self._number = handle.fileno()
        self.size = os.fstat(self._number).st_size

    def read(self, position: int, size: int) -> bytes:
        return os.pread(self._number, min(size, self.size - position), position)


class _Job:
    """The files to show and how; `damaged` once one was found to be."""

    def __init__(self, path: Path, kinds: list[tuple[Path, Kind]], records: bool, limit: int | None) -> None:
        self.path = path
        self.is_folder = path.is_dir()
        self.damaged = False
        self._kinds = kinds
        self._records = records
        self._limit = limit

    def surveys(self) -> Iterator[tuple[Path, Survey]]:
        """Each file with its survey; in a folder only --records has rows, and the limit is for all of them together."""
        left = self._limit
        for path, kind in self._kinds:
            with path.open("rb") as handle:
                rows_max = left
                if self.is_folder and not (self._records and kind.name in SEGMENT_KINDS):
                    rows_max = 0
                survey = Survey(kind, _File(handle), with_records=self._records, rows_max=rows_max)
                given = 0

                def counted(rows: Iterator[Row]) -> Iterator[Row]:
                    nonlocal given
                    for row in rows:
                        given += 1
                        yield row

                survey.rows = counted(survey.rows)
                first = next(survey.rows, None)
                if survey.is_something_else and not kind.certain:
                    raise UserMistake(f"{path} is not {_a(kind.name)} ({survey.damages[0].what}): give {_KNOWN}")
                survey.rows = survey.rows if first is None else chain([first], survey.rows)
                yield path, survey
                self.damaged = self.damaged or bool(survey.damages)
                if left is not None:
                    left -= given


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _certain_kind(path: Path) -> Kind:
    kind = kind_of(path.name)
    if not path.exists():
        raise UserMistake(f"{path} is not there: give {_KNOWN}, or a partition's folder")
    if kind is None or not path.is_file():
        raise UserMistake(f"{path} is none of a broker's files: give {_KNOWN}, or a partition's folder")
    return kind


def _files_of(folder: Path) -> list[Path]:
    found = sorted(each for each in folder.iterdir() if kind_of(each.name) and each.is_file())
    if not found:
        inner = sorted(each.parent for each in folder.glob("*/*.log"))
        advice = f"give one of its folders, such as {inner[0]}" if inner else f"give {_KNOWN}"
        raise UserMistake(f"{folder} is not the folder of a partition: {advice}")
    return found


def _to_terminal(job: _Job) -> None:
    if job.is_folder:
        findings: list[Damage] = []
        lines: list[Sequence[str]] = []
        for path, survey in job.surveys():
            if survey.rows_name == "records":
                _print_aligned(_record_lines(survey.rows))
            for _ in survey.rows:
                pass
            state = "sound" if not survey.damages else "DAMAGED"
            lines.append((path.name, survey.kind.name, f"{survey.size_bytes:,}", state, _summary(survey)))
            findings += [each._replace(what=f"{path.name}: {each.what}") for each in survey.damages]
        _print_aligned(iter([("file", "kind", "size", "state", "holds"), *lines]))
        _print_damages(findings)
        return
    for path, survey in job.surveys():
        typer.secho(f"{path}: {survey.kind.name}, {survey.size_bytes:,} bytes", bold=True)
        lines_of: Callable[[Iterator[Row]], Iterator[Sequence[str]]] = {
            "batches": _batch_lines,
            "records": _record_lines,
            "entries": _entry_lines,
        }[survey.rows_name]
        _print_aligned(lines_of(survey.rows))
        typer.echo(_summary(survey) + ("" if survey.damages else "; sound"))
        _print_damages(survey.damages)


def _print_damages(damages: Sequence[Damage]) -> None:
    for position, size, what in damages:
        typer.secho(f"damaged at position {position:,} ({size:,} bytes): {what}", fg="red" if has_colors() else None)


def _summary(survey: Survey) -> str:
    facts = survey.facts
    if "topic_id" in facts:
        return f"topic id {facts['topic_id']}"
    if "batch_count" not in facts:
        entries = facts.get("entry_count", 0)
        free = f", {facts['free_bytes']:,} bytes free" if facts.get("free_bytes") else ""
        return f"{entries:,} {'entry' if entries == 1 else 'entries'}{free}"
    batches, count = facts["batch_count"], facts["record_count"]
    where = "" if not batches else f", offsets {facts['first_offset']} to {facts['last_offset']}"
    return f"{batches:,} batch{'es' * (batches != 1)}, {counted(count, 'record')}{where}"


def _batch_lines(rows: Iterator[Row]) -> Iterator[Sequence[str]]:
    for number, row in enumerate(rows):
        if number == 0:
            yield *(title for title, _ in _BATCH_COLUMNS), "codec", "crc", "kind"
        words = [name for name, flag in (("transactional", "is_transactional"), ("control", "is_control")) if row[flag]]
        cells = [_cell(name, row[name]) for _, name in _BATCH_COLUMNS]
        yield *cells, row["codec"], "ok" if row["crc_ok"] else "WRONG", " ".join(words) or "data"


def _record_lines(rows: Iterator[Row]) -> Iterator[Sequence[str]]:
    for number, row in enumerate(rows):
        if number == 0:
            yield "offset", "timestamp", "key", "value", "headers"
        headers = " ".join(f"{_shown(name)}={_shown(value)}" for name, value in row["headers"])
        value = f"({row['control']}) {_shown(row['value'])}" if "control" in row else _shown(row["value"])
        yield str(row["offset"]), _time(row["timestamp_ms"]), _shown(row["key"]), value, headers


def _entry_lines(rows: Iterator[Row]) -> Iterator[Sequence[str]]:
    for number, row in enumerate(rows):
        if number == 0:
            yield tuple(name.removesuffix("_ms").replace("_", " ") for name in row)
        yield tuple(_cell(name, value) for name, value in row.items())


def _cell(name: str, value: int) -> str:
    if name.endswith("_ms"):
        return _time(value)
    return "-" if value == -1 else str(value)


def _time(timestamp_ms: int) -> str:
    """UTC, or the number itself where no calendar reaches; - where a record has none."""
    if timestamp_ms == -1:
        return "-"
    try:
        seconds = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return str(timestamp_ms)
    return f"{seconds:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03}Z"


def _shown(data: bytes | str | None) -> str:
    """A key or value in one line: text where it is printable, otherwise its hexadecimal digits."""
    if data is None:
        return "null"
    text = data if isinstance(data, str) else _text_in(data)
    if text is None:
        return "0x" + bytes(data).hex() if isinstance(data, bytes) else ""
    return printable(text)


def _text_in(data: bytes) -> str | None:
    """The text these bytes are, line ends and tabs allowed; None where they are none."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if text.translate({9: " ", 10: " ", 13: " "}).isprintable() else None


def _print_aligned(lines: Iterator[Sequence[str]]) -> None:
    """Columns as wide as what is in them; the first line is the heading."""
    widths: list[int] = []
    heading = True
    while block := list(islice(lines, _ALIGNED_TOGETHER)):
        widths = widths or [0] * len(block[0])
        widths = [max(width, *map(len, column)) for width, column in zip(widths, zip(*block, strict=True), strict=True)]
        for line in block:
            text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            typer.secho(text, bold=heading)
            heading = False


def _to_json(job: _Job, target: str) -> None:
    """One document, a row a line; a file is written whole or not at all."""
    if target == STDOUT:
        _write_json(job, sys.stdout)
        return
    with (
        writing_whole(Path(target), what="what is in it", option=OPTION) as place,
        place.open("w", encoding="utf-8") as out,
    ):
        _write_json(job, out)


def _write_json(job: _Job, out: TextIO) -> None:
    if job.is_folder:
        out.write(f'{json.dumps({"folder": str(job.path)})[:-1]}, "files": [')
    for number, (path, survey) in enumerate(job.surveys()):
        out.write(",\n" if number else "\n" if job.is_folder else "")
        head = {"file": path.name if job.is_folder else str(path), "kind": survey.kind.name}
        out.write(json.dumps({**head, "size_bytes": survey.size_bytes})[:-1])
        opening = f', "{survey.rows_name}": [\n'
        comma = opening
        for row in survey.rows:
            out.write(comma + json.dumps(_plain(row), ensure_ascii=False))
            comma = ",\n"
        if comma != opening:
            out.write("\n]")
        elif not job.is_folder:
            out.write(opening.rstrip() + "]")
        tail = {**survey.facts, "damage": [each._asdict() for each in survey.damages]}
        out.write(f", {json.dumps(tail, ensure_ascii=False)[1:]}")
    out.write("\n]}\n" if job.is_folder else "\n")


def _plain(value: Any) -> Any:
    """The value as JSON can say it: bytes as text, or as an object with their base64."""
    if isinstance(value, bytes):
        text = _text_in(value)
        return {"base64": base64.b64encode(value).decode()} if text is None else text
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
