"""`ottla cluster`, run as a program against an `ottla serve` that is another one."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import ottla as python
from ottla.cli import main
from ottla.faults.fault import KINDS
from ottla.remote.address import parse_address
from ottla.remote.client import RemoteCluster

from .cluster_command import TIMEOUT_S, done, program, refused
from .serving import Serving

# The brokers are missed soon.
QUICK = "--set", "broker.session.timeout.ms=600", "--set", "broker.heartbeat.interval.ms=100"
ALL_RUN = "broker 1 running, broker 2 running, broker 3 running\n"


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    """Three brokers that are controlled without a token."""
    serving = Serving("--control", "0", "--topic", "orders:2", *QUICK)
    yield serving
    status, complaints = serving.end()
    assert status == 0
    assert "Traceback" not in complaints


@pytest.fixture
def address(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where it is controlled, which the environment says, too; after the test all faults are healed and all run."""
    address = serving.told["control"]
    monkeypatch.setenv("OTTLA_CONTROL", address)
    monkeypatch.setenv("COLUMNS", "80")
    yield address
    run_again(RemoteCluster(*parse_address(address, "control")))


def run_again(remote: RemoteCluster) -> None:
    remote.delete("faults")
    states = {each["state"] for each in remote.get("cluster")["brokers"]}
    if "paused" in states:
        remote.post("brokers", "all", "resume")
    if "down" in states:
        remote.post("brokers", "all", "start")
    for partition in (0, 1):
        remote.get("partitions", "orders", partition, wait_s=TIMEOUT_S, **{"await": "isr", "timeout": TIMEOUT_S})


def send(serving: Serving) -> None:
    with python.Producer(serving.servers, linger_ms=0) as producer:
        producer.send("orders", b"order", partition=0).result(TIMEOUT_S)


def test_a_cluster_is_shown(serving: Serving, address: str) -> None:
    done("elect-leader", "orders", "0")
    done("elect-leader", "orders", "1")
    done("fault", "lose_ack", "topic=orders", "nth=3")
    lines = [line.rstrip() for line in done("show", run=program).splitlines()]
    servers = serving.servers.split(",")
    assert lines[0].split() == ["broker", "state", "address"]
    assert [line.split() for line in lines[1:4]] == [[f"{each}", "running", servers[each - 1]] for each in (1, 2, 3)]
    assert lines[4:6] == ["", "topic   partition  leader  in sync  replicas"]
    first, second = (line.split() for line in lines[6:8])
    assert first[:2] == ["orders", "0"]
    assert second[:2] == ["orders", "1"]
    # The first replica leads.
    assert first[2] == first[6]
    assert sorted(first[3:6]) == sorted(first[6:]) == ["1", "2", "3"]
    assert lines[-2].split() == ["fault", "what", "fired", "matched"]
    assert lines[-1].endswith("  lose ack of Produce (topic='orders', nth=3)      0        0")
    told = json.loads(done("show", "--json"))
    assert [each["state"] for each in told["brokers"]] == ["running"] * 3
    assert [each["topic"] for each in told["topics"]] == ["orders"]


def test_one_topic_is_shown_and_the_brokers_own_only_when_asked_for(serving: Serving, address: str) -> None:
    with python.Producer(serving.servers, transactional_id="shop") as producer, producer.transaction():
        producer.send("orders", b"in a transaction")
    shown = done("show")
    assert "__transaction_state: see `ottla cluster show __transaction_state`" in shown
    assert "\n__transaction_state  " not in shown
    assert "\n__transaction_state  " in done("show", "__transaction_state")
    assert refused("show", "ordres") == "there is no topic 'ordres' in this cluster"


@pytest.mark.parametrize(
    ("verb", "undo", "state"),
    [
        ("kill", "start", "down"),
        ("power-off", "start", "down"),
        ("stop", "start", "down"),
        ("pause", "resume", "paused"),
    ],
)
def test_brokers_are_ended_and_run_again(address: str, verb: str, undo: str, state: str) -> None:
    assert done(verb, "2", run=program) == f"broker 1 running, broker 2 {state}, broker 3 running\n"
    assert refused(verb, "2", run=program).startswith(f"broker 2 is {state}: it cannot be ")
    assert done(undo, "2") == ALL_RUN
    told = json.loads(done(verb, "all", "--json"))
    assert [each["state"] for each in told["brokers"]] == [state] * 3
    assert done(undo, "all", "--address", address) == ALL_RUN


def test_the_power_is_cut_by_a_seed(address: str) -> None:
    assert done("power-off", "3", "--seed", "7") == "broker 1 running, broker 2 running, broker 3 down\n"


def test_of_two_that_kill_a_broker_at_once_one_does(address: str) -> None:
    with ThreadPoolExecutor(2) as threads:
        ended = sorted(threads.map(lambda _: program("kill", "2"), range(2)))
    assert [each.status for each in ended] == [0, 2]
    assert ended[1].err == "ottla: broker 2 is down: it cannot be killed now.\n"


def test_a_fault_fires_is_awaited_and_healed(serving: Serving, address: str) -> None:
    assert done("faults") == "no faults in force\n"
    made = json.loads(done("fault", "lose_ack", "topic=orders", "nth=1", "--json"))
    assert made["fault"] == {"kind": "lose_ack", "topic": "orders", "nth": 1}
    number = f"{made['id']}"
    late = refused("await-fired", number, "--timeout", "0", status=1)
    assert late == "fault lose_ack(topic='orders', nth=1) fired 0 times in 0 s, and not 1 time: 0 requests matched it."
    send(serving)
    what = f"fault {number}: lose ack of Produce (topic='orders', nth=1)"
    assert done("await-fired", number) == f"{what}: fired 1, matched 2\n"
    assert f"{number}  lose ack of Produce (topic='orders', nth=1)      1        2" in done("faults")
    assert done("heal", number) == f"{what}: fired 1, matched 2\n"
    assert done("faults", "--json") == "[]\n"
    assert done("heal", "all") == "no faults in force\n"


def test_a_leader_is_killed_at_an_append_and_healing_starts_it(serving: Serving, address: str) -> None:
    said = done("fault", "kill", "topic=orders", "partition=0", "nth=1", "moment=append")
    number = said.split()[1].rstrip(":")
    send(serving)
    done("await-fired", number)
    assert " down" in done("show")
    assert "fired 1" in done("heal", "all")
    assert " down" not in done("show")


def test_leaders_are_moved_elected_and_awaited(address: str) -> None:
    first = json.loads(done("elect-leader", "orders", "0", "--json"))["leader"]
    other = next(each for each in (1, 2, 3) if each != first)
    assert done("move-leader", "orders", "0", "--to", f"{other}").startswith(
        f"broker {other} leads orders-0; in sync: "
    )
    done("kill", f"{other}")
    awaited = done("await-leader", "orders", "0", "--other-than", f"{other}", "--timeout", "60", "--json")
    assert json.loads(awaited)["leader"] not in (None, other)
    late = refused("await-isr", "orders", "0", "--timeout", "0", status=1)
    assert "in sync after 0 s" in late
    done("start", f"{other}")
    assert "in sync: " in done("await-isr", "orders", "0", "--timeout", "60")


def test_a_transaction_runs_into_its_timeout_when_the_clock_is_set_ahead(serving: Serving, address: str) -> None:
    with python.Producer(serving.servers, transactional_id="late", transaction_timeout_ms=600_000) as producer:
        producer.begin_transaction()
        producer.send("orders", b"late").result(TIMEOUT_S)
        assert done("advance", "601") == "the cluster's clock was set ahead by 601 seconds\n"
        with pytest.raises(python.OttlaError):
            producer.commit_transaction()


def test_a_coordinator_is_moved(serving: Serving, address: str) -> None:
    with python.Producer(serving.servers, transactional_id="shop") as producer, producer.transaction():
        producer.send("orders", b"in a transaction")
    assert done("move-coordinator", "--transactional-id", "shop").endswith(" coordinates it now\n")
    assert refused("move-coordinator") == "whose coordinator? Give either --group or --transactional-id"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("kill", "9"), "there is no broker 9: this cluster's brokers are 1, 2, 3."),
        (("kill", "two"), "there is no broker 'two': give its id, or all."),
        (("kill", "../../faults"), "there is no broker '../../faults': give its id, or all."),
        (("kill", "1 HTTP/1.1\r\nX: y"), "there is no broker '1 HTTP/1.1\\r\\nX: y': give its id, or all."),
        (("kill", "\x1b[2J"), "there is no broker '\\x1b[2J': give its id, or all."),
        (("kill",), "missing argument '"),
        (("start", "1"), "broker 1 is running: it cannot be started now."),
        (("resume", "all"), "no broker is paused: none can be resumed now."),
        (("power-off", "1", "--seed", "x"), "--seed x is no whole number of 0 or more: give one such as 7"),
        (("isolate", "2"), "'isolate' is no command but a fault: `ottla cluster fault isolate FIELD=VALUE ...` puts"),
        (("lose-ack",), "`ottla cluster fault --list lose_ack` shows its fields"),
        (("release", "1"), "`ottla cluster heal ID` releases what the fault holds"),
        (("killl", "1"), "no such command 'killl'"),
        (("fault", "refuse", "error=NOT_LEADER"), "must be an error of Kafka's protocol: its name, such as"),
        (("fault",), "what is to go wrong? Give a KIND; `ottla cluster fault --list` lists all"),
        (("fault", "lose_ack", "orders"), "'orders' is not FIELD=VALUE, such as topic=orders"),
        (("fault", "lose_ack", "nth=1", "nth=2"), "the field nth is given twice"),
        (("heal", "999"), "there is no fault 999 in this cluster."),
        (("heal", "one"), "there is no fault 'one': give a number."),
        (("await-leader", "nope", "0"), "the cluster has no partition 0 of topic 'nope'"),
        (("await-leader", "a/b", "0"), "the cluster has no partition 0 of topic 'a/b'"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(address: str, arguments: tuple[str, ...], sentence: str) -> None:
    assert sentence in refused(*arguments)
    assert done("show").count(" running ") == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("lose_ak",), "did you mean 'lose_ack'?"),
        (("lose_ack", "nht=3"), "did you mean 'nth'?"),
        (("lose_ack", "nth=three"), "nth='three' must be an integer from 1 to 2147483647"),
        (("lose_ack", "nth=0"), "nth='0' must be an integer from 1 to 2147483647"),
        (("delay_ack",), "fault delay_ack: it needs delay_ms, an integer from 1 to 31536000000"),
        (("kill", "moment=never"), "moment='never' must be one of"),
    ],
)
def test_fields_are_checked_before_a_cluster_is_asked(arguments: tuple[str, ...], words: str) -> None:
    """Nobody listens there."""
    assert words in refused("fault", *arguments, "--address", "127.0.0.1:1")


@pytest.mark.parametrize("width", [80, 120])
def test_kinds_of_faults_are_listed_without_a_cluster(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", f"{width}")
    monkeypatch.delenv("OTTLA_CONTROL", raising=False)
    for arguments in ((), ("kill",)):
        assert main(["cluster", "fault", "--list", *arguments]) == 0
        said = capsys.readouterr().out
        assert max(map(len, said.splitlines())) <= width
        assert "…" not in said
        assert all(word in said for word in (("moment", "nth") if arguments else KINDS))
    assert main(["cluster", "fault", "--list", "--json"]) == 0
    assert [each["kind"] for each in json.loads(capsys.readouterr().out)] == list(KINDS)


def test_where_no_cluster_is_named_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTTLA_CONTROL", raising=False)
    asked = (
        "which cluster? Give --address HOST:PORT, or set OTTLA_CONTROL: `ottla serve --control PORT` shows its address"
    )
    assert refused("show") == asked
    monkeypatch.setenv("OTTLA_CONTROL", "")
    assert refused("show") == asked
    monkeypatch.setenv("OTTLA_CONTROL", "here")
    assert refused("show") == "OTTLA_CONTROL here is not HOST:PORT or PORT, such as 127.0.0.1:9190"


@pytest.mark.parametrize(
    "address",
    ["", ":", "host:", ":9190x", "127.0.0.1:0", "127.0.0.1:65536", "::1:9190", "a b:1", "https://a:1", "a/b:1"],
)
def test_an_address_that_is_none_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTTLA_CONTROL", raising=False)
    assert ("is not HOST:PORT" if address else "which cluster?") in refused("show", "--address", address)


def test_what_is_no_cluster_s_control_is_told(serving: Serving) -> None:
    """A broker's own port, a port that nobody listens on, a host that is none, a web server that is another one."""
    kafka = serving.servers.split(",")[0]
    assert refused("show", "-a", kafka).startswith(f"what is at {kafka} is not the control of a cluster")
    assert refused("show", "-a", "127.0.0.1:1").startswith(
        "no cluster is controlled at 127.0.0.1:1 (connection refused): is `ottla serve --control PORT` running"
    )
    assert "(no such host)" in refused("show", "-a", "no-such-host.invalid:1")
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as threads:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        asking = threads.submit(refused, "kill", "1", "-a", address, run=program)
        sock, _ = server.accept()
        with sock:
            sock.recv(65_536)
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        assert asking.result(TIMEOUT_S).startswith(f"what is at {address} is not the control of a cluster")


def await_fired(fault_id: int, address: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ottla", "cluster", "await-fired", f"{fault_id}", "--timeout", "600"]
    return subprocess.Popen([*command, "--address", address], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def accepted(server: socket.socket) -> tuple[socket.socket, bytes]:
    """The next connection, and the request that came over it."""
    server.settimeout(TIMEOUT_S)
    sock, _ = server.accept()
    sock.settimeout(TIMEOUT_S)
    return sock, sock.recv(65_536)


def test_ctrl_c_ends_who_waits() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with await_fired(1, f"127.0.0.1:{server.getsockname()[1]}") as waiting:
            sock, request = accepted(server)
            with sock:
                assert request.startswith(b"GET /v1/faults/1?await=1&timeout=600 HTTP/1.1\r\n")
                waiting.send_signal(signal.SIGINT)
                assert waiting.communicate(timeout=TIMEOUT_S) == ("", "ottla: interrupted\n")
        assert waiting.returncode == 130


def test_ctrl_c_of_the_cluster_is_told_to_who_waits(
    serve: Callable[..., Serving], monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = serve("--control", "0", "--brokers", "1")
    address = serving.told["control"]
    host, port = address.split(":")
    monkeypatch.setenv("OTTLA_CONTROL", address)
    done("fault", "lose_ack")
    # It asks through here, so that its request is known to be on its way.
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        await_fired(1, f"127.0.0.1:{server.getsockname()[1]}") as waiting,
    ):
        asking, request = accepted(server)
        with asking, socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as there:
            there.sendall(request)
            # It is taken after that one.
            done("show")
            assert serving.end(signal.SIGINT) == (0, "")
            with there.makefile("rb") as answer:
                asking.sendall(answer.read())
        assert waiting.communicate(timeout=TIMEOUT_S) == ("", "ottla: the cluster is being closed.\n")
    assert waiting.returncode == 1
    assert refused("show").startswith(f"no cluster is controlled at {address}")
