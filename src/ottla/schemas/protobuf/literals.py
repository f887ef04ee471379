"""Values written in a `.proto` file: defaults of fields, and options that Protobuf itself defines."""

from __future__ import annotations

import re
import struct
from typing import Any, Final

from google.protobuf import descriptor_pb2 as pb

from ottla.schemas.protobuf.errors import ProtobufSchemaError
from ottla.schemas.protobuf.tokens import Token, whole

_Field: Final = pb.FieldDescriptorProto
_FLOATS: Final = {_Field.TYPE_DOUBLE, _Field.TYPE_FLOAT}
_RANGES: Final = {
    _Field.TYPE_INT32: (-(1 << 31), (1 << 31) - 1), _Field.TYPE_SINT32: (-(1 << 31), (1 << 31) - 1),
    _Field.TYPE_SFIXED32: (-(1 << 31), (1 << 31) - 1), _Field.TYPE_UINT32: (0, (1 << 32) - 1),
    _Field.TYPE_FIXED32: (0, (1 << 32) - 1), _Field.TYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    _Field.TYPE_SINT64: (-(1 << 63), (1 << 63) - 1), _Field.TYPE_SFIXED64: (-(1 << 63), (1 << 63) - 1),
    _Field.TYPE_UINT64: (0, (1 << 64) - 1), _Field.TYPE_FIXED64: (0, (1 << 64) - 1),
}  # fmt: skip
_ESCAPES: Final = {0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t", 0x22: '\\"', 0x27: "\\'", 0x5C: "\\\\"}


def json_name(name: str) -> str:
    """A field's name in JSON: `flight_number` is `flightNumber`."""
    return re.sub(r"_+(.?)", lambda match: match[1].upper(), name)


def _number(token: Token) -> int | float | None:
    """The value of a number, inf or nan; None for other names."""
    text = token.text
    sign = -1 if text[0] == "-" else 1
    text = text.lstrip("-")
    if token.kind == "name":
        return sign * float(text) if text in ("inf", "nan") else None
    if token.kind == "float":
        return sign * float(text.rstrip("fF"))
    number = whole(text)
    return None if number is None else sign * number


def _shortest(value: float, single: bool) -> str:
    """A float as Protobuf writes it: the fewest digits that read back the same, of 15 or 17 (singles: 6 or 9)."""
    if value != value:
        return "nan"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    for digits in (6, 9) if single else (15, 17):
        text = f"{value:.{digits}g}"
        if single and struct.pack("f", float(text)) == struct.pack("f", value):
            return text
        if not single and float(text) == value:
            return text
    return text


def default_text(value: Token | bytes, field: pb.FieldDescriptorProto, where: str) -> str:
    """A default as in a FileDescriptorProto; an error if it does not fit the field's type."""
    kind = field.type
    if isinstance(value, bytes):
        if kind == _Field.TYPE_STRING:
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise ProtobufSchemaError(f"{where}: this string is not UTF-8.") from None
        if kind == _Field.TYPE_BYTES:
            return "".join(
                _ESCAPES.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}") for byte in value
            )
        raise ProtobufSchemaError(f"{where}: the default is a string, and field {field.name} is of another type.")
    if field.type_name and value.kind == "name":
        return value.text
    if kind == _Field.TYPE_BOOL and value.text in ("true", "false"):
        return value.text
    number = _number(value)
    if kind in _FLOATS and number is not None:
        try:
            single = kind == _Field.TYPE_FLOAT
            return _shortest(struct.unpack("f", struct.pack("f", number))[0] if single else float(number), single)
        except OverflowError:
            return "-inf" if number < 0 else "inf"
    if kind in _RANGES and isinstance(number, int):
        least, most = _RANGES[kind]
        if least <= number <= most:
            return str(number)
    raise ProtobufSchemaError(f"{where}: {value.text[:50]!r} is no default for field {field.name}.")


def set_option(options: Any, name: str, value: Token | bytes, where: str) -> None:
    """Set an option that Protobuf itself defines (`packed`, `java_package`), of the type that it has."""
    if name == "map_entry":
        raise ProtobufSchemaError(f"{where}: map_entry is set by map<...> alone.")
    parts = name.split(".")
    for part in parts[:-1]:
        if options.DESCRIPTOR.fields_by_name.get(part) is None or not hasattr(getattr(options, part), "DESCRIPTOR"):
            raise ProtobufSchemaError(f"{where}: there is no option {name!r}.")
        options = getattr(options, part)
    field = options.DESCRIPTOR.fields_by_name.get(parts[-1])
    if field is None or field.type == field.TYPE_MESSAGE:
        raise ProtobufSchemaError(f"{where}: there is no option {name!r} here.")
    made = _option_value(field, value)
    if made is None:
        shown = value.decode("utf-8", "replace") if isinstance(value, bytes) else value.text
        raise ProtobufSchemaError(f"{where}: {shown[:50]!r} is no value of option {name!r}.")
    try:
        if field.is_repeated:
            getattr(options, field.name).append(made)
        else:
            setattr(options, field.name, made)
    except (TypeError, ValueError) as error:
        raise ProtobufSchemaError(f"{where}: option {name!r}: {error}.") from None


def _option_value(field: Any, value: Token | bytes) -> Any:
    if isinstance(value, bytes):
        if field.type == field.TYPE_BYTES:
            return value
        return value.decode("utf-8", "replace") if field.type == field.TYPE_STRING else None
    if field.type == field.TYPE_BOOL:
        return {"true": True, "false": False}.get(value.text)
    if field.type == field.TYPE_ENUM:
        found = field.enum_type.values_by_name.get(value.text)
        return None if found is None else found.number
    return None if field.type in (field.TYPE_STRING, field.TYPE_BYTES) else _number(value)
