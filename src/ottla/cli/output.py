"""What commands show to people: lines, tables, counts."""

from __future__ import annotations

import os
from collections.abc import Container
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


def tell(what: Table | str) -> None:
    """Print a table, or a line however long it is."""
    from ottla.trial.screen import open_console

    open_console().print(what, soft_wrap=isinstance(what, str))


def new_table(*names: str, right: Container[str]) -> Table:
    """A table without lines; where room is short, numbers (`right`) stay whole and what is text is folded."""
    from ottla.trial.screen import plain_table

    table = plain_table(has_heading=True)
    for name in names:
        if name in right:
            # A heading of several words may be broken between them.
            table.add_column(name, justify="right", no_wrap=" " not in name)
        else:
            table.add_column(name, overflow="fold")
    return table


def counted(number: int, noun: str) -> str:
    """ "1 record", "2,000 records"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def has_colors() -> bool:
    """Whether colours are wanted (https://no-color.org): rich asks by itself, click does not."""
    return not os.environ.get("NO_COLOR")
