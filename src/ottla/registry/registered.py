"""Schemas and references as a registry returns them: values that are never changed."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ottla.errors import ConfigError
from ottla.value import Value

AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"
KINDS = (AVRO, JSON, PROTOBUF)


class SchemaReference(Value):
    """A schema that another one uses: `name` is what it is called there, `subject` and `version` where it is."""

    __slots__ = ("name", "subject", "version")

    def __init__(self, name: str, subject: str, version: int) -> None:
        self.name = name
        self.subject = subject
        self.version = version

    def to_dict(self) -> dict[str, Any]:
        """As the REST API has it."""
        return {"name": self.name, "subject": self.subject, "version": self.version}


class RegisteredSchema(Value):
    """One schema: its text and what the registry knows it by.

    `kind` is "AVRO", "PROTOBUF" or "JSON". `subject` and `version` are None, and `guid` is "", where the registry was
    not asked for them or does not tell them.
    """

    __slots__ = ("guid", "id", "kind", "references", "subject", "text", "version")

    def __init__(
        self,
        id: int,
        guid: str,
        kind: str,
        text: str,
        references: tuple[SchemaReference, ...] = (),
        subject: str | None = None,
        version: int | None = None,
    ) -> None:
        self.id = id
        self.guid = guid
        self.kind = kind
        self.text = text
        self.references = references
        self.subject = subject
        self.version = version


# No text of a schema ends with one of them.
_FILE_ENDINGS: Final = (".avsc", ".proto", ".json")


def check_schema(what: str, given: Any) -> None:
    """Refuse what is neither a text nor a registered schema, nor None; ConfigError calls it `what`."""
    if given is not None and not isinstance(given, (str, RegisteredSchema)):
        kind = given.__name__ if isinstance(given, type) else f"of type {type(given).__name__}"
        text = "the text of its .proto file" if hasattr(given, "DESCRIPTOR") else "its text, such as json.dumps(schema)"
        raise ConfigError(f"{what} is {kind}: give {text}, or a RegisteredSchema, such as client.by_id(1).")
    if isinstance(given, str) and given.endswith(_FILE_ENDINGS) and len(given.splitlines()) == 1:
        raise ConfigError(f"{what} is the name of a file, {given!r:.200}: give its text, Path(name).read_text().")


def checked_references(given: Any) -> tuple[SchemaReference, ...]:
    """The references that a caller gives; ConfigError for what is none."""
    references = tuple(given) if isinstance(given, Iterable) else (given,)
    for each in references:
        if not isinstance(each, SchemaReference):
            raise ConfigError(f"references= takes ottla.SchemaReference, not {each!r:.60}.")
        if not (isinstance(each.name, str) and isinstance(each.subject, str) and type(each.version) is int):
            told = f"SchemaReference({each.name!r:.60}, {each.subject!r:.60}, {each.version!r:.60})"
            raise ConfigError(f"{told} is none: the name and the subject are texts, the version is a number.")
    return references


def read_references(given: Any) -> tuple[SchemaReference, ...]:
    """The references in JSON of a request or an answer; ValueError for what is none."""
    if given is None:
        return ()
    if not isinstance(given, list):
        raise ValueError("references must be a list.")
    found = []
    for each in given:
        fields = each if isinstance(each, dict) else {}
        name, subject, version = fields.get("name"), fields.get("subject"), fields.get("version")
        if not (isinstance(name, str) and isinstance(subject, str) and type(version) is int):
            raise ValueError("each of references must have a name, a subject and a version (an integer).")
        found.append(SchemaReference(name, subject, version))
    return tuple(found)


def guid_of(text: str, references: Sequence[SchemaReference], extra: Mapping[str, Any] | None = None) -> str:
    """The GUID of a schema: an MD5 of its text and references, as the Confluent Schema Registry makes it.

    `extra` is what else belongs to the schema (metadata, rules); how it is put into the GUID is ottla's own rule.
    """
    digest = hashlib.md5(text.encode(), usedforsecurity=False)
    for each in references:
        digest.update(each.name.encode() + each.subject.encode() + each.version.to_bytes(4, "big", signed=True))
    if extra:
        digest.update(b"\x01" + json.dumps(extra, sort_keys=True).encode())
    return str(uuid.UUID(bytes=digest.digest()))
