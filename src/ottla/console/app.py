"""The console's JSON API and its page, as an ASGI application: a table of routes over the views beside it.

A view is an ordinary function and runs in a thread. Its fields stand in the query of a GET and in the JSON object of a
POST. What goes on for a while (a search, the live view, an export) is answered line by line, and ends when the browser
closes the connection. A refusal is {"error": one sentence} with the HTTP status that it has elsewhere in ottla.
"""

from __future__ import annotations

import json
import logging
import queue
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from ottla.console import cluster_views, group_views, record_views, sending, transaction_views
from ottla.console.console import Console
from ottla.console.door import Door
from ottla.console.fields import cursor_of, flag, number, text
from ottla.console.search import MATCHES_MAX, search
from ottla.console.served import INTERVAL_MS_MAX
from ottla.errors import KafkaError, NotKafka, OttlaError, RegistryError, Unreachable, UserMistake

logger = logging.getLogger("ottla.console")

STATIC = Path(__file__).parent / "static"
_BODY_BYTES_MAX = 64 << 20
# What the protocol has room for.
_REPLICAS_MAX = 32_767
# Streams that may be open at once; each has a thread, and a search has a connection to every leader.
STREAMS_MAX = 16
_CHUNKS_AHEAD = 16
_NOT_FOUND = (
    "UNKNOWN_TOPIC_OR_PARTITION",
    "GROUP_ID_NOT_FOUND",
    "TRANSACTIONAL_ID_NOT_FOUND",
    "UNKNOWN_TOPIC_ID",
)

Given = Mapping[str, Any]
View = Callable[[Console, Given], Any]


def make_app(console: Console, *, token: str | None, read_only: bool, local_only: bool) -> Door:
    """The whole application, behind the checks of `door`."""
    streams = anyio.Semaphore(STREAMS_MAX)

    def session(console: Console, given: Given) -> dict[str, Any]:
        return {**console.described(), "read_only": read_only, "change_token": None if read_only else door.change_token}

    def ticket(console: Console, given: Given) -> dict[str, Any]:
        return {"ticket": door.ticket()}

    routes: list[BaseRoute] = [
        _route(console, "GET", "/api/session", session),
        _route(console, "GET", "/api/ticket", ticket),
        *(_route(console, method, path, view) for method, path, view in _VIEWS),
        _stream(console, streams, "/api/topics/{topic}/search", _search),
        _stream(console, streams, "/api/served/live", lambda console, given: console.served.live(text(given, "topic"))),
        Route("/api/topics/{topic}/export", _export(console, streams), methods=["GET"]),
        Route("/api/topics/{topic}/records/{partition}/{offset}/{part}", _raw(console), methods=["GET"]),
        Route("/api/topics/{topic}/import", _import(console), methods=["POST"]),
        Route("/", lambda request: FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})),
        Mount("/static", StaticFiles(directory=STATIC)),
        Route("/favicon.ico", lambda request: Response(status_code=204)),
    ]
    app = Starlette(routes=routes, exception_handlers={404: _no_such_path, 405: _no_such_path})
    door = Door(app, token=token, read_only=read_only, local_only=local_only)
    return door


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
            return _Answer(await run_in_threadpool(view, console, given))
        except Exception as error:
            return _refusal(error, request)

    return Route(path, endpoint, methods=[method])


def _stream(console: Console, streams: anyio.Semaphore, path: str, view: View) -> Route:
    async def endpoint(request: Request) -> Response:
        if (full := _too_many(streams)) is not None:
            return full
        try:
            given = await _given(request)
            lines: Iterator[Any] = await run_in_threadpool(view, console, given)
            # What cannot be done at all is refused before there is an answer.
            first = await run_in_threadpool(next, lines, None)
        except Exception as error:
            return _refusal(error, request)
        as_lines = _in_thread(streams, first, lines, lambda line: _as_json(line) + b"\n")
        return StreamingResponse(as_lines, media_type="application/x-ndjson")

    return Route(path, endpoint, methods=["GET"])


def _too_many(streams: anyio.Semaphore) -> Response | None:
    """The refusal of one more stream where as many are open as may be: it would wait for the end of another."""
    if streams.value:
        return None
    told = f"{STREAMS_MAX} searches, exports and live views are open at this console: close one, then try again."
    return _Answer({"error": told}, 503)


async def _in_thread(
    streams: anyio.Semaphore, first: Any, lines: Any, written: Callable[[Any], bytes]
) -> AsyncIterator[bytes]:
    """What a generator gives, each piece made in a thread; the generator is closed whatever happens."""
    try:
        async with streams:
            piece = first
            while piece is not None:
                yield written(piece)
                try:
                    piece = await run_in_threadpool(next, lines, None)
                except OttlaError as error:
                    yield written({"error": str(error)})
                    return
    finally:
        with anyio.CancelScope(shield=True):
            await run_in_threadpool(lines.close)


def _export(console: Console, streams: anyio.Semaphore) -> Any:
    async def endpoint(request: Request) -> Response:
        if (full := _too_many(streams)) is not None:
            return full
        try:
            given = await _given(request)
            partition = number(given, "partition") if text(given, "partition") else None
            lines = sending.export(console.kafka, given["topic"], partition)
            first = await run_in_threadpool(next, lines, None)
        except Exception as error:
            return _refusal(error, request)

        def written(piece: Any) -> bytes:
            if isinstance(piece, bytes):
                return piece
            # A file that ends too soon must not look whole: the connection is cut.
            raise OttlaError(str(piece["error"]))

        name = f"{given['topic']}{'' if partition is None else f'-{partition}'}.ndjson"
        return StreamingResponse(
            _in_thread(streams, first, lines, written), media_type="application/x-ndjson", headers=_as_file(name)
        )

    return endpoint


def _raw(console: Console) -> Any:
    async def endpoint(request: Request) -> Response:
        try:
            given = await _given(request)
            part = given["part"]
            if part not in ("key", "value"):
                raise UserMistake(f"a record has a key and a value, and no {part:.20}")
            place = number(given, "partition"), number(given, "offset")
            size, pieces = await run_in_threadpool(record_views.raw, console.kafka, given["topic"], *place, part)
        except Exception as error:
            return _refusal(error, request)
        name = f"{given['topic']}-{place[0]}-{place[1]}.{part}"
        headers = {**_as_file(name), "content-length": str(size)}
        return StreamingResponse(pieces, media_type="application/octet-stream", headers=headers)

    return endpoint


def _import(console: Console) -> Any:
    """Lines are sent while they come; the browser is held back when brokers are slow."""

    async def endpoint(request: Request) -> Response:
        chunks: queue.Queue[bytes | None] = queue.Queue(_CHUNKS_AHEAD)
        topic = request.path_params["topic"]

        def arrived() -> Iterator[bytes]:
            while (chunk := chunks.get()) is not None:
                yield chunk

        def take() -> dict[str, Any]:
            try:
                return sending.import_lines(console.kafka, topic, sending.split_lines(arrived()))
            finally:
                # A thread that still hands over pieces must not wait for ever.
                is_over.append(True)
                while not chunks.empty():
                    chunks.get_nowait()

        is_over: list[bool] = []
        told: dict[str, Any] = {}

        async def run() -> None:
            told.update(await run_in_threadpool(take))

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                try:
                    async for chunk in request.stream():
                        if chunk and not is_over:
                            await run_in_threadpool(_put, chunks, chunk, is_over)
                except ClientDisconnect:
                    pass
                await run_in_threadpool(_put, chunks, None, is_over)
        except ExceptionGroup as group:
            return _refusal(group.exceptions[0], request)
        return _Answer(told)

    return endpoint


def _put(chunks: queue.Queue[bytes | None], chunk: bytes | None, is_over: list[bool]) -> None:
    while not is_over:
        try:
            chunks.put(chunk, timeout=0.2)
            return
        except queue.Full:
            continue


async def _given(request: Request) -> dict[str, Any]:
    """All fields of a request: query or body, and what the path says; UserMistake."""
    given: dict[str, Any] = dict(request.query_params)
    if request.method == "POST":
        # Not bytes: each piece would copy all that came before it.
        content = bytearray()
        async for chunk in request.stream():
            content += chunk
            if len(content) > _BODY_BYTES_MAX:
                raise UserMistake(f"the body has more than {_BODY_BYTES_MAX >> 20} MiB.")
        if content:
            try:
                body = json.loads(content)
            except (ValueError, RecursionError):
                raise UserMistake("the body is not JSON.") from None
            if not isinstance(body, dict):
                raise UserMistake("the body must be a JSON object.")
            given.update(body)
    return {**given, **request.path_params}


def _refusal(error: Exception, request: Request) -> Response:
    if isinstance(error, OttlaError):
        return _Answer({"error": str(error)}, _status(error))
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _Answer({"error": f"the console failed ({type(error).__name__}); its log says where."}, 500)


def _status(error: OttlaError) -> int:
    if isinstance(error, KafkaError):
        if error.name in _NOT_FOUND:
            return 404
        if "AUTHORIZATION" in error.name:
            return 403
        return 400 if error.name.startswith("INVALID_") else 409
    if isinstance(error, Unreachable | NotKafka):
        return 503
    if isinstance(error, RegistryError):
        return 502
    return 400 if isinstance(error, UserMistake) else 500


class _Answer(JSONResponse):
    """Any answer that is an object."""

    def render(self, content: Any) -> bytes:
        """Its body."""
        return _as_json(content)


def _as_json(content: Any) -> bytes:
    # Half a surrogate pair, which UTF-8 does not have, may stand in what was decoded or asked: as JSON's escape.
    return json.dumps(content, ensure_ascii=False).encode("utf-8", "backslashreplace")


async def _no_such_path(request: Request, error: Exception) -> Response:
    return _Answer({"error": f"there is no {request.method} {request.url.path:.200}"}, 404)


def _as_file(name: str) -> dict[str, str]:
    return {"content-disposition": f"attachment; filename*=UTF-8''{quote(name)}"}
