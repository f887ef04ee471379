"""How the console answers: JSON objects, lines of JSON, files, and refusals in one sentence with a status."""

from __future__ import annotations

import json
import logging
from typing import Any
from urllib.parse import quote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from ottla.errors import KafkaError, NotKafka, OttlaError, RegistryError, Unreachable, UserMistake
from ottla.printable import printable

logger = logging.getLogger("ottla.console")

_NOT_FOUND = (
    "UNKNOWN_TOPIC_OR_PARTITION",
    "GROUP_ID_NOT_FOUND",
    "TRANSACTIONAL_ID_NOT_FOUND",
    "UNKNOWN_TOPIC_ID",
)


class Answer(JSONResponse):
    """Any answer that is an object."""

    def render(self, content: Any) -> bytes:
        """Its body."""
        return as_json(content)


def as_json(content: Any) -> bytes:
    """What is told, as JSON in UTF-8."""
    # Half a surrogate pair, which UTF-8 does not have, may stand in what was decoded or asked: as JSON's escape.
    return json.dumps(content, ensure_ascii=False).encode("utf-8", "backslashreplace")


def as_file(name: str) -> dict[str, str]:
    """The headers of an answer that a browser keeps as a file."""
    return {"content-disposition": f"attachment; filename*=UTF-8''{quote(name)}"}


def refusal(error: Exception, request: Request) -> Response:
    """The answer to a request that raised this; what no user can mend is logged."""
    if isinstance(error, ClientDisconnect):
        # Nobody reads it.
        return Response(status_code=204)
    if isinstance(error, OttlaError):
        return Answer({"error": str(error)}, _status(error))
    # A path may hold what a terminal obeys.
    logger.error("%s %s failed", request.method, printable(request.url.path), exc_info=error)
    return Answer({"error": f"the console failed ({type(error).__name__}); its log says where."}, 500)


async def no_such_path(request: Request, error: Exception) -> Response:
    """The answer where no route is."""
    return Answer({"error": f"there is no {request.method} {request.url.path:.200}"}, 404)


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
