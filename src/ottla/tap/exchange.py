"""What is told of a request and its answer: an `Exchange`; and of bytes that are none: a `Remark`.

Both are plain values that go to JSON and back without loss. Times are microseconds since 1970. A field is None where
the request or the answer does not say it, or where it was not seen. In place of record bytes there are their hashes;
the bytes of requests and answers are there only where they were asked for, and never where they are secrets.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from ottla.errors import OttlaError

_NUMBER_BITS = 64


class UnreadableEntry(OttlaError):
    """JSON that is not what an exchange or a remark is written as."""


class Outcome(StrEnum):
    """What became of a request."""

    ANSWERED = "answered"
    # Produce with acks=0 gets no answer.
    NOT_DUE = "no answer due"
    UNANSWERED = "unanswered"
    # The answer to a request that was sent before the recording began, or in bytes that were lost.
    UNASKED = "request unseen"


class RemarkKind(StrEnum):
    """Why bytes are no exchange."""

    TLS = "tls"
    NOT_KAFKA = "not kafka"
    CUT_OFF = "cut off"
    LOST = "lost"
    BEGINNING_UNSEEN = "beginning unseen"
    SASL_TOKEN = "sasl token"


class Way(StrEnum):
    """Which way bytes go."""

    TO_BROKER = "to broker"
    TO_CLIENT = "to client"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One record batch (message format 2, KIP-98), as its header tells it.

    `sha256` covers what the batch's CRC covers: everything from the attributes to the end. So it stays the same when a
    broker writes offset and leader epoch into the batch, and a batch that was produced has the hash it is fetched with,
    unless the broker sets timestamps (LogAppendTime) or compresses anew. `base_timestamp_ms` is the first record's,
    `max_timestamp_ms` the highest. `is_intact` says whether the CRC is right. It and the hash are None where hashes
    were not asked for.
    """

    base_offset: int
    record_count: int
    size_bytes: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    codec: str
    is_transactional: bool = False
    is_control: bool = False
    crc: int
    base_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None
    is_intact: bool | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPart:
    """What a request and its answer say of one partition; of a topic as a whole where `partition` is None.

    `offset` is the base offset that the broker gave (Produce), the offset to read from (Fetch), the offset committed
    (OffsetCommit, TxnOffsetCommit, OffsetFetch) or found (ListOffsets). `unread_bytes` of `record_bytes` are not a
    whole batch of format 2: brokers cut the last batch of a Fetch answer off where their limit is.
    """

    topic: str | None = None
    topic_id: str | None = None
    partition: int | None = None
    offset: int | None = None
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    log_start_offset: int | None = None
    record_bytes: int | None = None
    unread_bytes: int = 0
    batches: tuple[Batch, ...] = ()
    error: str | None = None
    error_message: str | None = None

    @property
    def record_count(self) -> int | None:
        """Records in whole batches; None where this partition carried no records field."""
        return None if self.record_bytes is None else sum(batch.record_count for batch in self.batches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request with its answer.

    `request_us` and `response_us` are when the last byte of each was seen; `end_us` is when the connection of a request
    that got no answer ended, or its recording did. Sizes count whole frames with their length
    fields; `missing_bytes` of them were not captured. `error` is the first error that concerns no partition, `errors`
    has all of the exchange. `unread` says why the request or the answer could not be decoded. `committed` is EndTxn's:
    True commits, False aborts.
    """

    connection: int
    client: str
    broker: str
    outcome: Outcome
    request_us: int | None = None
    response_us: int | None = None
    end_us: int | None = None
    request_bytes: int | None = None
    response_bytes: int | None = None
    missing_bytes: int = 0
    api_key: int | None = None
    api: str | None = None
    version: int | None = None
    correlation_id: int
    client_id: str | None = None
    transactional_id: str | None = None
    group_id: str | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    acks: int | None = None
    committed: bool | None = None
    error: str | None = None
    error_message: str | None = None
    unread: str | None = None
    partitions: tuple[PartitionPart, ...] = ()
    request_frame: bytes | None = None
    response_frame: bytes | None = None

    @property
    def time_us(self) -> int:
        """When the request was seen, or the answer where the request was not."""
        seen = self.response_us if self.request_us is None else self.request_us
        return 0 if seen is None else seen

    @property
    def latency_us(self) -> int | None:
        """From the last byte of the request to the last byte of its answer."""
        if self.request_us is None or self.response_us is None:
            return None
        return self.response_us - self.request_us

    @property
    def errors(self) -> tuple[str, ...]:
        """Names of all error codes but NONE, each once, in their order."""
        found = [self.error, *(part.error for part in self.partitions)]
        return tuple(dict.fromkeys(name for name in found if name is not None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """Bytes of a connection that are no request and no answer: `size_bytes` of them, and `what` in words."""

    time_us: int
    connection: int
    client: str
    broker: str
    kind: RemarkKind
    way: Way
    size_bytes: int
    what: str


Entry = Exchange | Remark


def to_plain(entry: Entry) -> dict[str, Any]:
    """The entry as JSON can say it, under its name; what is None, empty or zero by default is left out."""
    return {"remark" if isinstance(entry, Remark) else "exchange": _plain(entry)}


def from_plain(plain: object) -> Entry:
    """What `to_plain` was given; fields that this version does not know are passed over. Raises UnreadableEntry."""
    if not isinstance(plain, dict) or len(plain) != 1:
        raise UnreadableEntry("neither an exchange nor a remark")
    ((name, values),) = plain.items()
    if name not in ("exchange", "remark"):
        raise UnreadableEntry(f"{str(name)[:40]!r} is neither an exchange nor a remark")
    entry: Entry = _from_plain(Remark if name == "remark" else Exchange, values)
    return entry


def _plain(value: Any) -> dict[str, Any]:
    found = {}
    for field in fields(value):
        given = getattr(value, field.name)
        if given == field.default or given is None:
            continue
        if isinstance(given, tuple):
            given = [_plain(each) for each in given]
        elif isinstance(given, bytes):
            given = base64.b64encode(given).decode()
        found[field.name] = given
    return found


@cache
def _readers(kind: Any) -> Mapping[str, Callable[[Any], Any]]:
    """For each field of the class, what makes its value of what JSON says; TypeError or ValueError where it cannot."""
    return {name: _reader(annotation) for name, annotation in get_type_hints(kind).items()}


def _reader(annotation: Any) -> Callable[[Any], Any]:
    kinds = [each for each in get_args(annotation) if each not in (type(None), Ellipsis)] or [annotation]
    kind: Any = kinds[0]
    if get_origin(annotation) is tuple:
        return lambda values: tuple(_from_plain(kind, each) for each in _checked(list, values))
    if issubclass(kind, StrEnum):
        return lambda value: kind(value)
    if kind is bytes:
        return lambda value: base64.b64decode(_checked(str, value), validate=True)
    return lambda value: _checked(kind, value)


def _checked(kind: type[Any], value: Any) -> Any:
    # True is an int to Python, and no number in JSON.
    if type(value) is not kind:
        raise TypeError(f"{value!r:.40} is no {kind.__name__}")
    if kind is int and value.bit_length() > _NUMBER_BITS:
        raise ValueError("a number of more than 64 bits")
    return value


def _from_plain(kind: Any, values: Any) -> Any:
    readers = _readers(kind)
    try:
        known = {name: readers[name](value) for name, value in _checked(dict, values).items() if name in readers}
        return kind(**known)
    except (TypeError, ValueError) as error:
        raise UnreadableEntry(f"not what {kind.__name__} is written as: {error}") from None
