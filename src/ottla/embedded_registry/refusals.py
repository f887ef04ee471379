"""What the registry refuses, under the numbers of the Confluent Schema Registry, by which clients know them."""

from __future__ import annotations

SUBJECT_NOT_FOUND = 40401
VERSION_NOT_FOUND = 40402
SCHEMA_NOT_FOUND = 40403
SUBJECT_SOFT_DELETED = 40404
SUBJECT_NOT_SOFT_DELETED = 40405
VERSION_SOFT_DELETED = 40406
VERSION_NOT_SOFT_DELETED = 40407
NO_SUBJECT_COMPATIBILITY = 40408
NO_SUBJECT_MODE = 40409
INCOMPATIBLE = 409
INVALID_SCHEMA = 42201
INVALID_VERSION = 42202
INVALID_COMPATIBILITY = 42203
INVALID_MODE = 42204
NOT_PERMITTED = 42205
REFERENCE_EXISTS = 42206
ID_DOES_NOT_MATCH = 42207
INVALID_SUBJECT = 42208
TOO_LARGE = 42209
STORE = 50001


class Refusal(Exception):
    """A request that is not carried out: `code` is the registry's number, its first three digits HTTP's status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        """HTTP's status."""
        return self.code if self.code < 1000 else self.code // 100


def no_subject(subject: str) -> Refusal:
    """There is no such subject."""
    return Refusal(SUBJECT_NOT_FOUND, f"Subject '{subject:.300}' not found.")


def no_version(version: object) -> Refusal:
    """The subject has no such version."""
    return Refusal(VERSION_NOT_FOUND, f"Version {version} not found.")


def no_schema(schema_id: object = None) -> Refusal:
    """There is no such schema."""
    return Refusal(SCHEMA_NOT_FOUND, "Schema not found" if schema_id is None else f"Schema {schema_id} not found")
