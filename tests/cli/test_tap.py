"""`ottla tap` over captures: real ones of tcpdump, ours, growing ones, and files that are none.

The captures in tests/tap/captures were made with tcpdump 4.99 on Linux of one producer, one transactional producer and
one reader of an embedded cluster: on the loopback interface (Ethernet), on `any` (cooked, both versions), and with
packets cut to 120 bytes.
"""

from __future__ import annotations

import fcntl
import gzip
import io
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.tap.packet_files import BROKER, CLIENT, opening, packets, pcap, pcapng
from tests.tap.talk import answered, asked, batch, conversation, heard, produce, produced

from ottla.cli import main
from ottla.tap.capture import CaptureWriter
from ottla.tap.exchange import Way
from ottla.tap.packets import ACK

TIMEOUT_S = 60
CAPTURES = Path(__file__).parents[1] / "tap" / "captures"
LOOPBACK = CAPTURES / "loopback.pcap"
COMMAND = [sys.executable, "-m", "ottla", "tap"]


class Done(NamedTuple):
    """How the command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def tap(*arguments: str | Path) -> Done:
    """The command in this process: another Python would take longer to start than all that it does."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        status = main(["tap", *map(str, arguments)])
    return Done(status, *(stream.buffer.getvalue().decode() for stream in (out, err)))  # type: ignore[attr-defined]


def lines(*arguments: str | Path) -> list[str]:
    done = tap(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def as_json(*arguments: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line)["exchange"] for line in lines(*arguments, "--json")]


def ours(path: Path, *, payloads: bool = False) -> Path:
    """A capture of ours with a request that was answered with an error, and one that was not answered."""
    pieces = [
        (Way.TO_BROKER, asked(produce(batch()), 9, 1)),
        (Way.TO_CLIENT, answered(produced(-1, 45), 9, 1)),
        (Way.TO_BROKER, asked(produce(batch(), topic="other", partition=3), 9, 2, "second")),
    ]
    with CaptureWriter(path) as writer:
        for entry in heard(conversation(payloads=payloads), *pieces):
            writer.write(entry)
    return path


@pytest.mark.parametrize("name", ["loopback", "any", "cooked"])
def test_a_capture_of_tcpdump_is_shown_a_line_for_each_exchange(name: str) -> None:
    done = tap(CAPTURES / f"{name}.pcap")
    assert (done.returncode, done.stderr) == (0, "16 exchanges, 0 unanswered, 3 connections, 0 bytes unseen\n")
    shown = [re.sub(r"^\S+ +(\d+) +[\d.]+ms ", r"\1 ", line) for line in done.stdout.splitlines() if "ms " in line]
    assert shown == [
        "1 ApiVersions v3",
        "1 Metadata v13       orders",
        "1 InitProducerId v5  producer 0/0",
        "1 Produce v12        acks all orders-0 2 records 99 B producer 0/0 seq 0 offset 0; "
        "orders-1 2 records 99 B producer 0/0 seq 0 offset 0",
        "2 ApiVersions v3",
        "2 FindCoordinator v3 txn pay",
        "2 Metadata v13",
        "2 InitProducerId v5  txn pay producer 1/0",
        "2 Metadata v13       orders",
        "2 Produce v12        txn pay acks all orders-0 1 record 73 B producer 1/0 seq 0 offset 2",
        "2 EndTxn v5          txn pay producer 1/1 commit",
        "3 ApiVersions v3",
        "3 Metadata v13       orders",
        "3 ListOffsets v11    orders-0 offset 0; orders-1 offset 0",
        "3 ListOffsets v11    orders-0 offset 4; orders-1 offset 2",
        "3 Fetch v12          orders-0 from 0 4 records 250 B hw 4; orders-1 from 0 2 records 99 B hw 2",
    ]
    assert re.findall(r" connection from .* \((.*)\)", done.stdout) == ["shop", "bank", "consumer-1"]


def test_the_guide_shows_what_is_printed() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tap.md").read_text()
    (example,) = [block for block in re.findall(r"```\n(.*?)```", page, flags=re.DOTALL) if "connection from" in block]
    assert tap(LOOPBACK).stdout.startswith(example)


def test_packets_that_were_cut_short_are_told_and_lose_no_exchange() -> None:
    done = tap(CAPTURES / "snapped.pcap")
    assert done.returncode == 0
    assert done.stdout.count("ms ") == 16
    assert "of its bytes were not captured)" in done.stdout
    assert done.stderr.splitlines()[-1] == (
        "17 packets were not captured whole: record with -s 0, so that requests can be decoded"
    )


def test_what_was_produced_is_fetched_with_the_same_hash() -> None:
    found = as_json(LOOPBACK)
    hashes = [
        {
            batch["sha256"]
            for each in found
            if each["api"] == api
            for part in each["partitions"]
            for batch in part["batches"]
        }
        for api in ("Produce", "Fetch")
    ]
    produced_ones, fetched = hashes
    # What is fetched has the marker of the commit, too.
    assert (len(produced_ones), len(fetched)) == (3, 4)
    assert produced_ones < fetched


def test_times_are_told_in_microseconds() -> None:
    first = as_json(LOOPBACK)[0]
    assert first["response_us"] - first["request_us"] == first["latency_us"] == 393


@pytest.mark.parametrize(
    ("arguments", "apis"),
    [
        (["--api", "produce"], ["Produce", "Produce"]),
        (["--api", "Produce", "--api", "EndTxn"], ["Produce", "Produce", "EndTxn"]),
        (["--client-id", "bank", "--topic", "orders"], ["Metadata", "Produce"]),
        (["--topic", "orders", "--partition", "1"], ["Produce", "ListOffsets", "ListOffsets", "Fetch"]),
        (["--slower-than", "20"], ["Produce", "FindCoordinator", "Produce"]),
        (["--errors"], []),
        (["--topic", "nothing"], []),
    ],
)
def test_filters(arguments: list[str], apis: list[str]) -> None:
    assert [each["api"] for each in as_json(LOOPBACK, *arguments)] == apis


def test_a_filter_of_partitions_shows_only_those() -> None:
    (_, line) = lines(LOOPBACK, "--api", "Fetch", "--partition", "1")
    assert "orders-1 from 0 2 records 99 B hw 2" in line
    assert "orders-0" not in line


def test_errors_and_missing_answers_are_shown(tmp_path: Path) -> None:
    done = tap(ours(tmp_path / "a.capture"), "--errors")
    _, failed, unanswered = done.stdout.splitlines()
    assert failed.endswith("acks all orders-0 3 records 68 B OUT_OF_ORDER_SEQUENCE_NUMBER")
    assert unanswered.endswith("- Produce v9         acks all other-3 3 records 68 B NO ANSWER")
    assert done.stderr == "2 exchanges, 1 unanswered, 1 failed, 1 connection, 0 bytes unseen\n"


def test_bytes_are_shown_as_tcpdump_shows_them(tmp_path: Path) -> None:
    shown = lines(LOOPBACK, "-X", "--api", "EndTxn")
    begin = shown.index("    request, 31 bytes:")
    assert shown[begin : begin + 5] == [
        "    request, 31 bytes:",
        "    0x000000  001a 0005 0000 0007 0004 6261 6e6b 0004  ..........bank..",
        "    0x000010  7061 7900 0000 0000 0000 0100 0001 00    pay............",
        "    answer, 22 bytes:",
        "    0x000000  0000 0007 0000 0000 0000 0000 0000 0000  ................",
    ]
    assert "request, " in tap(ours(tmp_path / "with", payloads=True), "-X").stdout
    without = tap(ours(tmp_path / "without"), "-X")
    assert "request, " not in without.stdout
    assert without.stderr.endswith("the bytes of requests and answers were not recorded in this capture\n")


def test_a_capture_is_read_from_stdin() -> None:
    done = subprocess.run(
        [*COMMAND, "-"], input=LOOPBACK.read_bytes(), capture_output=True, timeout=TIMEOUT_S, check=False
    )
    assert (done.returncode, done.stdout.decode(), done.stderr.decode()) == tap(LOOPBACK)


def test_a_stdin_that_cannot_be_read_is_not_called_empty(tmp_path: Path) -> None:
    with (tmp_path / "written").open("wb") as unreadable:
        done = subprocess.run(
            [*COMMAND, "-"], stdin=unreadable, capture_output=True, timeout=TIMEOUT_S, check=False, text=True
        )
    assert done.returncode == 2
    assert "standard input cannot be read (Bad file descriptor)" in done.stderr
    assert "is empty" not in done.stderr


def test_pcapng_is_read(tmp_path: Path) -> None:
    request, answer = asked(produce(batch()), 9), answered(produced(5), 9)
    pieces = [*opening(), (CLIENT, BROKER, 1000, request, ACK), (BROKER, CLIENT, 5000, answer, ACK)]
    for order in "<>":
        path = tmp_path / "a.pcapng"
        path.write_bytes(pcapng(packets(*pieces), order=order))
        (seen,) = as_json(path)
        assert (seen["api"], seen["partitions"][0]["offset"], seen["latency_us"]) == ("Produce", 5, 1_000)


def test_tls_and_other_protocols_are_told(tmp_path: Path) -> None:
    hello = bytes.fromhex("16030100c8010000c4") + bytes(100)
    other = ("10.0.0.1", 40001)
    pieces = [*opening(), (CLIENT, BROKER, 1000, hello, ACK)]
    pieces += [*opening(other), (other, BROKER, 1000, b"GET / HTTP/1.1\r\n", ACK)]
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(packets(*pieces)))
    done = tap(path)
    assert "(TLS: what is inside cannot be read)" in done.stdout
    assert "(not the Kafka protocol: b'GET ' where a frame should begin)" in done.stdout
    assert done.stderr == "0 exchanges, 0 unanswered, 2 connections, 1 encrypted, 1 not Kafka, 0 bytes unseen\n"


def test_names_that_a_terminal_would_obey_are_spelled_out(tmp_path: Path) -> None:
    path = tmp_path / "a.capture"
    with CaptureWriter(path) as writer:
        for entry in heard(conversation(), (Way.TO_BROKER, asked(produce(batch(), topic="a\x1b[2Jb"), 9))):
            writer.write(entry)
    assert r"a\x1b[2Jb-0" in tap(path).stdout


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty: give a capture of ottla's, a pcap or a pcapng"),
        (b"offset,key\n1,2\n", "is no recording (it begins with b'offs')"),
        (gzip.compress(b"x" * 100, mtime=0), "is compressed with gzip: unpack it first, as by gzip -dc"),
        (b"\xd4\xc3", "is cut off at byte 2, before anything was recorded"),
        (b'{"ottla_cap', "is cut off at byte 11, before anything was recorded"),
        (b'{"other": 1}\n', "is no recording"),
        (b'{"ottla_capture":7}\n', "is a capture of format 7, which a newer ottla has written"),
        (b'{"ottla_capture":1}\n{"exchange":{}}\n', ", line 2: not what Exchange is written as"),
        (pcap(packets(*opening())) + b"\xff" * 16, "is damaged at byte 252: a packet of 4,294,967,295 bytes"),
    ],
)
def test_what_is_no_capture_is_refused_with_the_place(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "given"
    path.write_bytes(content)
    done = tap(path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"ottla: {path}{'' if why[0] == ',' else ' '}{why}")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["no-such-file"], "no-such-file: No such file or directory"),
        ([str(CAPTURES)], "captures is a folder: give a capture in it"),
        ([str(LOOPBACK), "--api", "produse"], "--api produse is no API of Kafka: did you mean Produce?"),
        ([str(LOOPBACK), "--api", "xyz"], "--api xyz is no API of Kafka: give one such as Produce, Fetch or Metadata"),
        ([str(LOOPBACK), "--partition", "-1"], "--partition -1 is no whole number from 0 to 2,147,483,647"),
        ([str(LOOPBACK), "--slower-than", "fast"], "--slower-than fast is no whole number of 0 or more"),
    ],
)
def test_what_cannot_be_used_is_refused(arguments: list[str], why: str) -> None:
    done = tap(*arguments)
    assert done.returncode == 2
    assert why in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_capture_that_is_cut_off_is_shown_up_to_the_place(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    data = LOOPBACK.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    done = tap(path)
    assert done.returncode == 1
    assert done.stdout.count("ms ") > 3
    told = re.search(
        r"is cut off: the last packet, which begins at byte ([\d,]+), is not whole \((\d+) bytes", done.stderr
    )
    assert told is not None
    assert int(told[1].replace(",", "")) + int(told[2]) == len(data) // 2


def test_a_capture_of_ours_that_is_cut_off_is_shown_up_to_the_line(tmp_path: Path) -> None:
    path = ours(tmp_path / "a.capture")
    size = path.stat().st_size
    os.truncate(path, size - 5)
    done = tap(path)
    assert done.returncode == 1
    assert "OUT_OF_ORDER_SEQUENCE_NUMBER" in done.stdout
    begin = path.read_bytes().rindex(b"\n") + 1
    assert f"is cut off: line 3, which begins at byte {begin:,}, is not whole" in done.stderr


def test_nobody_reads_on() -> None:
    process = subprocess.Popen([*COMMAND, str(LOOPBACK)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(TIMEOUT_S) == 141
    assert process.stderr is not None
    assert process.stderr.read() == b""


@pytest.mark.parametrize("kind", ["pcap", "ours"])
def test_a_growing_capture_is_followed(tmp_path: Path, kind: str) -> None:
    whole = LOOPBACK if kind == "pcap" else ours(tmp_path / "whole")
    data, path = whole.read_bytes(), tmp_path / "growing"
    expected = tap(whole).stdout.splitlines()
    path.write_bytes(data[:10])
    # Without a buffer, whose lines `select` would not see.
    process = subprocess.Popen(
        [*COMMAND, str(path), "--follow"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )
    assert process.stdout is not None
    seen = []
    with path.open("ab", buffering=0) as file:
        for begin in range(10, len(data), 600):
            file.write(data[begin : begin + 600])
        for _ in expected:
            assert select.select([process.stdout], [], [], TIMEOUT_S)[0]
            seen.append(process.stdout.readline().decode().rstrip("\n"))
    assert seen == expected
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert told.decode().splitlines() == tap(whole).stderr.splitlines()


def test_a_capture_that_becomes_shorter_while_it_is_followed_is_told(tmp_path: Path) -> None:
    path = ours(tmp_path / "a.capture")
    # Without a buffer, whose lines `select` would not see.
    process = subprocess.Popen(
        [*COMMAND, str(path), "--follow"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )
    assert process.stdout is not None
    process.stdout.readline()
    os.truncate(path, 10)
    _, told = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 2
    assert b"became shorter while it was read" in told


def on_a_terminal(columns: int, *arguments: str | Path, **environment: str) -> str:
    theirs, us = pty.openpty()
    fcntl.ioctl(us, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    clean = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdout=us, stderr=subprocess.DEVNULL, env={**clean, **environment}
    )
    os.close(us)
    shown = b""
    while True:
        try:
            part = os.read(theirs, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(theirs)
    assert process.wait(TIMEOUT_S) == 0
    return shown.decode().replace("\r\n", "\n")


def test_lines_are_folded_on_a_narrow_terminal_and_lose_nothing() -> None:
    shown = on_a_terminal(60, LOOPBACK, NO_COLOR="1")
    assert max(map(len, shown.splitlines())) <= 60
    assert shown.split() == tap(LOOPBACK).stdout.split()


def test_failures_have_a_colour_on_a_terminal_only(tmp_path: Path) -> None:
    path = ours(tmp_path / "a.capture")
    assert "\x1b[31m" in on_a_terminal(200, path)
    assert "\x1b" not in on_a_terminal(200, path, NO_COLOR="1")
    assert "\x1b" not in tap(path).stdout
