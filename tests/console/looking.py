"""A page of the console in Chromium, as its tests look at it."""

from __future__ import annotations

from typing import Any

import pytest

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"
SERIOUS = ("serious", "critical")


class Looked:
    """A page in Chromium, and what its console has said."""

    def __init__(self, page: Any, url: str) -> None:
        self.page, self.url = page, url
        self.said: list[str] = []
        page.on("console", lambda message: self.said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.said.append(str(error)))

    def go(self, view: str) -> Any:
        """Open a view by its address, and wait for its heading."""
        self.page.goto(f"{self.url}#/{view}")
        self.page.wait_for_selector("main h1")
        return self.page

    def serious(self) -> list[str]:
        """What axe-core finds wrong that is serious or worse."""
        axe = pytest.importorskip("axe_playwright_python.sync_playwright")
        found = axe.Axe().run(self.page).response["violations"]
        return [
            f"{each['id']}: {node['html'][:200]}"
            for each in found
            if each["impact"] in SERIOUS
            for node in each["nodes"]
        ]


def choose(page: Any, label: str, value: str) -> None:
    page.locator(f"label:has-text('{label}') select").first.select_option(value)
