"""Altered payloads and altered schemas: no crash, no hang, no wrong value; a sentence, or what the runtime reads."""

from __future__ import annotations

import base64
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2 as pb
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from grpc_tools import protoc
from tests.drawn import commit_seeds, fixed_seeds
from tests.schemas.protobuf.drawn_messages import comparable, inner_messages, row_of
from tests.schemas.protobuf.test_decode import leaves_out_entries
from tests.schemas.protobuf.test_parse import ROOTS, THREE, TRICKY, bare

from ottla.schemas.protobuf.decode import ProtobufDecoder
from ottla.schemas.protobuf.encode import ProtobufEncoder
from ottla.schemas.protobuf.errors import ProtobufDataError, ProtobufSchemaError
from ottla.schemas.protobuf.objects import ProtobufObjects
from ottla.schemas.protobuf.schema import ProtobufSchema
from ottla.schemas.protobuf.tokens import tokens

PAYLOADS = 10_000
SCHEMAS = 1_000
TEXT = """
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
message M {
  {o}int32 a = 1; {o}string b = 2; repeated int64 c = 3; map<string, int32> d = 4; {o}double e = 5; {o}N f = 6;
  repeated N g = 7; {o}E h = 8; {o}google.protobuf.Timestamp i = 9; {o}google.protobuf.StringValue j = 10;
  oneof k { int32 l = 11; N m = 12; bytes n = 13; } {o}bool q = 14; repeated bool r = 15; map<int32, N> s = 16;
  repeated string t = 17; repeated fixed32 u = 18; {o}google.protobuf.Duration v = 19; repeated E w = 2000;
  map<bool, E> x = 21; repeated sint32 y = 22; map<int64, bytes> z = 23;
}
message N { {o}int32 a = 1; repeated string b = 2; {o}E c = 3; repeated float d = 4;
  map<uint32, string> e = 5; {o}O f = 6; }
message O { {o}sfixed64 a = 1; repeated google.protobuf.Int64Value b = 2; }
enum E { ZERO = 0; ONE = 1; MINUS = -1; FAR = 100000; }
"""
ODD = [b"\xff" * 9 + b"\x01", b"\xff" * 10, b"\x80" * 5 + b"\x01", b"\xff\xff\xff\xff\x0f", b"\x0f" * 3, b"\0", b"\x80"]
WORDS = """
{ } ; = [ ] ( ) < > . , - max to map group oneof message enum repeated optional required reserved extensions extend
option stream 0 1 99999999999999999999 536870911 19000 0x7FFFFFFF 1e999 inf nan M E .M int32 string
google.protobuf.Timestamp bytes import syntax edition packed default json_name allow_alias service rpc "x"
'\\377' /* // é
"""
PIECES = [*WORDS.split(), "\0", "\ud800"]


def message(kind: Any, draw: random.Random, depth: int = 0) -> Any:
    """A message with some of its fields set."""
    made = kind()
    for field in kind.DESCRIPTOR.fields:
        if draw.random() < 0.5 or depth > 3:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            entries = getattr(made, field.name)
            key, value = (field.message_type.fields_by_number[number] for number in (1, 2))
            for _ in range(draw.randrange(3)):
                if value.message_type is not None:
                    entries[_scalar(key, draw)].SetInParent()
                else:
                    entries[_scalar(key, draw)] = _scalar(value, draw)
        elif field.is_repeated:
            for _ in range(draw.randrange(4)):
                if field.message_type is not None:
                    inner = getattr(made, field.name).add()
                    inner.CopyFrom(message(type(inner), draw, depth + 1))
                else:
                    getattr(made, field.name).append(_scalar(field, draw))
        elif field.message_type is not None:
            inner = getattr(made, field.name)
            inner.SetInParent()
            inner.CopyFrom(message(type(inner), draw, depth + 1))
        else:
            setattr(made, field.name, _scalar(field, draw))
    return made


def _scalar(field: Any, draw: random.Random) -> Any:
    if field.type == field.TYPE_STRING:
        return draw.choice(["", "a", "žvižg", "long " * draw.randrange(1, 40)])
    if field.type == field.TYPE_BYTES:
        return draw.randbytes(draw.randrange(6))
    if field.type == field.TYPE_ENUM:
        return draw.choice([0, 1, -1, 100000])
    if field.type in (field.TYPE_DOUBLE, field.TYPE_FLOAT):
        return draw.choice([0.0, -0.0, 1.5, float("inf"), float("nan")])
    if field.type == field.TYPE_BOOL:
        return draw.random() < 0.5
    return draw.choice([0, 1, 2, 127, 128, 999_999_999, 2_000_000_000])


def altered(payload: bytes, draw: random.Random, others: list[bytes]) -> bytes:
    """A payload with one to four changes."""
    made = bytearray(payload)
    for _ in range(draw.randrange(1, 5)):
        at = draw.randrange(len(made) + 1)
        change = draw.randrange(8)
        if change == 0 and at < len(made):
            made[at] ^= 1 << draw.randrange(8)
        elif change == 1:
            del made[at : at + draw.randrange(1, 4)]
        elif change == 2:
            made[at:at] = draw.randbytes(draw.randrange(1, 4))
        elif change == 3:
            del made[at:]
        elif change == 4:
            made[at:at] = made[draw.randrange(len(made) + 1) :][:20]
        elif change == 5:
            made += draw.choice(others)
        elif change == 6:
            made[at : at + 1] = draw.choice(ODD)
        elif at < len(made):
            made[at] = draw.randrange(256)
    return bytes(made)


def schema_of(syntax: str) -> ProtobufSchema:
    return ProtobufSchema(f'syntax = "{syntax}";' + TEXT.replace("{o}", "optional " if syntax == "proto2" else ""))


def check(schema: ProtobufSchema, payloads: list[bytes]) -> int:
    """Hold a column of payloads against the runtime, one by one; how many of them it reads."""
    kind = schema.message_class("M")
    decoder = ProtobufDecoder(schema, "M")
    rows = pa.array(decoder.decode(pa.array(payloads, pa.binary()), mode="null"))
    rows.validate(full=True)
    read = 0
    for payload, row in zip(payloads, rows.to_pylist(), strict=True):
        try:
            expected = kind.FromString(payload)
        except DecodeError:
            assert row is None, payload
            continue
        read += 1
        if row is not None:
            assert leaves_out_entries(expected) or comparable(row) == row_of(expected), payload
            continue
        with pytest.raises(ProtobufDataError) as refused:
            decoder.decode(pa.array([payload], pa.binary()))
        own = ["seconds and nanos are not a time", "before 1677 or after 2262"]
        own += ["not UTF-8"] if schema.proto.syntax != "proto3" else []
        # Within an entry that the runtime leaves out, text is not looked at either.
        own += ["not UTF-8"] if leaves_out_entries(expected) else []
        own += ["no field with such a number"] if lets_zero_pass(expected) else []
        assert any(words in str(refused.value) for words in own), (payload, refused.value)
    return read


def lets_zero_pass(message: Any) -> bool:
    """Whether the runtime has passed over a field of number 0, which there is none of, in a group that is not known."""

    def has_zero(fields: Any) -> bool:
        return any(each.field_number == 0 or (each.wire_type == 3 and has_zero(each.data)) for each in fields)

    return has_zero(UnknownFieldSet(message)) or any(map(lets_zero_pass, inner_messages(message)))


def check_payloads(seed: int, syntax: str) -> None:
    draw = random.Random(seed)
    schema = schema_of(syntax)
    kind = schema.message_class("M")
    bases = [message(kind, draw).SerializeToString() for _ in range(200)]
    read = 0
    for _ in range(PAYLOADS // 500):
        read += check(schema, [altered(draw.choice(bases), draw, bases) for _ in range(500)])
    assert PAYLOADS // 20 < read < PAYLOADS


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
@pytest.mark.parametrize("seed", fixed_seeds(1, kept=[112]))
def test_altered_payloads_are_read_as_the_runtime_reads_them(seed: int, syntax: str) -> None:
    check_payloads(seed, syntax)


@pytest.mark.prove
@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
@pytest.mark.parametrize("seed", commit_seeds(5, soak=50))
def test_a_hundred_thousand_altered_payloads_are_read_as_the_runtime_reads_them(seed: int, syntax: str) -> None:
    check_payloads(seed, syntax)


# ---------------------------------------------------------------------- schemas


def altered_text(text: str, draw: random.Random) -> str:
    """A `.proto` text with one to three words changed."""
    words = [token.text for token in tokens(text, "")]
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        at = draw.randrange(len(words))
        change = draw.randrange(6)
        if change == 0:
            del words[at]
        elif change == 1:
            words.insert(at, draw.choice(PIECES))
        elif change == 2:
            words[at] = draw.choice(PIECES)
        elif change == 3:
            words[at:at] = words[at : at + draw.randrange(1, 12)]
        elif change == 4:
            words[at : at + 1] = [words[at][: len(words[at]) // 2], words[at][len(words[at]) // 2 :]]
        else:
            other = draw.randrange(len(words))
            words[at], words[other] = words[other], words[at]
    return " ".join(words)


def check_schemas(seed: int) -> None:
    draw = random.Random(seed)
    bases = [TRICKY, THREE, *(f'syntax = "{s}";' + TEXT.replace("{o}", "optional ") for s in ("proto2", "proto3"))]
    made = longest = 0
    for _ in range(SCHEMAS):
        text = draw.choice(bases)
        if draw.randrange(4):
            text = altered_text(text, draw)
        else:
            descriptor = ProtobufSchema(text).proto.SerializeToString()
            text = base64.b64encode(altered(descriptor, draw, [descriptor])).decode()
        try:
            schema = ProtobufSchema(text)
            schema.message()
            made += 1
            ProtobufObjects(schema).decode_one(b"")
            ProtobufEncoder(schema)
            decoder = ProtobufDecoder(schema)
        except (ProtobufSchemaError, ProtobufDataError) as error:
            longest = max(longest, len(str(error)))
            continue
        decoder.decode(pa.array([draw.randbytes(20), b""], pa.binary()), mode="null")
    assert SCHEMAS // 50 < made < SCHEMAS
    assert longest < 1000


@pytest.mark.parametrize("seed", fixed_seeds(1))
def test_altered_schemas_are_read_or_refused_with_a_sentence(seed: int) -> None:
    check_schemas(seed)


@pytest.mark.prove
@pytest.mark.parametrize("seed", commit_seeds(10, soak=100))
def test_ten_thousand_altered_schemas_are_read_or_refused_with_a_sentence(seed: int) -> None:
    check_schemas(seed)


@pytest.mark.prove
@pytest.mark.parametrize("seed", commit_seeds(1, soak=20, kept=[115]))
def test_altered_schemas_that_protoc_takes_are_read_as_protoc_reads_them(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    path, out = tmp_path / "schema.proto", tmp_path / "out"
    taken = 0
    for _ in range(SCHEMAS):
        text = altered_text(draw.choice([TRICKY, THREE]), draw)
        path.write_text(text, errors="replace")
        command = ["protoc", f"-I{tmp_path}", f"-I{ROOTS[0]}", f"--descriptor_set_out={out}", str(path)]
        if protoc.main(command) == 0 and "edition" not in text:
            taken += 1
            found = pb.FileDescriptorSet.FromString(out.read_bytes())
            try:
                ours = ProtobufSchema(text)
            except ProtobufSchemaError as error:
                # Texts may be any bytes for protoc, even names in JSON.
                if "not UTF-8" not in str(error):
                    raise
                continue
            assert bare(ours.proto) == bare(found.file[-1])
    assert taken > SCHEMAS // 50
