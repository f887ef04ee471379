"""`ottla docs`: the pages that errors, docstrings and the README name."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

import ottla
from ottla.cli.options import Json
from ottla.cli.output import new_table, tell
from ottla.errors import UserMistake
from ottla.nearest import nearest_name

FOLDER = Path(ottla.__file__).with_name("docs")


def docs(
    page: Annotated[str | None, typer.Argument(help="The name of a page, such as settings.", metavar="PAGE")] = None,
    as_json: Json = False,
) -> None:
    """List the pages of the documentation, or print one.

    They are Markdown, and come with the package.

    For example:

        ottla docs faults

    Exit status: 0 when it was shown, 2 when there is no such page.
    """
    pages = {path.stem: path for path in sorted(FOLDER.glob("*.md"))}
    if page is None:
        listed = [_told(name, path) for name, path in pages.items()]
        if as_json:
            typer.echo(json.dumps(listed))
            return
        table = new_table("page", "about", right=())
        for told in listed:
            table.add_row(told["page"], told["about"])
        tell(table)
        return
    name = Path(page).stem
    if name not in pages:
        near = nearest_name(name, pages)
        hint = f"did you mean {near}?" if near else "`ottla docs` lists them."
        raise UserMistake(f"there is no page {page}: {hint}")
    text = pages[name].read_text(encoding="utf-8")
    sys.stdout.write(json.dumps({**_told(name, pages[name]), "text": text}) + "\n" if as_json else text)
    sys.stdout.flush()


def _told(name: str, path: Path) -> dict[str, str]:
    with path.open(encoding="utf-8") as lines:
        return {"page": name, "about": next(lines).removeprefix("#").strip()}
