"""Keys, values and headers as a page can show them: text where they are text, else hexadecimal digits, and never whole
where they are long. With a schema registry, what names a schema is decoded by it.
"""

from __future__ import annotations

import json
import threading
from typing import Any

from ottla.errors import OttlaError, RegistryError, fresh
from ottla.schemas.framing import KEY_HEADER, PREFIX_BYTES, VALUE_HEADER, Frame, read_frame

Headers = tuple[tuple[str, bytes | None], ...]
# Of a key, value or header how many bytes it has, and the first of them; None where it is null.
Beginning = tuple[int, bytes | None]
# Of a long value so much is shown in a list, and in a record of its own.
LIST_BYTES, RECORD_BYTES = 4 << 10, 256 << 10
_HEX_BYTES = 1 << 10
_MAGIC = 0
_NOT_FOUND = 404
# For so long a registry is not asked again for a schema that it lacks, and so many schemas are cached.
_LACKING_S = 5.0
_KINDS_MOST = 1000
_TEXT_CONTROLS = "\t\n\r"
_EXACT_MAX = (1 << 53) - 1


class Registry:
    """Decodes what names a schema of this registry; used by many threads."""

    def __init__(self, url: str) -> None:
        from ottla.registry.cache import Cache
        from ottla.registry.client import RegistryClient

        self._client = RegistryClient(url)
        self._kinds = Cache(_KINDS_MOST)
        self._lock = threading.Lock()
        self._deserializers: dict[tuple[str, str], Any] = {}

    def decode(self, topic: str, part: str, stored: bytes, headers: Headers) -> Any:
        """(what is stored, the kind of its schema); raises OttlaError where it cannot be decoded."""
        kind = self._kind_of(part, stored, headers)
        with self._lock:
            reading = self._deserializers.get((part, kind))
            if reading is None:
                reading = self._deserializers[part, kind] = _deserializer(kind, self._client).of_part(part)
        return reading.deserialize_with_headers(topic, stored, headers), kind

    def _kind_of(self, part: str, stored: bytes, headers: Headers) -> str:
        frame = read_frame(_named(part, headers) or stored)
        # What has no schema at all may name another one that is not there in each record of a topic.
        found = self._kinds.get((frame.schema_id, frame.guid), lambda: self._asked(frame), keep_s=_LACKING_S)
        if isinstance(found, RegistryError):
            raise fresh(found)
        return str(found)

    def _asked(self, frame: Frame) -> str | RegistryError:
        """The kind of a schema, or the registry's answer that it does not have it."""
        client = self._client
        try:
            return (client.by_guid(str(frame.guid)) if frame.guid else client.by_id(frame.schema_id or 0)).kind
        except RegistryError as error:
            if error.status == _NOT_FOUND:
                return error
            raise

    def close(self) -> None:
        """Close its connections."""
        self._client.close()


def _deserializer(kind: str, client: Any) -> Any:
    from ottla.registry import serializers
    from ottla.registry.registered import AVRO, JSON

    name = "AvroDeserializer" if kind == AVRO else "JsonSchemaDeserializer" if kind == JSON else "ProtobufDeserializer"
    return getattr(serializers, name)(client)


def names_schema(part: str, stored: bytes, headers: Headers) -> bool:
    """Whether this begins with what may be the id of a schema, a byte 0 and four more, or a header names one."""
    return (len(stored) > PREFIX_BYTES and stored[0] == _MAGIC) or _named(part, headers) is not None


def _named(part: str, headers: Headers) -> bytes | None:
    wanted = KEY_HEADER if part == "key" else VALUE_HEADER
    return next((value for name, value in reversed(headers) if name == wanted), None)


def as_shown(
    stored: bytes | None,
    size: int,
    most: int,
    *,
    topic: str = "",
    part: str = "value",
    headers: Headers = (),
    registry: Registry | None = None,
) -> dict[str, Any] | None:
    """One key or value: `as` says what `text` is, `shown_bytes` of how many of its bytes (None: of what was decoded).

    `stored` may be the beginning alone of `size` bytes.
    """
    if stored is None:
        return None
    told: dict[str, Any] = {"bytes": size}
    if registry is not None and len(stored) == size and names_schema(part, stored, headers):
        try:
            decoded, kind = registry.decode(topic, part, stored, headers)
            text = json.dumps(decoded, ensure_ascii=False, default=_plain)
            return {**told, "as": kind.lower(), "text": text[:most], "cut": len(text) > most, "shown_bytes": None}
        except (OttlaError, ValueError, RecursionError) as error:
            told["error"] = str(error)[:500]
    cut = stored[:most]
    text_or_none = _text(cut, is_cut=size > len(cut))
    if text_or_none is None:
        cut = cut[:_HEX_BYTES]
        told |= {"as": "hex", "text": cut.hex(" ")}
    else:
        told |= {"as": "text", "text": text_or_none}
    return {**told, "cut": size > len(cut), "shown_bytes": len(cut)}


def _text(stored: bytes, *, is_cut: bool) -> str | None:
    """As UTF-8, None where it is none or holds control characters."""
    # The cut may go through a character.
    for spare in range(4 if is_cut else 1):
        try:
            text = stored[: len(stored) - spare].decode()
        except UnicodeDecodeError:
            continue
        is_text = all(char >= " " or char in _TEXT_CONTROLS for char in text) and "\x7f" not in text
        return text if is_text else None
    return None


def exact(number: int) -> int | str:
    """A number as the page gets it: as text where JavaScript's numbers would round it."""
    return number if -_EXACT_MAX <= number <= _EXACT_MAX else str(number)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return value.hex()
    return str(value)
