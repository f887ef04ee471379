"""`ottla serve --control`: who may control the cluster, and addresses and tokens that cannot be had."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .cluster_command import TIMEOUT_S, done, here, program, refused
from .serving import Serving

TOKEN = "0123456789abcdef"


def token_file(folder: Path, content: str = f"{TOKEN}\n", mode: int = 0o600) -> str:
    path = folder / "token"
    path.write_text(content)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize("way", ["file", "environment"])
def test_without_the_token_nothing_is_done(
    serve: Callable[..., Serving], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.delenv("OTTLA_CONTROL_TOKEN", raising=False)
    path = token_file(tmp_path)
    given = ["--token-file", path] if way == "file" else []
    if way == "environment":
        monkeypatch.setenv("OTTLA_CONTROL_TOKEN", TOKEN)
    serving = serve("--control", "0", "--brokers", "1", *(["--control-token-file", path] if way == "file" else []))
    at = "--address", serving.told["control"]
    monkeypatch.delenv("OTTLA_CONTROL_TOKEN", raising=False)
    advice = "give --token-file FILE, or set OTTLA_CONTROL_TOKEN."
    assert refused("kill", "1", *at, run=program) == f"{at[1]} wants a token: {advice}"
    monkeypatch.setenv("OTTLA_CONTROL_TOKEN", TOKEN[::-1])
    assert refused("kill", "1", *at) == f"{at[1]} has another token: {advice}"
    # A file that is named goes before the environment.
    if way == "environment":
        monkeypatch.setenv("OTTLA_CONTROL_TOKEN", TOKEN)
    assert done("kill", "1", *at, *given, run=program) == "broker 1 down\n"
    for pid in (serving.process.pid, serving.told["pid"]):
        if Path(f"/proc/{pid}").is_dir():
            assert TOKEN.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    if Path("/proc/self").is_dir():
        # Nor do the brokers inherit it.
        assert TOKEN.encode() not in Path(f"/proc/{serving.told['pid']}/environ").read_bytes()
    assert serving.end() == (0, "")


def test_a_token_file_that_others_can_read_is_told_of(serve: Callable[..., Serving], tmp_path: Path) -> None:
    path = token_file(tmp_path, mode=0o644)
    serving = serve("--control", "0", "--brokers", "1", "--control-token-file", path)
    told = f"ottla: {path} can be read by other users of this machine: chmod 600 {path}\n"
    ended = here("show", "--address", serving.told["control"], "--token-file", path)
    assert (ended.status, ended.err) == (0, told)
    assert serving.end() == (0, told)


def test_an_address_that_others_reach_is_warned_of_unless_there_is_a_token(
    serve: Callable[..., Serving], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OTTLA_CONTROL_TOKEN", raising=False)
    arguments = "--brokers", "1", "--control", "0.0.0.0:0"
    safe = serve(*arguments, "--control-token-file", token_file(tmp_path))
    assert safe.end() == (0, "")
    serving = serve(*arguments)
    address = serving.told["control"]
    assert address.startswith("0.0.0.0:")
    assert serving.end() == (
        0,
        f"ottla: whoever reaches {address} can break what is served here: give --control-token-file FILE, or set "
        "OTTLA_CONTROL_TOKEN\n",
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--control", "here"), "--control here is not HOST:PORT or PORT, such as 127.0.0.1:9190"),
        (("--control", "65536"), "is not HOST:PORT"),
        (("--control", "no-such-host.invalid:0"), "no-such-host.invalid"),
        (("--control-token-file", "token"), "--control-token-file is for --control: give --control PORT, too"),
        (("--control", "0", "--control-token-file", "absent"), "absent cannot be read (No such file or directory)"),
        (("--control", "0", "--control-token-file", "/dev/null"), "/dev/null holds no token: write 16 to 256 ASCII"),
        (("--control", "0", "--control-token-file", "."), ". cannot be read (Is a directory)"),
    ],
)
def test_a_control_that_cannot_be_had_starts_no_brokers(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    folder = tmp_path / "kept"
    command = [sys.executable, "-m", "ottla", "serve", "--port", "0", "--data-dir", str(folder), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, cwd=tmp_path, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    [sentence] = ended.stderr.splitlines()
    assert words in sentence
    assert not folder.exists()


def test_a_control_port_in_use_starts_no_brokers(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = f"{server.getsockname()[1]}"
        command = [sys.executable, "-m", "ottla", "serve", "--port", "0", "--data-dir", str(folder)]
        ended = subprocess.run(
            [*command, "--control", port], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"port {port} on 127.0.0.1 is in use" in ended.stderr
    assert not folder.exists()


def test_a_cluster_without_control_says_so_to_scripts(serve: Callable[..., Serving]) -> None:
    assert serve("--brokers", "1").told["control"] is None
