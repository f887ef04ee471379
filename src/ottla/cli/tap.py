"""`ottla tap`: the requests and answers in a recording, a line each."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from ottla.cli.characters import show_exactly
from ottla.cli.options import JSON_TO_STDOUT, whole
from ottla.cli.output import has_colors
from ottla.cli.signals import Ended
from ottla.errors import UserMistake
from ottla.interruptible_reads import standard_input
from ottla.printable import printable
from ottla.tap.exchange import Entry, Exchange, Outcome, to_plain
from ottla.tap.lines import connection_line, exchange_line, hex_lines, remark_line
from ottla.tap.recording import Recording
from ottla.tap.selection import Selection, has_failed, parse_apis
from ottla.tap.tally import Tally

_FAILED = 1
_STDIN = "-"
_LOOK_S = 0.1
_FOLDED_INDENT = " " * 6
_COLUMNS_MIN = 20


def tap(
    recording: Annotated[
        str,
        typer.Argument(
            help="A capture of ottla's, a pcap or a pcapng (tcpdump -w, Wireshark); - is stdin.", metavar="CAPTURE"
        ),
    ],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Also show what is written to the file later.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help=f"{JSON_TO_STDOUT} An object for each line, with all that is known.")
    ] = False,
    with_bytes: Annotated[
        bool, typer.Option("--bytes", "-X", help="Also show the bytes of requests and answers, secrets excepted.")
    ] = False,
    api: Annotated[
        list[str] | None,
        typer.Option("--api", help="Only this API, such as Produce; may be given several times.", metavar="NAME"),
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", help="Only requests that name this topic.", metavar="TOPIC")
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition",
            help="Only requests that name this partition.",
            parser=whole("--partition", 0, (1 << 31) - 1, such_as=0),
            metavar="NUMBER",
        ),
    ] = None,
    client_id: Annotated[
        str | None, typer.Option("--client-id", help="Only requests of this client.", metavar="ID")
    ] = None,
    errors: Annotated[
        bool, typer.Option("--errors", help="Only requests that failed: an error code, no answer, a wrong CRC.")
    ] = False,
    slower_than: Annotated[
        int | None,
        typer.Option(
            "--slower-than",
            help="Only requests that took longer than so many milliseconds, or were never answered.",
            parser=whole("--slower-than", 0, such_as=100),
            metavar="MS",
        ),
    ] = None,
) -> None:
    """Show each Kafka request with its answer on one line, as tcpdump shows packets.

    A line has the time (UTC) of the request, the number of its connection, how long the answer took, the API with its
    version, then topic and partition, records, bytes, producer id and epoch, base sequence, acks, base offset and
    error. Lines come in the order of the answers. Bytes that were not captured, and connections with TLS, are marked.

    For example:

        tcpdump -i any -s 0 -w broker.pcap tcp port 9092
        ottla tap broker.pcap --topic orders --errors
        tcpdump -i any -s 0 -U -w - tcp port 9092 | ottla tap - --slower-than 100

    Exit status: 0 when all was read, 1 when the end of the capture is missing, 2 when it is no capture or damaged.
    """
    selection = Selection(
        apis=parse_apis(api or []),
        topic=topic,
        partition=partition,
        client_id=client_id,
        errors=errors,
        slower_than_us=None if slower_than is None else slower_than * 1_000,
    )
    if recording == _STDIN:
        _show_all(standard_input(), "stdin", _Shown(selection, as_json, with_bytes), is_live=True, follow=False)
        return
    path = Path(recording)
    if path.is_dir():
        raise UserMistake(f"{path} is a folder: give a capture in it")
    with path.open("rb") as file:
        _show_all(file, str(path), _Shown(selection, as_json, with_bytes), is_live=follow, follow=follow)


def _show_all(file: BinaryIO, name: str, shown: _Shown, *, is_live: bool, follow: bool) -> None:
    """Show a recording to its end, or, where it is followed, until Ctrl+C; then say what was seen in all."""
    recording = Recording(file, name, payloads=shown.with_bytes)
    try:
        _read(recording, file, shown, is_live=is_live, follow=follow)
    except UserMistake:
        # The exchanges before the damage are summed up, too. If even the beginning is missing,
        # `end` raises a less precise error, so the first one is raised.
        with suppress(UserMistake):
            shown.entries(recording.end())
            shown.say(recording)
        raise
    except (KeyboardInterrupt, Ended) as interruption:
        if not is_live:
            raise
        # Also show what still waits for its answer.
        shown.entries(recording.end())
        shown.say(recording)
        if isinstance(interruption, Ended):
            raise
        return
    shown.entries(recording.end())
    shown.say(recording)
    cut_off = recording.cut_off()
    if cut_off is not None:
        sys.stderr.write(f"ottla: {cut_off}\n")
        raise typer.Exit(_FAILED)


def _read(recording: Recording, file: BinaryIO, shown: _Shown, *, is_live: bool, follow: bool) -> None:
    while True:
        for entry in recording.entries():
            shown.entry(entry)
            if is_live:
                sys.stdout.flush()
        if not follow:
            return
        if os.fstat(file.fileno()).st_size < recording.position:
            raise UserMistake(f"{file.name} became shorter while it was read: start again")
        time.sleep(_LOOK_S)


class _Shown:
    """Prints what is wanted, and counts everything."""

    def __init__(self, selection: Selection, as_json: bool, with_bytes: bool) -> None:
        self.with_bytes = with_bytes
        self._selection = selection
        self._as_json = as_json
        self._tally = Tally()
        self._introduced: set[int] = set()
        is_terminal = sys.stdout.isatty()
        self._has_colors = is_terminal and has_colors()
        self._columns = shutil.get_terminal_size().columns if is_terminal else None
        if as_json:
            show_exactly("utf-8")

    def entries(self, entries: Iterable[Entry]) -> None:
        """Print and count these."""
        for entry in entries:
            self.entry(entry)

    def entry(self, entry: Entry) -> None:
        """Print and count one."""
        self._tally.add(entry)
        is_wanted = self._selection.wants(entry) if isinstance(entry, Exchange) else self._selection.is_all
        if not is_wanted:
            return
        self._tally.shown += isinstance(entry, Exchange)
        if self._as_json:
            self._print_json(entry)
            return
        if entry.connection not in self._introduced:
            self._introduced.add(entry.connection)
            self._print(connection_line(entry), "cyan")
        if not isinstance(entry, Exchange):
            self._print(remark_line(entry), "yellow")
            return
        parts = None if self._selection.is_all else self._selection.parts(entry)
        color = None if not has_failed(entry) else "yellow" if entry.outcome is Outcome.UNANSWERED else "red"
        self._print(exchange_line(entry, parts), color)
        if self.with_bytes:
            for title, data in (("request", entry.request_frame), ("answer", entry.response_frame)):
                for line in hex_lines(title, data) if data is not None else ():
                    typer.echo(line)

    def say(self, recording: Recording) -> None:
        """The end: what was seen in all."""
        sys.stdout.flush()
        notes = recording.notes()
        if self.with_bytes and recording.is_ours and self._tally.exchanges and not self._tally.has_frames:
            notes.append("the bytes of requests and answers were not recorded in this capture")
        for note in [self._tally.words(), *notes]:
            sys.stderr.write(f"{note}\n")

    def _print(self, line: str, color: str | None) -> None:
        if self._columns is not None and len(line) > self._columns:
            # A word that is longer than a line (a topic's name) is broken rather than lost.
            width = max(self._columns, _COLUMNS_MIN)
            line = "\n".join(textwrap.wrap(line, width, subsequent_indent=_FOLDED_INDENT, break_on_hyphens=False))
        line = printable(line, besides="\n")
        typer.echo(typer.style(line, fg=color) if self._has_colors and color else line)

    def _print_json(self, entry: Entry) -> None:
        plain = to_plain(entry)
        if isinstance(entry, Exchange) and entry.latency_us is not None:
            plain["exchange"]["latency_us"] = entry.latency_us
        typer.echo(json.dumps(plain, ensure_ascii=False))
