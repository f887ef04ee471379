"""What a reader's core has fetched."""

from __future__ import annotations

from typing import Any

from ottla.reader.events import Fetched
from ottla.records.plain import decode_batches


def values(said: list[Any]) -> list[bytes]:
    """The values of all records in these outputs, in their order."""
    return [
        bytes(record.value)
        for output in said
        if isinstance(output, Fetched)
        for _, records in decode_batches(output.records)
        for record in records
    ]
