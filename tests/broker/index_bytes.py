"""The two indexes of a segment as bytes, for tests of who reads them; brokers write theirs while the segment grows."""

from __future__ import annotations

from collections.abc import Iterable
from struct import pack

from ottla.broker.log.files import OffsetEntry, TimeEntry


def offset_index(entries: Iterable[OffsetEntry]) -> bytes:
    return b"".join(pack(">ii", *entry) for entry in entries)


def time_index(entries: Iterable[TimeEntry]) -> bytes:
    return b"".join(pack(">qi", *entry) for entry in entries)
