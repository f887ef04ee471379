"""What is found out of a store without changing it: versions, lookups, compatibility. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ottla.embedded_registry.protobuf_schema import is_serialized
from ottla.embedded_registry.refusals import (
    INVALID_SCHEMA,
    INVALID_SUBJECT,
    INVALID_VERSION,
    Refusal,
    no_schema,
    no_subject,
    no_version,
)
from ottla.embedded_registry.schema_kinds import Parsed, check_kind, meaning, parse
from ottla.embedded_registry.store import Schema, Store
from ottla.registry.registered import PROTOBUF, SchemaReference, guid_of, read_references

LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
# Bounds of what one schema may refer to, directly or not.
_REFERENCES_MAX = 500
_REFERRED_CHARACTERS_MAX = 16 << 20
_DIFFERENCES_MAX = 50
_SUBJECT_MAX = 1000
_OWN_CONTEXT = ":.:"


class Given:
    """A schema as a request has it, checked against a store: parsed, with the GUID of the text that is kept."""

    def __init__(self, store: Store, fields: dict[str, Any], *, normalize: bool = False) -> None:
        text = fields.get("schema")
        if not isinstance(text, str) or not text.strip():
            raise Refusal(INVALID_SCHEMA, "Empty schema: the field schema must hold the schema's text.")
        self.kind = check_kind(fields.get("schemaType"))
        try:
            self.references = read_references(fields.get("references"))
        except ValueError as error:
            raise Refusal(422, str(error)) from None
        self.references = tuple(_pinned(store, each) for each in self.references)
        self.parsed = parse(self.kind, text, referred_texts(store, self.references), normalize=normalize)
        self.text = self.parsed.text
        self.extra = {name: fields[name] for name in ("metadata", "ruleSet") if fields.get(name) is not None}
        for name, value in self.extra.items():
            if not isinstance(value, dict):
                raise Refusal(422, f"{name} must be a JSON object.")
        self.guid = guid_of(self.text, self.references, self.extra)
        self._is_normalized = normalize

    def holds(self, store: Store, normalize: bool) -> bool:
        """Whether it would be read in the same way beside this store."""
        referred = all(store.version(each.subject, each.version) is not None for each in self.references)
        return referred and normalize == self._is_normalized


def _pinned(store: Store, reference: SchemaReference) -> SchemaReference:
    """The same with a number for the latest version; Refusal for a version that is not there (any more)."""
    versions = store.versions(reference.subject)
    if reference.version == -1 and versions:
        return reference.but(version=versions[-1].version)
    if store.version(reference.subject, reference.version) is None:
        raise _not_there(reference)
    return reference


def _not_there(reference: SchemaReference) -> Refusal:
    told = f"there is no version {reference.version} of {reference.subject!r:.200}"
    told = f"Invalid schema: {told}, which references names {reference.name!r:.200}; register that schema first."
    return Refusal(INVALID_SCHEMA, told)


def referred_texts(store: Store, references: Sequence[SchemaReference]) -> dict[str, str]:
    """The texts of these schemas and of those that they refer to, by the names they have; what is used comes first."""
    found: dict[str, str] = {}
    under_way: dict[tuple[str, int], None] = {}
    met: dict[tuple[str, int], None] = {}
    size = 0

    def follow(each: SchemaReference) -> None:
        nonlocal size
        schema = store.version(each.subject, each.version, deleted=True)
        if schema is None:
            raise _not_there(each)
        if schema.subject_version in under_way:
            raise Refusal(INVALID_SCHEMA, f"Invalid schema: {each.subject!r:.200} refers to itself.")
        if schema.subject_version not in met:
            met[schema.subject_version] = under_way[schema.subject_version] = None
            if len(met) > _REFERENCES_MAX or len(under_way) > _REFERENCES_MAX // 10:
                raise Refusal(
                    INVALID_SCHEMA, f"Invalid schema: it refers to more than {_REFERENCES_MAX} others, or too deep."
                )
            for inner in schema.references:
                follow(inner)
            del under_way[schema.subject_version]
        size += len(schema.text)
        if size > _REFERRED_CHARACTERS_MAX:
            raise Refusal(
                INVALID_SCHEMA,
                f"Invalid schema: what it refers to has more than {_REFERRED_CHARACTERS_MAX} characters.",
            )
        if found.setdefault(each.name, schema.text) != schema.text:
            raise Refusal(INVALID_SCHEMA, f"Invalid schema: two different references are called {each.name!r:.200}.")

    for each in references:
        follow(each)
    return found


def parse_stored(store: Store, schema: Schema) -> Parsed:
    """One that is registered already."""
    return parse(schema.kind, schema.text, referred_texts(store, schema.references), strict=False)


def check_subject(subject: str) -> str:
    """The subject's own name; Refusal for one that no subject can have."""
    subject = subject.removeprefix(_OWN_CONTEXT)
    if re.match(r":\.[^:]*:", subject):
        told = f"the subject {subject!r:.200} is of another context, and this registry has the default one alone."
        raise Refusal(INVALID_SUBJECT, told)
    if not subject or len(subject) > _SUBJECT_MAX or not subject.isprintable() or subject in ("__GLOBAL", "__EMPTY"):
        raise Refusal(INVALID_SUBJECT, f"The specified subject '{subject:.100}' is not a valid.")
    return subject


def read_version(text: str) -> int:
    """A version of a path; -1 is the latest one."""
    if text in ("latest", "-1"):
        return -1
    digits = text.lstrip("0")
    if not text.isascii() or not text.isdecimal() or len(digits) > 10 or not 0 < int(digits or "0") <= 0x7FFFFFFF:
        raise Refusal(
            INVALID_VERSION,
            f"The specified version '{text:.100}' is not a valid version id. Allowed values are between [1, 2^31-1] "
            'and the string "latest"',
        )
    return int(digits)


def version_of(store: Store, subject: str, version: int, *, deleted: bool = False) -> Schema:
    """One version, or with -1 the latest one; Refusal where there is none."""
    versions = store.versions(subject, deleted=deleted)
    if not versions:
        raise no_subject(subject)
    found = versions[-1] if version == -1 else store.version(subject, version, deleted=deleted)
    if found is None:
        raise no_version(version)
    return found


def look_up(store: Store, subject: str, fields: dict[str, Any], *, deleted: bool, normalize: bool) -> Schema:
    """The version of a subject that has this schema; Refusal where there is none."""
    if not store.versions(subject, deleted=deleted):
        raise no_subject(subject)
    given = Given(store, fields, normalize=normalize or store.normalizes(subject))
    found = same_in(store, subject, given, deleted=deleted)
    if found is None:
        raise no_schema()
    return found


def same_in(store: Store, subject: str, given: Given, *, deleted: bool = False) -> Schema | None:
    """The latest version of a subject that says the same."""
    versions = [each for each in reversed(store.versions(subject, deleted=deleted)) if each.kind == given.kind]
    for schema in versions:
        if schema.guid == given.guid:
            return schema
    for schema in versions:
        # Without metadata and rules in the request only the schema is compared.
        if (not given.extra or given.extra == schema.extra) and _says_the_same(store, schema, given):
            return schema
    return None


def _says_the_same(store: Store, schema: Schema, given: Given) -> bool:
    if schema.references != given.references:
        return False
    # Of the other kinds, what is referred to does not change what a text says.
    references = referred_texts(store, schema.references) if given.kind == PROTOBUF else {}
    return meaning(schema.kind, schema.text, references) == meaning(given.kind, given.text, references)


def other_form(store: Store, given: Given) -> Schema | None:
    """The same schema of Protobuf under any subject, where one of the two is text and the other one is a descriptor."""
    if given.kind != PROTOBUF:
        return None
    is_text = not is_serialized(given.text)
    for schema in store.all():
        if schema.kind != PROTOBUF or is_serialized(schema.text) != is_text or schema.extra != given.extra:
            continue
        if _says_the_same(store, schema, given):
            return schema
    return None


def differences(
    store: Store, subject: str, parsed: Parsed, versions: Sequence[Schema], *, explained: bool = True
) -> list[str]:
    """What speaks against this schema beside these versions at the subject's level, one sentence each."""
    level = store.compatibility_of(subject)
    found: list[str] = []
    if level == "NONE" or not versions:
        return found
    asked = versions if level.endswith("TRANSITIVE") else versions[-1:]
    for schema in reversed(asked):
        before = parse_stored(store, schema)
        if level.startswith(("BACKWARD", "FULL")):
            found += [f"{each} (the new schema reads version {schema.version})" for each in parsed.differences(before)]
        if level.startswith(("FORWARD", "FULL")):
            found += [f"{each} (version {schema.version} reads the new schema)" for each in before.differences(parsed)]
        if len(found) > _DIFFERENCES_MAX:
            return [*found[:_DIFFERENCES_MAX], f"and more: {len(found) - _DIFFERENCES_MAX} differences are left out"]
    if found and explained:
        found.append(f"the compatibility of {subject!r:.200} is {level}")
    return found
