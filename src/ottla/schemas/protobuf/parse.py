"""`.proto` text -> FileDescriptorProto, as protoc makes it, without protoc (proto2 and proto3).

A recursive descent parser over `tokens`. Type names stay as they are written; `names` resolves them when the imported
files are parsed. Options that imported files define (in parentheses) are skipped: no payload depends on them. Messages
nest at most 30 deep, as in protoc.

https://protobuf.dev/reference/protobuf/proto2-spec/ and proto3-spec
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2 as pb

from ottla.schemas.protobuf.errors import ProtobufSchemaError
from ottla.schemas.protobuf.literals import default_text, json_name, set_option
from ottla.schemas.protobuf.tokens import Token, tokens, unquoted, whole

FieldProto: Final = pb.FieldDescriptorProto
SCALARS: Final = {
    name: FieldProto.Type.Value(f"TYPE_{name.upper()}")
    for name in (
        "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32",
        "sfixed64", "bool", "string", "bytes",
    )
}  # fmt: skip
_LABELS: Final = {
    "optional": FieldProto.LABEL_OPTIONAL, "required": FieldProto.LABEL_REQUIRED, "repeated": FieldProto.LABEL_REPEATED,
}  # fmt: skip
_NUMBER_MAX: Final = 536_870_911
_INT32_MAX: Final = 2_147_483_647
_NESTED_MAX: Final = 30
_AGGREGATE_MAX: Final = 64
_NAME_MAX: Final = 500


def parse_file(text: str, name: str) -> pb.FileDescriptorProto:
    """The descriptor of a `.proto` file; ProtobufSchemaError has the line of an error."""
    return _Parser(text, name).file()


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self._name = name
        self._tokens = tokens(text, name)
        self._at = 0
        self._proto = pb.FileDescriptorProto(name=name)
        self._nested = 0

    # ------------------------------------------------------------------ words

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    @property
    def _after(self) -> Token:
        """The word after the next one."""
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)]

    def _wrong(self, expected: str, token: Token | None = None) -> ProtobufSchemaError:
        token = token or self._next
        found = "the file ends" if token.kind == "end" else f"there is {token.text[:50]!r}"
        return self._refused(f"{expected} is expected here, and {found}", token)

    def _refused(self, why: str, token: Token) -> ProtobufSchemaError:
        return ProtobufSchemaError(f"{self._name}, line {token.line}: {why}.")

    def _take(self) -> Token:
        token = self._next
        if token.kind != "end":
            self._at += 1
        return token

    def _has(self, *texts: str) -> bool:
        token = self._next
        return token.text in texts and token.kind in ("name", "mark")

    def _accept(self, text: str) -> bool:
        if self._has(text):
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._wrong(repr(text))

    def _identifier(self) -> str:
        token = self._take()
        if token.kind != "name" or len(token.text) > _NAME_MAX:
            raise self._wrong("a name" if token.kind != "name" else f"a name of at most {_NAME_MAX} letters", token)
        return token.text

    def _dotted(self) -> str:
        """A dotted name, perhaps with a dot in front."""
        name = ("." if self._accept(".") else "") + self._identifier()
        while self._accept("."):
            name += "." + self._identifier()
            if len(name) > _NAME_MAX:
                raise self._wrong(f"a name of at most {_NAME_MAX} letters")
        return name

    def _integer(self, most: int, least: int = 0) -> int:
        negative = least < 0 and self._accept("-")
        token = self._take()
        if token.kind != "integer":
            raise self._wrong("a whole number", token)
        if len(token.text) > 30:
            raise self._wrong("a number of less than 30 digits", token)
        number = whole(token.text)
        if number is None or not least <= (-number if negative else number) <= most:
            raise self._wrong(f"a number from {least} to {most}", token)
        return -number if negative else number

    def _string(self) -> bytes:
        """A string, or several in a row, joined."""
        if self._next.kind != "string":
            raise self._wrong("a string in quotes")
        parts = []
        while self._next.kind == "string":
            parts.append(unquoted(self._take(), self._name))
        return b"".join(parts)

    def _text(self) -> str:
        token = self._next
        try:
            return self._string().decode()
        except UnicodeDecodeError:
            raise ProtobufSchemaError(f"{self._name}, line {token.line}: this string is not UTF-8.") from None

    # ------------------------------------------------------------------ the file

    def file(self) -> pb.FileDescriptorProto:
        proto = self._proto
        if self._has("syntax", "edition"):
            self._syntax()
        while self._next.kind != "end":
            if self._accept(";"):
                continue
            if self._accept("import"):
                kind = self._take().text if self._has("public", "weak") else ""
                proto.dependency.append(self._text())
                if kind:
                    getattr(proto, f"{kind}_dependency").append(len(proto.dependency) - 1)
                self._expect(";")
            elif self._accept("package"):
                if proto.package:
                    raise self._refused("this is a second package; a file has one", self._next)
                proto.package = self._dotted()
                self._expect(";")
            elif self._accept("option"):
                self._option(proto.options)
                self._expect(";")
            elif self._accept("message"):
                self._message(proto.message_type.add())
            elif self._accept("enum"):
                self._enum(proto.enum_type.add())
            elif self._accept("extend"):
                self._extend(proto.extension, proto.message_type)
            elif self._accept("service"):
                self._service(proto.service.add())
            else:
                raise self._wrong("message, enum, import, package, option, extend or service")
        return proto

    def _syntax(self) -> None:
        word = self._take()
        self._expect("=")
        value = self._text()
        self._expect(";")
        if word.text == "edition" or value not in ("proto2", "proto3"):
            raise ProtobufSchemaError(
                f"{self._name}, line {word.line}: {word.text} {value!r} is not supported; "
                "write the file with syntax 'proto2' or 'proto3'."
            )
        if value == "proto3":
            self._proto.syntax = value

    # ------------------------------------------------------------------ options

    def _option(self, options: Any) -> None:
        """Read `name = value` and set it in a message of options, unless an imported file defines the option."""
        name = self._option_name()
        self._expect("=")
        if self._accept("{"):
            self._skip_aggregate()
            return
        value = self._constant()
        if "(" not in name:
            set_option(options, name, value, f"{self._name}, line {self._next.line}")

    def _option_name(self) -> str:
        parts = []
        while True:
            if self._accept("("):
                parts.append(f"({self._dotted()})")
                self._expect(")")
            else:
                parts.append(self._identifier())
            if not self._accept("."):
                return ".".join(parts)

    def _constant(self) -> Token | bytes:
        """A number (with its sign), a name, or the bytes of a string."""
        if self._next.kind == "string":
            return self._string()
        sign = self._take().text if self._has("-", "+") else ""
        token = self._take()
        if token.kind not in ("name", "integer", "float") or len(token.text) > 1000:
            raise self._wrong("a value", token)
        text = token.text
        if token.kind == "name":
            while self._accept(".") and len(text) <= _NAME_MAX:
                text += "." + self._identifier()
        return Token(token.kind, ("-" if sign == "-" else "") + text, token.line)

    def _skip_aggregate(self) -> None:
        depth = 1
        while depth:
            token = self._take()
            if token.kind == "end":
                raise self._wrong("'}'", token)
            depth += (token.text == "{") - (token.text == "}")
            if depth > _AGGREGATE_MAX:
                raise self._wrong(f"an option nested no more than {_AGGREGATE_MAX} deep", token)

    def _options_in_brackets(self, options: Any, field: pb.FieldDescriptorProto | None = None) -> None:
        if not self._accept("["):
            return
        while True:
            if field is not None and self._has("default", "json_name"):
                word = self._take()
                self._expect("=")
                if word.text == "json_name":
                    field.json_name = self._text()
                else:
                    if self._proto.syntax == "proto3":
                        raise self._refused("proto3 has no defaults; take it away, or use proto2", word)
                    field.default_value = default_text(self._constant(), field, f"{self._name}, line {word.line}")
            else:
                self._option(options)
            if not self._accept(","):
                break
        self._expect("]")

    # ------------------------------------------------------------------ messages

    def _message(self, message: pb.DescriptorProto) -> None:
        message.name = self._identifier()
        self._body(message)

    def _body(self, message: pb.DescriptorProto) -> None:
        self._nested += 1
        if self._nested > _NESTED_MAX:
            raise self._wrong(f"a message nested no more than {_NESTED_MAX} deep")
        self._expect("{")
        while not self._accept("}"):
            self._element(message)
        self._nested -= 1
        # A proto3 field marked optional is the only one in a oneof of its own, after the written oneofs.
        taken = {field.name for field in message.field} | {oneof.name for oneof in message.oneof_decl}
        for field in message.field:
            if field.proto3_optional:
                name = field.name if field.name.startswith("_") else f"_{field.name}"
                while name in taken:
                    name = f"X{name}"
                taken.add(name)
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=name)

    def _element(self, message: pb.DescriptorProto) -> None:
        # Keywords may be type names, too: `message.Type field = 1;`
        follows = self._after
        named = follows.kind in ("name", "string", "integer") or follows.text == "("
        if self._accept(";"):
            return
        if named and self._accept("message"):
            self._message(message.nested_type.add())
        elif named and self._accept("enum"):
            self._enum(message.enum_type.add())
        elif named and self._accept("extend"):
            self._extend(message.extension, message.nested_type)
        elif named and self._accept("option"):
            self._option(message.options)
            self._expect(";")
        elif named and self._accept("oneof"):
            self._oneof(message)
        elif named and self._accept("extensions"):
            first = len(message.extension_range)
            self._ranges(message.extension_range, 1, _NUMBER_MAX, 1)
            options = pb.ExtensionRangeOptions()
            self._options_in_brackets(options)
            for extension_range in list(message.extension_range)[first:]:
                if options.ListFields():
                    extension_range.options.CopyFrom(options)
            self._expect(";")
        elif named and self._accept("reserved"):
            self._reserved(message.reserved_name, message.reserved_range, 1, _NUMBER_MAX, 1)
        elif self._has("map") and follows.text == "<":
            self._map(message)
        else:
            self._field(message.field, message.nested_type)

    def _field(self, fields: Any, groups: Any, oneof: int | None = None) -> None:
        field = fields.add()
        proto3 = self._proto.syntax == "proto3"
        word = self._next
        if self._has(*_LABELS) and oneof is None:
            field.label = _LABELS[self._take().text]
            if proto3 and field.label == FieldProto.LABEL_REQUIRED:
                raise self._refused("proto3 has no required fields; take 'required' away, or use proto2", word)
            if proto3 and field.label == FieldProto.LABEL_OPTIONAL:
                field.proto3_optional = True
        elif not proto3 and oneof is None:
            raise self._wrong("optional, required or repeated")
        else:
            field.label = FieldProto.LABEL_OPTIONAL
        if oneof is not None:
            field.oneof_index = oneof
        if self._has("group") and self._after.kind == "name":
            self._group(field, groups)
            return
        type_name = self._dotted()
        if type_name in SCALARS:
            field.type = SCALARS[type_name]
        else:
            field.type_name = type_name
        self._rest_of_field(field)
        self._expect(";")

    def _rest_of_field(self, field: pb.FieldDescriptorProto) -> None:
        field.name = self._identifier()
        self._expect("=")
        field.number = self._integer(_NUMBER_MAX, 1)
        self._options_in_brackets(field.options, field)
        if not field.json_name:
            field.json_name = json_name(field.name)

    def _group(self, field: pb.FieldDescriptorProto, groups: Any) -> None:
        if self._proto.syntax == "proto3":
            raise self._refused("proto3 has no groups; write a message and a field of its type", self._next)
        self._expect("group")
        message = groups.add(name=self._next.text)
        if not message.name[:1].isupper():
            raise self._wrong("a group's name, which begins with a capital letter,")
        field.type = FieldProto.TYPE_GROUP
        field.type_name = message.name
        self._rest_of_field(field)
        field.name = message.name.lower()
        field.json_name = json_name(field.name)
        self._body(message)

    def _map(self, message: pb.DescriptorProto) -> None:
        self._expect("map")
        self._expect("<")
        word = self._next
        key = SCALARS.get(self._dotted())
        if key in (None, FieldProto.TYPE_DOUBLE, FieldProto.TYPE_FLOAT, FieldProto.TYPE_BYTES):
            raise self._wrong("a map's key, which is of a whole number's type, bool or string,", word)
        self._expect(",")
        value = self._dotted()
        self._expect(">")
        field = message.field.add(label=FieldProto.LABEL_REPEATED)
        self._rest_of_field(field)
        self._expect(";")
        entry = message.nested_type.add(name=_entry_name(field.name))
        entry.options.map_entry = True
        entry.field.add(name="key", json_name="key", number=1, label=FieldProto.LABEL_OPTIONAL, type=key)
        last = entry.field.add(name="value", json_name="value", number=2, label=FieldProto.LABEL_OPTIONAL)
        if value in SCALARS:
            last.type = SCALARS[value]
        else:
            last.type_name = value
        field.type = FieldProto.TYPE_MESSAGE
        field.type_name = entry.name

    def _oneof(self, message: pb.DescriptorProto) -> None:
        index = len(message.oneof_decl)
        oneof = message.oneof_decl.add(name=self._identifier())
        self._expect("{")
        while not self._accept("}"):
            if self._accept(";"):
                continue
            if self._has("option") and self._after.text != ".":
                self._expect("option")
                self._option(oneof.options)
                self._expect(";")
            else:
                self._field(message.field, message.nested_type, index)

    def _ranges(self, ranges: Any, least: int, most: int, past: int) -> None:
        """Read `1, 3 to 5, 9 to max`; `past` is 1 if a range's end is the first number after it."""
        while True:
            first = last = self._integer(most, least)
            if self._accept("to"):
                last = most if self._accept("max") else self._integer(most, first)
            ranges.add(start=first, end=last + past)
            if not self._accept(","):
                return

    def _reserved(self, names: Any, ranges: Any, least: int, most: int, past: int) -> None:
        if self._next.kind == "string":
            names.append(self._text())
            while self._accept(","):
                names.append(self._text())
        else:
            self._ranges(ranges, least, most, past)
        self._expect(";")

    def _extend(self, fields: Any, groups: Any) -> None:
        extended = self._dotted()
        self._expect("{")
        while not self._accept("}"):
            if self._accept(";"):
                continue
            self._field(fields, groups)
            fields[-1].extendee = extended

    # ------------------------------------------------------------------ enums and services

    def _enum(self, enum: pb.EnumDescriptorProto) -> None:
        enum.name = self._identifier()
        self._expect("{")
        while not self._accept("}"):
            if self._accept(";"):
                continue
            follows = self._after
            if self._has("option") and follows.text != "=":
                self._expect("option")
                self._option(enum.options)
                self._expect(";")
            elif self._has("reserved") and follows.text != "=":
                self._expect("reserved")
                self._reserved(enum.reserved_name, enum.reserved_range, -_INT32_MAX - 1, _INT32_MAX, 0)
            else:
                value = enum.value.add(name=self._identifier())
                self._expect("=")
                value.number = self._integer(_INT32_MAX, -_INT32_MAX - 1)
                self._options_in_brackets(value.options)
                self._expect(";")
        if not enum.value:
            raise self._wrong(f"a value in enum {enum.name}")

    def _service(self, service: pb.ServiceDescriptorProto) -> None:
        service.name = self._identifier()
        self._expect("{")
        while not self._accept("}"):
            if self._accept(";"):
                continue
            if self._accept("option"):
                self._option(service.options)
                self._expect(";")
                continue
            self._expect("rpc")
            method = service.method.add(name=self._identifier())
            method.input_type = self._rpc_type(method, "client_streaming")
            self._expect("returns")
            method.output_type = self._rpc_type(method, "server_streaming")
            if not self._accept("{"):
                self._expect(";")
                continue
            while not self._accept("}"):
                if self._accept(";"):
                    continue
                self._expect("option")
                self._option(method.options)
                self._expect(";")

    def _rpc_type(self, method: pb.MethodDescriptorProto, streaming: str) -> str:
        self._expect("(")
        if self._has("stream") and self._after.text != ")":
            self._expect("stream")
            setattr(method, streaming, True)
        name = self._dotted()
        self._expect(")")
        return name


def _entry_name(field: str) -> str:
    """The name of the message of a map's entries, as protoc makes it."""
    made = []
    capital = True
    for letter in field:
        if letter == "_":
            capital = True
        else:
            made.append(letter.upper() if capital else letter)
            capital = False
    return "".join(made) + "Entry"
