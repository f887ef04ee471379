"""What the tests of the embedded registry share: one registry, and a plain way to ask it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

import ottla


class Asking:
    """Sends requests to one registry; each gives the status and the JSON that was answered."""

    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        self.url = url
        self._headers = headers or {}

    def __call__(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)
        try:
            content = None if body is None else json.dumps(body).encode()
            connection.request(method, path, content, {"Content-Type": "application/json", **self._headers})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def register(self, subject: str, schema: Any, **fields: Any) -> int:
        """The id of a schema that must be taken."""
        status, told = self("POST", f"/subjects/{subject}/versions", {"schema": as_text(schema), **fields})
        assert status == 200, told
        found: int = told["id"]
        return found


def as_text(schema: Any) -> str:
    """A schema's text; a text stays one."""
    return schema if isinstance(schema, str) else json.dumps(schema)


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    """An Avro record; a field is its name and type, and its default if it has one."""
    parts = ("name", "type", "default")
    return {"type": "record", "name": name, "fields": [dict(zip(parts, field, strict=False)) for field in fields]}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    """Three brokers, for the tests of one file."""
    with ottla.Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def registry(cluster: ottla.Cluster) -> Iterator[ottla.Registry]:
    """A registry, for the tests of one file."""
    with ottla.Registry(cluster.bootstrap_servers) as registry:
        yield registry


@pytest.fixture
def ask(registry: ottla.Registry) -> Asking:
    """Ask it."""
    return Asking(registry.url)
