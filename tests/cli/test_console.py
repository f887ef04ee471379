"""`ottla console` as a command: where its page is, what it refuses, how it ends."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from ottla.cli import main
from ottla.cli.output import log_to_stderr

COMMAND = [sys.executable, "-m", "ottla", "console", "--listen", "0", "--json"]


def test_it_serves_its_page_until_it_is_ended() -> None:
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert (told["bootstrap_servers"], told["read_only"]) == ("localhost:9092", False)
        with urllib.request.urlopen(told["url"], timeout=30) as page:
            assert b"ottla console" in page.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--listen", "0.0.0.0:0"], "--listen 0.0.0.0:0 can be reached from other machines: give --token-file FILE"),
        (["--listen", "here"], "--listen here is not HOST:PORT or PORT"),
        (["--control-token-file", "x"], "--control-token-file is for --control"),
        (["--control", "127.0.0.1:1"], "127.0.0.1:1"),
        (["-b", "nowhere"], "nowhere"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OTTLA_CONSOLE_TOKEN", raising=False)
    assert main(["console", *arguments]) == 2
    told = capsys.readouterr().err
    assert says in told
    assert told.count("\n") == 1


def test_a_token_that_is_none_is_never_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "token").write_text("short")
    (tmp_path / "token").chmod(0o600)
    assert main(["console", "--listen", "0", "--token-file", str(tmp_path / "token")]) == 2
    assert "short" not in capsys.readouterr().err


def test_what_the_page_calls_its_log_is_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("ottla.console")
    before = list(logger.handlers), list(logging.getLogger("uvicorn.error").handlers)
    log_to_stderr("ERROR", "ottla.console", "uvicorn.error")
    try:
        logger.error("GET /api/brokers failed", exc_info=ValueError("why"))
    finally:
        logger.handlers, logging.getLogger("uvicorn.error").handlers = before
    told = capsys.readouterr().err
    assert "ottla.console: GET /api/brokers failed" in told
    assert "ValueError: why" in told
