"""Lays out the pages of the site: those of docs/, those that are written from the source, and the lists of them.

`docs/index.md` lists every page, under one heading for each kind; the navigation follows it. A link between two pages
of the repository becomes one between two pages of the site; a link to any other file of the repository becomes one to
a copy of that file.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from tools.documentation.api import write_api
from tools.documentation.broker_settings import write_broker_settings
from tools.documentation.charts import draw_charts
from tools.documentation.commands import write_commands
from tools.documentation.errors import write_errors

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
# Pages of the repository that stand elsewhere.
ELSEWHERE = {
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "vulnerabilities.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "src/ottla/broker/UNSUPPORTED.md": "unsupported.md",
}
CHARTS = "<!-- The site has charts here, drawn from benchmarks/results.json. -->"

_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)")
_FENCED = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)


def written_pages() -> dict[str, str]:
    """The pages that are written from the source: file name -> Markdown."""
    return {
        **write_api(),
        "broker-settings.md": write_broker_settings(),
        "commands.md": write_commands(),
        "errors.md": write_errors(),
    }


def lay_out(folder: Path) -> None:
    """Write every page into `folder`, ready for Sphinx."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, text in written_pages().items():
        (folder / name).write_text(text)
    sources = {f"docs/{path.name}": path.name for path in sorted(DOCS.glob("*.md"))} | ELSEWHERE
    for source, name in sources.items():
        text = (ROOT / source).read_text()
        if CHARTS in text:
            text = text.replace(CHARTS, draw_charts(folder))
        text = with_links(text, source, sources, _copier(folder))
        (folder / name).write_text(with_navigation(text) if name == "index.md" else text)


def with_navigation(index: str) -> str:
    """The index with a hidden table of contents behind each of its lists, under the words that stand above the list."""
    made: list[str] = []
    heading = label = ""
    for block in re.split(r"\n{2,}", index):
        made.append(block)
        pages = re.findall(r"^- \[[^\]]+\]\(([^)#:]+)\.md\)", block, re.MULTILINE)
        if block.startswith("## "):
            heading, label = block.removeprefix("## "), ""
        elif pages:
            caption = f"{heading}: {label[:1].lower()}{label[1:]}" if label else heading
            made.append("\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```"]))
            label = ""
        elif block.endswith(":"):
            label = block.removesuffix(":").splitlines()[-1]
    return "\n\n".join(made) + "\n"


def with_links(text: str, source: str, pages: Mapping[str, str], copy: Callable[[str], str]) -> str:
    """The text with its links to files of the repository as links of the site; blocks of code stay as they are."""

    def replaced(link: re.Match[str]) -> str:
        target, anchor = _resolved(source, link[1]), link[2] or ""
        if target in pages:
            return f"]({pages[target]}{anchor})"
        if (ROOT / target).is_file():
            return f"]({copy(target)})"
        return link[0]

    parts = _FENCED.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(replaced, part) for part in parts)


def _resolved(source: str, target: str) -> str:
    """The place in the repository to which a link of `source` leads."""
    parts: list[str] = []
    for part in (PurePosixPath(source).parent / target).parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def _copier(folder: Path) -> Callable[[str], str]:
    def copy(target: str) -> str:
        place = folder / "files" / target
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / target, place)
        return f"files/{target}"

    return copy
