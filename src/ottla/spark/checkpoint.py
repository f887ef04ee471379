"""Reads the query's id from a checkpoint on this machine: Spark does not tell it to a sink when a write is planned."""

from __future__ import annotations

import json
from pathlib import Path


def folder_of(checkpoint: str | None) -> Path | None:
    """The checkpoint's folder; None where it is elsewhere, or not known."""
    return None if checkpoint is None or not checkpoint.startswith("/") else Path(checkpoint)


def query_of(checkpoint: str | None) -> str | None:
    """The id of the query, which Spark writes down before anything is planned; None where that is not known."""
    folder = folder_of(checkpoint)
    if folder is None:
        return None
    try:
        query_id = json.loads((folder / "metadata").read_text())["id"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return query_id if isinstance(query_id, str) else None
