"""All that a registry knows, made from the records of its topic alone. Pure.

The records are those of the Confluent Schema Registry (and of Karapace): a key names what it is about, a value says
what holds from now on, null that it does not hold any more. So a topic that one of them wrote can be read here. The
kinds of keys: SCHEMA (one version of a subject), DELETE_SUBJECT (all versions up to one are deleted, softly), CONFIG,
MODE, NOOP; others are kept by nobody here.

Invariants: what the store holds follows from the last value of each key (and DELETE_SUBJECT's order among them), so
that a record may be applied twice; an id never changes its schema.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ottla.registry.registered import AVRO, KINDS, SchemaReference, guid_of, read_references

logger = logging.getLogger("ottla.registry")

DEFAULT_COMPATIBILITY = "BACKWARD"
DEFAULT_MODE = "READWRITE"

# Its value keeps the highest id ever given, which compaction would forget with the version that had it. By its parts it
# is the NOOP of other registries, who pass it over; by its bytes it is another key, so that theirs does not replace it.
MAX_ID_KEY = b'{"magic":0,"keytype":"NOOP"}'

SubjectVersion = tuple[str, int]


@dataclass(slots=True, frozen=True)
class Schema:
    """One version of a subject."""

    subject: str
    version: int
    id: int
    text: str
    kind: str = AVRO
    references: tuple[SchemaReference, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)
    deleted: bool = False
    guid: str = ""

    @property
    def subject_version(self) -> SubjectVersion:
        """Its name: the subject and the version in it."""
        return self.subject, self.version

    def key(self) -> dict[str, Any]:
        """The key of its record."""
        return {"keytype": "SCHEMA", "subject": self.subject, "version": self.version, "magic": 1}

    def value(self) -> dict[str, Any]:
        """The value of its record."""
        value: dict[str, Any] = {"subject": self.subject, "version": self.version, "id": self.id}
        if self.kind != AVRO:
            value["schemaType"] = self.kind
        if self.references:
            value["references"] = [each.to_dict() for each in self.references]
        return {**value, **self.extra, "schema": self.text, "deleted": self.deleted}


class Store:
    """What the records applied so far say."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Know nothing."""
        self.subjects: dict[str, dict[int, Schema]] = {}
        self.compatibility: dict[str | None, str] = {}
        self.normalize: dict[str | None, bool] = {}
        self.modes: dict[str | None, str] = {}
        self.max_id = 0
        self._by_id: dict[int, dict[SubjectVersion, None]] = {}
        self._by_content: dict[tuple[str, str], int] = {}
        self._referrers: dict[SubjectVersion, dict[SubjectVersion, None]] = {}

    # ---- what holds ---------------------------------------------------------------------------------------------

    def by_id(self, schema_id: int) -> Schema | None:
        """A schema with this id; those of a deleted version are found, too."""
        named = self._by_id.get(schema_id)
        if not named:
            return None
        subject, version = next(iter(named))
        return self.subjects[subject][version]

    def id_of(self, kind: str, guid: str) -> int | None:
        """The id of the schema of this kind that says exactly this."""
        return self._by_content.get((kind, guid))

    def by_guid(self, guid: str) -> Schema | None:
        """A schema with this GUID."""
        for kind in KINDS:
            schema_id = self._by_content.get((kind, guid))
            if schema_id is not None:
                return self.by_id(schema_id)
        return None

    def having_id(self, schema_id: int, *, deleted: bool = False) -> list[Schema]:
        """All versions with this id."""
        found = [self.subjects[subject][version] for subject, version in self._by_id.get(schema_id, ())]
        return [each for each in found if deleted or not each.deleted]

    def versions(self, subject: str, *, deleted: bool = False) -> list[Schema]:
        """The versions of a subject in ascending order."""
        of_subject = self.subjects.get(subject, {})
        return [of_subject[version] for version in sorted(of_subject) if deleted or not of_subject[version].deleted]

    def version(self, subject: str, version: int, *, deleted: bool = False) -> Schema | None:
        """One version."""
        found = self.subjects.get(subject, {}).get(version)
        return None if found is None or (found.deleted and not deleted) else found

    def referrers(self, subject_version: SubjectVersion, *, deleted: bool = False) -> list[Schema]:
        """The versions that refer to this one."""
        found = [self.subjects[subject][version] for subject, version in self._referrers.get(subject_version, ())]
        return [each for each in found if deleted or not each.deleted]

    def all(self) -> Iterator[Schema]:
        """Every version of every subject, in order."""
        for subject in sorted(self.subjects):
            yield from self.versions(subject, deleted=True)

    def compatibility_of(self, subject: str) -> str:
        """The level in force for a subject."""
        return self.compatibility.get(subject) or self.compatibility.get(None) or DEFAULT_COMPATIBILITY

    def mode_of(self, subject: str) -> str:
        """The mode in force for a subject; the whole registry's READONLY_OVERRIDE stands above a subject's own."""
        of_all = self.modes.get(None) or DEFAULT_MODE
        return of_all if of_all == "READONLY_OVERRIDE" else self.modes.get(subject) or of_all

    def normalizes(self, subject: str) -> bool:
        """Whether schemas of a subject are normalized without being asked for."""
        found = self.normalize.get(subject)
        return self.normalize.get(None, False) if found is None else found

    def copy(self) -> Store:
        """Another one that says the same."""
        other = Store()
        other.subjects = {subject: dict(versions) for subject, versions in self.subjects.items()}
        other.compatibility, other.normalize = dict(self.compatibility), dict(self.normalize)
        other.modes, other.max_id = dict(self.modes), self.max_id
        other._by_id = {schema_id: dict(named) for schema_id, named in self._by_id.items()}
        other._by_content = dict(self._by_content)
        other._referrers = {subject_version: dict(referrers) for subject_version, referrers in self._referrers.items()}
        return other

    # ---- records ------------------------------------------------------------------------------------------------

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Take in one record; what cannot be understood is logged and passed over."""
        try:
            fields, told = _object(key), _object(value)
            if fields is not None:
                self._apply(fields, told)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            logger.warning("a record of the schemas' topic is passed over, key %.200r: %s", key, error)

    def _apply(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        kind = key["keytype"]
        if kind == "SCHEMA":
            subject_version = _subject(key), _number(key["version"])
            if value is None:
                self._remove(subject_version)
            else:
                self._put(subject_version, value)
        elif kind == "DELETE_SUBJECT" and value is not None:
            subject, last = _subject(key), _number(value["version"])
            for version, found in self.subjects.get(subject, {}).items():
                if version <= last:
                    self.subjects[subject][version] = replace(found, deleted=True)
        elif kind == "CONFIG":
            self._configure(key.get("subject") or None, value or {})
        elif kind == "NOOP":
            # Ours alone, see `MAX_ID_KEY`.
            if value is not None:
                self.max_id = max(self.max_id, _number(value["max_id"]))
        elif kind == "MODE":
            _set(self.modes, key.get("subject") or None, (value or {}).get("mode"))

    def _configure(self, subject: str | None, value: dict[str, Any]) -> None:
        _set(self.compatibility, subject, value.get("compatibilityLevel"))
        _set(self.normalize, subject, value.get("normalize"))

    def _put(self, subject_version: SubjectVersion, value: dict[str, Any]) -> None:
        schema = _read_schema(subject_version, value)
        same_id = self.by_id(schema.id)
        if same_id is not None and same_id.guid != schema.guid and same_id.subject_version != subject_version:
            logger.error(
                "%s version %d has the id %d, which belongs to another schema already: it is passed over",
                *subject_version,
                schema.id,
            )
            return
        before = self.subjects.get(schema.subject, {}).get(schema.version)
        if before is not None and (before.guid, before.id) != (schema.guid, schema.id):
            self._remove(subject_version)
        self.subjects.setdefault(schema.subject, {})[schema.version] = schema
        self._by_id.setdefault(schema.id, {})[subject_version] = None
        # Of two ids for the same text, which a topic of others may have, new schemas take the first.
        self._by_content.setdefault((schema.kind, schema.guid), schema.id)
        for each in schema.references:
            self._referrers.setdefault((each.subject, each.version), {})[subject_version] = None
        self.max_id = max(self.max_id, schema.id)

    def _remove(self, subject_version: SubjectVersion) -> None:
        subject, version = subject_version
        schema = self.subjects.get(subject, {}).pop(version, None)
        if schema is None:
            return
        if not self.subjects[subject]:
            del self.subjects[subject]
        for each in schema.references:
            _discard(self._referrers, (each.subject, each.version), subject_version)
        _discard(self._by_id, schema.id, subject_version)
        content = schema.kind, schema.guid
        if schema.id not in self._by_id and self._by_content.get(content) == schema.id:
            del self._by_content[content]


def _discard(groups: dict[Any, dict[SubjectVersion, None]], key: Any, subject_version: SubjectVersion) -> None:
    group = groups.get(key, {})
    group.pop(subject_version, None)
    if not group:
        groups.pop(key, None)


def _set(table: dict[str | None, Any], subject: str | None, value: Any) -> None:
    if value is None:
        table.pop(subject, None)
    else:
        table[subject] = value


def _object(content: bytes | None) -> dict[str, Any] | None:
    # Karapace deletes with an empty value.
    if not content:
        return None
    found = json.loads(content)
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    return found


def _subject(fields: dict[str, Any]) -> str:
    subject = fields["subject"]
    if not isinstance(subject, str):
        raise ValueError("its subject is no text")
    return subject


def _number(value: Any) -> int:
    if type(value) is not int or not 0 < value <= 0x7FFFFFFF:
        raise ValueError(f"{value!r:.50} is neither a version nor an id")
    return value


def _read_schema(subject_version: SubjectVersion, value: dict[str, Any]) -> Schema:
    text, kind = value["schema"], value.get("schemaType") or AVRO
    if not isinstance(text, str) or kind not in KINDS:
        raise ValueError("its schema is no text, or of a type that is not known here")
    references = read_references(value.get("references"))
    extra = {name: value[name] for name in ("metadata", "ruleSet") if value.get(name) is not None}
    guid = guid_of(text, references, extra)
    schema_id = _number(value["id"])
    return Schema(*subject_version, schema_id, text, kind, references, extra, value.get("deleted") is True, guid)
