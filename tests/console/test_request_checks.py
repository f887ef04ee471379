"""Who may ask the console for what."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ottla.console.console import Console
from ottla.console.server import ConsoleServer

from .conftest import Asking

TOKEN = "0123456789abcdef-token"


@pytest.fixture(scope="module")
def guarded(looked_at: Console) -> Iterator[Asking]:
    """A console with a token, that changes nothing."""
    with ConsoleServer(looked_at, "127.0.0.1", 0, token=TOKEN, read_only=True) as server:
        yield Asking(server.url)


def test_every_answer_forbids_to_be_run_framed_or_kept(asking: Asking) -> None:
    for path in ("", "static/app.js", "api/session", "api/nothing", "api/topics/nothing"):
        _, headers, _ = asking.raw("GET", path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "require-trusted-types-for 'script'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
    assert asking.raw("GET", "api/session")[1]["cache-control"] == "no-store"


def test_a_name_of_the_web_that_points_here_is_refused(asking: Asking) -> None:
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example"):
        status, _, content = asking.raw("GET", "api/session", Host=host)
        assert (status, b"localhost" in content) == (403, True)
        assert asking.raw("GET", "", Host=host)[0] == 403
    assert asking.raw("GET", "api/session", Host="localhost:9")[0] == 200


def test_a_page_of_another_origin_is_refused(asking: Asking) -> None:
    assert asking.raw("GET", "api/topics", Origin="http://evil.example")[0] == 403
    assert asking.raw("GET", "api/topics", Sec_Fetch_Site="cross-site")[0] == 403
    assert asking.raw("GET", "api/topics", Sec_Fetch_Site="same-site")[0] == 403


def test_nothing_is_changed_without_the_token_that_the_page_has_read(asking: Asking) -> None:
    body = b'{"name": "sneaked"}'
    for headers in ({}, {"X_Ottla_Change": "guess"}):
        status, _, content = asking.raw("POST", "api/topics", body, **headers)
        assert (status, b"load it again" in content) == (403, True)
        # By this the page knows that it may ask for the token once more.
        assert json.loads(content)["is_old_page"] is True
    assert asking.raw("DELETE", "api/topics/orders")[0] == 403
    assert "sneaked" not in [each["name"] for each in asking.get("api/topics")["topics"]]


def test_with_a_token_nothing_is_told_without_it(guarded: Asking) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
        status, answered, content = guarded.raw("GET", "api/topics", **headers)
        assert (status, answered["www-authenticate"]) == (401, "Bearer")
        assert TOKEN.encode() not in content
    assert guarded.raw("GET", "api/topics", Authorization=f"Bearer {TOKEN}")[0] == 200
    # The page itself holds nothing.
    assert guarded.raw("GET", "")[0] == 200


def test_a_one_time_token_is_good_for_one_download(guarded: Asking) -> None:
    _, _, content = guarded.raw("GET", "api/one-time-token", Authorization=f"Bearer {TOKEN}")
    one_time = json.loads(content)["one_time_token"]
    assert guarded.raw("GET", f"api/topics?one_time_token={one_time}")[0] == 200
    assert guarded.raw("GET", f"api/topics?one_time_token={one_time}")[0] == 401
    assert guarded.raw("GET", "api/topics?one_time_token=")[0] == 401


def test_read_only_nothing_is_changed_whoever_asks(guarded: Asking) -> None:
    status, _, content = guarded.raw(
        "POST", "api/topics", b'{"name": "x"}', Authorization=f"Bearer {TOKEN}", X_Ottla_Change="None"
    )
    assert (status, b"read-only" in content) == (403, True)


def test_files_beside_the_page_are_not_served(asking: Asking) -> None:
    for path in ("static/../app.py", "static/%2e%2e/app.py", "static/..%2fapp.py", "static/"):
        assert asking.raw("GET", path)[0] == 404
