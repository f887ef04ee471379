"""A page of the console in Chromium, as its tests look at it."""

from __future__ import annotations

from typing import Any

import pytest

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"
SERIOUS = ("serious", "critical")
# Answers to requests whose path ends with `window.held` are kept here, whole, until the test releases them.
_HOLDING = """
(() => {
  const ask = window.fetch;
  window.held = null;
  window.waiting = [];
  window.fetch = async (path, options) => {
    const isHeld = window.held && path.split("?")[0].endsWith(window.held);
    const answer = await ask(path, options);
    if (!isHeld) return answer;
    const text = await answer.text();
    await new Promise((done) => window.waiting.push(done));
    if (options.signal) options.signal.throwIfAborted();
    return { ok: answer.ok, status: answer.status, json: async () => JSON.parse(text) };
  };
})();
"""


class Looked:
    """A page in Chromium, and what its console has said."""

    def __init__(self, page: Any, url: str) -> None:
        self.page, self.url = page, url
        self.said: list[str] = []
        page.on("console", lambda message: self.said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.said.append(str(error)))

    def go(self, view: str) -> Any:
        """Open a view by its address, and wait for its heading. The view that is open must have another address."""
        self.page.evaluate("document.querySelectorAll('main h1').forEach((each) => each.classList.add('before'))")
        self.page.goto(f"{self.url}#/{view}")
        self.page.wait_for_selector("main h1:not(.before)")
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


class Answers:
    """Lets a test choose the order of the answers that a page gets. Make it before the page is opened."""

    def __init__(self, page: Any) -> None:
        self._page = page
        page.add_init_script(_HOLDING)

    def hold(self, path: str) -> None:
        """Hold the answers to further requests whose path ends so."""
        self._page.evaluate("path => { window.held = path; }", path)

    def hold_no_more(self) -> None:
        """Answer further requests at once; answers that are held stay held."""
        self._page.evaluate("() => { window.held = null; }")

    def count(self) -> int:
        """How many answers are held."""
        count: int = self._page.evaluate("window.waiting.length")
        return count

    def await_held(self) -> None:
        """Wait until an answer is held."""
        while not self.count():
            pass

    def let_go(self) -> None:
        """Release the oldest held answer to the page. What the page then asks for is not waited for."""
        self._page.evaluate("() => { window.waiting.shift()(); }")


def choose(page: Any, label: str, value: str) -> None:
    page.locator(f"label:has-text('{label}') select").first.select_option(value)
