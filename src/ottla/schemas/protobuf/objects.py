"""Single messages: a dict <-> bytes, by Protobuf's own runtime and without generated classes.

A message is a dict by field names, a repeated field a list, a map a dict, an enum's value its name (a number without a
name stays a number). A field with presence that was not set is None. Timestamp and Duration are datetime (in UTC) and
timedelta, which have microseconds: nanoseconds are cut off. A wrapper is its value; Struct, Value and ListValue are
their JSON values. Unlike in columns, recursive messages are allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.message import DecodeError, EncodeError, Message
from google.protobuf.message_factory import GetMessageClass

from ottla.schemas.mistaken import advice, is_missing
from ottla.schemas.protobuf.errors import ProtobufDataError
from ottla.schemas.protobuf.parse import SCALARS
from ottla.schemas.protobuf.schema import ProtobufSchema

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_DURATION_MAX: Final = 315_576_000_000
_DEPTH_MAX: Final = 100
_SHOWN_MOST: Final = 100
_NAMES: Final = {number: name for name, number in SCALARS.items()}
_JSON: Final = {"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"}
_WRAPPERS: Final = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}


class ProtobufObjects:
    """Encodes and decodes single messages of one type; `indexes` are its message indexes in the wire format."""

    def __init__(
        self, schema: ProtobufSchema | str, message: str | None = None, *, references: Mapping[str, str] | None = None
    ) -> None:
        made = ProtobufSchema(schema, references=references) if isinstance(schema, str) else schema
        self._descriptor = made.message(message)
        self._class = GetMessageClass(self._descriptor)
        self._schema = made

    @property
    def indexes(self) -> tuple[int, ...]:
        return self._schema.indexes_of(self._descriptor)

    def encode_one(self, value: Mapping[str, Any] | Message) -> bytes:
        """The bytes of a dict, or of a message object of this full name; ProtobufDataError has the field."""
        if isinstance(value, Message):
            if value.DESCRIPTOR.full_name != self._descriptor.full_name:
                raise ProtobufDataError(
                    f"The value is a message {value.DESCRIPTOR.full_name!r}; "
                    f"the schema has {self._descriptor.full_name!r}."
                )
            message = value
        else:
            message = self._class()
            _fill(message, value, "", 0)
        _refuse_missing(message)
        try:
            return bytes(message.SerializePartialToString())
        except EncodeError as error:
            raise ProtobufDataError(f"{error}."[:300]) from None

    def decode_one(self, payload: bytes) -> dict[str, Any]:
        """The dict of a message's bytes."""
        message = self._class()
        try:
            message.ParseFromString(payload)
        except DecodeError:
            raise ProtobufDataError(
                f"These {len(payload)} bytes are no message {self._descriptor.full_name!r}."
            ) from None
        _refuse_missing(message)
        return _read(message)


# ---------------------------------------------------------------------- both ways


def _refuse_missing(message: Any) -> None:
    """ProtobufDataError for a required field of proto2 that is not set.

    The runtime's own functions end the process if such a field is missing in a map's message (protobuf 6, upb).
    """
    if not message.IsInitialized():
        missing = next(_missing(message, ""), None)
        which = "A field of an extension" if missing is None else f"Field {missing!r}"
        raise ProtobufDataError(f"{which} is required, and missing.")


def _missing(message: Any, within: str) -> Iterator[str]:
    for field in message.DESCRIPTOR.fields:
        path = f"{within}{field.name}"
        if field.is_required and not message.HasField(field.name):
            yield path
        elif field.message_type is None:
            continue
        elif _is_map(field):
            if field.message_type.fields_by_name["value"].message_type is not None:
                entries = getattr(message, field.name)
                for key in entries:
                    yield from _missing(entries[key], f"{path}[{key!r}].")
        elif field.is_repeated:
            for number, each in enumerate(getattr(message, field.name)):
                yield from _missing(each, f"{path}[{number}].")
        elif message.HasField(field.name):
            yield from _missing(getattr(message, field.name), f"{path}.")


# ---------------------------------------------------------------------- reading


def _read(message: Any) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if _is_map(field):
            entries = getattr(message, field.name)
            of = field.message_type.fields_by_name["value"]
            row[field.name] = {key: _value(entries[key], of) for key in entries}
        elif field.is_repeated:
            row[field.name] = [_value(each, field) for each in getattr(message, field.name)]
        elif field.has_presence and not message.HasField(field.name):
            row[field.name] = None
        else:
            row[field.name] = _value(getattr(message, field.name), field)
    return row


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _value(value: Any, field: Any) -> Any:
    if field.message_type is None:
        if field.enum_type is None:
            if field.type == field.TYPE_STRING and isinstance(value, bytes):
                # Of proto2, the runtime takes them.
                raise ProtobufDataError(f"Field {field.name!r} has bytes that are not UTF-8.")
            return value
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    name = field.message_type.full_name
    if name == "google.protobuf.Timestamp":
        return _time(value, field.name, _EPOCH)
    if name == "google.protobuf.Duration":
        return _time(value, field.name, timedelta())
    if name in _WRAPPERS:
        return value.value
    if name in _JSON:
        return json_format.MessageToDict(value)
    return _read(value)


def _time(value: Any, name: str, since: Any) -> Any:
    is_well = abs(value.nanos) < 10**9 and (value.nanos >= 0 if since is _EPOCH else value.seconds * value.nanos >= 0)
    if not is_well:
        told = f"{value.seconds} seconds and {value.nanos} nanoseconds are no time that Protobuf has"
        raise ProtobufDataError(f"Field {name!r}: {told}.")
    # Rounded towards zero: a duration's nanos have the sign of its seconds, a timestamp's are positive.
    micros = abs(value.nanos) // 1000 * (-1 if value.nanos < 0 else 1)
    try:
        return since + timedelta(seconds=value.seconds, microseconds=micros)
    except OverflowError:
        raise ProtobufDataError(f"Field {name!r}: {value.seconds} seconds are no time that Protobuf has.") from None


# ---------------------------------------------------------------------- writing


def _fill(message: Any, value: Any, path: str, depth: int) -> None:
    if isinstance(value, Message):
        given, wanted = value.DESCRIPTOR.full_name, message.DESCRIPTOR.full_name
        if given != wanted:
            raise ProtobufDataError(f"Field {path!r} is a message {given!r}; its type is {wanted!r}.")
        # By its bytes, because its class is another one, even if the name is the same.
        message.ParseFromString(value.SerializePartialToString())
        return
    if not isinstance(value, Mapping):
        where = f"Field {path!r}" if path else "The value"
        told = f"{where} is a message {message.DESCRIPTOR.full_name!r}: give a dict, not {_kind(value)}."
        raise ProtobufDataError(f"{told}{advice(value, is_whole=not path)}")
    if depth > _DEPTH_MAX:
        raise ProtobufDataError(f"Field {path[:100]!r} is in more than {_DEPTH_MAX} messages.")
    chosen: dict[str, str] = {}
    for name, each in value.items():
        field = message.DESCRIPTOR.fields_by_name.get(name)
        inner = f"{path}.{name}" if path else str(name)
        if field is None:
            known = ", ".join(repr(other.name) for other in message.DESCRIPTOR.fields[:20]) or "none"
            raise ProtobufDataError(f"There is no field {inner!r}; the fields there are {known}.")
        if each is None:
            continue
        if field.containing_oneof is not None:
            other = chosen.setdefault(field.containing_oneof.name, name)
            if other != name:
                raise ProtobufDataError(f"Field {inner!r}: {other!r} of the same oneof is set, too; set one of them.")
        try:
            _set(message, field, each, inner, depth)
        except ProtobufDataError:
            raise
        except TypeError:
            # The library's own text has neither the value nor the type.
            shown = repr(each)[:_SHOWN_MOST]
            raise ProtobufDataError(
                f"Field {inner!r} is {shown} ({_kind(each)}): its type is {_type(field)}.{advice(each, is_whole=False)}"
            ) from None
        except (ValueError, OverflowError, AttributeError, json_format.ParseError) as error:
            raise ProtobufDataError(f"Field {inner!r}: {error}"[:300].rstrip(".") + ".") from None


def _kind(value: Any) -> str:
    return type(value).__name__


def _type(field: Any) -> str:
    """A field's type as in a .proto file."""
    if _is_map(field):
        of = field.message_type.fields_by_name
        return f"map<{_type(of['key'])}, {_type(of['value'])}>"
    named = field.message_type or field.enum_type
    name = _NAMES[field.type] if named is None else named.full_name
    return f"repeated {name}" if field.is_repeated else name


def _set(message: Any, field: Any, value: Any, path: str, depth: int) -> None:
    if _is_map(field):
        if not isinstance(value, Mapping):
            raise ProtobufDataError(f"Field {path!r} is a map: give a dict, not {_kind(value)}.")
        entries = getattr(message, field.name)
        of = field.message_type.fields_by_name["value"]
        for key, each in value.items():
            if of.message_type is None:
                entries[key] = _scalar(each, of)
            else:
                _fill_one(entries[key], each, of, f"{path}.{key}", depth)
    elif field.is_repeated:
        if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
            raise ProtobufDataError(f"Field {path!r} is repeated: give a list, not {_kind(value)}.")
        items = getattr(message, field.name)
        for i, each in enumerate(value):
            if field.message_type is None:
                items.append(_scalar(each, field))
            else:
                _fill_one(items.add(), each, field, f"{path}[{i}]", depth)
    elif field.message_type is None:
        setattr(message, field.name, _scalar(value, field))
    else:
        inner = getattr(message, field.name)
        inner.SetInParent()
        _fill_one(inner, value, field, path, depth)


def _scalar(value: Any, field: Any) -> Any:
    if field.enum_type is not None and isinstance(value, str):
        known = field.enum_type.values_by_name.get(value)
        if known is None:
            raise ValueError(f"{value!r} is no name of enum {field.enum_type.full_name}")
        return known.number
    return value


def _fill_one(inner: Any, value: Any, field: Any, path: str, depth: int) -> None:
    """Fill a message inside another one."""
    name = field.message_type.full_name
    if value is None:
        raise ProtobufDataError(f"Field {path!r} is None, which lists and maps of Protobuf cannot hold.")
    if is_missing(value):
        raise ProtobufDataError(f"Field {path!r} is {value}.{advice(value, is_whole=False)}")
    if name == "google.protobuf.Timestamp" and isinstance(value, datetime):
        # A datetime without a time zone is taken as UTC.
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        inner.FromDatetime(aware)
        # A pandas.Timestamp is a datetime that has nanoseconds, too.
        inner.nanos = inner.nanos // 1000 * 1000 + getattr(value, "nanosecond", inner.nanos % 1000)
    elif name == "google.protobuf.Duration" and isinstance(value, timedelta):
        # A pandas.Timedelta is a timedelta that has nanoseconds, too.
        nanos = value // _MICROSECOND * 1000 + getattr(value, "nanoseconds", 0)
        inner.seconds, inner.nanos = (part if nanos >= 0 else -part for part in divmod(abs(nanos), 10**9))
        if abs(inner.seconds) > _DURATION_MAX:
            raise ProtobufDataError(f"Field {path!r}: a duration is 10,000 years at most ({_DURATION_MAX} seconds).")
    elif name in _WRAPPERS and not isinstance(value, (Mapping, Message)):
        inner.value = value
    elif name in _JSON and not isinstance(value, Message):
        json_format.ParseDict(value, inner)
    else:
        _fill(inner, value, path, depth + 1)
