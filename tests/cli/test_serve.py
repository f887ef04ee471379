"""`ottla serve`: settings, listeners, and what is left after each way to end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tools.ports import free_ports

from .serving import Serving

TIMEOUT_S = 60
TOPIC = "orders"


def refused(*arguments: str) -> str:
    """The sentence with which it does not start."""
    command = [sys.executable, "-m", "ottla", "serve", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 2, done
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def produce(servers: str, values: list[bytes], **more: Any) -> dict[bytes, int]:
    """Offsets of those values that were acked."""
    acked: dict[bytes, int] = {}

    def delivered(error: Any, message: Any) -> None:
        if error is None:
            acked[message.value()] = message.offset()

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, **more})
    for value in values:
        producer.produce(TOPIC, value, partition=0, on_delivery=delivered)
    producer.flush(TIMEOUT_S)
    return acked


def read(servers: str) -> dict[bytes, int]:
    """Every record of partition 0, with its offset."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "enable.partition.eof": False})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=TIMEOUT_S)
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        found: dict[bytes, int] = {}
        while not found or max(found.values()) < end - 1:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None
            assert message.error() is None
            offset = message.offset()
            assert offset is not None
            found[message.value()] = offset
        return found
    finally:
        consumer.close()


def log_of(folder: Path, broker_id: int = 1) -> Path:
    """The last segment of partition 0."""
    return sorted((folder / f"broker-{broker_id}" / f"{TOPIC}-0").glob("*.log"))[-1]


def test_everything_acked_outlives_kill_9_while_producing(serve: Callable[..., Serving], tmp_path: Path) -> None:
    """The page cache belongs to the system, so what was written stays; a torn tail is cut."""
    arguments = ("--data-dir", str(tmp_path), "--topic", f"{TOPIC}:1")
    serving = serve(*arguments)
    acked: dict[bytes, int] = {}

    def delivered(error: Any, message: Any) -> None:
        if error is None:
            acked[message.value()] = message.offset()

    producer = Producer({"bootstrap.servers": serving.servers, "linger.ms": 0, "acks": "all"})
    number = 0
    while len(acked) < 2000:
        producer.produce(TOPIC, b"%d" % number, partition=0, on_delivery=delivered)
        # Its queue takes 100,000; where the brokers are slow to start that is soon full.
        producer.poll(0 if number - len(acked) < 10_000 else 0.1)
        number += 1
    serving.kill()
    producer.purge()
    producer.flush(0)
    with log_of(tmp_path).open("r+b") as log:
        content = log.read()
        log.write(content[:61])  # the head of a batch, as if the machine had stopped in the middle of writing it
    again = serve(*arguments)
    found = read(again.servers)
    assert {value: found.get(value) for value in acked} == acked
    assert produce(again.servers, [b"life goes on"]) == {b"life goes on": max(found.values()) + 1}
    status, _ = again.end()
    assert status == 0


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for a process that is not a child of its own")
@pytest.mark.parametrize("synced", [True, False])
def test_kill_9_of_the_command_alone_ends_its_brokers_and_costs_nothing_acked(
    serve: Callable[..., Serving], tmp_path: Path, synced: bool
) -> None:
    """The brokers are a process of their own: they notice, close their logs and let go of folder and ports."""
    synced_at_once = ("--set", "log.flush.interval.messages=1") if synced else ()
    arguments = ("--data-dir", str(tmp_path), "--topic", f"{TOPIC}:1", *synced_at_once)
    serving = serve(*arguments)
    acked = produce(serving.servers, [b"%d" % number for number in range(500)], acks="all")
    assert len(acked) == 500
    brokers = os.pidfd_open(serving.told["pid"])
    serving.process.kill()
    assert serving.ended()[0] == -signal.SIGKILL
    assert select.select([brokers], [], [], TIMEOUT_S)[0], "brokers that go on without their parent"
    os.close(brokers)
    again = serve(*arguments)
    assert read(again.servers) == acked
    assert produce(again.servers, [b"life goes on"]) == {b"life goes on": 500}
    assert again.end() == (0, "")


def test_all_that_was_synced_outlives_kill_9_of_everything(serve: Callable[..., Serving], tmp_path: Path) -> None:
    arguments = ("--data-dir", str(tmp_path), "--topic", f"{TOPIC}:1", "--set", "log.flush.interval.messages=1")
    serving = serve(*arguments)
    acked = produce(serving.servers, [b"%d" % number for number in range(500)], acks="all")
    assert len(acked) == 500
    serving.kill()
    again = serve(*arguments)
    assert read(again.servers) == acked
    # Ports and folder are free, and the brokers go on where they were.
    assert produce(again.servers, [b"life goes on"]) == {b"life goes on": 500}
    assert again.end()[0] == 0


def test_the_line_it_begins_with_names_every_broker_at_the_port_given_and_those_behind_it(tmp_path: Path) -> None:
    port = free_ports(3)[0]
    command = [sys.executable, "-m", "ottla", "serve", "--brokers", "3", "--port", str(port)]
    for more, kept in ((("--data-dir", str(tmp_path)), f"logs in {tmp_path}"), ((), "logs are temporary")):
        with subprocess.Popen(
            [*command, "--topic", f"{TOPIC}:1", *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as serving:
            assert serving.stdout is not None
            assert select.select([serving.stdout], [], [], TIMEOUT_S)[0]
            line = serving.stdout.readline()
            servers = ",".join(f"127.0.0.1:{port + number}" for number in range(3))
            assert line == f"3 brokers at {servers} ({kept}); Ctrl+C ends them\n"
            # Each of them is there, and knows of the others.
            for address in servers.split(","):
                brokers = AdminClient({"bootstrap.servers": address}).list_topics(timeout=TIMEOUT_S).brokers
                assert {(each.id, f"{each.host}:{each.port}") for each in brokers.values()} == set(
                    enumerate(servers.split(","), 1)
                )
            serving.send_signal(signal.SIGTERM)
            assert serving.communicate(timeout=TIMEOUT_S) == ("", "")
            assert serving.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order_and_the_next_start_has_nothing_to_repair(
    serve: Callable[..., Serving], tmp_path: Path, number: int
) -> None:
    serving = serve("--brokers", "1", "--data-dir", str(tmp_path), "--topic", f"{TOPIC}:1")
    values = [b"%d" % number for number in range(100)]
    assert len(produce(serving.servers, values)) == 100
    assert serving.told["data_dir"] == str(tmp_path)
    assert serving.end(number) == (0, "")
    again = serve("--brokers", "1", "--data-dir", str(tmp_path), "--topic", f"{TOPIC}:1")
    assert sorted(read(again.servers).values()) == list(range(100))
    assert again.end() == (0, "")


def test_brokers_that_were_killed_end_the_command(serve: Callable[..., Serving]) -> None:
    serving = serve("--brokers", "1")
    os.kill(serving.told["pid"], signal.SIGKILL)
    status, complaints = serving.ended()
    assert status == 1
    assert complaints == "ottla: the brokers' process ended by itself; its logs are gone.\n"


def test_brokers_that_were_killed_leave_their_logs_where_they_were_told_to(
    serve: Callable[..., Serving], tmp_path: Path
) -> None:
    serving = serve("--brokers", "1", "--data-dir", str(tmp_path))
    os.kill(serving.told["pid"], signal.SIGKILL)
    _, complaints = serving.ended()
    assert f"; start it again to go on with what is in {tmp_path}." in complaints


def test_a_folder_in_use_is_refused(serve: Callable[..., Serving], tmp_path: Path) -> None:
    serving = serve("--brokers", "1", "--data-dir", str(tmp_path), "--topic", f"{TOPIC}:1")
    sentence = refused("--port", "0", "--data-dir", str(tmp_path))
    assert "is in use by another running cluster" in sentence
    assert produce(serving.servers, [b"unharmed"]) == {b"unharmed": 0}


def test_settings_are_in_force(serve: Callable[..., Serving], tmp_path: Path) -> None:
    serving = serve(
        "--brokers", "1", "--data-dir", str(tmp_path), "--topic", TOPIC, "--set", "log.segment.bytes=100000"
    )
    for part in (b"a", b"b", b"c"):
        produce(serving.servers, [part * 60_000])
    assert len(list((tmp_path / "broker-1" / f"{TOPIC}-0").glob("*.log"))) == 3


def users_file(folder: Path, content: str, mode: int = 0o600) -> Path:
    path = folder / "users.txt"
    path.write_text(content)
    path.chmod(mode)
    return path


def come_in(servers: str, password: str) -> dict[bytes, int]:
    config = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    return produce(servers, [b"safe"], **config, **{"sasl.username": "ada", "sasl.password": password})


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="reads command lines from /proc")
@pytest.mark.parametrize("way", ["file", "environment"])
def test_a_password_stands_in_no_list_of_processes(
    serve: Callable[..., Serving], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    arguments = ["--brokers", "1", "--topic", TOPIC, "--listener", "S=SASL_PLAINTEXT://127.0.0.1:0"]
    if way == "file":
        arguments += ["--users-file", str(users_file(tmp_path, "ada:lovelace\ngrace:hopper\n"))]
    else:
        monkeypatch.setenv("OTTLA_USERS", "ada:lovelace\ngrace:hopper")
    serving = serve(*arguments)
    assert come_in(serving.servers, "lovelace") == {b"safe": 0}
    for pid in (serving.process.pid, serving.told["pid"]):
        assert b"ottla" in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert b"lovelace" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    # Nor does the brokers' process inherit it.
    assert b"lovelace" not in Path(f"/proc/{serving.told['pid']}/environ").read_bytes()
    assert serving.end() == (0, "")


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_users_file_that_others_can_read_is_told_of(serve: Callable[..., Serving], tmp_path: Path, mode: int) -> None:
    path = users_file(tmp_path, "ada:lovelace\n", mode)
    serving = serve("--brokers", "1", "--users-file", str(path), "--listener", "S=SASL_PLAINTEXT://127.0.0.1:0")
    status, complaints = serving.end()
    assert status == 0
    assert complaints == f"ottla: {path} can be read by other users of this machine: chmod 600 {path}\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("ada:lovelace\nsecret\n", "line 2 of {} is not NAME:PASSWORD"),
        (":secret\n", "line 1 of {} is not NAME:PASSWORD"),
        ("ada:\n", "line 1 of {} is not NAME:PASSWORD"),
        ("ada:secret\nada:other\n", "line 2 of {} names 'ada' again"),
        ("# nobody\n", "{} names no user"),
    ],
)
def test_a_line_that_is_no_user_is_named_and_never_repeated(tmp_path: Path, content: str, words: str) -> None:
    path = users_file(tmp_path, content)
    sentence = refused("--users-file", str(path), "--listener", "S=SASL_PLAINTEXT://127.0.0.1:0")
    assert words.format(path) in sentence
    assert "secret" not in sentence


def test_listeners_are_opened_as_told(serve: Callable[..., Serving], tmp_path: Path) -> None:
    trustme = pytest.importorskip("trustme")
    pytest.importorskip("scramp")
    ca = trustme.CA()
    ca.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    users = users_file(tmp_path, "# who may come in\n\nada:love:lace\n")
    serving = serve(
        *(
            "--brokers",
            "1",
            "--topic",
            TOPIC,
            "--users-file",
            str(users),
            "--certificate",
            str(tmp_path / "server.pem"),
        ),
        *("--listener", "IN=PLAINTEXT://127.0.0.1:0@localhost:31000"),
        *("--listener", "SAFE=SASL_SSL://127.0.0.1:0"),
    )
    assert list(serving.told["listeners"]) == ["IN", "SAFE"]
    assert serving.servers == serving.told["listeners"]["IN"] == "localhost:31000"
    acked = produce(
        serving.told["listeners"]["SAFE"],
        [b"safe"],
        **{
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(tmp_path / "ca.pem"),
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "ada",
            "sasl.password": "love:lace",
        },
    )
    assert acked == {b"safe": 0}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--set", "log.segment.bytes"), "--set log.segment.bytes is not NAME=VALUE"),
        (("--set", "log.segment.bytes=many"), "log.segment.bytes='many' must be an integer"),
        (("--set", "log.segment.butes=5"), "'log.segment.butes' is unknown; did you mean log.segment.bytes?"),
        (("--user", "ada:lovelace"), "--user would show the password"),
        (("--users-file", "not-there.txt", "--listener", "A=SASL_PLAINTEXT://localhost:0"), "not-there.txt"),
        (("--users-file", "/dev/null"), "--users-file is for listeners with SASL"),
        (("--listener", "PLAINTEXT://:9092"), "is not NAME=PROTOCOL://HOST:PORT"),
        (("--listener", "A=PLAINTEXT://localhost"), "is not NAME=PROTOCOL://HOST:PORT"),
        (("--listener", "A=PLAINTEXT://localhost:1@"), "is not NAME=PROTOCOL://HOST:PORT"),
        (("--listener", "A=SSH://localhost:0"), "protocol='SSH' must be one of"),
        (("--listener", "A=SSL://localhost:0"), "needs a certificate"),
        (("--listener", "A=SASL_PLAINTEXT://localhost:0"), "needs users"),
        (("--certificate", "not-there.pem"), "not-there.pem"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(arguments: tuple[str, ...], words: str) -> None:
    assert words in refused("--port", "0", *arguments)


@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_batch_is_never_lost_in_silence(serve: Callable[..., Serving], tmp_path: Path, clean: bool) -> None:
    """After kill -9 the log is checked and cut, which is said; after a clean end readers find the damage themselves."""
    arguments = ("--brokers", "1", "--data-dir", str(tmp_path), "--topic", f"{TOPIC}:1")
    serving = serve(*arguments)
    for value in (b"first", b"second", b"third"):
        produce(serving.servers, [value])
    if clean:
        assert serving.end() == (0, "")
    else:
        serving.kill()
    path = log_of(tmp_path)
    content = bytearray(path.read_bytes())
    content[content.index(b"second")] ^= 0xFF
    path.write_bytes(content)
    again = serve(*arguments)
    if clean:
        consumer = Consumer({"bootstrap.servers": again.servers, "group.id": "g", "check.crcs": True})
        consumer.assign([TopicPartition(TOPIC, 0, 1)])
        message = consumer.poll(TIMEOUT_S)
        consumer.close()
        assert message is not None
        assert message.error() is not None
        assert again.end() == (0, "")
        return
    assert read(again.servers) == {b"first": 0}
    status, complaints = again.end()
    assert status == 0
    assert f"log {TOPIC}-0: cut " in complaints
    assert "from offset 1 on" in complaints


@pytest.mark.parametrize(
    "name",
    [
        "replication-offset-checkpoint",
        "recovery-point-offset-checkpoint",
        "*.index",
        "*.snapshot",
        "leader-epoch-checkpoint",
        "*.timeindex",
    ],
)
def test_damaged_small_files_cost_no_record(serve: Callable[..., Serving], tmp_path: Path, name: str) -> None:
    arguments = (
        "--brokers",
        "1",
        "--data-dir",
        str(tmp_path),
        "--topic",
        f"{TOPIC}:1",
        "--set",
        "log.segment.bytes=20000",
    )
    serving = serve(*arguments)
    values = [b"%d" % number * 1000 for number in range(60)]
    for first in range(0, 60, 5):
        produce(serving.servers, values[first : first + 5])
    assert serving.end() == (0, "")
    damaged = list((tmp_path / "broker-1").rglob(name))
    assert damaged
    for path in damaged:
        path.write_bytes(b"\xff" * max(12, path.stat().st_size))
    again = serve(*arguments)
    assert sorted(read(again.servers).values()) == list(range(60))
    assert again.end()[0] == 0
