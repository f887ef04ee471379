"""Changes of the source on purpose: each still fits it, is what runs in a control, and leaves the product alone."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

import pytest
from tests.client.in_time import wait_until
from tools.mutate import killed_by_tests
from tools.mutation.control import Control, ControlFailed
from tools.mutation.mechanical import draw, mutants
from tools.mutation.seeds import kinds_found, trace_hash
from tools.mutation.source import PACKAGE, ROOT, SourceChanged, changed, insert_after, insert_before, replace
from tools.mutation.survivors import SURVIVORS
from tools.mutation.weaknesses import WEAKNESSES, weakened

STATE = "broker/log/producer_state.py"


def of_module(name: str, attribute: str) -> object:
    """What a control has there."""
    return getattr(import_module(name), attribute)


def of_process(name: str, attribute: str) -> object:
    """What a process that is started there has."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(of_module, (name, attribute))


# ---- changes of a text ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WEAKNESSES)
def test_every_weakness_still_fits_the_source(name: str) -> None:
    for file, text in changed(WEAKNESSES[name].edits).items():
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse((PACKAGE / file).read_text()))


@pytest.mark.parametrize("survivor", SURVIVORS, ids=lambda each: f"{each.edit.file}: {each.edit.found}")
def test_every_survivor_still_fits_the_source(survivor) -> None:  # type: ignore[no-untyped-def]
    [text] = changed([survivor.edit]).values()
    ast.parse(text)


@pytest.mark.parametrize(("text", "times"), [("gone", 0), ("def f", 2)])
def test_a_change_whose_text_is_not_there_exactly_once_fails_loudly(text: str, times: int, tmp_path: Path) -> None:
    (tmp_path / "room.py").write_text("def f(): ...\ndef f(): ...\n")
    with pytest.raises(SourceChanged, match=f"src/ottla/room.py has changed: {times} times"):
        changed([replace("room.py", text, "")], tmp_path)
    with pytest.raises(SourceChanged, match="no longer there"):
        changed([replace("other.py", text, "")], tmp_path)


def test_lines_are_added_with_the_indentation_of_the_line_they_are_added_to(tmp_path: Path) -> None:
    (tmp_path / "room.py").write_text("if a:\n    b()\nc()\n")
    edits = [
        insert_before("room.py", "b()", "if d:", "    e()"),
        insert_after("room.py", "b()", "f()"),
        replace("room.py", "c", "g"),
    ]
    assert changed(edits, tmp_path) == {"room.py": "if a:\n    if d:\n        e()\n    b()\n    f()\ng()\n"}


# ---- mechanical mutants ---------------------------------------------------------------------------------------------

SAMPLE = '''"""1 < 2"""
import a
__slots__ = ("b",)
def c(d: int = 1) -> bool:
    """not me"""
    logger.warning("%d", 2)
    if d < max(3, 4) and not d:
        self.e -= 1
        return
    return f"{5}" is None
'''


def test_each_mutant_changes_one_place_and_leaves_texts_and_layouts_alone() -> None:
    found = {mutant.apply(SAMPLE) for mutant in mutants("room.py", SAMPLE)}
    lines = SAMPLE.splitlines()
    assert {
        (before, after)
        for text in found
        for before, after in zip(lines, text.splitlines(), strict=True)
        if before != after
    } == {
        ("def c(d: int = 1) -> bool:", "def c(d: int = 0) -> bool:"),
        ("def c(d: int = 1) -> bool:", "def c(d: int = 2) -> bool:"),
        ("    if d < max(3, 4) and not d:", "    if not (d < max(3, 4) and not d):"),
        ("    if d < max(3, 4) and not d:", "    if d <= max(3, 4) and not d:"),
        ("    if d < max(3, 4) and not d:", "    if d < max(3, 4) or not d:"),
        ("    if d < max(3, 4) and not d:", "    if d < min(3, 4) and not d:"),
        ("    if d < max(3, 4) and not d:", "    if d < max(2, 4) and not d:"),
        ("    if d < max(3, 4) and not d:", "    if d < max(4, 4) and not d:"),
        ("    if d < max(3, 4) and not d:", "    if d < max(3, 3) and not d:"),
        ("    if d < max(3, 4) and not d:", "    if d < max(3, 5) and not d:"),
        ("    if d < max(3, 4) and not d:", "    if d < max(3, 4) and d:"),
        ("        self.e -= 1", "        self.e += 1"),
        ("        self.e -= 1", "        self.e -= 0"),
        ("        self.e -= 1", "        self.e -= 2"),
        ("        self.e -= 1", "        pass"),
        ("        return", "        pass"),
        ('    return f"{5}" is None', '    return f"{5}" is not None'),
    }


def test_the_same_seed_draws_the_same_mutants(tmp_path: Path) -> None:
    (tmp_path / "room.py").write_text(SAMPLE)
    drawn = draw(["room.py"], 5, 1, tmp_path)
    assert len({*drawn}) == 5
    assert drawn == draw(["room.py"], 5, 1, tmp_path)
    assert drawn != draw(["room.py"], 5, 2, tmp_path)


# ---- controls -------------------------------------------------------------------------------------------------------


def test_a_control_runs_the_changed_module_and_the_product_does_not() -> None:
    with weakened("dedupe_window_of_four") as control:
        assert control.call(of_module, "ottla.broker.log.producer_state", "BATCHES_REMEMBERED") == 4
        assert control.call(of_process, "ottla.broker.log.producer_state", "BATCHES_REMEMBERED") == 4
        # Modules that share C structs run as Python, all or none.
        assert str(control.call(of_module, "ottla.broker.log.log", "__file__")) == str(PACKAGE / "broker/log/log.py")
    assert of_module("ottla.broker.log.producer_state", "BATCHES_REMEMBERED") == 5


@pytest.mark.parametrize(
    ("file", "name"), [(STATE, "BATCHES_REMEMBERED"), ("sink/deciding.py", "_ASKED_TIMES")], ids=["compiled", "plain"]
)
def test_tests_run_the_changed_module(file: str, name: str, tmp_path: Path) -> None:
    module = import_module(f"ottla.{file.removesuffix('.py').replace('/', '.')}")
    value = getattr(module, name)
    test = tmp_path / "test_value.py"
    test.write_text(f"from {module.__name__} import {name}\ndef test_value():\n    assert {name} == {value}\n")
    chosen = "-p", "tests.tiers", str(test)
    text = (PACKAGE / file).read_text()
    other = text.replace(f"{name} = {value}", f"{name} = {value + 1}")
    with Control({file: text}) as sound, Control({file: other}) as mutant:
        assert killed_by_tests(sound, chosen) == ""
        assert "test_value" in killed_by_tests(mutant, chosen)


@pytest.mark.parametrize("ci", ["", "true"], ids=["", "in CI"])
def test_the_test_that_failed_is_named_and_no_line_that_it_has_logged(
    ci: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    test = tmp_path / "test_logged.py"
    test.write_text("import logging\ndef test_it():\n    logging.error('FAILED to do it')\n    assert 0\n")
    with Control({}) as control:
        killer = killed_by_tests(control, ("-p", "tests.tiers", str(test)))
    assert killer.startswith("tests: FAILED ")
    assert killer.endswith("test_logged.py::test_it")


@pytest.mark.prove
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_tests_do_not_outlive_a_run_that_is_stopped(number: int, tmp_path: Path) -> None:
    test = tmp_path / "test_waiting.py"
    test.write_text(_WAITING)
    told = tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-c", _STOPPED, str(test)], cwd=ROOT) as run:
        # Before that, the program runs the tests twice.
        wait_until(lambda: told.exists() or run.poll() is not None, patience_s=300)
        run.send_signal(number)
        assert run.wait(60) != 0
    pid = int(told.read_text())
    wait_until(lambda: not is_running(pid))


_WAITING = """
import os, pathlib, time
def test_it():
    fresh = pathlib.Path(__file__).with_name("fresh")
    sound = fresh.with_name("sound")
    if not sound.exists():
        sound.touch()
        return
    fresh.write_text(str(os.getpid()))
    fresh.rename(fresh.with_name("pid"))
    while True:
        time.sleep(1)
"""
# The tests are that one: it passes without a change, and waits with the mutant.
_STOPPED = """
import signal, sys
from tools import mutate
signal.signal(signal.SIGINT, signal.default_int_handler)
mutate.TESTS["sink"] = "-p", "tests.tiers", sys.argv[1]
sys.argv[1:] = ["mutants", "--each", "1", "sink/commit.py"]
sys.exit(mutate.main())
"""


def is_running(pid: int) -> bool:
    # The process may disappear even while this file is read.
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_a_control_in_which_nothing_is_changed_leaves_the_same_trace() -> None:
    with Control({STATE: (PACKAGE / STATE).read_text()}) as control:
        assert control.call(trace_hash, 3) == trace_hash(3)
        assert control.call(kinds_found, 3) == ()


def test_a_control_that_cannot_be_says_why() -> None:
    text = (PACKAGE / STATE).read_text()
    with pytest.raises(ControlFailed, match="ZeroDivisionError"):
        Control({STATE: text.replace("BATCHES_REMEMBERED = 5", "BATCHES_REMEMBERED = 5 // 0")})
    with pytest.raises(ControlFailed, match="LOOPS"):
        Control({"records/append.py": "no_matter"})


def test_what_is_raised_in_a_control_is_told_and_a_process_that_ends_or_does_not_answer_as_well() -> None:
    with Control({}) as control:
        with pytest.raises(ControlFailed, match="invalid literal"):
            control.call(int, "x")
        assert control.call(int, "7") == 7
        with pytest.raises(ControlFailed, match="no answer after 0 s"):
            control.call(kinds_found, 3, timeout_s=0)
        with pytest.raises(ControlFailed, match="has ended"):
            control.call(int, "7")
    with Control({}) as control, pytest.raises(ControlFailed, match="has ended with status 3"):
        control.call(os._exit, 3)
