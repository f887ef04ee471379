"""What commands show to people: lines, tables, counts."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

# The space between the columns of a table, and the width that folded text needs to be readable.
_GAP = 2
_TEXT_COLUMNS_MIN = 16


def tell(what: Table | str) -> None:
    """Print a table, in blocks where it is too wide, or a line however long it is."""
    from ottla.screen import open_console

    console = open_console()
    if isinstance(what, str):
        console.print(what, soft_wrap=True)
    else:
        console.print(_fitted(what, console.width))


def log_to_stderr(level: str, *names: str) -> None:
    """Show what these loggers log from this level on: for a command that serves until it is ended."""
    import logging

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
    handler.setLevel(level)
    for name in names:
        logging.getLogger(name).addHandler(handler)


def new_table(*names: str, right: Container[str]) -> Table:
    """A table without lines; where room is short, numbers (`right`) stay whole and what is text is folded."""
    from ottla.screen import plain_table

    table = plain_table(has_heading=True)
    for name in names:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return table


def _fitted(table: Table, width: int) -> Table:
    """The table, or one that loses nothing in `width` columns: narrower headings, then folded text, then blocks."""
    columns = table.columns
    gaps = _GAP * (len(columns) - 1)
    if sum(_columns([column.header, *column.cells]) for column in columns) + gaps <= width:
        return table
    needed = 0
    for column in columns:
        # A heading of several words may be broken between them.
        words = _columns([*str(column.header).split(), *column.cells])
        if column.justify == "right":
            # Folding and cutting are for the others.
            column.width = words
        needed += words if column.justify == "right" else min(words, _TEXT_COLUMNS_MIN)
    return table if needed + gaps <= width else _in_blocks(table)


def _in_blocks(table: Table) -> Table:
    """A block of lines for each row, as `heading  cell`; empty cells are left out."""
    from ottla.screen import plain_table

    blocks = plain_table()
    blocks.add_column(style="bold", no_wrap=True)
    blocks.add_column(overflow="fold")
    for number, row in enumerate(zip(*(column.cells for column in table.columns), strict=True)):
        if number:
            blocks.add_row()
        for column, cell in zip(table.columns, row, strict=True):
            if cell:
                blocks.add_row(column.header, cell)
    return blocks


def _columns(words: Iterable[Any]) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, words))


def counted(number: int, noun: str) -> str:
    """ "1 record", "2,000 records"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def has_colors() -> bool:
    """Whether colours are wanted (https://no-color.org): rich asks by itself, click does not."""
    return not os.environ.get("NO_COLOR")
