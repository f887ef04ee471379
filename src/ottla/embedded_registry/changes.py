"""What requests that change something come to: an answer, and the records to be written for it. Pure.

A change is decided against a store that holds all that was written before. Who writes the records, and makes sure that
nobody else has written meanwhile, is `topic.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ottla.embedded_registry.questions import LEVELS, Given, differences, other_form, same_in, version_of
from ottla.embedded_registry.refusals import (
    ID_DOES_NOT_MATCH,
    INCOMPATIBLE,
    INVALID_COMPATIBILITY,
    INVALID_MODE,
    INVALID_SCHEMA,
    NOT_PERMITTED,
    REFERENCE_EXISTS,
    SUBJECT_NOT_SOFT_DELETED,
    SUBJECT_SOFT_DELETED,
    VERSION_NOT_SOFT_DELETED,
    VERSION_SOFT_DELETED,
    Refusal,
    no_subject,
)
from ottla.embedded_registry.store import DEFAULT_COMPATIBILITY, DEFAULT_MODE, MAX_ID_KEY, Schema, Store

MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
_VALUES_MAX = 0x7FFFFFFF

Record = tuple[bytes, bytes | None]


@dataclass(slots=True, frozen=True)
class Change:
    """`answer` is told when the records are stored."""

    answer: Any
    records: tuple[Record, ...] = ()


# What decides a change when its turn has come.
Decide = Callable[[Store], Change]


def record(key: dict[str, Any], value: dict[str, Any] | None) -> Record:
    """A record of the topic, as the Confluent Schema Registry writes it."""
    return _json(key), None if value is None else _json(value)


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def _config_key(subject: str | None, kind: str) -> dict[str, Any]:
    return {"keytype": kind, "subject": subject, "magic": 0}


def register(
    store: Store,
    subject: str,
    fields: dict[str, Any],
    *,
    normalize: bool,
    force: bool = False,
    parsed: Given | None = None,
) -> Change:
    """A new version of a subject; the one there is where it has the schema already.

    `parsed` is the request's schema where it was parsed before, perhaps beside a store that knew less.
    """
    wanted_id, wanted_version = _wished(fields.get("id"), "id"), _wished(fields.get("version"), "version")
    mode = store.mode_of(subject)
    _check_mode(mode, subject, is_import=wanted_id is not None)
    normalize = normalize or store.normalizes(subject)
    given = (
        parsed if parsed is not None and parsed.holds(store, normalize) else Given(store, fields, normalize=normalize)
    )
    schema_id = store.id_of(given.kind, given.guid)
    if wanted_id is not None:
        _check_id(store, wanted_id, given)
        schema_id = wanted_id
    same = same_in(store, subject, given)
    if same is not None and wanted_version in (None, same.version) and wanted_id in (None, same.id):
        return Change(registered(same))
    versions = store.versions(subject, deleted=True)
    living = [each for each in versions if not each.deleted]
    if mode != "IMPORT" and not force:
        found = differences(store, subject, given.parsed, living)
        if found:
            told = "Schema being registered is incompatible with an earlier schema for subject "
            raise Refusal(INCOMPATIBLE, f'{told}"{subject}", details: [{"; ".join(found)}]')
    new_version = versions[-1].version + 1 if versions else 1
    if wanted_version is not None and wanted_version != new_version and mode != "IMPORT":
        raise Refusal(INVALID_SCHEMA, f"Version is not one more than previous version: it must be {new_version}.")
    text, guid = given.text, given.guid
    if schema_id is None and (form := other_form(store, given)) is not None:
        # An id has one text.
        schema_id, text, guid = form.id, form.text, form.guid
    if schema_id is None:
        if store.max_id >= _VALUES_MAX:
            raise Refusal(NOT_PERMITTED, "there are no ids left.")
        schema_id = store.max_id + 1
    schema = Schema(subject, wanted_version or new_version, schema_id, text, given.kind, given.references, given.extra)
    records = [
        record(each.key(), None)
        for each in versions
        if each.deleted and each.id == schema_id and not store.referrers(each.subject_version, deleted=True)
    ]
    return Change(registered(replace(schema, guid=guid)), (*records, record(schema.key(), schema.value())))


def registered(schema: Schema) -> dict[str, Any]:
    """What is told of a schema that is registered."""
    return {"id": schema.id, "version": schema.version, "guid": schema.guid}


def _wished(value: Any, name: str) -> int | None:
    """An id or a version that a request asks for; 0 and below ask for none."""
    if value is None:
        return None
    if type(value) is not int or value > _VALUES_MAX:
        raise Refusal(422, f"{name} must be an integer up to {_VALUES_MAX}.")
    return value if value > 0 else None


def _check_mode(mode: str, subject: str, *, is_import: bool) -> None:
    if mode.startswith("READONLY"):
        raise Refusal(NOT_PERMITTED, f"Subject {subject} is in read-only mode")
    if is_import and mode != "IMPORT":
        raise Refusal(NOT_PERMITTED, f"Subject {subject} is not in import mode")
    if not is_import and mode != "READWRITE":
        raise Refusal(NOT_PERMITTED, f"Subject {subject} is not in read-write mode")


def _check_id(store: Store, wanted_id: int, given: Given) -> None:
    there = store.by_id(wanted_id)
    if there is not None and (there.kind, there.guid) != (given.kind, given.guid):
        raise Refusal(NOT_PERMITTED, f"Overwrite new schema with id {wanted_id} is not permitted.")
    known = store.id_of(given.kind, given.guid)
    if known is not None and known != wanted_id:
        raise Refusal(ID_DOES_NOT_MATCH, f"The schema has the id {known} already, which is not {wanted_id}.")


def delete_version(store: Store, subject: str, version: int, *, permanent: bool) -> Change:
    """Soft deletion keeps a version for who asks for it by id; permanent deletion comes after it."""
    if version == -1 and not permanent:
        schema = version_of(store, subject, version)
    else:
        schema = version_of(store, subject, version, deleted=True)
    if store.mode_of(subject).startswith("READONLY"):
        raise Refusal(NOT_PERMITTED, f"Subject {subject} is in read-only mode")
    if schema.deleted and not permanent:
        told = (
            f"Subject '{subject}' Version {schema.version} was soft deleted. Set permanent=true to delete permanently"
        )
        raise Refusal(VERSION_SOFT_DELETED, told)
    if store.referrers(schema.subject_version, deleted=permanent):
        raise _is_referred(store, schema, permanent)
    if not permanent:
        gone = replace(schema, deleted=True)
        return Change(schema.version, (record(gone.key(), gone.value()),))
    if not schema.deleted:
        told = f"Subject '{subject}' Version {schema.version} was not deleted first before being permanently deleted"
        raise Refusal(VERSION_NOT_SOFT_DELETED, told)
    records = [record(schema.key(), None), _max_id(store)]
    if len(store.versions(subject, deleted=True)) == 1:
        records += _forget_settings(store, subject)
    return Change(schema.version, tuple(records))


def delete_subject(store: Store, subject: str, *, permanent: bool) -> Change:
    """All versions of a subject; the answer are their numbers."""
    every = store.versions(subject, deleted=True)
    if not every:
        raise no_subject(subject)
    if store.mode_of(subject).startswith("READONLY"):
        raise Refusal(NOT_PERMITTED, f"Subject {subject} is in read-only mode")
    living = [each for each in every if not each.deleted]
    if not permanent and not living:
        told = f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently"
        raise Refusal(SUBJECT_SOFT_DELETED, told)
    if permanent and living:
        told = f"Subject '{subject}' was not deleted first before being permanently deleted"
        raise Refusal(SUBJECT_NOT_SOFT_DELETED, told)
    concerned = every if permanent else living
    for each in concerned:
        if any(other.subject != subject for other in store.referrers(each.subject_version, deleted=permanent)):
            raise _is_referred(store, each, permanent)
    numbers = [each.version for each in concerned]
    if not permanent:
        key = {"keytype": "DELETE_SUBJECT", "subject": subject, "magic": 0}
        return Change(numbers, (record(key, {"subject": subject, "version": numbers[-1]}),))
    # The newest first, because a version may refer to older ones of its subject.
    gone = [record(each.key(), None) for each in reversed(concerned)]
    return Change(numbers, (*gone, _max_id(store), *_forget_settings(store, subject)))


def _max_id(store: Store) -> Record:
    """So that no id is given again, whatever is deleted for good."""
    return MAX_ID_KEY, _json({"max_id": max(1, store.max_id)})


def _is_referred(store: Store, schema: Schema, deleted: bool) -> Refusal:
    by = ", ".join(
        f"{each.subject} version {each.version}"
        for each in store.referrers(schema.subject_version, deleted=deleted)[:3]
    )
    told = f"One or more references exist to the schema {schema.subject} version {schema.version}"
    return Refusal(REFERENCE_EXISTS, f"{told}: {by}; delete those first.")


def _forget_settings(store: Store, subject: str) -> list[Record]:
    records = []
    if subject in store.modes:
        records.append(record(_config_key(subject, "MODE"), None))
    if subject in store.compatibility or subject in store.normalize:
        records.append(record(_config_key(subject, "CONFIG"), None))
    return records


def set_config(store: Store, subject: str | None, fields: dict[str, Any]) -> Change:
    """The level of compatibility of a subject, or of all that have none of their own; and whether to normalize."""
    unknown = [
        name for name, value in fields.items() if name not in ("compatibility", "normalize") and value is not None
    ]
    if unknown:
        told = f"this registry knows compatibility and normalize, not {', '.join(unknown)[:200]}."
        raise Refusal(422, f"config: {told}")
    level, normalize = fields.get("compatibility"), fields.get("normalize")
    if level is None and normalize is None:
        level = ""
    if level is not None:
        level = level.upper() if isinstance(level, str) else level
        if level not in LEVELS:
            told = "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, "
            raise Refusal(INVALID_COMPATIBILITY, f"{told}forward_transitive, and full_transitive")
    if normalize is not None and not isinstance(normalize, bool):
        raise Refusal(422, "config: normalize must be true or false.")
    if subject is not None and store.mode_of(subject).startswith("READONLY"):
        raise Refusal(NOT_PERMITTED, f"Subject {subject} is in read-only mode")
    kept = {
        "compatibilityLevel": level or store.compatibility.get(subject),
        "normalize": store.normalize.get(subject) if normalize is None else normalize,
    }
    value = {"subject": subject, **{name: each for name, each in kept.items() if each is not None}}
    answer = {name: each for name, each in (("compatibility", level), ("normalize", normalize)) if each is not None}
    return Change(answer, (record(_config_key(subject, "CONFIG"), value),))


def delete_config(store: Store, subject: str | None) -> Change:
    """Back to the level of all, or to the default; the answer is what held before."""
    if subject is not None and subject not in store.compatibility and subject not in store.normalize:
        raise no_subject(subject)
    level = store.compatibility.get(subject) or (None if subject else DEFAULT_COMPATIBILITY)
    normalize = store.normalize.get(subject)
    answer = {"compatibilityLevel": level, "normalize": normalize}
    records = (record(_config_key(subject, "CONFIG"), None),)
    return Change({name: each for name, each in answer.items() if each is not None}, records)


def set_mode(store: Store, subject: str | None, fields: dict[str, Any], *, force: bool) -> Change:
    """What may be done with a subject, or with all that have no mode of their own."""
    mode = fields.get("mode")
    mode = mode.upper() if isinstance(mode, str) else mode
    if mode not in MODES:
        raise Refusal(INVALID_MODE, f"Invalid mode. Valid values are {', '.join(MODES)}.")
    records = []
    current = store.modes.get(None) or DEFAULT_MODE if subject is None else store.mode_of(subject)
    if mode == "IMPORT" and current != "IMPORT" and not force:
        concerned = [each for each in store.all() if subject in (None, each.subject)]
        if not all(each.deleted for each in concerned):
            told = "Cannot import since found existing subjects; force=true does it nevertheless"
            raise Refusal(NOT_PERMITTED, told)
        records = [*(record(each.key(), None) for each in concerned), _max_id(store)]
    value = {"subject": subject, "mode": mode}
    return Change({"mode": mode}, (*records, record(_config_key(subject, "MODE"), value)))


def delete_mode(store: Store, subject: str | None) -> Change:
    """Back to the mode of all, or to the default; the answer is what held before."""
    if subject is not None and subject not in store.modes:
        raise no_subject(subject)
    return Change({"mode": store.modes.get(subject) or DEFAULT_MODE}, (record(_config_key(subject, "MODE"), None),))
