"""Which function handles which API: `handle` of the module that has the name of its messages.

Most are imported with the first request for them: few clusters in tests use groups or transactions, and the others
neither wait for that code nor hold it in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from ottla.broker.apis import api_versions, fetch, metadata, produce
from ottla.broker.apis.port import BrokerPort
from ottla.broker.request import Request
from ottla.protocol.messages import API_VERSIONS, FETCH, METADATA, MODULES, PRODUCE

Handler = Callable[[BrokerPort, Request, int], None]

_HANDLERS: dict[int, Handler] = {
    PRODUCE: produce.handle,
    FETCH: fetch.handle,
    METADATA: metadata.handle,
    API_VERSIONS: api_versions.handle,
}


def handler_of(api_key: int) -> Handler:
    """What handles requests with this key, one of `VERSIONS`."""
    found = _HANDLERS.get(api_key)
    if found is None:
        found = _HANDLERS[api_key] = import_module(f"ottla.broker.apis.{MODULES[api_key][0]}").handle
    return found
