"""The console's JSON API and its page, as an ASGI application: a table of routes over the views beside it.

A view is an ordinary function and runs in a thread. Its fields stand in the query of a GET and in the JSON object of a
POST. What goes on for a while (a search, the live view, an export) is answered line by line, and ends when the browser
closes the connection. A refusal is {"error": one sentence} with the HTTP status that it has elsewhere in ottla.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from ottla.console import cluster_views, group_views, record_views, sending, transaction_views
from ottla.console.answers import Answer, as_file, as_json, no_such_path, refusal
from ottla.console.console import Console
from ottla.console.fields import cursor_of, flag, number, text
from ottla.console.request_checks import RequestChecks
from ottla.console.search import MATCHES_MAX, search
from ottla.console.served import INTERVAL_MS_MAX
from ottla.console.streams import Body, Endpoint, Pieces, Streams
from ottla.errors import OttlaError, UserMistake

STATIC = Path(__file__).parent / "static"
_BODY_BYTES_MAX = 64 << 20
_BODY_S = 60.0
# What the protocol has room for.
_REPLICAS_MAX = 32_767
Given = Mapping[str, Any]
View = Callable[[Console, Given], Any]


def make_app(console: Console, *, token: str | None, read_only: bool, local_only: bool) -> RequestChecks:
    """The whole application, behind `RequestChecks`."""
    streams = Streams()

    def session(console: Console, given: Given) -> dict[str, Any]:
        change_token = None if read_only else checks.change_token
        return {**console.described(), "read_only": read_only, "change_token": change_token}

    def one_time_token(console: Console, given: Given) -> dict[str, Any]:
        return {"one_time_token": checks.one_time_token()}

    routes: list[BaseRoute] = [
        _route(console, "GET", "/api/session", session),
        _route(console, "GET", "/api/one-time-token", one_time_token),
        *(_route(console, method, path, view) for method, path, view in _VIEWS),
        *(Route(path, streams.limited(made(console, streams)), methods=[method]) for method, path, made in _STREAMS),
        Route("/", lambda request: FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})),
        Mount("/static", StaticFiles(directory=STATIC)),
        Route("/favicon.ico", lambda request: Response(status_code=204)),
    ]
    app = Starlette(routes=routes, exception_handlers={404: no_such_path, 405: no_such_path})
    checks = RequestChecks(app, token=token, read_only=read_only, local_only=local_only)
    return checks


_VIEWS: tuple[tuple[str, str, View], ...] = (
    ("GET", "/api/brokers", lambda console, given: cluster_views.brokers(console.kafka)),
    (
        "GET",
        "/api/brokers/{broker}/configs",
        lambda console, given: cluster_views.broker_configs(console.kafka, number(given, "broker")),
    ),
    ("GET", "/api/topics", lambda console, given: cluster_views.topics(console.kafka)),
    ("GET", "/api/topic-sizes", lambda console, given: cluster_views.topic_sizes(console.kafka)),
    ("POST", "/api/topics", lambda console, given: _create_topic(console, given)),
    ("GET", "/api/topics/{topic}", lambda console, given: cluster_views.topic(console.kafka, given["topic"])),
    ("DELETE", "/api/topics/{topic}", lambda console, given: _delete_topic(console, given)),
    (
        "GET",
        "/api/topics/{topic}/configs",
        lambda console, given: cluster_views.topic_configs(console.kafka, given["topic"]),
    ),
    (
        "GET",
        "/api/topics/{topic}/producers",
        lambda console, given: transaction_views.producers(console.kafka, given["topic"]),
    ),
    ("GET", "/api/topics/{topic}/records", lambda console, given: _page(console, given)),
    ("GET", "/api/topics/{topic}/records/{partition}/{offset}", lambda console, given: _record(console, given)),
    (
        "POST",
        "/api/topics/{topic}/records",
        lambda console, given: sending.produce(console.kafka, given["topic"], given.get("record")),
    ),
    ("GET", "/api/groups", lambda console, given: group_views.groups(console.kafka)),
    ("GET", "/api/group", lambda console, given: group_views.group(console.kafka, text(given, "id") or "")),
    ("GET", "/api/transactions", lambda console, given: transaction_views.transactions(console.kafka)),
    (
        "POST",
        "/api/transactions/end",
        lambda console, given: transaction_views.end_transaction(console.kafka, text(given, "transactional_id") or ""),
    ),
    ("GET", "/api/producers", lambda console, given: transaction_views.producers(console.kafka, None)),
    ("POST", "/api/producers/abort", lambda console, given: _abort(console, given)),
    ("GET", "/api/served", lambda console, given: console.served.overview()),
    ("GET", "/api/served/requests", lambda console, given: console.served.requests()),
    ("GET", "/api/served/clients", lambda console, given: console.served.clients(console.kafka)),
    (
        "POST",
        "/api/served/subscription",
        lambda console, given: console.served.subscribe(
            console.kafka, number(given, "interval_ms", most=INTERVAL_MS_MAX)
        ),
    ),
    ("GET", "/api/served/topics/{topic}", lambda console, given: console.served.logs(given["topic"])),
    (
        "POST",
        "/api/served/brokers/{broker}/{verb}",
        lambda console, given: console.served.act(given["broker"], given["verb"]),
    ),
    ("POST", "/api/served/faults", lambda console, given: console.served.add_fault(given)),
    ("DELETE", "/api/served/faults/{fault}", lambda console, given: console.served.heal(given["fault"])),
)


# ---- views that need more than a call ---------------------------------------------------------------------------


def _create_topic(console: Console, given: Given) -> dict[str, Any]:
    name = text(given, "name")
    if not name:
        raise UserMistake("name is missing: the name of the topic")
    configs = given.get("configs") or {}
    if not isinstance(configs, Mapping) or not all(isinstance(each, str | int | float) for each in configs.values()):
        raise UserMistake("configs must be an object of settings by Kafka's names, each text, a number, true or false")
    has_factor = given.get("replication_factor") not in (None, "")
    replication = number(given, "replication_factor", least=1, most=_REPLICAS_MAX) if has_factor else None
    partitions = number(given, "partitions", 1, least=1, most=100_000)
    console.kafka.admin.create_topics(name, partitions=partitions, replication_factor=replication, configs=configs)
    console.kafka.metadata(fresh=True)
    return {"created": name}


def _delete_topic(console: Console, given: Given) -> dict[str, Any]:
    console.kafka.admin.delete_topics(given["topic"])
    console.kafka.metadata(fresh=True)
    return {"deleted": given["topic"]}


def _abort(console: Console, given: Given) -> dict[str, Any]:
    return transaction_views.abort(
        console.kafka,
        text(given, "topic") or "",
        number(given, "partition"),
        number(given, "producer_id"),
        number(given, "transaction_offset"),
    )


def _page(console: Console, given: Given) -> dict[str, Any]:
    return record_views.page(
        console.kafka,
        given["topic"],
        console.registry if flag(given, "decode", True) else None,
        partition=number(given, "partition") if text(given, "partition") else None,
        start=text(given, "start") or record_views.NEWEST,
        at=number(given, "at", 0),
        cursor=cursor_of(given),
        backward=flag(given, "backward"),
        limit=number(given, "limit", 50, least=1, most=record_views.LIMIT_MAX),
    )


def _record(console: Console, given: Given) -> dict[str, Any]:
    registry = console.registry if flag(given, "decode", True) else None
    place = number(given, "partition"), number(given, "offset")
    return record_views.record(console.kafka, given["topic"], *place, registry)


def _search(console: Console, given: Given) -> Iterator[dict[str, Any]]:
    return search(
        console.kafka,
        given["topic"],
        console.registry if flag(given, "decode", True) else None,
        {name: str(value) for name, value in given.items()},
        partition=number(given, "partition") if text(given, "partition") else None,
        since_ms=number(given, "since_ms") if text(given, "since_ms") else None,
        cursor=cursor_of(given),
        limit=number(given, "limit", 100, least=1, most=MATCHES_MAX),
    )


# ---- requests and answers ---------------------------------------------------------------------------------------


def _route(console: Console, method: str, path: str, view: View) -> Route:
    async def endpoint(request: Request) -> Response:
        try:
            given = await _given(request)
            return Answer(await run_in_threadpool(view, console, given))
        except Exception as error:
            return refusal(error, request)

    return Route(path, endpoint, methods=[method])


def _stream(view: View) -> Callable[[Console, Streams], Endpoint]:
    """An endpoint that answers what a view's generator gives, a line each."""

    def made(console: Console, streams: Streams) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            try:
                given = await _given(request)
                lines: Iterator[Any] = await streams.run(view, console, given)
                # What cannot be done at all is refused before there is an answer.
                first = await streams.run(next, lines, None)
            except Exception as error:
                return refusal(error, request)
            return Pieces(streams, first, lines, lambda line: as_json(line) + b"\n", media_type="application/x-ndjson")

        return endpoint

    return made


def _export(console: Console, streams: Streams) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        try:
            given = await _given(request)
            partition = number(given, "partition") if text(given, "partition") else None
            lines = sending.export(console.kafka, given["topic"], partition)
            first = await streams.run(next, lines, None)
        except Exception as error:
            return refusal(error, request)

        def written(piece: Any) -> bytes:
            if isinstance(piece, bytes):
                return piece
            # A file that ends too soon must not look whole: the connection is cut.
            raise OttlaError(str(piece["error"]))

        name = f"{given['topic']}{'' if partition is None else f'-{partition}'}.ndjson"
        return Pieces(streams, first, lines, written, media_type="application/x-ndjson", headers=as_file(name))

    return endpoint


def _raw(console: Console, streams: Streams) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        try:
            given = await _given(request)
            part = given["part"]
            if part not in ("key", "value"):
                raise UserMistake(f"a record has a key and a value, and no {part:.20}")
            place = number(given, "partition"), number(given, "offset")
            size, pieces = await streams.run(record_views.raw, console.kafka, given["topic"], *place, part)
            first = await streams.run(next, pieces, None)
        except Exception as error:
            return refusal(error, request)

        def written(piece: Any) -> bytes:
            if isinstance(piece, dict):
                raise OttlaError(str(piece["error"]))
            return bytes(piece)

        name = f"{given['topic']}-{place[0]}-{place[1]}.{part}"
        headers = {**as_file(name), "content-length": str(size)}
        return Pieces(streams, first, pieces, written, media_type="application/octet-stream", headers=headers)

    return endpoint


def _import(console: Console, streams: Streams) -> Endpoint:
    """Lines are sent while they come; it ends where they end, and where the browser has left."""

    async def endpoint(request: Request) -> Response:
        body = Body(request)
        lines = sending.split_lines(body)
        try:
            told = await streams.run(sending.import_lines, console.kafka, request.path_params["topic"], lines)
            # What became of the lines is told, whatever becomes of the rest.
            with suppress(OttlaError, ClientDisconnect):
                await body.leave()
        except Exception as error:
            return refusal(error, request)
        return Answer(told)

    return endpoint


# What has a slot among the streams while it is answered.
_STREAMS: tuple[tuple[str, str, Callable[[Console, Streams], Endpoint]], ...] = (
    ("GET", "/api/topics/{topic}/search", _stream(_search)),
    ("GET", "/api/served/live", _stream(lambda console, given: console.served.live(text(given, "topic")))),
    ("GET", "/api/topics/{topic}/export", _export),
    ("GET", "/api/topics/{topic}/records/{partition}/{offset}/{part}", _raw),
    ("POST", "/api/topics/{topic}/import", _import),
)


async def _given(request: Request) -> dict[str, Any]:
    """All fields of a request: query or body, and what the path says; UserMistake."""
    given: dict[str, Any] = dict(request.query_params)
    if request.method == "POST":
        # Not bytes: each piece would copy all that came before it.
        content = bytearray()
        try:
            with anyio.fail_after(_BODY_S):
                async for chunk in request.stream():
                    content += chunk
                    if len(content) > _BODY_BYTES_MAX:
                        raise UserMistake(f"the body has more than {_BODY_BYTES_MAX >> 20} MiB.")
        except TimeoutError:
            raise UserMistake(f"the body did not come within {_BODY_S:g} s.") from None
        if content:
            try:
                body = json.loads(content)
            except (ValueError, RecursionError):
                raise UserMistake("the body is not JSON.") from None
            if not isinstance(body, dict):
                raise UserMistake("the body must be a JSON object.")
            given.update(body)
    return {**given, **request.path_params}
