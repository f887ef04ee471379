"""What the reader core and its driver say to each other, beside `connection.events`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.errors import OttlaError


@dataclass(slots=True, frozen=True)
class Assign:
    """Event: read this partition from `start` (an offset, or a timestamp with `start_is_timestamp`; -2 earliest,
    -1 latest) up to, not including, `end` (None: forever; -1: the end as it is when the reader first asks). A topic
    with another id than `topic_id` (empty: any) is not the one that is meant."""

    topic: str
    partition: int
    start: int = -2
    end: int | None = None
    start_is_timestamp: bool = False
    topic_id: bytes = b""


@dataclass(slots=True, frozen=True)
class AssignTopic:
    """Event: read all partitions the topic has; `start` and `end` as in `Assign`. `TopicAssigned` says which."""

    topic: str
    start: int = -2
    end: int | None = None
    start_is_timestamp: bool = False


@dataclass(slots=True, frozen=True)
class Consumed:
    """Event: the user took `size` fetched bytes of this partition; room for more prefetching."""

    topic: str
    partition: int
    size: int


@dataclass(slots=True, frozen=True)
class TopicAssigned:
    """Output: what `AssignTopic` asked for is as good as one `Assign` for each of these partitions."""

    topic: str
    partition_count: int


@dataclass(slots=True, frozen=True)
class Positioned:
    """Output: the offsets this partition will be read between, now known."""

    topic: str
    partition: int
    start: int
    end: int | None


@dataclass(slots=True, frozen=True)
class Fetched:
    """Output: whole record batches as stored, a contiguous buffer.

    The first batch may begin before `fetch_offset` and the last may reach past the assigned end: whoever decodes
    leaves those records out. `high_watermark` and `last_stable_offset` as the broker said.
    """

    topic: str
    partition: int
    fetch_offset: int
    records: Any
    high_watermark: int
    last_stable_offset: int
    aborted_transactions: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True, frozen=True)
class Finished:
    """Output: this partition has been read to its end offset."""

    topic: str
    partition: int
    end: int


@dataclass(slots=True, frozen=True)
class ReadFailed:
    """Output: this partition cannot be read; nothing more of it will come. Partition -1: the topic as a whole."""

    topic: str
    partition: int
    error: OttlaError
