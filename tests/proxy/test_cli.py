"""`ottla proxy` as a program: what it says, what it refuses, how it ends."""

from __future__ import annotations

import json
import select
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.proxy.faults_in_force import KINDS
from ottla.tap.byte_source import ByteSource
from ottla.tap.capture import CaptureReader
from ottla.tap.exchange import Exchange, Outcome

_TIMEOUT_S = 60


class Running:
    """`ottla proxy --json` on free ports, running."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "ottla", "proxy", "--json", "--listen", "0", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], _TIMEOUT_S)[0]
        line = self.process.stdout.readline()
        assert line, self.process.communicate()
        self.told: dict[str, Any] = json.loads(line)
        self.servers: str = self.told["bootstrap_servers"]

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """Exit status, and all that stood on stderr."""
        self.process.send_signal(number)
        _, complaints = self.process.communicate(timeout=_TIMEOUT_S)
        return self.process.returncode, complaints


def refused(*arguments: str) -> str:
    """The one sentence with which it does not start."""
    command = [sys.executable, "-m", "ottla", "proxy", "--listen", "0", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert done.returncode == 2, done
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


@pytest.fixture
def faults(tmp_path: Path) -> Path:
    return tmp_path / "faults.toml"


def test_faults_from_a_file_fire_and_are_told_and_counted(
    cluster: ottla.Cluster, topic: str, faults: Path, tmp_path: Path
) -> None:
    faults.write_text(
        f'[[fault]]\nkind = "lose_ack"\ntopic = "{topic}"\nnth = 2\n\n[[fault]]\nkind = "refuse"\ntopic = "nowhere"\n'
    )
    capture = tmp_path / "seen.capture"
    running = Running("--upstream", cluster.bootstrap_servers, "--faults", str(faults), "--record", str(capture))
    assert [fault["kind"] for fault in running.told["faults"]] == ["lose_ack", "refuse"]
    with ottla.Producer(running.servers, linger_ms=0, enable_idempotence=False) as producer:
        for number in range(3):
            producer.send(topic, b"%d" % number).result(_TIMEOUT_S)
    status, said = running.end()
    assert status == 0
    assert f"fault 1 has fired (lose_ack): Produce for {topic}-0 of client producer-" in said
    assert "fault 1, lose ack of Produce" in said
    assert "fired 1 of 4" in said
    assert "never fired; 0 requests matched" in said
    assert ottla.read_table(cluster.bootstrap_servers, topic).num_rows == 4
    with capture.open("rb") as file:
        entries = list(CaptureReader(ByteSource(file), capture.name).entries())
    produced = [each for each in entries if isinstance(each, Exchange) and each.api == "Produce"]
    assert sorted(each.outcome for each in produced) == [*[Outcome.ANSWERED] * 3, Outcome.UNANSWERED]
    assert all(each.request_frame is None for each in produced)


def test_no_client_is_said_at_the_end(cluster: ottla.Cluster) -> None:
    running = Running("--upstream", cluster.bootstrap_servers)
    status, said = running.end(signal.SIGTERM)
    assert status == 0
    assert said.splitlines()[-1] == f"ottla: no client has connected: give clients bootstrap.servers={running.servers}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[fault]]\nkind = "lose_akc"\n', "line 2: fault kind 'lose_akc' is unknown; did you mean 'lose_ack'?"),
        (
            '[[fault]]\nkind = "hold"\n[[fault]]\nkind = "refuse"\nnht = 3\n',
            "line 5: fault refuse: it has no field nht",
        ),
        ('[[fault]]\nkind = "kill"\n', "line 2: fault kill: a proxy sees requests and connections"),
        ('[[fault]]\nkind = "lose_ack"\napi = "Prodcue"\n', "line 3: fault lose_ack: api='Prodcue' is no request"),
        ('[[fault]]\ntopic = "t"\n', "line 1: a fault needs a kind"),
        ('title = "a trial"\n[[fault]]\nkind = "lose_ack"\n', "line 1: 'title' is not for a file of faults"),
        ("[[faults]]\n", "line 1: 'faults' is not for a file of faults; did you mean [[fault]]?"),
        ("[fault]\n", "line 1: each fault stands under a line [[fault]]"),
        ("", "holds no fault"),
        ("[[fault]\n", "is not TOML"),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_line(faults: Path, closed_port: str, text: str, said: str) -> None:
    faults.write_text(text)
    sentence = refused("--upstream", closed_port, "--faults", str(faults))
    assert f"{faults.name}" in sentence
    assert said in sentence


def test_a_file_may_begin_with_a_byte_order_mark(faults: Path, closed_port: str) -> None:
    faults.write_bytes(b'\xef\xbb\xbf[[fault]]\nkind = "lose_ack"\n')
    assert "cannot be reached" in refused("--upstream", closed_port, "--faults", str(faults))


@pytest.fixture
def closed_port() -> Iterator[str]:
    """An address on which nothing listens; its port is bound, so that nobody else gets it."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def test_files_that_cannot_be_read_are_told(tmp_path: Path, closed_port: str) -> None:
    assert "cannot be read (No such file" in refused("--upstream", closed_port, "--faults", str(tmp_path / "none"))
    assert "cannot be read (Is a directory)" in refused("--upstream", closed_port, "--faults", str(tmp_path))


def test_an_upstream_that_is_not_there_is_told(closed_port: str) -> None:
    assert refused("--upstream", closed_port) == (
        f"ottla: upstream {closed_port} cannot be reached (connection refused): is Kafka running there?\n"
    )


def test_wrong_options_are_told(closed_port: str) -> None:
    assert "--private-key is for TLS" in refused("--upstream", closed_port, "--private-key", __file__)
    assert "--payloads is for a recording" in refused("--upstream", closed_port, "--payloads")
    assert "host:port" in refused("--upstream", "localhost")


def test_a_listener_at_all_addresses_needs_a_name_that_clients_are_told(closed_port: str) -> None:
    said = refused("--upstream", closed_port, "--listen", "0.0.0.0:0")
    assert said == "ottla: --listen 0.0.0.0:0 takes all addresses of this machine: give --advertise HOST, too\n"


def test_a_port_that_is_taken_is_told(cluster: ottla.Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sentence = refused("--upstream", cluster.bootstrap_servers, "--listen", str(port))
    assert f"port {port} on 127.0.0.1 is in use by another program" in sentence


def test_a_capture_that_is_there_already_is_not_overwritten(cluster: ottla.Cluster, tmp_path: Path) -> None:
    capture = tmp_path / "seen.capture"
    capture.write_text("precious")
    sentence = refused("--upstream", cluster.bootstrap_servers, "--record", str(capture))
    assert "is there already" in sentence
    assert capture.read_text() == "precious"


def cluster_command(*arguments: str) -> str:
    """What `ottla cluster` prints."""
    command = [sys.executable, "-m", "ottla", "cluster", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_faults_are_added_and_healed_from_outside(cluster: ottla.Cluster, topic: str) -> None:
    running = Running("--upstream", cluster.bootstrap_servers, "--control", "0")
    where = ("--address", running.told["control"])
    added = json.loads(cluster_command("fault", "lose_ack", f"topic={topic}", "nth=1", "--json", *where))
    with ottla.Producer(running.servers, linger_ms=0, enable_idempotence=False) as producer:
        producer.send(topic, b"v").result(_TIMEOUT_S)
    cluster_command("await-fired", str(added["id"]), *where)
    host = running.told["control"]
    with urllib.request.urlopen(f"http://{host}/v1/faults", timeout=_TIMEOUT_S) as answer:
        told = json.load(answer)
    assert [(each["fault"]["kind"], each["fired"]) for each in told["in_force"]] == [("lose_ack", 1)]
    assert [each["kind"] for each in told["kinds"]] == [*KINDS]
    with urllib.request.urlopen(f"http://{host}/v1/proxy", timeout=_TIMEOUT_S) as answer:
        assert json.load(answer)["bootstrap_servers"] == running.servers
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://{host}/v1/topics", timeout=_TIMEOUT_S)
    assert refused.value.code == 404
    cluster_command("heal", str(added["id"]), *where)
    assert ottla.read_table(cluster.bootstrap_servers, topic).num_rows == 2
    status, said = running.end()
    assert status == 0
    assert "fault 1, lose ack of Produce" in said
