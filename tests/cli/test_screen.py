"""The progress display on a terminal: what it claims while a step lasts, and how it fits."""

from __future__ import annotations

import _thread
import io
import sys

import pytest
from rich.console import Console
from tests.interrupting import interrupted_after

from ottla.screen import open_console, showing_steps


def test_a_step_is_done_when_it_ends_and_not_when_its_count_is_full() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with showing_steps(console) as steps:

        def screen() -> str:
            beside = Console(file=io.StringIO(), width=80)
            with beside.capture() as capture:
                beside.print(steps._progress.get_renderable())  # type: ignore[union-attr]
            return capture.get()

        with steps.step("PySpark answers the question from each topic", 336_776) as step:
            step.advance(336_776)
            assert "✓" not in screen()
        assert "✓" in screen()
        assert "336,776 of 336,776" in screen()
        assert len(screen().splitlines()) == 1


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_nothing_of_a_step_is_cut_off_however_narrow_the_terminal(width: int) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=width)
    beside = Console(file=io.StringIO(), width=width)
    with showing_steps(console) as steps, beside.capture() as capture:
        for words, unit in (
            ("PySpark audits each topic against the ledger", "tasks"),
            ("send exactly-once", "records"),
        ):
            with steps.step(words, 1_010_328, unit) as step:
                step.advance(1_010_328)
        beside.print(steps._progress.get_renderable())  # type: ignore[union-attr]
    shown = capture.get()
    assert "…" not in shown
    assert shown.count("✓") == 2
    assert shown.count("0.0 s") == 2
    assert "PySparkauditseachtopic" in "".join(shown.replace("✓", "").split())
    assert ("1,010,328 of 1,010,328" if width >= 80 else "100 %") in shown


def test_ctrl_c_while_it_is_drawn_first_leaves_the_terminal_as_it_was() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    stderr = sys.stderr
    drawing = interrupted_after(_thread.start_new_thread)
    with pytest.raises(KeyboardInterrupt), drawing, showing_steps(console):
        pass
    assert sys.stderr is stderr
    assert console.file.getvalue().endswith("\x1b[?25h")  # type: ignore[attr-defined]


def test_names_of_files_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    with showing_steps(open_console()) as steps, steps.step("read o[red].csv of [/x] :warning:"):
        pass
    assert capsys.readouterr().out.startswith("read o[red].csv of [/x] :warning:: done in ")
