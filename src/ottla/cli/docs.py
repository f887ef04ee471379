"""`ottla docs`: the pages that errors, docstrings and the README name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import ottla
from ottla.cli.output import new_table, tell
from ottla.errors import UserMistake
from ottla.nearest import nearest_name

FOLDER = Path(ottla.__file__).with_name("docs")


def docs(
    page: Annotated[str | None, typer.Argument(help="The name of a page, such as settings.", metavar="PAGE")] = None,
) -> None:
    """List the pages of the documentation, or print one.

    They are Markdown, and come with the package.

    For example: `ottla docs faults`

    Exit status: 0 when it was shown, 2 when there is no such page.
    """
    pages = {path.stem: path for path in sorted(FOLDER.glob("*.md"))}
    if page is None:
        table = new_table("page", "about", right=())
        for name, path in pages.items():
            with path.open(encoding="utf-8") as lines:
                table.add_row(name, next(lines).removeprefix("#").strip())
        tell(table)
        return
    name = Path(page).stem
    if name not in pages:
        near = nearest_name(name, pages)
        hint = f"did you mean {near}?" if near else "`ottla docs` lists them."
        raise UserMistake(f"there is no page {page}: {hint}")
    sys.stdout.write(pages[name].read_text(encoding="utf-8"))
    sys.stdout.flush()
