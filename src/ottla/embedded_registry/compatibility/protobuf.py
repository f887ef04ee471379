"""Whether data of one Protobuf schema can be read with another."""

from __future__ import annotations

from typing import Any

from ottla.embedded_registry.compatibility.difference import Difference


def protobuf_differences(reader: Any, writer: Any) -> list[Difference]:
    """What keeps the reader from reading what the writer wrote."""
    return []
