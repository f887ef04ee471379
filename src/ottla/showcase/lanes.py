"""The way of one record on the terminal: three lanes, one per guarantee, printed line by line as it happens."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ottla.audit.promises import PROMISES
from ottla.screen import plain_table


def show_lanes(console: Console, about: str, lines: Iterable[tuple[str, str, str]]) -> None:
    """Print three lanes, a line at a time as it arrives."""
    console.print()
    console.print(Text("The way of one record under three guarantees", "bold"))
    console.print(Text(about, "dim"))
    console.print()
    console.print(_lanes(console.width, [Text(guarantee, "bold cyan") for guarantee in PROMISES]))
    console.print(_lanes(console.width, [Text(promise.settings_words, "dim") for promise in PROMISES.values()]))
    for line in lines:
        console.print(_lanes(console.width, [Text(words, _style(words)) for words in line]))
    console.print()


def _lanes(width: int, cells: list[Text]) -> Table:
    lane = max(20, (min(width, 110) - 6) // 3)
    table = plain_table()
    for _ in cells:
        # A word that is longer than its lane is broken, not cut off.
        table.add_column(width=lane, overflow="fold")
    table.add_row(*cells)
    return table


def _style(words: str) -> str:
    if words.startswith("stored: "):
        return "bold green" if words.startswith("stored: once") else "bold yellow"
    return "red" if "lost" in words else ""
