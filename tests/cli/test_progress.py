"""How far a command is, on a terminal's stderr, once it has taken a while."""

from __future__ import annotations

import os
import pty

import pytest

from ottla.cli import progress


def shown_until(terminal: int, words: str) -> str:
    """What the terminal shows, up to these words; the test's own limit of time ends what never comes."""
    shown = ""
    while words not in shown:
        shown += os.read(terminal, 65_536).decode()
    return shown


@pytest.mark.parametrize(
    ("total", "columns", "words"),
    [(10, "100", "7 of 10 records"), (10, "80", "7 of 10"), (10, "40", "70 %"), (None, "40", "7 records")],
)
def test_what_lasts_is_counted_on_the_terminal_and_leaves_it_empty(
    monkeypatch: pytest.MonkeyPatch, total: int | None, columns: str, words: str
) -> None:
    monkeypatch.setattr(progress, "_PATIENCE_S", 0)
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb"), os.fdopen(theirs, "w") as stderr:
        monkeypatch.setattr("sys.stderr", stderr)
        with progress.Counter("send to orders", "records", total) as counter:
            counter.count = 7
            assert "send to" in shown_until(ours, words)
        stderr.write("the end")
        stderr.flush()
        # The cursor is shown again, and the line is erased.
        left = shown_until(ours, "the end")
        assert left.rindex("\x1b[?25h") > left.rfind(words)
        assert left.rindex("\x1b[2K") > left.rfind(words)


def test_nothing_is_shown_where_stderr_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_PATIENCE_S", 0)
    with progress.Counter("send to orders", "records") as counter:
        assert list(counter.counted([])) == []
    assert capfd.readouterr() == ("", "")
