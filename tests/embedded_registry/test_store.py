"""What a store makes of its records: those of other registries, those that were read before, and after compaction."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.embedded_registry import changes
from ottla.embedded_registry.changes import Change, Record
from ottla.embedded_registry.questions import version_of
from ottla.embedded_registry.refusals import Refusal
from ottla.embedded_registry.store import Store

from .conftest import as_text, record


class Log:
    """A store, and the records that it was made of."""

    def __init__(self) -> None:
        self.store = Store()
        self.records: list[Record] = []

    def write(self, change: Change) -> Any:
        for key, value in change.records:
            self.store.apply(key, value)
        self.records += change.records
        return change.answer

    def register(self, subject: str, schema: Any, **fields: Any) -> int:
        body = {"schema": as_text(schema), **fields}
        found: int = self.write(changes.register(self.store, subject, body, normalize=False))["id"]
        return found

    def delete(self, subject: str) -> None:
        for permanent in (False, True):
            self.write(changes.delete_subject(self.store, subject, permanent=permanent))

    def compacted(self) -> list[Record]:
        """The last record of each key, without those that delete theirs."""
        last = {key: number for number, (key, _) in enumerate(self.records)}
        return [(key, value) for number, (key, value) in enumerate(self.records) if value and last[key] == number]


def made_of(records: list[Record]) -> Store:
    store = Store()
    for key, value in records:
        store.apply(key, value)
    return store


def said(store: Store) -> Any:
    """All that it says."""
    return list(store.all()), store.compatibility, store.modes, store.normalize, store.max_id


def test_an_id_is_not_given_again_after_its_schema_was_deleted_and_compacted_away() -> None:
    log = Log()
    assert log.register("a", record(("a", "int"))) == 1
    assert log.register("b", record(("b", "int"))) == 2
    log.delete("b")
    log.store = made_of(log.compacted())
    assert log.register("c", record(("c", "int"))) == 3


def test_a_compacted_log_says_what_the_whole_one_did() -> None:
    log = Log()
    for number in range(6):
        log.register(f"s{number % 2}", record(*((f"f{each}", "int", 0) for each in range(number))))
    log.write(changes.set_config(log.store, "s0", {"compatibility": "FULL", "normalize": True}))
    log.write(changes.set_config(log.store, None, {"compatibility": "NONE"}))
    log.write(changes.delete_version(log.store, "s1", 1, permanent=False))
    log.write(changes.delete_subject(log.store, "s0", permanent=False))
    log.register("s0", record(("new", "int", 0)))
    log.delete("s1")
    assert said(made_of(log.compacted())) == said(made_of(log.records)) == said(log.store) == said(log.store.copy())
    # Read twice, it says the same.
    assert said(made_of([*log.records, *log.records])) == said(log.store)


def test_records_of_the_confluent_schema_registry_are_read() -> None:
    references = [{"name": "Inner", "subject": "inner", "version": 1}]
    records: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
        ({"keytype": "NOOP", "magic": 0}, None),
        (
            {"keytype": "SCHEMA", "subject": "inner", "version": 1, "magic": 1},
            {"subject": "inner", "version": 1, "id": 5, "md5": "x", "schema": '"int"', "deleted": False},
        ),
        (
            {"keytype": "SCHEMA", "subject": "outer", "version": 3, "magic": 1},
            {
                "subject": "outer",
                "version": 3,
                "id": 7,
                "schemaType": "PROTOBUF",
                "references": references,
                "metadata": {"properties": {"owner": "x"}},
                "schema": 'syntax = "proto3";',
                "deleted": True,
            },
        ),
        ({"keytype": "CONFIG", "subject": None, "magic": 0}, {"compatibilityLevel": "FULL", "alias": "x"}),
        ({"keytype": "MODE", "subject": "inner", "magic": 0}, {"subject": "inner", "mode": "READONLY"}),
        ({"keytype": "CONTEXT", "tenant": "default", "context": ".", "magic": 0}, {"context": "."}),
        ({"keytype": "DELETE_SUBJECT", "subject": "gone", "magic": 0}, {"subject": "gone", "version": 2}),
        ({"keytype": "FUTURE", "magic": 0}, {}),
    ]
    store = made_of([changes.record(key, value) for key, value in records])
    assert store.version("inner", 1) is not None
    outer = version_of(store, "outer", 3, deleted=True)
    assert (outer.id, outer.kind, outer.deleted, outer.extra) == (
        7,
        "PROTOBUF",
        True,
        {"metadata": {"properties": {"owner": "x"}}},
    )
    assert store.referrers(("inner", 1), deleted=True) == [outer]
    assert store.compatibility_of("any") == "FULL"
    assert store.mode_of("inner") == "READONLY"
    assert store.max_id == 7
    with pytest.raises(Refusal, match="read-only"):
        changes.register(store, "inner", {"schema": '"long"'}, normalize=False)


def test_an_empty_value_deletes_as_none_does() -> None:
    log = Log()
    log.register("a", '"int"')
    key = changes.record({"keytype": "SCHEMA", "subject": "a", "version": 1, "magic": 1}, None)[0]
    log.store.apply(key, b"")
    assert log.store.subjects == {}


def test_an_id_keeps_its_schema_whatever_comes_later() -> None:
    store = Store()
    for subject, text in (("a", '"int"'), ("b", '"long"')):
        key = {"keytype": "SCHEMA", "subject": subject, "version": 1, "magic": 1}
        value = {"subject": subject, "version": 1, "id": 1, "schema": text, "deleted": False}
        store.apply(*changes.record(key, value))
    found = store.by_id(1)
    assert found is not None
    assert found.text == '"int"'
    assert store.versions("b") == []
