"""A pytest plugin for Karapace's own tests, run against a registry that is not Karapace.

It changes two things around them and nothing in them: they do not ask `/master_available`, which only Karapace has,
and each test finds an empty registry, as it does where Karapace is started for each test.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest
import tests.utils  # type: ignore[import-not-found]  # those of Karapace

_ROUNDS_MAX = 20


async def _at_once(_client: Any) -> None:
    """Wait for nothing."""


# Before Karapace's conftest.py, which takes the function by its name.
tests.utils.repeat_until_master_is_available = _at_once


@pytest.fixture(autouse=True)
def _empty_registry(request: pytest.FixtureRequest) -> None:
    _wipe(str(request.config.getoption("registry_url")))


def _wipe(url: str) -> None:
    _ask("PUT", f"{url}/mode", {"mode": "READWRITE"})
    _ask("DELETE", f"{url}/config")
    for _ in range(_ROUNDS_MAX):
        # What is referenced goes after what references it.
        names = _ask("GET", f"{url}/subjects?deleted=true")
        if not names:
            return
        for name in names:
            address = f"{url}/subjects/{quote(name, safe='')}"
            _ask("DELETE", f"{url}/config/{quote(name, safe='')}")
            _ask("DELETE", f"{url}/mode/{quote(name, safe='')}")
            _ask("DELETE", address)
            _ask("DELETE", f"{address}?permanent=true")
    raise AssertionError(f"subjects that cannot be deleted: {names}")


def _ask(method: str, url: str, body: Any = None) -> Any:
    """Return what a registry answers; None where it refuses."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(url, data, {"Content-Type": "application/json"}, method=method), timeout=30) as answer:
            return json.load(answer)
    except HTTPError:
        return None
