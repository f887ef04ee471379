"""`ottla docs`: pages that errors and docstrings name are there, wherever ottla is installed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ottla.cli import main
from ottla.cli.docs import FOLDER

SOURCE = FOLDER.parent


def test_the_pages_are_listed_with_what_they_are_about(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs"]) == 0
    # A long title goes on in the next line.
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    rows = [line.split(maxsplit=1) for line in lines]
    assert ["faults", "Faults"] in [[name, about.strip()] for name, about in rows]
    assert {name for name, _ in rows[1:]} == {path.stem for path in FOLDER.glob("*.md")}


@pytest.mark.parametrize("name", ["settings", "settings.md", "docs/settings.md"])
def test_a_page_is_printed_as_it_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", name]) == 0
    assert capsys.readouterr().out == (FOLDER / "settings.md").read_text()


def test_pages_are_told_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "--json"]) == 0
    pages = json.loads(capsys.readouterr().out)
    assert {"page": "faults", "about": "Faults"} in pages
    assert [page["page"] for page in pages] == sorted(path.stem for path in FOLDER.glob("*.md"))
    assert main(["docs", "faults", "--json"]) == 0
    text = (FOLDER / "faults.md").read_text()
    assert json.loads(capsys.readouterr().out) == {"page": "faults", "about": "Faults", "text": text}


def test_a_page_that_is_not_there_is_told_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "setings"]) == 2
    assert capsys.readouterr().err == "ottla: there is no page setings: did you mean settings?\n"


@pytest.mark.parametrize("name", ["../../LICENSE", "xyzzy"])
def test_what_is_no_page_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", name]) == 2
    assert "`ottla docs` lists them" in capsys.readouterr().err


def test_every_page_that_the_source_names_is_there() -> None:
    named = {
        page
        for path in SOURCE.rglob("*.py")
        for page in re.findall(r"\bdocs/([a-z-]+\.md)", path.read_text(encoding="utf-8"))
    }
    assert "settings.md" in named
    assert named <= {path.name for path in Path(FOLDER).glob("*.md")}
