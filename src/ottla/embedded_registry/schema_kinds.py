"""A schema of any kind as the registry handles it: checked, written in the form that is kept, ready to be compared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.embedded_registry import avro_schema, json_schema
from ottla.embedded_registry.avro_schema import InvalidSchema
from ottla.embedded_registry.compatibility.difference import Difference
from ottla.embedded_registry.refusals import INVALID_SCHEMA, Refusal
from ottla.registry.cache import Cache
from ottla.registry.registered import AVRO, JSON, KINDS, PROTOBUF

TEXT_BYTES_MAX = 4 << 20
_meanings = Cache(4096)


@dataclass(slots=True, frozen=True)
class Parsed:
    """`text` is what the registry keeps; `tree` is compared."""

    kind: str
    text: str
    tree: Any

    def differences(self, written: Parsed) -> list[Difference]:
        """Nothing where what the other schema wrote can be read with this one."""
        if self.kind != written.kind:
            return [
                Difference("SCHEMA_TYPE_CHANGED", "", f"it is a schema of {self.kind}, and was one of {written.kind}")
            ]
        return _COMPARED[self.kind](self.tree, written.tree)


def parse(
    kind: str, text: str, references: Mapping[str, str], *, normalize: bool = False, strict: bool = True
) -> Parsed:
    """Raises Refusal for what is no schema of this kind; `references` are texts by the names they have in it.

    A schema that is registered already need not be `strict`: another registry may have let it in.
    """
    if len(text) > TEXT_BYTES_MAX:
        raise Refusal(INVALID_SCHEMA, f"Invalid schema: it has more than {TEXT_BYTES_MAX} characters.")
    try:
        return _PARSED[kind](text, references, normalize, strict)
    except InvalidSchema as error:
        raise Refusal(INVALID_SCHEMA, f"Invalid schema of type {kind}, details: {error}") from None
    except RecursionError:
        raise Refusal(INVALID_SCHEMA, f"Invalid schema of type {kind}, details: it is nested too deep.") from None


def check_kind(kind: Any) -> str:
    """The kind of a request, AVRO where it names none; Refusal for one that is not known."""
    if kind is None:
        return AVRO
    if kind not in KINDS:
        raise Refusal(422, f"schemaType {kind!r:.60} must be one of {', '.join(KINDS)}.")
    return str(kind)


def meaning(kind: str, text: str, references: Mapping[str, str]) -> bytes:
    """A digest that is the same for all ways to write a schema that has been parsed."""
    # Kept by digests: a text may have 4 MiB, and whoever looks one up may send a new one each time.
    key = kind, _digest(text), *map(_digest, references.values())
    found: bytes = _meanings.get(key, lambda: _digest(_meaning(kind, text, references)))
    return found


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _meaning(kind: str, text: str, references: Mapping[str, str]) -> str:
    try:
        if kind == AVRO:
            return avro_schema.written(avro_schema.normalized(json.loads(text)))
        if kind == JSON:
            return json_schema.written(json.loads(text), normalize=True)
        from ottla.embedded_registry.protobuf_schema import meaning as of_protobuf

        return of_protobuf(text, references)
    except (Refusal, InvalidSchema, ImportError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass  # of another registry, and not read here: what it says is its text
    return text


def _parse_avro(text: str, references: Mapping[str, str], normalize: bool, strict: bool) -> Parsed:
    tree, loaded = avro_schema.parse_avro(text, references, strict=strict)
    return Parsed(AVRO, avro_schema.written(avro_schema.normalized(loaded) if normalize else loaded), tree)


def _parse_json(text: str, references: Mapping[str, str], normalize: bool, strict: bool) -> Parsed:
    tree = json_schema.parse_json_schema(text, references, strict=strict)
    return Parsed(JSON, json_schema.written(tree.loaded, normalize=normalize), tree)


def _parse_protobuf(text: str, references: Mapping[str, str], normalize: bool, _strict: bool) -> Parsed:
    from ottla.embedded_registry import protobuf_schema

    tree = protobuf_schema.parse_protobuf(text, references)
    return Parsed(PROTOBUF, protobuf_schema.normalized(text) if normalize else text, tree)


def _compare_avro(reader: Any, writer: Any) -> list[Difference]:
    from ottla.embedded_registry.compatibility.avro import avro_differences

    return avro_differences(reader, writer)


def _compare_json(reader: Any, writer: Any) -> list[Difference]:
    from ottla.embedded_registry.compatibility.json_schema import json_differences

    return json_differences(reader, writer)


def _compare_protobuf(reader: Any, writer: Any) -> list[Difference]:
    from ottla.embedded_registry.compatibility.protobuf import protobuf_differences

    return protobuf_differences(reader, writer)


_PARSED: dict[str, Callable[[str, Mapping[str, str], bool, bool], Parsed]] = {
    AVRO: _parse_avro,
    JSON: _parse_json,
    PROTOBUF: _parse_protobuf,
}
_COMPARED: dict[str, Callable[[Any, Any], list[Difference]]] = {
    AVRO: _compare_avro,
    JSON: _compare_json,
    PROTOBUF: _compare_protobuf,
}
