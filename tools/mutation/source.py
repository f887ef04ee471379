"""Changes of the source of ottla: a text that occurs exactly once in a file, and what stands there instead."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "ottla"


class SourceChanged(Exception):
    """The text that a change is about does not occur exactly once: the source has changed since the change was made."""


class Edit(NamedTuple):
    """In `file` (a path below src/ottla), `found` becomes `becomes`.

    `in_front` and `behind` are lines added in front of the line in which `found` stands, and behind it; they are
    indented as that line is.
    """

    file: str
    found: str
    becomes: str
    in_front: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()

    def apply(self, text: str) -> str:
        """The file's text, changed; `SourceChanged`."""
        times = text.count(self.found)
        if times != 1:
            raise SourceChanged(f"src/ottla/{self.file} has changed: {times} times in it, not once: {self.found!r}")
        at = text.index(self.found)
        begin = text.rfind("\n", 0, at) + 1
        end = text.find("\n", at + len(self.found))
        line = text[begin:end]
        indent = line[: len(line) - len(line.lstrip())]
        lines = [
            *(indent + each for each in self.in_front),
            line.replace(self.found, self.becomes),
            *(indent + each for each in self.behind),
        ]
        return text[:begin] + "\n".join(lines) + text[end:]


def replace(file: str, found: str, becomes: str) -> Edit:
    """`becomes` in place of `found`."""
    return Edit(file, found, becomes)


def insert_before(file: str, found: str, *lines: str) -> Edit:
    """`lines` in front of the line in which `found` stands."""
    return Edit(file, found, found, in_front=lines)


def insert_after(file: str, found: str, *lines: str) -> Edit:
    """`lines` behind the line in which `found` ends."""
    return Edit(file, found, found, behind=lines)


def changed(edits: Iterable[Edit], package: Path = PACKAGE) -> dict[str, str]:
    """The text of each file that the edits change, by its path below src/ottla; `SourceChanged`."""
    texts: dict[str, str] = {}
    for edit in edits:
        text = texts.get(edit.file)
        if text is None:
            path = package / edit.file
            if not path.is_file():
                raise SourceChanged(f"src/ottla/{edit.file} is no longer there")
            text = path.read_text()
        texts[edit.file] = edit.apply(text)
    return texts
