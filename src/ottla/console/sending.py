"""Records that are sent from the page, one or a file of them, and a topic written down as lines of JSON.

A line of an export is what an import takes: {"key": ..., "value": ..., "headers": [[name, value], ...],
"timestamp_ms": ..., "partition": ...}. Text is text; bytes that are none stand as {"base64": "..."}; null is null.
Records of aborted and open transactions have "transaction": "aborted" or "open", and an import leaves them out.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ottla.console.batches import ABORTED, OPEN, Batches
from ottla.console.kafka import Kafka
from ottla.console.record_views import bounds, unread_told
from ottla.console.shown import exact
from ottla.errors import DeliveryError, OttlaError, UserMistake
from ottla.protocol.error_codes import ErrorCode, kafka_error

if TYPE_CHECKING:
    from ottla.client.producer import Producer

_ANSWER_S = 30.0
_PATIENCE_S = 10.0
_LINES_AT_ONCE = 500
LINE_BYTES_MAX = 32 << 20
_FIELDS = {"key", "value", "headers", "timestamp_ms", "partition", "offset", "timestamp_type", "transaction"}
# Not of committed transactions.
_MARKED = (ABORTED, OPEN)
_CHUNK_BYTES = 1 << 20
_HEADERS_AT_ONCE, _FEW_HEADERS = 1_000, 50


def produce(kafka: Kafka, topic: str, given: Any) -> dict[str, Any]:
    """Send one record, a dict as described above, and wait; returns where it is stored. Raises OttlaError."""
    record = read_record(given, "the record")
    # None is for lines of an export that are left out.
    assert record is not None
    kafka.topic(topic)
    with _producer(kafka) as producer:
        stored = producer.send(topic, **record).result(_ANSWER_S)
        return {"partition": stored.partition, "offset": stored.offset, "timestamp_ms": exact(stored.timestamp_ms)}


def import_lines(kafka: Kafka, topic: str, lines: Iterable[bytes]) -> dict[str, Any]:
    """Send a record for each line; it ends at a line that is no record, and reports what was sent before.

    `left_out` are lines of records whose transaction was aborted or is open.
    """
    kafka.topic(topic)
    sent = number = left_out = 0
    refused: str | None = None
    with _producer(kafka) as producer:
        try:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                record = read_record(_read_line(line, number), f"line {number}", is_exported=True)
                if record is None:
                    left_out += 1
                    continue
                producer.send(topic, **record)
                sent += 1
        except OttlaError as error:
            told = str(error)
            refused = told if told.startswith("line ") else f"line {number}: {told}"
        failed = unknown = 0
        try:
            producer.flush(_ANSWER_S)
        except DeliveryError as error:
            failed, unknown = error.failed, error.unknown
            refused = refused or str(error)
    stored = sent - failed - unknown
    return {"stored": stored, "failed": failed, "unknown": unknown, "left_out": left_out, "error": refused}


def split_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Lines of what comes in pieces; UserMistake for a line that is too long to be held."""
    number, size = 1, 0
    rest: list[bytes] = []
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        rest.append(first)
        size += len(first)
        if others:
            yield b"".join(rest)
            yield from others[:-1]
            number += len(others)
            rest, size = [others[-1]], len(others[-1])
        if size > LINE_BYTES_MAX:
            raise UserMistake(f"line {number} has more than {LINE_BYTES_MAX >> 20} MiB: give one JSON object a line.")
    if size:
        yield b"".join(rest)


def export(kafka: Kafka, topic: str, partition: int | None) -> Iterator[bytes]:
    """The records that there are now, in lines, partition by partition as they come.

    KafkaError before the first line where a partition cannot be read.
    """
    known = bounds(kafka, topic, partition)
    if known.unread:
        instead = "the other partitions can be exported one by one" if partition is None else "try again later"
        raise kafka_error(ErrorCode.LEADER_NOT_AVAILABLE, f"{unread_told(topic, known.unread)}; {instead}")
    begins, ends = known.begins, known.ends
    # Of what is before the last stable offset, brokers tell a reader of committed records what was aborted.
    decided = {each: max(begins[each], min(known.stable[each], ends[each])) for each in ends}
    for is_decided, firsts, lasts in ((True, begins, decided), (False, decided, ends)):
        ranges = {(topic, each): (firsts[each], lasts[each]) for each in firsts if firsts[each] < lasts[each]}
        if ranges:
            yield from _in_chunks(_exported(kafka, ranges, is_decided))


def _exported(kafka: Kafka, ranges: dict[tuple[str, int], tuple[int, int]], is_decided: bool) -> Iterator[bytes]:
    with kafka.reader(ranges, committed=is_decided, long=True) as reader:
        for fetched in reader.iter_raw(patience_s=_PATIENCE_S):
            batches = Batches(fetched.topic, fetched.partition)
            batches.take(fetched, is_decided=is_decided)
            # Else the reader leaves out what was aborted.
            whole = replace(fetched, aborted_transactions=())
            for piece in reader.decode_pieces(whole, rows_enough=_LINES_AT_ONCE, bytes_enough=_CHUNK_BYTES):
                yield from _lines_of(piece, batches)


def _in_chunks(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes, many at a time."""
    chunk = bytearray()
    for piece in pieces:
        chunk += piece
        if len(chunk) >= _CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    if chunk:
        yield bytes(chunk)


def _lines_of(piece: Any, batches: Batches) -> Iterator[bytes]:
    """Lines in pieces: a record may have very many headers."""
    import pyarrow as pa

    columns = [piece.column(name).to_pylist() for name in ("offset", "timestamp_type", "key", "value")]
    times = piece.column("timestamp").cast(pa.int64()).to_pylist()
    has_transactions = batches.has_transactions
    headers = _Headers(piece.column("headers"))
    for row, (time_ms, offset, kind, key, value) in enumerate(zip(times, *columns, strict=True)):
        line = {
            "partition": batches.partition,
            "offset": offset,
            "timestamp_ms": time_ms,
            "timestamp_type": "LogAppendTime" if kind else "CreateTime",
            "key": _written(key),
            "value": _written(value),
        }
        transaction = batches.transaction(offset) if has_transactions else None
        if transaction in _MARKED:
            line["transaction"] = transaction
        few = headers.few(row)
        if few is not None:
            yield _as_json({**line, "headers": few}) + b"\n"
            continue
        yield _as_json(line)[:-1] + b', "headers": ['
        yield from headers.written(row)
        yield b"]}\n"


class _Headers:
    """A column of headers, row by row."""

    def __init__(self, column: Any) -> None:
        self._offsets: list[int] = column.offsets.to_pylist()
        self._each: Any = column.values
        first, end = self._offsets[0], self._offsets[-1]
        # Few are faster made into objects all at once.
        self._made: list[Any] | None = None
        if end - first <= _FEW_HEADERS * len(self._offsets):
            self._made = self._written(first, end)

    def few(self, row: int) -> list[Any] | None:
        """The headers of a row, None where they are better written in pieces."""
        begin, end = self._offsets[row], self._offsets[row + 1]
        if self._made is not None:
            return self._made[begin - self._offsets[0] : end - self._offsets[0]]
        return self._written(begin, end) if end - begin <= _HEADERS_AT_ONCE else None

    def written(self, row: int) -> Iterator[bytes]:
        """The headers of a row as JSON, without the brackets around them."""
        begin, end = self._offsets[row], self._offsets[row + 1]
        for first in range(begin, end, _HEADERS_AT_ONCE):
            if first > begin:
                yield b", "
            yield _as_json(self._written(first, min(first + _HEADERS_AT_ONCE, end)))[1:-1]

    def _written(self, first: int, end: int) -> list[Any]:
        return [[each["key"], _written(each["value"])] for each in self._each.slice(first, end - first).to_pylist()]


def _as_json(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode()


def _written(stored: bytes | None) -> Any:
    if stored is None:
        return None
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(stored).decode()}


def read_record(given: Any, what: str, *, is_exported: bool = False) -> dict[str, Any] | None:
    """The arguments of `Producer.send`; UserMistake says what is wrong with `what`.

    Of what `is_exported`, None where its transaction was aborted or is open. A time before 1970 (-1: none) cannot be
    sent, and is left out.
    """
    if not isinstance(given, Mapping):
        raise UserMistake(f'{what} is no JSON object, such as {{"key": "ada", "value": "hello"}}')
    unknown = sorted(set(given) - _FIELDS)
    if unknown:
        raise UserMistake(f"{what} has a field {unknown[0]!r:.60}; its fields may be {', '.join(sorted(_FIELDS))}")
    record: dict[str, Any] = {
        "key": _read(given.get("key"), f"the key of {what}"),
        "value": _read(given.get("value"), f"the value of {what}"),
    }
    if is_exported and given.get("transaction") in _MARKED:
        return None
    headers = given.get("headers") or []
    if not isinstance(headers, list) or not all(
        isinstance(each, list) and len(each) == 2 and isinstance(each[0], str) for each in headers
    ):
        raise UserMistake(f'the headers of {what} must be a list of pairs, such as [["source", "page"]]')
    if headers:
        record["headers"] = [(name, _read(value, f"the header {name!r:.60} of {what}")) for name, value in headers]
    for name in ("partition", "timestamp_ms"):
        number = given.get(name)
        if number is None or (is_exported and name == "timestamp_ms" and type(number) is int and number < 0):
            continue
        if type(number) is not int or number < 0:
            raise UserMistake(f"{name} of {what} must be a whole number from 0 on, not {number!r:.40}")
        record[name] = number
    return record


def _read(given: Any, what: str) -> bytes | None:
    if given is None:
        return None
    if isinstance(given, str):
        return given.encode("utf-8", "surrogatepass")
    if isinstance(given, Mapping) and set(given) == {"base64"} and isinstance(given["base64"], str):
        try:
            return base64.b64decode(given["base64"], validate=True)
        except ValueError:
            raise UserMistake(f"{what} is not base64") from None
    raise UserMistake(f'{what} must be text, null or {{"base64": "..."}}')


def _read_line(line: bytes, number: int) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise UserMistake(f"line {number} is not JSON: {line[:60].decode('utf-8', 'replace')}") from None


def _producer(kafka: Kafka) -> Producer:
    from ottla.client.producer import Producer

    return Producer(kafka.bootstrap_servers, **kafka.writing)
