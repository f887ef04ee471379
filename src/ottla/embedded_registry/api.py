"""The REST API of the Confluent Schema Registry, as its clients use it: paths, parameters, answers, error codes.

What reads is answered from the store at once. What changes something is handed on with what is to be decided, and
answered when it is written. Contexts other than the default one are refused.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any
from urllib.parse import parse_qsl, unquote

from ottla.embedded_registry import changes
from ottla.embedded_registry.changes import Decide
from ottla.embedded_registry.http_connection import CONTENT_TYPE, Respond, media_type, response
from ottla.embedded_registry.questions import (
    Given,
    check_subject,
    differences,
    look_up,
    read_version,
    same_in,
    version_of,
)
from ottla.embedded_registry.refusals import (
    INVALID_SCHEMA,
    NO_SUBJECT_COMPATIBILITY,
    NO_SUBJECT_MODE,
    Refusal,
    no_schema,
    no_subject,
    no_version,
)
from ottla.embedded_registry.store import DEFAULT_COMPATIBILITY, DEFAULT_MODE, Schema, Store
from ottla.registry.registered import AVRO, KINDS

logger = logging.getLogger("ottla.registry")

_QUICK = b"GET /schemas/ids/"
_ACCEPT = b"\r\naccept:"
_PREFIX_OF_ALL = ":*:"
_PARAMETERS_MAX = 50


@lru_cache(256)
def _media_type(accept: bytes) -> str | None:
    return media_type(accept.decode("latin-1").strip())


class Asked:
    """A request taken apart: `path` are the variable parts of its path."""

    __slots__ = ("fields", "path", "query")

    def __init__(self, path: list[str], query: dict[str, str], fields: dict[str, Any]) -> None:
        self.path = path
        self.query = query
        self.fields = fields

    def flag(self, name: str) -> bool:
        """Whether a parameter says true; Refusal for what says neither."""
        value = self.query.get(name, "false").lower()
        if value not in ("true", "false", ""):
            raise Refusal(400, f"the parameter {name}={value:.60} must be true or false.")
        return value == "true"

    def number(self, name: str, default: int) -> int:
        """A parameter that counts."""
        text = self.query.get(name, str(default))
        if not text.removeprefix("-").isdecimal() or len(text) > 11:
            raise Refusal(400, f"the parameter {name}={text:.60} must be a number.")
        return int(text)

    def page(self, items: Iterable[Any]) -> list[Any]:
        """The part of a list that `offset` and `limit` ask for."""
        offset, limit = max(0, self.number("offset", 0)), self.number("limit", -1)
        found = list(items)
        return found[offset : None if limit < 0 else offset + limit]


class Written:
    """What a route returns that must be written first."""

    __slots__ = ("decide",)

    def __init__(self, decide: Decide) -> None:
        self.decide = decide


Route = Callable[["Api", Asked], Any]


class Api:
    """Answers by `store`; `write(decide, done)` carries changes out and calls `done` in the loop's thread."""

    def __init__(self, store: Store, write: Callable[[Decide, Callable[[Any], None]], None]) -> None:
        self.store = store
        self._write = write
        self._quick: dict[bytes, bytes] = {}

    def changed(self) -> None:
        """The store says something else than before."""
        self._quick.clear()

    def quick(self, head: bytes) -> bytes | None:
        """The response to a request for one schema by its id, without parameters; None for any other."""
        if not head.startswith(_QUICK):
            return None
        end = head.find(b" ", 17)
        found = self._quick.get(head[17:end])
        if found is None:
            digits = head[17:end]
            if not digits.isdigit() or len(digits) > 10 or head.count(b"\r\n\r\n") > 1:
                return None
            schema = self.store.by_id(int(digits))
            if schema is None:
                return None
            found = self._quick[digits] = response(200, _json(_by_id(schema)))
        # Another request may follow at once, or the client may want to leave, or send a body.
        rest = head[end:].lower()
        if rest.count(b"\r\n\r\n") > 1 or b"close" in rest or b"content-length" in rest or b"transfer-e" in rest:
            return None
        begin = rest.find(_ACCEPT)
        if begin >= 0:
            begin += len(_ACCEPT)
            if _media_type(rest[begin : rest.find(b"\r\n", begin)]) != CONTENT_TYPE or rest.find(_ACCEPT, begin) >= 0:
                return None
        return found if rest.startswith(b" http/1.1\r\n") else None

    def handle(self, method: str, path: str, query: str, body: bytes, respond: Respond) -> None:
        """Answer a request, at once or when it is written."""
        try:
            answer = self._answer(method, path, query, body)
            if isinstance(answer, Written):
                self._write(answer.decide, partial(_respond, respond))
                return
        except Refusal as refusal:
            answer = refusal
        except RecursionError:
            answer = Refusal(INVALID_SCHEMA, "the schema is nested too deep.")
        except Exception as error:
            logger.exception("%s %.200s failed", method, path)
            answer = Refusal(500, f"it could not be done ({type(error).__name__}): the registry's log says more.")
        _respond(respond, answer)

    def _answer(self, method: str, path: str, query: str, body: bytes) -> Any:
        parts = path.strip("/").split("/") if path.strip("/") else []
        routes = _ROUTES.get((len(parts), parts[0] if parts else ""), [])
        found = [(route, arguments) for pattern, route in routes if (arguments := _match(pattern, parts)) is not None]
        if not found:
            raise Refusal(404, f"HTTP 404 Not Found: there is no {path:.200} here.")
        methods, arguments = found[0]
        route = methods.get("GET" if method == "HEAD" else method)
        if route is None:
            raise Refusal(405, f"HTTP 405 Method Not Allowed: {path:.200} takes {', '.join(methods)}.")
        return route(self, Asked(arguments, _query(query), _fields(body) if method in ("POST", "PUT") else {}))


def _respond(respond: Respond, answer: Any) -> None:
    if isinstance(answer, Refusal):
        respond(answer.status, _json({"error_code": answer.code, "message": str(answer)}))
    else:
        respond(200, answer if isinstance(answer, bytes) else _json(answer))


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _match(pattern: tuple[str, ...], parts: list[str]) -> list[str] | None:
    arguments = []
    for wanted, part in zip(pattern, parts, strict=True):
        if wanted == "{}":
            arguments.append(unquote(part))
        elif wanted != part:
            return None
    return arguments


def _query(text: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_PARAMETERS_MAX))
    except ValueError:
        raise Refusal(400, f"the URL has more than {_PARAMETERS_MAX} parameters.") from None


def _fields(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body or b"null")
    except (ValueError, RecursionError) as error:
        where = f": {error.msg} at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise Refusal(400, f"the body is not JSON{where}.") from None
    if rb"\u" in body:
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise Refusal(422, "the body has half a character (a surrogate without its partner).") from None
    if not isinstance(found, dict):
        raise Refusal(422, 'the body must be a JSON object, such as {"schema": "..."}.')
    return found


# ---- schemas ----------------------------------------------------------------------------------------------------


def _content(schema: Schema) -> dict[str, Any]:
    """What a schema says, whoever has it. Avro is what is meant where no type is named."""
    told: dict[str, Any] = {"schema": schema.text}
    if schema.kind != AVRO:
        told["schemaType"] = schema.kind
    if schema.references:
        told["references"] = [each.to_dict() for each in schema.references]
    return {**told, **schema.extra}


def _by_id(schema: Schema) -> dict[str, Any]:
    return {**_content(schema), "guid": schema.guid}


def _version(schema: Schema) -> dict[str, Any]:
    told = {"subject": schema.subject, "version": schema.version, "id": schema.id, "guid": schema.guid}
    return {**told, **_content(schema), **({"deleted": True} if schema.deleted else {})}


def _find_id(api: Api, asked: Asked) -> Schema:
    text = asked.path[0]
    if not text.isascii() or not text.isdecimal() or len(text) > 10:
        raise Refusal(404, f"HTTP 404 Not Found: the id {text:.60} is not a number.")
    schema = api.store.by_id(int(text))
    if schema is None:
        raise no_schema(int(text))
    return schema


def _schema_by_id(api: Api, asked: Asked) -> Any:
    schema = _find_id(api, asked)
    more = {"maxId": api.store.max_id} if asked.flag("fetchMaxId") else {}
    return {**_formatted(api, _by_id(schema), schema, asked), **more}


def _formatted(api: Api, told: dict[str, Any], schema: Schema, asked: Asked) -> dict[str, Any]:
    if asked.query.get("format") == "serialized" and schema.kind == "PROTOBUF":
        from ottla.embedded_registry.protobuf_schema import serialized
        from ottla.embedded_registry.questions import referred_texts

        return {**told, "schema": serialized(schema.text, referred_texts(api.store, schema.references))}
    return told


def _subjects_of_id(api: Api, asked: Asked) -> Any:
    schema = _find_id(api, asked)
    found = api.store.having_id(schema.id, deleted=asked.flag("deleted"))
    return asked.page(dict.fromkeys(sorted(each.subject for each in found)))


def _versions_of_id(api: Api, asked: Asked) -> Any:
    schema = _find_id(api, asked)
    found = sorted(each.subject_version for each in api.store.having_id(schema.id, deleted=asked.flag("deleted")))
    return asked.page({"subject": subject, "version": version} for subject, version in found)


def _text_of_id(api: Api, asked: Asked) -> Any:
    return _find_id(api, asked).text.encode()


def _find_guid(api: Api, asked: Asked) -> Schema:
    schema = api.store.by_guid(asked.path[0].lower())
    if schema is None:
        raise no_schema(f"{asked.path[0]:.60}")
    return schema


def _schema_by_guid(api: Api, asked: Asked) -> Any:
    schema = _find_guid(api, asked)
    return _formatted(api, _by_id(schema), schema, asked)


def _ids_of_guid(api: Api, asked: Asked) -> Any:
    return [{"context": ".", "id": _find_guid(api, asked).id}]


def _types(_api: Api, _asked: Asked) -> Any:
    return list(KINDS)


def _all_schemas(api: Api, asked: Asked) -> Any:
    prefix = asked.query.get("subjectPrefix", "").removeprefix(_PREFIX_OF_ALL)
    deleted, latest_only = asked.flag("deleted"), asked.flag("latestOnly")
    found: list[Schema] = []
    for subject in sorted(api.store.subjects):
        if subject.startswith(prefix):
            versions = api.store.versions(subject, deleted=deleted)
            found += versions[-1:] if latest_only else versions
    return [_version(each) for each in asked.page(found)]


# ---- subjects ---------------------------------------------------------------------------------------------------


def _subjects(api: Api, asked: Asked) -> Any:
    prefix = asked.query.get("subjectPrefix", "").removeprefix(_PREFIX_OF_ALL).removeprefix(":.:")
    deleted, deleted_only = asked.flag("deleted"), asked.flag("deletedOnly")
    found = []
    for subject in sorted(api.store.subjects):
        has_living = bool(api.store.versions(subject))
        if subject.startswith(prefix) and (not has_living if deleted_only else has_living or deleted):
            found.append(subject)
    return asked.page(found)


def _look_up(api: Api, asked: Asked) -> Any:
    subject = check_subject(asked.path[0])
    found = look_up(api.store, subject, asked.fields, deleted=asked.flag("deleted"), normalize=asked.flag("normalize"))
    return _formatted(api, _version(found), found, asked)


def _versions(api: Api, asked: Asked) -> Any:
    subject = check_subject(asked.path[0])
    deleted, deleted_only = asked.flag("deleted"), asked.flag("deletedOnly")
    every = api.store.versions(subject, deleted=True)
    found = [each for each in every if (each.deleted if deleted_only else deleted or not each.deleted)]
    if not found:
        raise no_subject(subject)
    return asked.page(each.version for each in found)


def _find_version(api: Api, asked: Asked) -> Schema:
    subject, version = check_subject(asked.path[0]), read_version(asked.path[1])
    return version_of(api.store, subject, version, deleted=asked.flag("deleted"))


def _one_version(api: Api, asked: Asked) -> Any:
    found = _find_version(api, asked)
    return _formatted(api, _version(found), found, asked)


def _text_of_version(api: Api, asked: Asked) -> Any:
    return _find_version(api, asked).text.encode()


def _referenced_by(api: Api, asked: Asked) -> Any:
    schema = _find_version(api, asked)
    found = api.store.referrers(schema.subject_version, deleted=asked.flag("deleted"))
    return asked.page(sorted({each.id for each in found}))


def _register(api: Api, asked: Asked) -> Any:
    subject = check_subject(asked.path[0])
    normalize, force = asked.flag("normalize"), asked.flag("force")
    parsed = None
    try:
        parsed = Given(api.store, asked.fields, normalize=normalize or api.store.normalizes(subject))
    except Refusal:
        # A schema that it refers to may have been registered in another registry just now: the writer decides.
        if not asked.fields.get("references"):
            raise
    # Most of what is registered is there already: nothing needs to be written for that.
    if (
        parsed is not None
        and not {"id", "version"} & asked.fields.keys()
        and api.store.mode_of(subject) == DEFAULT_MODE
    ):
        same = same_in(api.store, subject, parsed)
        if same is not None:
            return changes.registered(same)
    # Whether it is compatible is decided by the writer, which knows all that other registries have written.
    return Written(
        lambda store: changes.register(store, subject, asked.fields, normalize=normalize, force=force, parsed=parsed)
    )


def _delete_version(api: Api, asked: Asked) -> Any:
    subject, version, permanent = check_subject(asked.path[0]), read_version(asked.path[1]), asked.flag("permanent")
    return Written(lambda store: changes.delete_version(store, subject, version, permanent=permanent))


def _delete_subject(api: Api, asked: Asked) -> Any:
    subject, permanent = check_subject(asked.path[0]), asked.flag("permanent")
    return Written(lambda store: changes.delete_subject(store, subject, permanent=permanent))


# ---- compatibility ----------------------------------------------------------------------------------------------


def _compatible_with_version(api: Api, asked: Asked) -> Any:
    subject, version = check_subject(asked.path[0]), read_version(asked.path[1])
    versions = api.store.versions(subject)
    if version != -1:
        versions = [each for each in versions if each.version == version]
        if not versions:
            raise no_version(version)
    return _compatibility(api, asked, subject, versions[-1:])


def _compatible_with_all(api: Api, asked: Asked) -> Any:
    subject = check_subject(asked.path[0])
    return _compatibility(api, asked, subject, api.store.versions(subject))


def _compatibility(api: Api, asked: Asked, subject: str, versions: list[Schema]) -> dict[str, Any]:
    given = Given(api.store, asked.fields, normalize=asked.flag("normalize") or api.store.normalizes(subject))
    found = differences(api.store, subject, given.parsed, versions)
    answer: dict[str, Any] = {"is_compatible": not found}
    # Reasons against it are told also without `verbose`: a client that asks needs them.
    if found or asked.flag("verbose"):
        answer["messages"] = found
    return answer


# ---- config and mode --------------------------------------------------------------------------------------------


def _config(api: Api, _asked: Asked) -> Any:
    return _told_config(api.store, None, api.store.compatibility.get(None) or DEFAULT_COMPATIBILITY)


def _config_of_subject(api: Api, asked: Asked) -> Any:
    subject, store = check_subject(asked.path[0]), api.store
    if subject in store.compatibility or subject in store.normalize:
        return _told_config(store, subject, store.compatibility.get(subject))
    if asked.flag("defaultToGlobal"):
        return _told_config(store, None, store.compatibility_of(subject))
    told = f"Subject '{subject}' does not have subject-level compatibility configured"
    raise Refusal(NO_SUBJECT_COMPATIBILITY, told)


def _told_config(store: Store, subject: str | None, level: str | None) -> dict[str, Any]:
    told = {"compatibilityLevel": level, "normalize": store.normalize.get(subject)}
    return {name: value for name, value in told.items() if value is not None}


def _set_config(_api: Api, asked: Asked) -> Any:
    subject = check_subject(asked.path[0]) if asked.path else None
    return Written(lambda store: changes.set_config(store, subject, asked.fields))


def _delete_config(_api: Api, asked: Asked) -> Any:
    subject = check_subject(asked.path[0]) if asked.path else None
    return Written(lambda store: changes.delete_config(store, subject))


def _mode(api: Api, _asked: Asked) -> Any:
    return {"mode": api.store.modes.get(None) or DEFAULT_MODE}


def _mode_of_subject(api: Api, asked: Asked) -> Any:
    subject = check_subject(asked.path[0])
    if subject in api.store.modes:
        return {"mode": api.store.modes[subject]}
    if asked.flag("defaultToGlobal"):
        return {"mode": api.store.mode_of(subject)}
    raise Refusal(NO_SUBJECT_MODE, f"Subject '{subject}' does not have subject-level mode configured")


def _set_mode(_api: Api, asked: Asked) -> Any:
    subject, force = check_subject(asked.path[0]) if asked.path else None, asked.flag("force")
    return Written(lambda store: changes.set_mode(store, subject, asked.fields, force=force))


def _delete_mode(_api: Api, asked: Asked) -> Any:
    subject = check_subject(asked.path[0]) if asked.path else None
    return Written(lambda store: changes.delete_mode(store, subject))


def _root(_api: Api, _asked: Asked) -> Any:
    return {}


def _contexts(_api: Api, _asked: Asked) -> Any:
    return ["."]


def _table(
    routes: dict[str, dict[str, Route]],
) -> dict[tuple[int, str], list[tuple[tuple[str, ...], dict[str, Route]]]]:
    """By the number of parts and the first part."""
    table: dict[tuple[int, str], list[tuple[tuple[str, ...], dict[str, Route]]]] = {}
    for path, methods in routes.items():
        pattern = tuple(path.split("/")) if path else ()
        table.setdefault((len(pattern), pattern[0] if pattern else ""), []).append((pattern, methods))
    return table


# By path, with {} for what varies.
PATHS: dict[str, dict[str, Route]] = {
    "": {"GET": _root},
    "schemas": {"GET": _all_schemas},
    "schemas/types": {"GET": _types},
    "schemas/ids/{}": {"GET": _schema_by_id},
    "schemas/ids/{}/schema": {"GET": _text_of_id},
    "schemas/ids/{}/subjects": {"GET": _subjects_of_id},
    "schemas/ids/{}/versions": {"GET": _versions_of_id},
    "schemas/guids/{}": {"GET": _schema_by_guid},
    "schemas/guids/{}/ids": {"GET": _ids_of_guid},
    "contexts": {"GET": _contexts},
    "subjects": {"GET": _subjects},
    "subjects/{}": {"POST": _look_up, "DELETE": _delete_subject},
    "subjects/{}/versions": {"GET": _versions, "POST": _register},
    "subjects/{}/versions/{}": {"GET": _one_version, "DELETE": _delete_version},
    "subjects/{}/versions/{}/schema": {"GET": _text_of_version},
    "subjects/{}/versions/{}/referencedby": {"GET": _referenced_by},
    "compatibility/subjects/{}/versions": {"POST": _compatible_with_all},
    "compatibility/subjects/{}/versions/{}": {"POST": _compatible_with_version},
    "config": {"GET": _config, "PUT": _set_config, "DELETE": _delete_config},
    "config/{}": {"GET": _config_of_subject, "PUT": _set_config, "DELETE": _delete_config},
    "mode": {"GET": _mode, "PUT": _set_mode, "DELETE": _delete_mode},
    "mode/{}": {"GET": _mode_of_subject, "PUT": _set_mode, "DELETE": _delete_mode},
}
_ROUTES = _table(PATHS)
