"""The report as Chromium shows it: narrow and wide, light and dark, and by keyboard.

The page stands in frames of several widths, in a page whose script measures them; Chromium prints what it found.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

from ottla.trial.report_page import as_report

from ..needs import lacking
from .recorded_trials import lost_ack, power_cut, void_and_hostile

WIDTHS = (320, 768, 1440)
TIMEOUT_S = 120
DARK, LIGHT = 0, 1
MEASURE = """
const found = [];
for (const frame of document.querySelectorAll("iframe")) {
  const page = frame.contentDocument, view = frame.contentWindow, body = view.getComputedStyle(page.body);
  const first = page.querySelector("ul.found a");
  first.focus();
  first.click();
  const target = page.querySelector(first.getAttribute("href"));
  const colour = (selector) => view.getComputedStyle(page.querySelector(selector)).color;
  found.push({
    width: page.documentElement.clientWidth,
    scrolls: page.documentElement.scrollWidth,
    ink: body.color, paper: body.backgroundColor, bad: colour(".finding .words"), good: colour(".verdict"),
    focused: page.activeElement === first || page.activeElement === target,
    target: target.className,
    drawn: [...page.querySelectorAll(".chart")].every((each) => each.tabIndex === 0 && each.clientHeight > 100),
    scripts: page.scripts.length,
    resources: view.performance.getEntriesByType("resource").length,
  });
}
document.title = JSON.stringify(found);
"""


@pytest.fixture(scope="module")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    return found or lacking("chromium", "there is no Chromium here")


def looked_at(chromium: str, scheme: int, folder: Path) -> list[dict[str, Any]]:
    """What Chromium finds of the page at each width."""
    page = escape(as_report([lost_ack(), power_cut(), void_and_hostile()]))
    frames = "".join(
        f'<iframe srcdoc="{page}" style="width:{width}px;height:800px;border:0"></iframe>' for width in WIDTHS
    )
    place = folder / "frames.html"
    place.write_text(
        f"<!doctype html><meta charset=utf-8><body>{frames}<script>onload = () => {{{MEASURE}}}</script>", "utf-8"
    )
    command = [
        chromium,
        "--headless",
        # The page is our own, and tests may run as root.
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}",
        f"--blink-settings=preferredColorScheme={scheme}",
        "--dump-dom",
        place.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title is not None, done.stderr
    found: list[dict[str, Any]] = json.loads(unescape(title[1]))
    return found


def luminance(colour: str) -> float:
    """Of "rgb(r, g, b)", as WCAG 2 has it."""
    parts = [int(each) / 255 for each in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_a_report_can_be_read_at_every_width(chromium: str, scheme: int, tmp_path: Path) -> None:
    found = looked_at(chromium, scheme, tmp_path)
    assert [each["width"] for each in found] == [*WIDTHS]
    for each in found:
        assert each["scrolls"] <= each["width"]
        assert (luminance(each["paper"]) < 0.1) == (scheme == DARK)
        assert min(contrast(each[name], each["paper"]) for name in ("ink", "bad", "good")) >= 4.5
        assert each["focused"]
        assert "finding" in each["target"]
        assert each["drawn"]
        assert (each["scripts"], each["resources"]) == (0, 0)
