"""The examples of the guides run as they stand: all of a page's blocks, one after the other, in one namespace."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.producer.settings import ProducerSettings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def run_blocks(page: str, **at_hand: Any) -> dict[str, Any]:
    """Run the Python blocks of a page as a reader would who types them in, and return what they have defined."""
    names: dict[str, Any] = {"__name__": page, **at_hand}
    text = (DOCS / page).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    return names


@pytest.mark.prove
@pytest.mark.parametrize("page", ["tutorial.md", "sequences.md", "replication.md", "storage.md", "reading.md"])
def test_what_a_guide_claims_is_so(page: str) -> None:
    """Their blocks assert what the text says."""
    names = run_blocks(page)
    assert not names["cluster"].is_running


def test_the_trials_that_settle_what_settings_guarantee_are_there() -> None:
    trials = {path.stem[3:] for path in (ROOT / "src" / "ottla" / "trial" / "scenarios").glob("*.toml")}
    named = set(re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+)+)`", (DOCS / "guarantees.md").read_text()))
    assert len(named) > 15
    assert named - trials == set()


@pytest.mark.prove
def test_the_tests_of_the_guide_to_pytest_pass(tmp_path: Path) -> None:
    text = (DOCS / "test-with-pytest.md").read_text()
    shop, *tests = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    (tmp_path / "shop.py").write_text(shop)
    (tmp_path / "test_shop.py").write_text("\n\n".join(tests))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    assert re.search(rf"^{len(re.findall('^def test_', text, re.MULTILINE))} passed", done.stdout, re.MULTILINE)


def test_a_page_names_files_that_exist() -> None:
    for page in sorted(DOCS.glob("*.md")):
        for path in re.findall(r"`((?:src|tests|benchmarks|tools)/[\w/]+\.(?:py|md|toml|json))`", page.read_text()):
            assert (ROOT / path).exists(), f"{page.name}: {path}"


@pytest.fixture
def logging_as_it_was() -> Iterator[None]:
    """A test may configure logging."""
    before = logging.root.handlers[:], logging.root.level
    yield
    logging.root.handlers[:], logging.root.level = before
    for name in ("ottla", "ottla.producer"):
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.mark.usefixtures("logging_as_it_was")
def test_the_configuration_of_logging_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    run_blocks("logging.md")
    logging.getLogger("ottla.producer").info("orders: batches are small")
    logging.getLogger("ottla.client").info("left out")
    [line] = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"] == "orders: batches are small"


@pytest.mark.usefixtures("logging_as_it_was")
def test_the_log_that_troubleshooting_asks_for_has_every_line() -> None:
    run_blocks("troubleshooting.md")
    assert logging.getLogger("ottla.client").isEnabledFor(logging.DEBUG)


def test_a_page_with_examples_has_a_test() -> None:
    """The test names the page; what it does with the examples is its own affair."""
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    shown = [page.name for page in DOCS.glob("*.md") if "```python" in page.read_text()]
    assert [name for name in shown if name not in tests and "migrate-" not in name] == []


@pytest.mark.parametrize(
    "block", re.findall(r"```properties\n(.*?)```", (DOCS / "production.md").read_text(), re.DOTALL)
)
def test_settings_for_production_are_understood(block: str) -> None:
    config = dict(line.split("=", 1) for line in block.splitlines())
    assert ProducerSettings(config)


def test_messages_that_troubleshooting_explains_are_those_of_the_source() -> None:
    """A message that was reworded would not be found by who looks for it."""
    rows = re.findall(r"^\| (.*?) \|", (DOCS / "troubleshooting.md").read_text(), flags=re.MULTILINE)
    quoted = [phrase for row in rows for phrase in re.findall(r"`([^`]+)`", row)]
    source = " ".join(path.read_text() for path in (ROOT / "src" / "ottla").rglob("*.py"))
    # A sentence may be written as several pieces of text.
    source = re.sub(r'"\s+f?"', "", source)
    theirs = {"DATA_SOURCE_NOT_FOUND", "cut_link", "fault.fired"}
    assert len(quoted) > 20
    assert [phrase for phrase in quoted if phrase not in theirs and phrase not in source] == []
