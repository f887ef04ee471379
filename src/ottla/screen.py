"""What commands show on a terminal: a console, tables without lines, and progress while they work.

Progress is one bar per step on a terminal; elsewhere (a pipe, CI) each step leaves one line when it is done, and
nothing moves.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn
from rich.table import Column, Table
from rich.text import Text

from ottla.printable import printable

PIPE_WIDTH = 100


class PlainConsole(Console):
    """A console for text of others: group ids, keys and names of files are no markup, and no terminal obeys them."""

    def __init__(self, *, width: int | None = None, stderr: bool = False) -> None:
        super().__init__(width=width, stderr=stderr, highlight=False, markup=False, emoji=False)

    def render_str(self, text: str, **how: Any) -> Text:
        """Texts and cells of tables come by here, all but those that are rich's own `Text`."""
        return super().render_str(printable(text, besides="\n\t"), **how)


def open_console() -> Console:
    """A console on stdout; where that is no terminal, it is 100 columns wide, or as wide as COLUMNS says."""
    return PlainConsole(width=PIPE_WIDTH if not sys.stdout.isatty() and "COLUMNS" not in os.environ else None)


def plain_table(*, has_heading: bool = False) -> Table:
    """A table without lines, its columns two apart."""
    return Table(box=None, show_header=has_heading, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))


class Step:
    """One line of the progress display; may be moved from any thread."""

    def __init__(self, progress: Progress | None, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def advance(self, count: int = 1) -> None:
        """So many more are done."""
        if self._progress is not None:
            self._progress.advance(self._task, count)

    def show(self, completed: int, total: int) -> None:
        """So many of so many are done, as far as is known by now."""
        if self._progress is not None:
            self._progress.update(self._task, completed=completed, total=total)


class Steps:
    """The progress display of a command; use `showing_steps`."""

    def __init__(self, console: Console, progress: Progress | None) -> None:
        self._console = console
        self._progress = progress

    @contextmanager
    def step(self, words: str, total: int | None = None, unit: str = "") -> Iterator[Step]:
        """One step of the work: a bar (a moving one where `total` is None) that counts in `unit`s."""
        began = time.monotonic()
        progress = self._progress
        if progress is None:
            yield Step(None, TaskID(0))
            self._console.print(f"{words}: done in {time.monotonic() - began:.1f} s")
            return
        task = progress.add_task(words, total=total, unit=unit and f" {unit}")
        yield Step(progress, task)
        progress.update(task, total=total or 1, completed=total or 1)
        progress.stop_task(task)


@contextmanager
def showing_steps(console: Console) -> Iterator[Steps]:
    """A progress display that lasts as long as the block; the finished bars stay on the screen."""
    if not console.is_terminal:
        yield Steps(console, None)
        return
    progress = _progress(console)
    # Not `with progress`: an interruption while it is drawn first would leave the cursor hidden and stderr taken.
    try:
        progress.start()
        yield Steps(console, progress)
    finally:
        progress.stop()


def late_progress() -> Progress:
    """A display on stderr, not started yet, that leaves nothing behind."""
    return _progress(PlainConsole(stderr=True), transient=True)


# Narrower screens have no bar and no units, those of fewer than 80 columns percentages for counts: columns that do not
# fit would cut off each other.
_WIDE, _MEDIUM = 100, 80


def _progress(console: Console, *, transient: bool = False) -> Progress:
    width = console.width
    columns: list[ProgressColumn] = [
        _Mark(
            "line" if console.options.ascii_only else "dots",
            finished_text="[green]✓[/]",
            table_column=Column(no_wrap=True, min_width=1),
        ),
        TextColumn("{task.description}", markup=False, table_column=Column(overflow="fold")),
    ]
    if width >= _WIDE:
        # What the other columns need at most, in one line each.
        columns.append(BarColumn(bar_width=max(6, min(30, width - 94))))
    columns += [_Count(width), _Elapsed(Column(no_wrap=True))]
    return Progress(*columns, console=console, transient=transient)


class _Mark(SpinnerColumn):
    """Moves until the step has ended: the bar may be full while the last records wait for acknowledgements."""

    def render(self, task: Task) -> RenderableType:
        return self.finished_text if task.stop_time is not None else self.spinner.render(task.get_time())


class _Count(ProgressColumn):
    """How many of how many; nothing where a step cannot be counted."""

    def __init__(self, width: int) -> None:
        super().__init__(Column(no_wrap=True))
        self._width = width

    def render(self, task: Task) -> Text:
        unit = task.fields.get("unit", "")
        if task.total is None and unit and task.completed:
            return Text(f"{int(task.completed):,}{unit}", "dim")
        if task.total is None or task.total <= 1:
            return Text("")
        if self._width < _MEDIUM:
            return Text(f"{task.percentage:.0f} %", "dim")
        unit = unit if self._width >= _WIDE else ""
        return Text(f"{int(task.completed):,} of {int(task.total):,}{unit}", "dim")


class _Elapsed(ProgressColumn):
    """Seconds since the step began."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.elapsed or 0:.1f} s", "dim")
