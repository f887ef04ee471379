"""A client made of a socket and kio: requests are written and answers read by code that shares nothing with ours."""

from __future__ import annotations

import dataclasses
import io
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import import_module
from typing import Any, get_args, get_type_hints

from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32

from ottla.protocol.messages import MODULES

_PATIENCE_S = 60
_ZEROS: dict[str, Any] = {"string": "", "bool": False, "records": b"", "bytes": b"", "timedelta_i32": timedelta()}
# Answers of a coordinator that is being set up, or is at work for the same client; clients ask again.
_NOT_YET = {14, 15, 16, 51}


def kio_class(api_key: int, version: int, kind: str) -> Any:
    """kio's class of a request or response."""
    module, name = MODULES[api_key]
    return getattr(import_module(f"kio.schema.{module}.v{version}.{kind}"), f"{name}{kind.capitalize()}")


@cache
def hints_of(found: type) -> dict[str, Any]:
    return get_type_hints(found)


def element_type(hint: Any) -> tuple[Any, bool]:
    """(type of the field or of its elements, whether it may be None)"""
    parts = get_args(hint)
    nullable = type(None) in parts
    if nullable:
        hint = next(part for part in parts if part is not type(None))
    return (get_args(hint) or (hint,))[0], nullable


def build(found: Any, given: dict[str, Any], used: set[str]) -> Any:
    """An instance of a class of kio's, from nested dicts and lists; what its version lacks is left out.

    Fields that have no default and are not given are zero, empty or null. `used` gets the names that were of use.
    """
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(found):
        element, nullable = element_type(hints_of(found)[field.name])
        name = field.name if field.name in given else f"{field.name}_ms"
        kafka_type = field.metadata.get("kafka_type", "")
        if name in given:
            used.add(name)
            value = given[name]
            if isinstance(value, list):
                value = tuple(build(element, each, used) if isinstance(each, dict) else each for each in value)
            elif name != field.name:
                value = timedelta(milliseconds=value)
            fields[field.name] = value
        elif field.default is dataclasses.MISSING:
            many = not kafka_type or "tuple" in str(hints_of(found)[field.name])
            fields[field.name] = None if nullable else () if many else _ZEROS.get(kafka_type, 0)
    return found(**fields)


def error_codes(answer: Any) -> Iterator[int]:
    """Every error code in an answer."""
    for field in dataclasses.fields(answer):
        value = getattr(answer, field.name)
        if field.metadata.get("kafka_type") == "error_code":
            yield int(value)
        for each in value if isinstance(value, tuple) else (value,):
            if dataclasses.is_dataclass(each):
                yield from error_codes(each)


def empty_lists(answer: Any, path: str = "") -> Iterator[str]:
    """The place of every list in an answer that has nothing in it, such as "topics.partitions"."""
    for field in dataclasses.fields(answer):
        value = getattr(answer, field.name)
        here = f"{path}.{field.name}".removeprefix(".")
        if value == ():
            yield here
        for each in value if isinstance(value, tuple) else (value,):
            if dataclasses.is_dataclass(each):
                yield from empty_lists(each, here)


class KioWire:
    """One connection; requests go out one by one."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=_PATIENCE_S)
        self._asked = 0

    def ask(self, api_key: int, version: int, **given: Any) -> Any:
        """The answer to a request, asked again while the coordinator is not ready; every byte of it was understood."""
        used: set[str] = set()
        request = build(kio_class(api_key, version, "request"), given, used)
        until = datetime.now(UTC) + timedelta(seconds=_PATIENCE_S)
        while True:
            answer = self._ask_once(api_key, version, request)
            if not _NOT_YET & set(error_codes(answer)) or datetime.now(UTC) > until:
                return answer

    def _ask_once(self, api_key: int, version: int, request: Any) -> Any:
        self._asked += 1
        header_class = type(request).__header_schema__
        header = header_class(
            request_api_key=i16(api_key),
            request_api_version=i16(version),
            correlation_id=i32(self._asked),
            client_id="kio",
        )
        out = io.BytesIO()
        entity_writer(header_class)(out, header)
        entity_writer(type(request))(out, request)
        content = out.getvalue()
        self._socket.sendall(len(content).to_bytes(4) + content)
        frame = self._read(int.from_bytes(self._read(4)))
        response_class = kio_class(api_key, version, "response")
        head, at = entity_reader(response_class.__header_schema__)(frame, 0)
        assert head.correlation_id == self._asked
        answer, size = entity_reader(response_class)(frame, at)
        assert at + size == len(frame), f"{len(frame) - at - size} bytes too many"
        return answer

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            assert part, "the broker hung up"
            data += part
        return bytes(data)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()
