"""Reads OpenTelemetry's MetricsData in protobuf, which is what PushTelemetry carries (KIP-714).

Of opentelemetry-proto's metrics.proto it reads what Kafka's clients push: resources with attributes, gauges and sums of
one number each. Histograms and summaries are passed over, and so is every field that is not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DOUBLE, _INT64, _UINT64 = Struct("<d"), Struct("<q"), Struct("<Q")
_GAUGE, _SUM = 5, 7
_DELTA = 1
_VARINT_BYTES_MAX = 10


class NotOtlp(Exception):
    """The bytes are no MetricsData."""


def read_metrics(data: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(attributes of the resources, points); NotOtlp.

    A point is a dict with name, kind ("gauge" or "sum"), is_delta, attributes, value, start_ns and time_ns.
    """
    resource: dict[str, Any] = {}
    points: list[dict[str, Any]] = []
    try:
        for of_resource in _messages(data, 1):
            for about in _messages(of_resource, 1):
                resource |= _attributes(about, 1)
            for scope in _messages(of_resource, 2):
                for metric in _messages(scope, 2):
                    points += _points(metric)
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise NotOtlp(str(error)) from None
    return resource, points


def _points(metric: bytes) -> Iterator[dict[str, Any]]:
    name = b"".join(_messages(metric, 1)).decode()
    for number, kind in ((_GAUGE, "gauge"), (_SUM, "sum")):
        for content in _messages(metric, number):
            fields = dict(_fields(content))
            for point in _messages(content, 1):
                told = dict(_fields(point))
                yield {
                    "name": name,
                    "kind": kind,
                    "is_delta": fields.get(2) == _DELTA,
                    "attributes": _attributes(point, 7),
                    "value": _value(told),
                    "start_ns": _number(told.get(2), _UINT64),
                    "time_ns": _number(told.get(3), _UINT64),
                }


def _value(fields: dict[int, Any]) -> Any:
    return _number(fields[6], _INT64) if 6 in fields else _number(fields.get(4), _DOUBLE)


def _number(raw: Any, layout: Struct) -> Any:
    if raw is None:
        return 0
    if not isinstance(raw, bytes) or len(raw) != layout.size:
        raise ValueError("a number of another size")
    return layout.unpack(raw)[0]


def _attributes(message: bytes, number: int) -> dict[str, Any]:
    found = {}
    for pair in _messages(message, number):
        key = b"".join(_messages(pair, 1)).decode()
        fields = dict(_fields(b"".join(_messages(pair, 2))))
        found[key] = _any_value(fields)
    return found


def _any_value(fields: dict[int, Any]) -> Any:
    if 1 in fields:
        return fields[1].decode()
    if 2 in fields:
        return bool(fields[2])
    if 3 in fields:
        return fields[3] - (1 << 64) if fields[3] >> 63 else fields[3]
    return _number(fields[4], _DOUBLE) if 4 in fields else None


def _messages(data: bytes, number: int) -> list[bytes]:
    found = [value for field, value in _fields(data) if field == number]
    if not all(isinstance(value, bytes) for value in found):
        raise ValueError("a number where a message is expected")
    return found


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(number, value) of each field: an integer, or the bytes of whatever is not a varint."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire}")
        if at + size > len(data):
            raise ValueError("a field that ends behind its message")
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(_VARINT_BYTES_MAX):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << 7 * shift
        if not byte & 0x80:
            return value, at
    raise ValueError("a number that does not end")
