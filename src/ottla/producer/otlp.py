"""Metrics as OpenTelemetry's MetricsData in protobuf, which is what PushTelemetry carries (KIP-714).

Written by hand: of opentelemetry-proto's metrics.proto it needs one resource, one scope, and metrics of one number
each, a gauge or a sum that only grows. A field is its number and wire type in one byte, then its value: a small number,
eight bytes, or a length and so many bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import NamedTuple

_POINT = Struct("<BqBd")
_START = Struct("<Bq")
_DELTA, _CUMULATIVE = 1, 2


class Point(NamedTuple):
    """One metric with its one value; `start_ns` None for a gauge, else since when a sum has grown to `value`.

    `attributes` are bytes made by `attributes`.
    """

    name: str
    attributes: bytes
    value: float
    start_ns: int | None


def attributes(labels: Mapping[str, str]) -> bytes:
    """Return the labels of a point, encoded."""
    return b"".join(_field(7, _key_value(name, value)) for name, value in labels.items())


def metrics_data(points: Iterable[Point], resource: Mapping[str, str], time_ns: int, *, delta: bool) -> bytes:
    """Return MetricsData in bytes: all points as of `time_ns` (Unix time), of a resource with these attributes.

    `delta`: a sum's value is what was added since its `start_ns`, the last push; else since the producer was made.
    """
    temporality = bytes((0x10, _DELTA if delta else _CUMULATIVE, 0x18, 1))
    metrics = b"".join(_field(2, _metric(point, time_ns, temporality)) for point in points)
    about = b"".join(_field(1, _key_value(name, value)) for name, value in resource.items())
    return _field(1, _field(1, about) + _field(2, metrics))


def _metric(point: Point, time_ns: int, temporality: bytes) -> bytes:
    number = _POINT.pack(0x19, time_ns, 0x21, point.value)
    name = _field(1, point.name.encode())
    if point.start_ns is None:
        return name + _field(5, _field(1, number + point.attributes))
    number = _START.pack(0x11, point.start_ns) + number
    return name + _field(7, _field(1, number + point.attributes) + temporality)


def _key_value(name: str, value: str) -> bytes:
    return _field(1, name.encode()) + _field(2, _field(1, value.encode()))


def _field(number: int, content: bytes) -> bytes:
    """A field with a length: text, or a message within a message."""
    size = len(content)
    if size < 0x80:
        return bytes((number << 3 | 2, size)) + content
    head = bytearray((number << 3 | 2,))
    while size >= 0x80:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head) + content
