"""Errors of Protobuf schemas, payloads and columns."""

from __future__ import annotations

from ottla.errors import RecordError, UserMistake


class ProtobufSchemaError(UserMistake, ValueError):
    """A `.proto` text or a descriptor cannot be used; the message says where and why."""


class ProtobufDataError(RecordError):
    """A payload is not a message of the schema, or a column does not fit it; the text has the row and the field."""
