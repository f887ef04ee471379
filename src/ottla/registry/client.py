"""`RegistryClient`: asks a schema registry for schemas, and registers them.

Threads may share a client. An id always stands for the same schema, so each id is asked for once; if several threads
need it at the same time, one of them asks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from ottla.errors import ConfigError, RegistryError
from ottla.registry.cache import Cache
from ottla.registry.registered import (
    AVRO,
    KINDS,
    RegisteredSchema,
    SchemaReference,
    checked_references,
    read_references,
)
from ottla.registry.settings import RegistrySettings
from ottla.registry.transport import Transport
from ottla.schemas.framing import ID_MAX

# No such subject, version, schema.
_NOT_REGISTERED = (40401, 40402, 40403)
_CONFLICT = 409
# Bounds of what one schema may refer to, directly or not.
_REFERENCES_MAX = 1000
_DEPTH_MAX = 50
_REFERRED_CHARACTERS_MAX = 64 << 20


class RegistryClient:
    """A schema registry at `url`: one address, several with commas, or a list of them; `with` closes it.

    Settings are those of the Confluent Schema Registry's clients as keywords (`basic_auth_user_info="name:password"`,
    `request_timeout_ms=5000`) or by their names with dots; the page "Schema registry" of the documentation lists
    them all. ConfigError for one that cannot be used. Every call raises RegistryError for what the registry refuses
    (`code` is the registry's own number, 40403 for an id that it does not know), and where no registry answers.
    """

    def __init__(self, url: str | Sequence[str], settings: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        given = {**(settings or {}), **more}
        self._given = url, given
        self._settings = RegistrySettings(url, given)
        self._transport = Transport(self._settings)
        capacity = self._settings.cache_capacity
        self._schemas, self._registered, self._latest = Cache(capacity), Cache(capacity), Cache(capacity)

    # ---- schemas ------------------------------------------------------------------------------------------------

    def by_id(self, schema_id: int) -> RegisteredSchema:
        """The schema that an id in a record stands for; RegistryError (40403) for an unknown one."""
        if type(schema_id) is not int or not 0 <= schema_id <= ID_MAX:
            raise ConfigError(f"an id is a number from 0 to {ID_MAX}, not {schema_id!r:.60}.")
        return self._known(("id", schema_id), f"/schemas/ids/{schema_id}", schema_id)

    def by_guid(self, guid: str) -> RegisteredSchema:
        """The schema that a GUID in a record's header stands for; its id is 0 if the registry does not say it."""
        return self._known(("guid", guid), f"/schemas/guids/{_part(guid, 'guid')}", 0, guid)

    def _known(self, key: Any, path: str, schema_id: int, guid: str = "") -> RegisteredSchema:
        found: RegisteredSchema = self._schemas.get(
            key, lambda: _read_schema(self._transport.ask("GET", path), path, schema_id, guid)
        )
        return found

    def version(self, subject: str, version: int | str = "latest") -> RegisteredSchema:
        """One version of a subject, by its number, or the latest one; RegistryError (40401, 40402) without it."""
        path = _version_path(subject, version)
        if version not in ("latest", -1):
            return self._numbered(("version", subject, version), path)
        found: RegisteredSchema = self._latest.get(
            subject,
            lambda: _read_schema(self._transport.ask("GET", path), path),
            keep_s=self._settings.cache_latest_ttl_sec,
        )
        return found

    def _numbered(self, key: Any, path: str) -> RegisteredSchema:
        found: RegisteredSchema = self._schemas.get(key, lambda: _read_schema(self._transport.ask("GET", path), path))
        return found

    def _referred(self, reference: SchemaReference) -> RegisteredSchema:
        """A schema that another one refers to, also if it was deleted: records of the other may still be read."""
        subject, version = reference.subject, reference.version
        return self._numbered(
            ("referred", subject, version), f"{_version_path(subject, version)}{_query(deleted=True)}"
        )

    def register(
        self,
        subject: str,
        text: str,
        kind: str = AVRO,
        references: Sequence[SchemaReference] = (),
        *,
        normalize: bool = False,
    ) -> RegisteredSchema:
        """Register a schema as a new version of the subject, unless it is one; an incompatible one is refused."""
        path = f"{_versions_path(subject)}{_query(normalize=normalize)}"
        try:
            return self._sent(subject, text, kind, references, path)
        except RegistryError as error:
            if error.status == _CONFLICT:
                # If several clients register the same schema at once, Apicurio Registry refuses all but one.
                with contextlib.suppress(RegistryError):
                    return self.look_up(subject, text, kind, references, normalize=normalize)
            raise

    def look_up(
        self,
        subject: str,
        text: str,
        kind: str = AVRO,
        references: Sequence[SchemaReference] = (),
        *,
        normalize: bool = False,
        deleted: bool = False,
    ) -> RegisteredSchema:
        """The version of a subject that has this schema; RegistryError (40403, 40401) where there is none."""
        path = f"/subjects/{_part(subject)}{_query(normalize=normalize, deleted=deleted)}"
        return self._sent(subject, text, kind, references, path)

    def for_writing(
        self,
        subject: str,
        text: str,
        kind: str = AVRO,
        references: Sequence[SchemaReference] = (),
        *,
        auto_register_schemas: bool = True,
        use_latest_version: bool = False,
        normalize_schemas: bool = False,
    ) -> RegisteredSchema:
        """The schema with which a serializer writes: registered, looked up, or the latest, by its three settings."""
        if use_latest_version:
            return self.latest(subject, "register one first")
        if auto_register_schemas:
            return self.register(subject, text, kind, references, normalize=normalize_schemas)
        try:
            return self.look_up(subject, text, kind, references, normalize=normalize_schemas)
        except RegistryError as error:
            if error.code not in _NOT_REGISTERED:
                raise
            told = f"The schema is not registered as {subject!r}, and auto_register_schemas=False: register it first"
            raise RegistryError(f"{told} ({error.code}).", code=error.code, status=error.status) from None

    def latest(self, subject: str, advice: str) -> RegisteredSchema:
        """The latest version of a subject; a RegistryError for a subject that is not there ends with the advice."""
        try:
            return self.version(subject)
        except RegistryError as error:
            if error.code not in _NOT_REGISTERED:
                raise
            told = f"The schema registry has no schema for the subject {subject!r} ({error.code}): {advice}."
            raise RegistryError(told, code=error.code, status=error.status) from None

    def _sent(
        self, subject: str, text: str, kind: str, references: Sequence[SchemaReference], path: str
    ) -> RegisteredSchema:
        body, references = _body(text, kind, references)

        def fetch() -> RegisteredSchema:
            told = self._transport.ask("POST", path, body)
            fields = told if isinstance(told, dict) else {}
            # Older registries answer with the id alone.
            whole = {
                "schema": text,
                "schemaType": kind,
                "references": _written(references),
                "subject": subject,
                **fields,
            }
            found = _read_schema(whole, path)
            self._schemas.put(("id", found.id), found)
            # The latest version that is kept may be older: who registers a schema expects to read its fields.
            self._latest.forget(lambda key: bool(key == subject))
            return found

        schema: RegisteredSchema = self._registered.get((path, text, kind, references), fetch)
        return schema

    def referred(self, schema: RegisteredSchema) -> dict[str, str]:
        """{name: text} of all schemas that this one refers to, directly or not; those that others use come first."""
        found: dict[str, str] = {}
        size = 0

        def follow(references: Sequence[SchemaReference], depth: int) -> None:
            nonlocal size
            for each in references:
                if each.name in found:
                    continue
                other = self._referred(each)
                if depth >= _DEPTH_MAX or len(found) >= _REFERENCES_MAX:
                    raise RegistryError(
                        f"the schema with the id {schema.id} refers to more than {_REFERENCES_MAX} others, or more "
                        f"than {_DEPTH_MAX} deep: write several of them as one."
                    )
                follow(other.references, depth + 1)
                size += len(other.text)
                if size > _REFERRED_CHARACTERS_MAX:
                    told = f"refers to schemas of more than {_REFERRED_CHARACTERS_MAX} characters: make them shorter."
                    raise RegistryError(f"the schema with the id {schema.id} {told}")
                found[each.name] = other.text

        follow(schema.references, 0)
        return found

    # ---- subjects -----------------------------------------------------------------------------------------------

    def subjects(self, prefix: str = "", *, deleted: bool = False) -> list[str]:
        """The names of the subjects that begin with `prefix`; with `deleted` also of those that were softly deleted."""
        more = {"subjectPrefix": prefix} if prefix else {}
        found = _list_of(self._transport.ask("GET", f"/subjects{_query(deleted=deleted, **more)}"), str)
        # Apicurio Registry returns all of them, whatever the prefix. A prefix with a colon may name contexts (":*:").
        return found if prefix.startswith(":") else [name for name in found if name.startswith(prefix)]

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """The numbers of a subject's versions; with `deleted` also of those that were softly deleted."""
        return _list_of(self._transport.ask("GET", f"{_versions_path(subject)}{_query(deleted=deleted)}"), int)

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete all versions of a subject, and return their numbers.

        The deletion is soft: their ids still stand for their schemas. With `permanent` it is for good, which the
        registry allows only after a soft deletion.
        """
        path = f"/subjects/{_part(subject)}{_query(permanent=permanent)}"
        return _list_of(self._deleted(path, subject), int)

    def delete_version(self, subject: str, version: int | str, *, permanent: bool = False) -> int:
        """Delete one version, as `delete_subject` does, and return its number."""
        found = self._deleted(f"{_version_path(subject, version)}{_query(permanent=permanent)}", subject)
        return found if isinstance(found, int) else 0

    def _deleted(self, path: str, subject: str) -> Any:
        try:
            return self._transport.ask("DELETE", path)
        finally:
            # What is kept about subjects may be wrong now; ids still stand for the same schemas. The number of a
            # version that was deleted for good may be given to another schema.
            self._registered.forget()
            self._latest.forget()
            self._schemas.forget(lambda key: key[0] in ("version", "referred") and key[1] == subject)

    def differences(
        self,
        subject: str,
        text: str,
        kind: str = AVRO,
        references: Sequence[SchemaReference] = (),
        *,
        version: int | str | None = "latest",
    ) -> list[str]:
        """Why a schema is incompatible with a version of a subject; [] if it is compatible.

        With version=None it is compared with the versions that the subject's compatibility level asks for.
        """
        path = f"{_versions_path(subject)}{'' if version is None else _version_part(version)}"
        told = self._transport.ask("POST", f"/compatibility{path}?verbose=true", _body(text, kind, references)[0])
        fields = told if isinstance(told, dict) else {}
        if fields.get("is_compatible") is True:
            return []
        # Apicurio Registry gives one reason.
        messages = [str(each) for each in fields.get("messages") or (fields.get("reason"),) if each]
        return messages or ["the schema is not compatible; the registry does not say why"]

    def compatibility(self, subject: str | None = None) -> str:
        """The compatibility level in force for a subject, or (None) for all subjects without one of their own."""
        path = "/config" if subject is None else f"/config/{_part(subject)}?defaultToGlobal=true"
        told = self._transport.ask("GET", path)
        return str(told.get("compatibilityLevel", "")) if isinstance(told, dict) else ""

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """Set the level: NONE, BACKWARD, FORWARD, FULL, or one of the last three with _TRANSITIVE."""
        if not isinstance(level, str):
            raise ConfigError(f"level={level!r:.60} must be text, such as 'BACKWARD'.")
        self._transport.ask(
            "PUT", "/config" if subject is None else f"/config/{_part(subject)}", {"compatibility": level}
        )

    # ---- the client itself --------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close idle connections; a client that is used again opens others."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        return RegistryClient, self._given

    def __repr__(self) -> str:
        return f"<RegistryClient of {', '.join(address.shown for address in self._settings.addresses)}>"


def _part(name: str, what: str = "subject") -> str:
    """A name as a part of a path."""
    if not isinstance(name, str):
        raise ConfigError(f"{what}={name!r:.60} must be text.")
    try:
        return quote(name, safe="")
    except UnicodeEncodeError:
        raise ConfigError(f"{what}={name!r:.60} has half a character (a surrogate without its partner).") from None


def _versions_path(subject: str) -> str:
    return f"/subjects/{_part(subject)}/versions"


def _version_path(subject: str, version: int | str) -> str:
    return f"{_versions_path(subject)}{_version_part(version)}"


def _version_part(version: int | str) -> str:
    if type(version) is not int and not isinstance(version, str):
        raise ConfigError(f"version={version!r:.60} must be a number, or 'latest'.")
    return f"/{_part(str(version), 'version')}"


def _query(**parameters: bool | str) -> str:
    given = {name: "true" if value is True else value for name, value in parameters.items() if value}
    return "?" + "&".join(f"{name}={_part(value, name)}" for name, value in given.items()) if given else ""


def _written(references: Sequence[SchemaReference]) -> list[dict[str, Any]]:
    return [each.to_dict() for each in references]


def _body(text: str, kind: str, given: Sequence[SchemaReference]) -> tuple[dict[str, Any], tuple[SchemaReference, ...]]:
    """The body of a request about a schema, and the references in it; ConfigError for what cannot be asked."""
    if kind not in KINDS:
        raise ConfigError(f"kind={kind!r:.60} must be one of {', '.join(KINDS)}")
    if not isinstance(text, str):
        raise ConfigError(f"a schema is given as text, not as {type(text).__name__}.")
    references = checked_references(given)
    body: dict[str, Any] = {"schema": text}
    if kind != AVRO:
        body["schemaType"] = kind
    if references:
        body["references"] = _written(references)
    return body, references


def _list_of(told: Any, kind: type) -> list[Any]:
    return [each for each in told if isinstance(each, kind)] if isinstance(told, list) else []


def _read_schema(told: Any, path: str, schema_id: int | None = None, guid: str = "") -> RegisteredSchema:
    """A schema out of an answer; RegistryError for an answer that is none."""
    fields = told if isinstance(told, dict) else {}
    found_id = fields.get("id", schema_id)
    text, kind = fields.get("schema"), fields.get("schemaType") or AVRO
    subject, version = fields.get("subject"), fields.get("version")
    told_guid = fields.get("guid")
    try:
        references = read_references(fields.get("references"))
    except ValueError:
        references, text = (), None
    if type(found_id) is not int or not 0 <= found_id <= ID_MAX or not isinstance(text, str) or kind not in KINDS:
        raise RegistryError(f"What the schema registry answers to {path:.200} is no schema; check schema.registry.url.")
    return RegisteredSchema(
        found_id,
        told_guid if isinstance(told_guid, str) else guid,
        kind,
        text,
        references,
        subject if isinstance(subject, str) else None,
        version if type(version) is int else None,
    )
