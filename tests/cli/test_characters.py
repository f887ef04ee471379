"""Terminals that cannot show every character: what they lack is spelled otherwise, and nothing ends in a traceback."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import ottla
from ottla.cli.characters import LOOK_ALIKE, LOOK_ALIKES, use_look_alikes
from ottla.simulation.draw import draw
from ottla.simulation.story import as_text, tell

TIMEOUT_S = 120
SOURCES = Path(ottla.__file__).parent
ASCII = {"PYTHONIOENCODING": "ascii"}
# Python itself would rather take UTF-8 there.
C_LOCALE = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


def ottla_in(environment: dict[str, str], *arguments: str | bytes, folder: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "ottla", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.mark.parametrize("environment", [ASCII, C_LOCALE, {"LC_ALL": "C"}], ids=["ascii", "C", "C-as-is"])
@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("simulate", "--first-seed", "0", "--seeds", "2", "--jobs", "1"), 0, b"x real time"),
        (("simulate", "--seed", "3"), 0, b"seed 3: clean"),
        (("produce", "--help"), 0, b"ottla produce orders"),
        (("produce", "\xfc"), 2, b"the topic name is not allowed"),
        (("run", "--input", "\xfc.csv", "--key", "\u2713"), 2, b"has no column"),
        (("simulate", "--plan", "\xfc.json"), 2, b"this plan has format None"),
    ],
    ids=["seeds", "seed", "help", "topic", "input", "plan"],
)
def test_commands_do_without_what_the_terminal_lacks(
    environment: dict[str, str], arguments: tuple[str, ...], status: int, said: bytes, tmp_path: Path
) -> None:
    (tmp_path / "\xfc.csv").write_text("a,\u201cb\u2026\n1,2\n", encoding="utf-8")
    (tmp_path / "\xfc.json").write_text('["\u2713"]', encoding="utf-8")
    done = ottla_in(environment, *arguments, folder=tmp_path)
    assert done.returncode == status, done
    assert said in (done.stdout or done.stderr).replace("×".encode(), b"x"), done
    assert b"Traceback" not in done.stderr
    if environment in (ASCII, C_LOCALE):
        assert (done.stdout + done.stderr).isascii()


def test_a_name_that_is_no_text_is_spelled_out(tmp_path: Path) -> None:
    done = ottla_in({"PYTHONIOENCODING": "utf-8"}, "simulate", "--seed", "3", "--story", b"\xff.html", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.endswith(b"its story: \\udcff.html\n")
    assert os.listdir(os.fsencode(tmp_path)) == [b"\xff.html"]


def test_a_story_keeps_its_lanes() -> None:
    for line in as_text(tell(draw(3))):
        shown = line.encode("ascii", LOOK_ALIKE).decode()
        assert len(shown) == len(line)
        assert "\\" not in shown


@pytest.mark.parametrize(
    "path",
    [
        *(
            path
            for room in ("cli", "evidence", "inputs", "seeds", "showcase")
            for path in sorted(SOURCES.glob(f"{room}/*.py"))
        ),
        SOURCES / "screen.py",
        SOURCES / "simulation/story.py",
    ],
    ids=lambda path: str(path.relative_to(SOURCES)),
)
def test_whatever_we_draw_has_a_look_alike(path: Path) -> None:
    drawn = {each for each in path.read_text(encoding="utf-8") if not each.isascii()}
    assert drawn <= set(LOOK_ALIKES)


def test_a_terminal_that_shows_ascii_gets_progress_in_ascii(tmp_path: Path) -> None:
    theirs, ours = pty.openpty()
    command = [sys.executable, "-m", "ottla", "simulate", "--first-seed", "0", "--seeds", "2", "--jobs", "1"]
    environment = {**os.environ, **ASCII, "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen(command, cwd=tmp_path, stdout=ours, env=environment) as process:
        os.close(ours)
        shown = b""
        with open(theirs, "rb", buffering=0) as terminal:
            try:
                while piece := terminal.read(65536):
                    shown += piece
            except OSError:  # how a terminal ends on Linux
                pass
        assert process.wait(TIMEOUT_S) == 0
    assert b"2 run, all clean" in shown
    assert shown.isascii()
    assert b"\\u" not in shown


def test_what_is_in_a_file_is_shown_exactly(tmp_path: Path) -> None:
    with ottla.Cluster(brokers=1, data_dir=tmp_path / "data") as cluster:
        cluster.create_topic("flights", partitions=1)
        with ottla.Producer(cluster.bootstrap_servers) as producer:
            producer.send("flights", "is ✓".encode())
    segment = next((tmp_path / "data").rglob("flights-0/*.log"))
    shown = ottla_in({"PYTHONIOENCODING": "latin-1"}, "inspect", str(segment), "--records", folder=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert rb"is \u2713" in shown.stdout
    for environment in (ASCII, C_LOCALE):
        told = ottla_in(environment, "inspect", str(segment), "--records", "--json", folder=tmp_path)
        assert (told.returncode, told.stderr) == (0, b"")
        assert json.loads(told.stdout.decode("utf-8"))["records"][0]["value"] == "is ✓"


def test_what_somebody_asked_for_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "out"
    for asked, shown in (("strict", "x \\u65e5"), ("replace", "? ?")):
        with path.open("w", encoding="ascii", errors=asked) as out:
            monkeypatch.setattr(sys, "stdout", out)
            use_look_alikes()
            out.write("× 日")
        monkeypatch.undo()
        assert path.read_text() == shown
