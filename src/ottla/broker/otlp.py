"""Reads OpenTelemetry's MetricsData in protobuf, which is what PushTelemetry carries (KIP-714).

Of opentelemetry-proto's metrics.proto it reads what Kafka's clients push: resources with attributes, gauges and sums of
one number each. Histograms and summaries are passed over, and so is every field that is not known. Each message is read
once, and only so many fields of it: meanwhile the broker answers no other request.
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
# A mebibyte of what clients push has about half as many.
FIELDS_MAX = 150_000

# The values of each field number of a message: integers, and bytes for fields that are not varints.
_Fields = dict[int, list[Any]]


class NotOtlp(Exception):
    """The bytes are no MetricsData."""


class TooManyFields(Exception):
    """There are more fields in it than are read."""


def read_metrics(data: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(attributes of the resources, points); NotOtlp, TooManyFields.

    A point is a dict with name, kind ("gauge" or "sum"), is_delta, attributes, value, start_ns and time_ns.
    """
    reader = _Reader()
    try:
        return reader.metrics_data(data)
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise NotOtlp(str(error)) from None


class _Reader:
    """Reads one push, and counts its fields."""

    def __init__(self) -> None:
        self._left = FIELDS_MAX

    def metrics_data(self, data: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        resource: dict[str, Any] = {}
        points: list[dict[str, Any]] = []
        for of_resource in _messages(self._fields(data), 1):
            parts = self._fields(of_resource)
            for about in _messages(parts, 1):
                resource |= self._attributes(self._fields(about), 1)
            for scope in _messages(parts, 2):
                for metric in _messages(self._fields(scope), 2):
                    points += self._points(self._fields(metric))
        return resource, points

    def _points(self, metric: _Fields) -> Iterator[dict[str, Any]]:
        name = b"".join(_messages(metric, 1)).decode()
        for number, kind in ((_GAUGE, "gauge"), (_SUM, "sum")):
            for content in _messages(metric, number):
                fields = self._fields(content)
                is_delta = _last(fields, 2) == _DELTA
                for point in _messages(fields, 1):
                    told = self._fields(point)
                    yield {
                        "name": name,
                        "kind": kind,
                        "is_delta": is_delta,
                        "attributes": self._attributes(told, 7),
                        "value": _number(told, 6, _INT64) if 6 in told else _number(told, 4, _DOUBLE),
                        "start_ns": _number(told, 2, _UINT64),
                        "time_ns": _number(told, 3, _UINT64),
                    }

    def _attributes(self, message: _Fields, number: int) -> dict[str, Any]:
        found = {}
        for pair in _messages(message, number):
            fields = self._fields(pair)
            key = b"".join(_messages(fields, 1)).decode()
            found[key] = _any_value(self._fields(b"".join(_messages(fields, 2))))
        return found

    def _fields(self, data: bytes) -> _Fields:
        found: _Fields = {}
        at, end = 0, len(data)
        while at < end:
            if not self._left:
                raise TooManyFields
            self._left -= 1
            key, at = _varint(data, at)
            wire = key & 7
            if wire == _VARINT:
                value, at = _varint(data, at)
                found.setdefault(key >> 3, []).append(value)
                continue
            if wire == _BYTES:
                size, at = _varint(data, at)
            elif wire in (_FIXED64, _FIXED32):
                size = 8 if wire == _FIXED64 else 4
            else:
                raise ValueError(f"wire type {wire}")
            if at + size > end:
                raise ValueError("a field that ends behind its message")
            found.setdefault(key >> 3, []).append(data[at : at + size])
            at += size
        return found


def _messages(fields: _Fields, number: int) -> list[bytes]:
    found = fields.get(number, [])
    if not all(isinstance(value, bytes) for value in found):
        raise ValueError("a number where a message is expected")
    return found


def _last(fields: _Fields, number: int) -> Any:
    found = fields.get(number)
    return found[-1] if found else None


def _number(fields: _Fields, number: int, layout: Struct) -> Any:
    raw = _last(fields, number)
    if raw is None:
        return 0
    if not isinstance(raw, bytes) or len(raw) != layout.size:
        raise ValueError("a number of another size")
    return layout.unpack(raw)[0]


def _any_value(fields: _Fields) -> Any:
    if 1 in fields:
        return _messages(fields, 1)[-1].decode()
    for number in (2, 3):
        if number in fields:
            value = _last(fields, number)
            if not isinstance(value, int):
                raise ValueError("a message where a number is expected")
            if number == 2:
                return bool(value)
            return value - (1 << 64) if value >> 63 else value
    return _number(fields, 4, _DOUBLE) if 4 in fields else None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value = 0
    for shift in range(_VARINT_BYTES_MAX):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << 7 * shift
        if not byte & 0x80:
            return value, at
    raise ValueError("a number that does not end")
