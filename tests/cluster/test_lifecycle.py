"""The brokers' process begins and ends with the program that holds the cluster, whatever happens to either."""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.interrupting import interrupted_after
from tools.ports import free_ports

from ottla.cluster.cluster import Cluster
from ottla.cluster.data_dir import DataDir
from ottla.errors import ClosedError, ConfigError, ForkError, OttlaError, UserMistake

_HOLDER = """
import os, signal, sys, threading
from ottla.cluster.cluster import Cluster
with Cluster(brokers=1, data_dir=sys.argv[1] or None) as cluster:
    cluster.create_topic("flights")
    {body}
    print(cluster.pid, cluster._data_dir, flush=True)
    while True:
        # A signal that comes just before a wait blocks does not end the wait.
        threading.Event().wait(0.5)
"""


class Holder:
    """A program of its own that holds a cluster until something happens to it."""

    def __init__(self, data_dir: str, body: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _HOLDER.format(body=body), data_dir],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        pid, self.data_dir = self.process.stdout.readline().decode().split()
        self.brokers_pid = int(pid)

    def finish(self) -> str:
        """Wait for its end; what it wrote to standard error."""
        return self.process.communicate(timeout=60)[1].decode()


@pytest.fixture
def hold() -> Any:
    holders: list[Holder] = []

    def start(data_dir: str = "", body: str = "") -> Holder:
        holders.append(Holder(data_dir, body))
        return holders[-1]

    yield start
    for holder in holders:
        # Its whole group, in which a fork of it may have survived; the group is gone where nobody has.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(holder.process.pid, signal.SIGKILL)
        holder.process.communicate()


def test_ctrl_c_closes_the_cluster_in_order(hold: Callable[..., Holder], tmp_path: Path, processes: Any) -> None:
    """Ctrl+C reaches every process of the foreground; only the program may act on it."""
    holder = hold(str(tmp_path / "data"))
    os.kill(holder.brokers_pid, signal.SIGINT)
    os.killpg(holder.process.pid, signal.SIGINT)
    said = holder.finish()
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert "ottla" not in said.replace("ottla.cluster.cluster import", "")
    assert not processes.is_running(holder.brokers_pid)
    DataDir(holder.data_dir).release()
    with Cluster(brokers=1, data_dir=holder.data_dir) as again:
        assert again.leader("flights", 0) == 1


def test_ctrl_c_leaves_no_temporary_folder(hold: Callable[..., Holder]) -> None:
    holder = hold()
    os.killpg(holder.process.pid, signal.SIGINT)
    holder.finish()
    assert not os.path.exists(holder.data_dir)


@pytest.mark.parametrize(
    "call", [os.mkdir, _thread.start_new_thread], ids=["its folder is made", "somebody hears the brokers"]
)
def test_ctrl_c_leaves_nothing_where_it_comes_just_when(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., Any]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(KeyboardInterrupt), interrupted_after(call):
        Cluster(brokers=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for a process that is not a child of its own")
def test_the_brokers_end_when_the_program_is_killed(hold: Callable[..., Holder], processes: Any) -> None:
    holder = hold()
    os.kill(holder.process.pid, signal.SIGKILL)
    processes.wait_for_exit(holder.brokers_pid)
    assert not os.path.exists(holder.data_dir)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for a process that is not a child of its own")
def test_a_fork_of_a_killed_program_does_not_keep_the_brokers(hold: Callable[..., Holder], processes: Any) -> None:
    """The fork holds the program's end of the control channel open, as workers of multiprocessing do."""
    holder = hold(body="if os.fork() == 0: threading.Event().wait()")
    os.kill(holder.process.pid, signal.SIGKILL)
    processes.wait_for_exit(holder.brokers_pid)


def test_a_program_that_forgets_to_close_leaves_nothing(processes: Any) -> None:
    script = "from ottla import Cluster; c = Cluster(brokers=1); print(c.pid, c._data_dir)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=True)
    pid, data_dir = done.stdout.decode().split()
    assert not processes.is_running(int(pid))
    assert not os.path.exists(data_dir)
    assert done.stderr == b""


def test_brokers_that_were_killed_are_reported_and_leave_nothing() -> None:
    with Cluster(brokers=1) as cluster:
        data_dir = cluster._data_dir
        os.kill(cluster.pid, signal.SIGKILL)
        with pytest.raises(OttlaError, match=r"brokers' process ended by itself \(killed by signal 9\)"):
            cluster.create_topic("flights")
    assert not os.path.exists(data_dir)


def test_sigterm_ends_the_brokers_in_order(tmp_path: Path) -> None:
    with Cluster(brokers=1, data_dir=tmp_path) as cluster:
        cluster.create_topic("flights")
        os.kill(cluster.pid, signal.SIGTERM)
        ask_until_they_are_gone = (cluster.leader("flights", 0) for _ in iter(int, 1))
        with pytest.raises(OttlaError, match=r"ended by itself \(exit status 0\)"):
            list(ask_until_they_are_gone)
    DataDir(str(tmp_path)).release()


def test_a_closed_cluster_says_so_and_may_be_closed_again() -> None:
    cluster = Cluster(brokers=1)
    fault = cluster.faults.lose_ack(topic="flights", nth=1)
    cluster.close()
    cluster.close()
    with pytest.raises(ClosedError):
        cluster.create_topic("flights")
    assert fault.fired == 0


def test_whoever_waits_while_the_cluster_is_closed_hears_that_it_is_closed() -> None:
    cluster = Cluster(brokers=1)
    hold = cluster.faults.hold()
    with ThreadPoolExecutor(1) as threads, cluster:
        waiting = threads.submit(hold.await_reached, timeout=60)
        while not cluster._control._questions:  # type: ignore[union-attr]
            pass
        # The brokers take commands in order: once this is answered, they know of what the thread waits for.
        cluster.brokers()
        cluster.close()
        with pytest.raises(ClosedError):
            waiting.result(30)


def test_a_folder_whose_name_the_locale_cannot_write_is_refused_in_one_sentence(tmp_path: Path) -> None:
    code = f"import ottla; ottla.Cluster(1, data_dir={str(tmp_path)!r} + '/d\\xe4')"
    environment = {**os.environ, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    said = ended.stderr.splitlines()[-1]
    assert "/d\\xe4' cannot be written in the encoding of file names here (ascii): set PYTHONUTF8=1" in said
    assert "ConfigError" in ended.stderr


def test_a_fork_may_not_use_the_cluster_and_does_not_close_it() -> None:
    with Cluster(brokers=1) as cluster:
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                cluster.close()
                cluster.create_topic("from-the-fork")
            except ForkError as error:
                os.write(write_end, str(error).encode())
            os._exit(0)
        os.close(write_end)
        os.waitpid(child, 0)
        assert b"made before a fork" in os.read(read_end, 1000)
        os.close(read_end)
        cluster.create_topic("from-the-owner")


@pytest.mark.parametrize("in_process", [False, True])
def test_a_cluster_finds_its_topics_again(tmp_path: Path, in_process: bool) -> None:
    with Cluster(brokers=3, data_dir=tmp_path, in_process=in_process) as cluster:
        cluster.create_topic("flights", partitions=4)
        leaders = [cluster.leader("flights", partition) for partition in range(4)]
    with Cluster(brokers=3, data_dir=tmp_path, in_process=in_process) as cluster:
        assert [cluster.leader("flights", partition) for partition in range(4)] == leaders
        assert sorted(cluster.isr("flights", 3)) == [1, 2, 3]


@pytest.mark.parametrize("in_process", [False, True])
def test_a_port_in_use_is_named_in_one_sentence(in_process: bool) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    with pytest.raises(UserMistake) as caught:
        Cluster(brokers=1, port=port, in_process=in_process)
    taken.close()
    assert str(caught.value) == (
        f"port {port} on 127.0.0.1 is in use by another program: "
        "stop that program, choose another port, or port 0 for a free one."
    )


@pytest.mark.parametrize("in_process", [False, True])
def test_a_port_in_use_leaves_the_data_dir_as_it_was(tmp_path: Path, in_process: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UserMistake, match="in use by another program"):
        Cluster(brokers=1, data_dir=tmp_path / "new" / "data", port=taken.getsockname()[1], in_process=in_process)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("in_process", [False, True])
def test_a_data_dir_in_use_is_named_in_one_sentence(tmp_path: Path, in_process: bool) -> None:
    with Cluster(brokers=1, data_dir=tmp_path) as first:
        with pytest.raises(UserMistake, match=rf"data_dir '{tmp_path}' is in use by another running cluster"):
            Cluster(brokers=1, data_dir=tmp_path, in_process=in_process)
        first.create_topic("undisturbed")


@pytest.mark.parametrize("in_process", [False, True])
def test_a_data_dir_below_a_file_is_named_in_one_sentence(tmp_path: Path, in_process: bool) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UserMistake, match=r"file/data' cannot be used \(a file is in the way\)"):
        Cluster(brokers=1, data_dir=tmp_path / "file" / "data", in_process=in_process)


def test_a_cluster_that_did_not_start_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    script = f"""
import os, sys, tempfile
tempfile.tempdir = sys.argv[1]
from ottla.cluster.cluster import Cluster
from ottla.errors import UserMistake
try:
    Cluster(brokers=1, port={port})
except UserMistake:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        print("no child", os.listdir(sys.argv[1]))
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, timeout=60, check=True)
    taken.close()
    assert (done.stdout, done.stderr) == (b"no child []\n", b"")


def test_consecutive_ports_are_taken_from_the_one_given() -> None:
    port = free_ports(2)[0]
    with Cluster(brokers=2, port=port) as cluster:
        assert cluster.bootstrap_servers == f"127.0.0.1:{port},127.0.0.1:{port + 1}"


@pytest.mark.parametrize(
    "arguments",
    [{"brokers": 0}, {"brokers": 101}, {"brokers": "3"}, {"port": -1}, {"port": 65_535}, {"port": "9092"}],
)
def test_arguments_out_of_range_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(arguments))}="):
        Cluster(**arguments)


def test_unknown_broker_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="log_segment_bites"):
        Cluster(brokers=1, settings={"log_segment_bites": 1})


def test_the_brokers_process_loads_neither_numpy_nor_pyarrow() -> None:
    script = (
        "import sys, ottla.cluster.process; "
        "print([m for m in ('numpy', 'pyarrow', 'pandas', 'ottla.client') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=True)
    assert done.stdout == b"[]\n"
