"""Serializers and deserializers with a schema registry, for `value_serializer`, `key_deserializer` and their like.

The registry is asked at the first record of a topic, or of a schema. After that a record costs one look into a dict,
and the encoding itself. Threads may share them, as they may share the registry's client.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ottla.errors import ConfigError
from ottla.foreign_names import registry_comes_first
from ottla.registry.client import RegistryClient
from ottla.registry.codecs import Decode, Encode, decoder, encoder, record_name
from ottla.registry.columns import check_schema_id_in, client_of, schema_header
from ottla.registry.registered import AVRO, JSON, PROTOBUF, RegisteredSchema, SchemaReference, check_schema
from ottla.registry.subjects import SubjectNameStrategy, read_strategy
from ottla.schemas.framing import KEY_HEADER, PREFIX_BYTES, VALUE_HEADER, id_prefix, read_frame

_DECODERS_MOST = 1_000


class RegistrySerializer:
    """What serializers of every kind have in common."""

    kind: ClassVar[str]

    @registry_comes_first
    def __init__(
        self,
        registry: str | Sequence[str] | RegistryClient,
        schema: str | RegisteredSchema | None = None,
        *,
        references: Sequence[SchemaReference] = (),
        subject_name_strategy: str | SubjectNameStrategy = "topic",
        auto_register_schemas: bool = True,
        use_latest_version: bool = False,
        normalize_schemas: bool = False,
        schema_id_in: str = "prefix",
        to_dict: Callable[[Any], Any] | None = None,
    ) -> None:
        """`schema` is a text, or a schema that is registered.

        A text is registered for the subject; with `auto_register_schemas` False it must be registered already.
        `references` are the schemas that the text refers to. With `use_latest_version` the subject's latest schema is
        used instead. With `normalize_schemas` the registry compares and stores the schema in a normal form.
        `subject_name_strategy` names the subject: "topic" (TOPIC-value or TOPIC-key), "record", "topic_record", or a
        function of topic, "key" or "value", and the record's name.

        `schema_id_in` says where a record names its schema: by an id in front of the payload ("prefix"), or by a GUID
        in a header ("header"). `to_dict` is applied to each object first. ConfigError for what cannot be used;
        RegistryError comes from `send`.
        """
        self._registry = client_of(registry)
        self._schema, self._references = schema, tuple(references)
        self._strategy = read_strategy(subject_name_strategy)
        self._settings = {
            "auto_register_schemas": auto_register_schemas,
            "use_latest_version": use_latest_version,
            "normalize_schemas": normalize_schemas,
        }
        self._to_dict = to_dict
        self._message: str | None = None
        self._in_header = check_schema_id_in(schema_id_in) == "header"
        if schema is None and not use_latest_version:
            raise ConfigError("schema is missing: give its text, or use_latest_version=True for that of the subject.")
        check_schema("schema", schema)
        if isinstance(schema, RegisteredSchema):
            if schema.kind != self.kind:
                raise ConfigError(f"The schema is of type {schema.kind}; {type(self).__name__} writes {self.kind}.")
        elif schema is not None:
            _check(schema, self.kind, is_whole=not self._references)

    def of_part(self, part: str) -> Any:
        """The serializer of keys ("key") or of values ("value")."""
        return (_Headed if self._in_header else _Prefixed)(self, part)

    def prepare(self, topic: str, part: str) -> tuple[RegisteredSchema, Encode, Any]:
        """The schema for a topic's keys or values, what encodes by it, and the message's indexes."""
        schema = self._schema
        if not isinstance(schema, RegisteredSchema):
            schema = self._registry.for_writing(
                self._subject(topic, part, schema), schema or "", self.kind, self._references, **self._settings
            )
            if schema.kind != self.kind:
                raise ConfigError(f"The latest schema of {schema.subject!r} is of type {schema.kind}, not {self.kind}.")
        encode, indexes = encoder(schema, self._registry.referred(schema), self._message)
        to_dict = self._to_dict
        return schema, encode if to_dict is None else lambda given, prefix: encode(to_dict(given), prefix), indexes

    def _subject(self, topic: str, part: str, text: str | None) -> str:
        if text is None:
            return self._strategy(topic, part, None)
        like = RegisteredSchema(0, "", self.kind, text, self._references)
        references = self._registry.referred(like) if self._references else {}
        return self._strategy(topic, part, record_name(text, self.kind, references, self._message))


def _check(text: str, kind: str, *, is_whole: bool) -> None:
    """ConfigError for a text that is no schema, where that can be found out without asking the registry."""
    if kind == PROTOBUF or not is_whole:
        return
    try:
        record_name(text, kind, {}, None)
    except ValueError as error:
        raise ConfigError(f"schema is no schema of type {kind}: {str(error).removesuffix('.')}.") from error


class AvroSerializer(RegistrySerializer):
    """Writes dicts as Avro; other objects where the schema is not that of a record."""

    kind = AVRO


class JsonSchemaSerializer(RegistrySerializer):
    """Writes objects as JSON; one that does not match the schema is refused."""

    kind = JSON


class ProtobufSerializer(RegistrySerializer):
    """Writes dicts and messages as Protobuf, without generated classes; `message` names the message of the file."""

    kind = PROTOBUF

    @registry_comes_first
    def __init__(self, registry: Any, schema: Any = None, *, message: str | None = None, **more: Any) -> None:
        super().__init__(registry, schema, **more)
        self._message = message


class _Prefixed:
    """Writes the schema's id in front."""

    def __init__(self, whole: RegistrySerializer, part: str) -> None:
        self._whole, self._part = whole, part

    def for_topic(self, topic: str) -> tuple[Encode, bytes]:
        """What encodes an object for a topic, and what it puts in front."""
        schema, encode, indexes = self._whole.prepare(topic, self._part)
        return encode, id_prefix(schema.id, indexes)


class _Headed:
    """Writes the schema's GUID into a header."""

    def __init__(self, whole: RegistrySerializer, part: str) -> None:
        self._whole, self._part = whole, part
        self._topics: dict[str, tuple[tuple[str, bytes], Encode]] = {}

    def ask(self, topic: str) -> tuple[tuple[str, bytes], Encode]:
        """The header of a topic's records, and what encodes an object for it."""
        known = self._topics.get(topic)
        if known is None:
            schema, encode, indexes = self._whole.prepare(topic, self._part)
            header = KEY_HEADER if self._part == "key" else VALUE_HEADER, schema_header(schema, indexes)
            known = self._topics[topic] = header, encode
        return known

    def serialize_with_headers(self, topic: str, given: Any, headers: list[tuple[str, bytes]]) -> bytes:
        known = self._topics.get(topic) or self.ask(topic)
        made = known[1](given, b"")
        headers.append(known[0])
        return made


class RegistryDeserializer:
    """What deserializers of every kind have in common."""

    kind: ClassVar[str]

    @registry_comes_first
    def __init__(
        self,
        registry: str | Sequence[str] | RegistryClient,
        schema: str | None = None,
        *,
        from_dict: Callable[[Any], Any] | None = None,
    ) -> None:
        """Each record names the schema that it was written with.

        `schema` is the text of another schema, as which all records are read. `from_dict` is applied last, to what was
        decoded. ConfigError for what cannot be used.
        """
        check_schema("schema", schema)
        self.registry, self.schema, self.from_dict = client_of(registry), schema, from_dict
        self.message: str | None = None

    def of_part(self, part: str) -> _Reading:
        """The deserializer of keys ("key") or of values ("value")."""
        return _Reading(self, part)


class AvroDeserializer(RegistryDeserializer):
    """Reads Avro; records are dicts."""

    kind = AVRO


class JsonSchemaDeserializer(RegistryDeserializer):
    """Reads JSON, and checks it against its schema."""

    kind = JSON


class ProtobufDeserializer(RegistryDeserializer):
    """Reads Protobuf into dicts, without generated classes; without `message` a record's own message is read."""

    kind = PROTOBUF

    @registry_comes_first
    def __init__(self, registry: Any, schema: str | None = None, *, message: str | None = None, **more: Any) -> None:
        super().__init__(registry, schema, **more)
        self.message = message


class _Reading:
    """Reads by the schema that a header or the bytes themselves name."""

    def __init__(self, whole: RegistryDeserializer, part: str) -> None:
        self._whole = whole
        self._header = KEY_HEADER if part == "key" else VALUE_HEADER
        self._known: dict[bytes, Decode] = {}

    def deserialize_with_headers(self, topic: str, stored: bytes, headers: Sequence[tuple[str, bytes | None]]) -> Any:
        named = next((value for name, value in reversed(headers) if name == self._header), None) if headers else None
        if named is not None:
            found = self._decoder(named)(stored, 0)
        else:
            prefix = self._prefix(stored)
            found = self._decoder(prefix)(stored, len(prefix))
        return found if self._whole.from_dict is None else self._whole.from_dict(found)

    def _prefix(self, stored: bytes) -> bytes:
        if self._whole.kind != PROTOBUF and stored[:1] == b"\0" and len(stored) >= PREFIX_BYTES:
            return stored[:PREFIX_BYTES]
        return stored[: read_frame(stored, has_indexes=self._whole.kind == PROTOBUF).payload_at]

    def _decoder(self, prefix: bytes) -> Decode:
        known = self._known.get(prefix)
        if known is None:
            known = self._made(prefix)
            if len(self._known) >= _DECODERS_MOST:
                self._known.clear()
            self._known[prefix] = known
        return known

    def _made(self, prefix: bytes) -> Decode:
        whole = self._whole
        registry = whole.registry
        frame = read_frame(prefix, has_indexes=whole.kind == PROTOBUF)
        writer = registry.by_guid(str(frame.guid)) if frame.guid else registry.by_id(frame.schema_id or 0)
        if writer.kind != whole.kind:
            raise ValueError(f"its schema is of type {writer.kind}, not {whole.kind}")
        references = registry.referred(writer)
        message = whole.message
        if whole.kind == PROTOBUF:
            from ottla.schemas.protobuf.schema import ProtobufSchema

            written = ProtobufSchema(writer.text, references=references).message_at(frame.message_indexes).full_name
            if message is not None and written != message and not written.endswith(f".{message}"):
                raise ValueError(f"it is a message {written}, not {message}")
            message = written
        return decoder(writer, references, whole.schema, message)
