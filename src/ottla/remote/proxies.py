"""The route about a proxy: its port for each broker, and how much has passed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.remote.route import Asked, Route

if TYPE_CHECKING:
    from ottla.proxy.proxy import Proxy


def _describe(proxy: Proxy, asked: Asked) -> dict[str, Any]:
    return proxy.describe()


ROUTES = (Route("GET", "/v1/proxy", _describe, "brokers with their ports here, connections and requests so far"),)
