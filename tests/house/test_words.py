"""One meaning a word: what we do not say, what only some rooms say, and a short glossary of our own words."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ROOT / "src" / "ottla"
ENDINGS = (".py", ".pyi", ".pxd", ".md", ".toml", ".js", ".html", ".css", ".svg", ".json")
GLOSSARY_ROWS_MAX = 20
PAGE_LINES_MAX = 70

# In names of files and functions, too, whatever the case; a blank stands for `_`, too.
NOT_SAID = {
    "trouble": "error, problem, or fault where it is done on purpose",
    "unhapp": "not acked",
    "last words": "what is meant: the closing questions, the last line, the end of the log",
    "office": "leadership",
    "stranger": "unknown, untrusted, unsent",
    "sixteen propert": "the properties: `findings.PROPERTIES` has them",
    "front door": "how programs send, or read",
    "mishap": "fault",
    "crook": "wrong, or changed",
    "haunt": "act as a zombie",
    "producerfront": "ProducerBase: a front is asked by the I/O loop",
    "wanted end": "is_bounded",
}
# These hold a word and do not say it: Troubleshooting is a page and what readers look for.
NO_USE = ("troubleshoot", "history", "histories")
# This file names the words.
MAY_SAY_ALL = {Path(__file__).relative_to(ROOT).as_posix()}

# Words with a meaning of our own, and the rooms that speak of that.
ROOMS_OF = {
    "verdict": {"audit", "cli", "page.py", "showcase", "topic_audit", "trial"},
    # In `connection` it is Kerberos's.
    "ticket": {"connection", "sink"},
    "story": {"cli", "seeds", "simulation"},
    "stories": {"cli", "seeds", "simulation"},
}


@cache
def texts() -> dict[str, str]:
    """Every file of source, documentation and tests, by its path from the root; its path is said, too."""
    found = {}
    for folder in ("src", "docs", "tests"):
        # A link to `docs` lies in `src`: links are not followed.
        for at, _, names in os.walk(ROOT / folder):
            for name in names:
                path = Path(at, name)
                if name.endswith(ENDINGS) and not path.is_symlink():
                    relative = path.relative_to(ROOT).as_posix()
                    found[relative] = plain(f"{relative}\n{path.read_text(encoding='utf-8')}")
    return found


def plain(text: str) -> str:
    """The text as it is searched."""
    plain = text.lower().replace("_", " ")
    for word in NO_USE:
        plain = plain.replace(word, "")
    return plain


def said(words: Iterable[str], path: str, text: str) -> list[str]:
    """Where one of these words stands in a text: "path:line: word"; line 0 is the path itself."""
    return [
        f"{path}:{text.count(chr(10), 0, each.start())}: {word}"
        for word in words
        if word in text
        for each in re.finditer(re.escape(word), text)
    ]


def test_words_with_a_plainer_one_are_not_said() -> None:
    found = [where for path, text in texts().items() if path not in MAY_SAY_ALL for where in said(NOT_SAID, path, text)]
    assert found == [], NOT_SAID


@pytest.mark.parametrize("word", ROOMS_OF)
def test_a_word_of_our_own_is_said_where_it_has_its_meaning(word: str) -> None:
    rooms = ROOMS_OF[word]
    found = [
        where
        for path, text in texts().items()
        if path.startswith("src/ottla/") and path.split("/")[2] not in rooms
        for where in said([word], path, text)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# Trouble\n", "x.py:1: trouble"),
        ("\nsettle_unhappily()", "x.py:2: unhapp"),
        ("_LAST_WORDS = 1", "x.py:1: last words"),
        ("def test_it_lost_its_office() -> None:", "x.py:1: office"),
        ("The sixteen properties", "x.py:1: sixteen propert"),
        ("[Troubleshooting](troubleshooting.md) is no trouble", "x.py:1: trouble"),
    ],
)
def test_a_word_that_is_put_in_is_found(text: str, line: str) -> None:
    assert said(NOT_SAID, "x.py", plain(f"x.py\n{text}")) == [line]


def test_a_word_in_the_name_of_a_file_is_found() -> None:
    assert said(NOT_SAID, "x.py", plain("tests/test_strangers.py\n")) == ["x.py:0: stranger"]


def test_the_rooms_of_a_word_are_there() -> None:
    assert [room for rooms in ROOMS_OF.values() for room in rooms if not (ROOMS / room).exists()] == []


def test_the_architecture_is_one_page_and_opens_with_our_own_words() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)", text, flags=re.MULTILINE)[0] == "Our own words"
    assert len(text.splitlines()) <= PAGE_LINES_MAX


def test_our_own_words_stay_few() -> None:
    words = (
        (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## Our own words")[2].partition("\n## ")[0]
    )
    rows = re.findall(r"^\| (?!word |-)(.+?) \|", words, flags=re.MULTILINE)
    assert {"turn", "place", "story"} < set(rows)
    assert len(rows) <= GLOSSARY_ROWS_MAX
