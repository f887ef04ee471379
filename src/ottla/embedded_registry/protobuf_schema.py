"""Protobuf schemas as the registry needs them. What stands here takes any text; nothing is compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def parse_protobuf(text: str, references: Mapping[str, str], *, normalize: bool = False) -> tuple[str, Any]:
    """The text that is kept, and what is compared."""
    return text, text


def serialized(text: str, references: Mapping[str, str]) -> str:
    """The schema as a FileDescriptorProto in base64."""
    return text
