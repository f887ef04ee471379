"""The documentation: every page is listed, every public name told of, and the site is built without a warning."""

from __future__ import annotations

import ast
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tools.documentation import api, charts, errors, layout

import ottla
from ottla.broker.settings import BROKER_SETTINGS

from ..needs import lacking

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_the_index_lists_every_page_once() -> None:
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+\.md)\)", (DOCS / "index.md").read_text(), flags=re.MULTILINE)
    pages = {path.name for path in DOCS.glob("*.md")} - {"index.md"}
    written = {*layout.written_pages()}
    assert sorted(listed) == sorted(pages | written | {f"../{name}" for name in layout.ELSEWHERE})


def test_the_reference_tells_of_every_public_name_once() -> None:
    names = [name for name in ottla.__all__ if name != "__version__"]
    classes = [name for name in names if inspect.isclass(getattr(ottla, name))]
    raised = [name for name in classes if issubclass(getattr(ottla, name), Exception)]
    assert sorted([*api.public_names(), *raised]) == sorted([*names, *api.BESIDES])
    page = errors.write_errors()
    assert [name for name in raised if f"{{py:exception}} {name}\n" not in page] == []


def test_what_the_package_says_names_no_file_that_only_the_repository_has() -> None:
    """Who has installed a wheel has no docs/; a page is named by its title. Module docstrings are for developers."""
    titles = [path.read_text().split("\n")[0].removeprefix("# ") for path in DOCS.glob("*.md")]
    for path in (ROOT / "src" / "ottla").rglob("*.py"):
        text = path.read_text()
        if "docs/" not in text and "of the documentation" not in text:
            continue
        tree = ast.parse(text)
        of_module = tree.body[0].value if tree.body and isinstance(tree.body[0], ast.Expr) else None
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node is not of_module:
                said = " ".join(node.value.split())
                assert "docs/" not in said, f"{path}: {said}"
                for named in re.findall(r'page "([^"]+)" of the documentation', said):
                    assert any(title.startswith(named) for title in titles), f"{path}: {named}"


def test_a_method_is_told_with_its_arguments_even_where_it_is_compiled() -> None:
    sending = api.write_api()["api-sending.md"]
    assert ":::{py:method} result(timeout: float | None=None) -> RecordMetadata" in sending
    assert ":::{py:method} from_config(" in sending  # inherited


def test_every_setting_of_a_broker_is_told_with_why_its_default_differs() -> None:
    page = layout.written_pages()["broker-settings.md"]
    assert [setting.name for setting in BROKER_SETTINGS if page.count(f"\n| `{setting.name}` | ") < 1] == []
    assert re.search(r"^\| `broker.session.timeout.ms` .* Kafka waits nine seconds", page, flags=re.MULTILINE)
    assert "## Replication\n" in page


def test_charts_are_drawn_of_the_measured_figures(tmp_path: Path) -> None:
    shown = charts.draw_charts(tmp_path)
    drawn = sorted(tmp_path.glob("charts/*.svg"))
    assert len(drawn) == shown.count(".svg)") >= 3
    for path in drawn:
        bars = [mark for mark in ElementTree.parse(path).iter() if mark.tag.endswith("}rect")]
        assert len(bars) > 2


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once; `-W` ends the build where a link leads nowhere or a page is on no list."""
    folder = tmp_path_factory.mktemp("documentation")
    places = ["--pages", str(folder / "pages"), "--site", str(folder / "site")]
    command = [sys.executable, "-m", "tools.documentation", *places]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return folder / "site"


@pytest.mark.prove
def test_the_site_fetches_nothing_from_elsewhere(site: Path) -> None:
    pages = [*site.glob("*.html")]
    assert len(pages) > 50
    fetched = [
        place
        for page in pages
        for place in re.findall(r'<(?:script|img|link)\b[^>]*\b(?:src|href)="([^"]+)"', page.read_text())
    ]
    assert [place for place in fetched if "//" in place] == []


@pytest.mark.prove
def test_the_search_finds_a_page_without_a_server(site: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        lacking("chromium", "there is no Chromium here")
    with playwright.sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(offline=True)
        page.goto(f"{(site / 'search.html').as_uri()}?q=fencing")
        page.wait_for_selector("#search-results ul.search a[href*='sequences.html']", timeout=60_000)
        browser.close()
