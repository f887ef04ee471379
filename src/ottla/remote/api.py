"""The API that a served cluster, or a proxy, has for programs of any language: version 1, JSON, one table of routes.

HTTP itself is handled in `http_connection.py`. A refusal is one sentence, the same that Python raises: 400 a field is
wrong, 404 there is no such thing, 405 not this method, 409 it cannot be done in the present state, 503 the cluster or
the proxy has ended, 504 it did not happen in time.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from ottla.errors import ConfigError, KafkaError, OttlaError, UserMistake
from ottla.printable import printable
from ottla.remote import brokers, faults, proxies, topics
from ottla.remote.route import Asked, Held, Refusal, Route

logger = logging.getLogger("ottla.remote")

VERSION = 1
# Topic names are at most so long; a longer part of a path names nothing.
_NAME_MAX = 249


def _table(*routes: Route) -> tuple[Route, ...]:
    """These routes, and before them the one that lists them all."""

    def index(held: Held, asked: Asked) -> dict[str, Any]:
        from ottla import __version__

        return {"ottla": __version__, "api": VERSION, "routes": [route.described() for route in table]}

    table = (Route("GET", "/v1", index, "this list"), *routes)
    return table


ROUTES = _table(*brokers.ROUTES, *faults.ROUTES, *topics.ROUTES)
# Of a proxy, which has faults, and neither brokers nor topics of its own.
PROXY_ROUTES = _table(*proxies.ROUTES, *faults.ROUTES)


def carry_out(
    held: Held, method: str, target: str, body: Mapping[str, Any], routes: Sequence[Route] = ROUTES
) -> tuple[int, dict[str, Any]]:
    """Do what is asked for, and return the status and the JSON object to answer; raises Refusal."""
    try:
        url = urlsplit(target)
    except ValueError:
        raise Refusal(400, "the request has no valid URL.") from None
    route, path = find_route(method, url.path, routes)
    given = {**_query(route, url.query), **body}
    route.check(given)
    try:
        return route.status, route.does(held, Asked(path, given))
    except Refusal:
        raise
    except OttlaError as error:
        raise Refusal(_status(error, held), str(error)) from None
    except Exception:
        logger.exception("%s %s failed", method, printable(url.path))
        raise Refusal(500, "it could not be done: the log of the program that was asked says why.") from None


def find_route(method: str, path: str, routes: Sequence[Route] = ROUTES) -> tuple[Route, dict[str, str]]:
    """The route that a request is for, and what stands in the place of each {name} of its path; raises Refusal."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    found = [(route, places) for route in routes if (places := route.match(parts)) is not None]
    if not found or max(map(len, parts)) > _NAME_MAX:
        raise Refusal(404, f"there is no {path:.200}; GET /v1 lists all paths.")
    for route, places in found:
        if route.method == method:
            return route, places
    allowed = ", ".join(route.method for route, _ in found)
    raise Refusal(405, f"{path:.200} takes the method {allowed}, not {method}.", Allow=allowed)


def _query(route: Route, query: str) -> dict[str, Any]:
    if not query:
        return {}
    if route.method != "GET":
        raise Refusal(400, f"{route.path} takes its fields as a JSON object in the body, not in the URL.")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, max_num_fields=20)
    except ValueError:
        raise Refusal(400, "the query of the URL is not NAME=VALUE, or several of them joined by &.") from None
    fields = route.fields()
    return {name: fields[name].read(text) if name in fields else text for name, text in pairs}


def _status(error: OttlaError, held: Held) -> int:
    if isinstance(error, KafkaError):
        if error.name.startswith("UNKNOWN_TOPIC"):
            return 404
        return 400 if error.name.startswith("INVALID_") else 409
    if isinstance(error, ConfigError):
        return 400
    if isinstance(error, UserMistake):
        return 409
    return 500 if held.is_running else 503
