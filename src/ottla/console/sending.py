"""Records that are sent from the page, one or a file of them, and a topic written down as lines of JSON.

A line of an export is what an import takes: {"key": ..., "value": ..., "headers": [[name, value], ...],
"timestamp_ms": ..., "partition": ...}. Text is text; bytes that are none stand as {"base64": "..."}; null is null.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ottla.console.kafka import Kafka
from ottla.console.record_views import bounds, by_partition, check_partition
from ottla.errors import DeliveryError, OttlaError, UserMistake

if TYPE_CHECKING:
    from ottla.client.producer import Producer

_ANSWER_S = 30.0
_PATIENCE_S = 10.0
_LINES_AT_ONCE = 500
LINE_BYTES_MAX = 32 << 20
_FIELDS = {"key", "value", "headers", "timestamp_ms", "partition", "offset", "timestamp_type"}


def produce(kafka: Kafka, topic: str, given: Any) -> dict[str, Any]:
    """Send one record, a dict as described above, and wait; returns where it is stored. Raises OttlaError."""
    record = read_record(given, "the record")
    kafka.topic(topic)
    with _producer(kafka) as producer:
        stored = producer.send(topic, **record).result(_ANSWER_S)
        return {"partition": stored.partition, "offset": stored.offset, "timestamp_ms": stored.timestamp_ms}


def import_lines(kafka: Kafka, topic: str, lines: Iterable[bytes]) -> dict[str, Any]:
    """Send a record for each line; it ends at a line that is no record, and reports what was sent before."""
    kafka.topic(topic)
    sent = number = 0
    refused: str | None = None
    with _producer(kafka) as producer:
        try:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    producer.send(topic, **read_record(_read_line(line, number), f"line {number}"))
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
    return {"stored": sent - failed - unknown, "failed": failed, "unknown": unknown, "error": refused}


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
    """The records that there are now, in lines, partition by partition as they come."""
    check_partition(kafka, topic, partition)
    leaders = {place: leader for place, leader in kafka.leaders(topic).items() if partition in (None, place[1])}
    begins, ends = (by_partition(each) for each in bounds(kafka, leaders))
    ranges = {(topic, each): (begins[each], ends[each]) for each in begins if begins[each] < ends[each]}
    if not ranges:
        return
    with kafka.reader(ranges, long=True) as reader:
        for fetched in reader.iter_raw(patience_s=_PATIENCE_S):
            for piece in reader.decode_pieces(fetched, rows_enough=_LINES_AT_ONCE, bytes_enough=1 << 20):
                yield b"".join(_lines_of(fetched.partition, piece))


def _lines_of(partition: int, piece: Any) -> Iterator[bytes]:
    import pyarrow as pa

    columns = [piece.column(name).to_pylist() for name in ("offset", "timestamp_type", "key", "value", "headers")]
    times = piece.column("timestamp").cast(pa.int64()).to_pylist()
    for time_ms, offset, kind, key, value, headers in zip(times, *columns, strict=True):
        line = {
            "partition": partition,
            "offset": offset,
            "timestamp_ms": time_ms,
            "timestamp_type": "LogAppendTime" if kind else "CreateTime",
            "key": _written(key),
            "value": _written(value),
            "headers": [[each["key"], _written(each["value"])] for each in headers or ()],
        }
        yield json.dumps(line, ensure_ascii=False).encode() + b"\n"


def _written(stored: bytes | None) -> Any:
    if stored is None:
        return None
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(stored).decode()}


def read_record(given: Any, what: str) -> dict[str, Any]:
    """The arguments of `Producer.send`; UserMistake says what is wrong with `what`."""
    if not isinstance(given, Mapping):
        raise UserMistake(f'{what} is no JSON object, such as {{"key": "ada", "value": "hello"}}')
    unknown = sorted(set(given) - _FIELDS)
    if unknown:
        raise UserMistake(f"{what} has a field {unknown[0]!r:.60}; its fields may be {', '.join(sorted(_FIELDS))}")
    record: dict[str, Any] = {
        "key": _read(given.get("key"), f"the key of {what}"),
        "value": _read(given.get("value"), f"the value of {what}"),
    }
    headers = given.get("headers") or []
    if not isinstance(headers, list) or not all(
        isinstance(each, list) and len(each) == 2 and isinstance(each[0], str) for each in headers
    ):
        raise UserMistake(f'the headers of {what} must be a list of pairs, such as [["source", "page"]]')
    if headers:
        record["headers"] = [(name, _read(value, f"the header {name!r:.60} of {what}")) for name, value in headers]
    for name in ("partition", "timestamp_ms"):
        number = given.get(name)
        if number is None:
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
