"""The events and outputs of the reader core, besides those in `connection.events`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.errors import OttlaError


@dataclass(slots=True, frozen=True)
class Assign:
    """Event: read this partition from `start` up to, not including, `end`.

    `start` is an offset, with `start_is_timestamp` a timestamp; -2 is the earliest, -1 the latest. `end` None: read for
    ever; -1: the end as it is when the reader first asks. With a `topic_id`, a topic with another id is not read.
    """

    topic: str
    partition: int
    start: int = -2
    end: int | None = None
    start_is_timestamp: bool = False
    topic_id: bytes = b""


@dataclass(slots=True, frozen=True)
class AssignTopic:
    """Event: read all partitions the topic has; `start` and `end` as in `Assign`. `TopicAssigned` says how many."""

    topic: str
    start: int = -2
    end: int | None = None
    start_is_timestamp: bool = False


@dataclass(slots=True, frozen=True)
class Consumed:
    """Event: the user took `size` fetched bytes of this partition, so as many may be prefetched again."""

    topic: str
    partition: int
    size: int


@dataclass(slots=True, frozen=True)
class TopicAssigned:
    """Output: the topic of an `AssignTopic` has so many partitions; each is read as after an `Assign`."""

    topic: str
    partition_count: int


@dataclass(slots=True, frozen=True)
class Positioned:
    """Output: the offsets between which this partition will be read are known."""

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
