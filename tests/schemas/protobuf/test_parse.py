"""`.proto` text is read as protoc reads it, and what is no schema is refused with a sentence."""

from __future__ import annotations

import base64
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2 as pb
from grpc_tools import protoc

from ottla.schemas.protobuf.errors import ProtobufSchemaError
from ottla.schemas.protobuf.google_types import GOOGLE_TYPES
from ottla.schemas.protobuf.options import sorted_options
from ottla.schemas.protobuf.schema import ProtobufSchema

PACKAGES = Path(protoc.__file__).parents[1]
ROOTS = [PACKAGES / "grpc_tools" / "_proto", PACKAGES]

TRICKY = r"""
// Everything that is easily read wrongly.
syntax = "proto2";
package a.b;
import public "google/protobuf/timestamp.proto";
import 'google/protobuf/descriptor.proto';
option java_package = "x" "y"; option optimize_for = SPEED;
extend google.protobuf.FieldOptions { optional string note = 50000; repeated Outer.Inner more = 50001; }
message Outer {
  option deprecated = true;
  enum message { reserved 5 to 7, -3; reserved "GONE"; option allow_alias = true; ZERO = 0; NULL = 0; LOW = -1; }
  message Inner { optional Outer outer = 1; optional b.Outer.Inner same = 2; optional .a.b.Outer whole = 3; }
  optional int32 optional = 1 [default = -0x1F, deprecated = true, (note) = "n" "m"];
  required string text = 2 [default = "tab\t\x41\101\"\u00e9", json_name = "TEXT"];
  optional bytes data = 3 [default = "\000\377'\n"];
  repeated sint64 numbers = 4 [packed = true];
  map<string, Inner> by_name = 5;
  oneof choice { option (pick) = { a: 1 b { c: "}" } }; double x = 6; group Grouped = 7 { optional bool y = 1; } }
  optional message kind = 8 [default = LOW];
  optional double d = 9 [default = -inf]; optional float f = 10 [default = 1.5e3];
  optional double g = 11 [default = .1];
  optional float third = 12 [default = 0.333333333333]; optional double n = 13 [default = nan];
  optional uint64 most = 14 [default = 0xFFFFFFFFFFFFFFFF]; optional bool yes = 15 [default = true];
  extensions 100 to 199, 1000 to max;
  reserved 30, 40 to 50; reserved "old";
  repeated group Result = 16 { required string url = 2; optional int64 _odd__name_9x = 3; }
  optional google.protobuf.Timestamp at = 17;;
  extend Outer { optional int32 extra = 150; }
}
extend google.protobuf.OneofOptions { optional Pick pick = 50002; }
message Pick { optional int32 a = 1; optional PickB b = 2; } message PickB { optional string c = 1; }
service Calls { rpc Go (Outer) returns (stream Outer.Inner) { option deprecated = true; }
  rpc To(stream .a.b.Outer) returns (Outer); }
"""
THREE = """
syntax = "proto3";
message M {
  optional int32 a = 1; string b = 2; oneof o { int64 c = 3; } optional M d = 4; repeated E e = 5;
  map<int32, E> numbers_byName = 6; message string_ {} string_ f = 7; optional int32 _g = 8; optional int32 g = 9;
  oneof _a { bool h = 10; }
}
enum E { Z = 0; }
"""


def by_protoc(path: Path, roots: list[Path]) -> list[pb.FileDescriptorProto]:
    """The descriptors of a file and of what it imports, the file's own last."""
    with tempfile.NamedTemporaryFile() as out:
        paths = [f"-I{root}" for root in roots]
        assert protoc.main(["protoc", *paths, f"--descriptor_set_out={out.name}", "--include_imports", str(path)]) == 0
        found = pb.FileDescriptorSet.FromString(Path(out.name).read_bytes())
    return list(found.file)


def bare(proto: Any) -> str:
    """A descriptor as text, without options that are no single value: those are read over."""
    copy = pb.FileDescriptorProto.FromString(proto.SerializeToString())

    def walk(message: Any) -> None:
        for field, value in message.ListFields():
            if field.type != field.TYPE_MESSAGE:
                continue
            if field.name != "options":
                for each in value if field.is_repeated else [value]:
                    walk(each)
                continue
            value.DiscardUnknownFields()
            for option, _ in value.ListFields():
                if option.is_extension:
                    value.ClearExtension(option)
                elif option.type == option.TYPE_MESSAGE:
                    value.ClearField(option.name)
            if not value.ListFields():
                message.ClearField("options")

    walk(copy)
    copy.ClearField("source_code_info")
    return str(copy)


def found_files() -> list[tuple[str, Path]]:
    """Every `.proto` file in the packages that are installed: googleapis, OpenTelemetry, Spark Connect and others."""
    named = {}
    for root in reversed(ROOTS):
        for path in sorted(root.rglob("*.proto")):
            if root != PACKAGES or "grpc_tools" not in path.parts:
                named[str(path.relative_to(root))] = path
    return sorted(named.items())


@pytest.mark.parametrize(("name", "path"), found_files(), ids=lambda each: each if isinstance(each, str) else "")
def test_a_file_is_read_as_protoc_reads_it(name: str, path: Path) -> None:
    files = by_protoc(path, ROOTS)
    texts = {}
    for each in files[:-1]:
        at = next(root / each.name for root in ROOTS if (root / each.name).exists())
        texts[each.name] = at.read_text()
    assert bare(ProtobufSchema(path.read_text(), references=texts, name=name).proto) == bare(files[-1])


def test_there_are_enough_files_to_compare() -> None:
    assert len(found_files()) > 50


@pytest.mark.parametrize("text", [TRICKY, THREE], ids=["proto2", "proto3"])
def test_what_is_easily_read_wrongly_is_read_as_protoc_reads_it(text: str, tmp_path: Path) -> None:
    path = tmp_path / "schema.proto"
    path.write_text(text)
    assert bare(ProtobufSchema(text).proto) == bare(by_protoc(path, [tmp_path, ROOTS[0]])[-1])


def test_a_descriptor_in_base64_is_the_same_schema() -> None:
    schema = ProtobufSchema(TRICKY)
    again = ProtobufSchema(schema.serialized())
    assert bare(again.proto) == bare(schema.proto)
    assert again.message("Outer.Inner").full_name == "a.b.Outer.Inner"


def test_messages_are_named_by_indexes() -> None:
    schema = ProtobufSchema(TRICKY)
    for indexes, name in [((0,), "Outer"), ((0, 0), "Outer.Inner"), ((1,), "Pick"), ((0, 1), "Outer.ByNameEntry")]:
        assert schema.message_at(indexes).full_name == f"a.b.{name}"
        assert schema.indexes_of(schema.message(name)) == indexes
    with pytest.raises(ProtobufSchemaError, match="no message with indexes"):
        schema.message_at((0, 77))
    with pytest.raises(ProtobufSchemaError, match=r"is in 'google/protobuf/timestamp.proto'"):
        schema.indexes_of(schema.message("google.protobuf.Timestamp"))


def test_public_imports_are_seen_and_private_ones_are_not() -> None:
    files = {
        "public.proto": 'syntax = "proto3"; import public "far.proto";',
        "private.proto": 'syntax = "proto3"; import "far.proto";',
        "far.proto": 'syntax = "proto3"; message Far {}',
    }
    user = 'syntax = "proto3"; import "{}.proto"; message M {{ Far far = 1; }}'
    assert ProtobufSchema(user.format("public"), references=files).message("M").fields_by_name["far"]
    with pytest.raises(ProtobufSchemaError, match="'Far' of field far is neither in the file nor in its imports"):
        ProtobufSchema(user.format("private"), references=files)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('edition = "2023"; message M {}', "edition '2023' is not supported"),
        ('syntax = "proto4";', "syntax 'proto4' is not supported"),
        ("message M {", "line 1: optional, required or repeated is expected here, and the file ends"),
        ("enum E { Z = 0;", "a name is expected here, and the file ends"),
        ("\n\nmessage 5 {}", "line 3: a name is expected here, and there is '5'"),
        ('syntax = "proto3"; message M { required int32 a = 1; }', "line 1: proto3 has no required fields; take"),
        ('syntax = "proto3"; message M { int32 a = 0; }', "a number from 1 to 536870911"),
        ('syntax = "proto3"; message M { int32 a = 1; int32 b = 1; }', "is not a valid schema: .*number"),
        ('syntax = "proto3"; message M { int32 a = 1; int32 a = 2; }', "is not a valid schema: duplicate"),
        ('syntax = "proto3"; message M { Missing a = 1; }', "the type 'Missing' of field a"),
        ('import "gone.proto"; message M {}', "imports 'gone.proto', which is not among the references; .* are none"),
        ('import "schema.proto"; message M {}', "which imports schema.proto in turn"),
        ("message M { optional int32 a = 1 [default = 1.5]; }", "'1.5' is no default for field a"),
        ("message M { optional int32 a = 1 [packd = true]; }", "there is no option 'packd'"),
        ('message M { optional string a = 1 [default = "\\xff"]; }', "not UTF-8"),
        ("message M { /* ", "this comment has no end"),
        ('message M { optional string a = 1 [default = "', "a string without an end"),
        ("message M " + "{ message M " * 500, "nested no more than 30 deep"),
        ("message M { option (a) = " + "{" * 500, "nested no more than 64 deep"),
        ('syntax = "proto3"; message M { map<double, int32> m = 1; }', "a map's key"),
        ("package " + "a." * 100_000 + "b;", "a name of at most 500 letters"),
        ("message " + "a" * 501 + " {}", "a name of at most 500 letters"),
        ("aGVsbG8gd29ybGQ=", "neither .proto text nor a FileDescriptorProto"),
        ("x" * 4_000_001, "at most 4000000 are read"),
        ("\0", "cannot stand here"),
        ("", "no message with indexes"),
    ],
)
def test_what_is_no_schema_is_refused_with_a_sentence(text: str, words: str) -> None:
    with pytest.raises(ProtobufSchemaError, match=words):
        ProtobufSchema(text).message()


@pytest.mark.parametrize(
    ("proto", "words"),
    [
        (pb.FileDescriptorProto(name="x", syntax="editions", edition=pb.EDITION_2023), "editions is not supported"),
        (pb.FileDescriptorProto(name="x", package="a." * 1_000_000 + "b"), "is longer than 500 letters"),
    ],
)
def test_a_descriptor_that_is_not_supported_is_refused(proto: Any, words: str) -> None:
    with pytest.raises(ProtobufSchemaError, match=words):
        ProtobufSchema(base64.b64encode(proto.SerializeToString()).decode())


def test_a_chain_of_imports_is_bounded() -> None:
    chain = {f"{i}.proto": f'import "{i + 1}.proto";' for i in range(5000)}
    assert len(chain) > sys.getrecursionlimit()
    with pytest.raises(ProtobufSchemaError, match="more than 300 files"):
        ProtobufSchema('import "0.proto";', references=chain)


def test_files_that_are_imported_by_many_ways_are_read_once() -> None:
    """Between the first and the last there are 2**98 ways."""
    files = {
        f"{i}.proto": "".join(f'import public "{j}.proto";' for j in range(i + 1, 100)) + f"message M{i} {{}}"
        for i in range(100)
    }
    read = ProtobufSchema('import "0.proto"; message M { optional M99 last = 1; }', references=files)
    assert read.message().fields_by_name["last"].message_type.full_name == "M99"


def test_a_descriptor_whose_names_are_not_utf8_is_refused() -> None:
    proto = pb.FileDescriptorProto(name="x")
    proto.message_type.add(name="Mess")
    text = base64.b64encode(proto.SerializeToString().replace(b"Mess", b"M\xe9ss")).decode()
    with pytest.raises(ProtobufSchemaError, match="not UTF-8"):
        ProtobufSchema(text)


@pytest.mark.parametrize(
    "change",
    [
        lambda message: message.nested_type[0].field.pop(),
        lambda message: setattr(message.nested_type[0].field[0], "type", pb.FieldDescriptorProto.TYPE_DOUBLE),
        lambda message: setattr(message.nested_type[0].field[1], "label", pb.FieldDescriptorProto.LABEL_REPEATED),
        lambda message: setattr(message.field[0], "label", pb.FieldDescriptorProto.LABEL_OPTIONAL),
        lambda message: message.nested_type.add(name="In").field.add(
            name="x", number=7, label=3, type=11, type_name=".M.AEntry"
        ),
    ],
)
def test_an_entry_of_a_map_that_is_none_is_refused(change: Any) -> None:
    proto = ProtobufSchema('syntax = "proto3"; message M { map<int32, string> a = 1; }').proto
    change(proto.message_type[0])
    text = base64.b64encode(proto.SerializeToString()).decode()
    with pytest.raises(ProtobufSchemaError, match=r"is no entry of a map|has no map of its own"):
        ProtobufSchema(text)


def test_a_descriptor_with_a_public_import_that_is_none_is_refused() -> None:
    proto = pb.FileDescriptorProto(name="a.proto", syntax="proto3", public_dependency=[3])
    proto.message_type.add(name="M")
    with pytest.raises(ProtobufSchemaError, match="a public import that is not among its imports"):
        ProtobufSchema(base64.b64encode(proto.SerializeToString()).decode())


@pytest.mark.parametrize("name", sorted(GOOGLE_TYPES))
def test_files_of_google_type_say_what_googles_own_do(name: str) -> None:
    own = pytest.importorskip(name.removesuffix(".proto").replace("/", ".") + "_pb2").DESCRIPTOR
    theirs, ours = pb.FileDescriptorProto(), ProtobufSchema(GOOGLE_TYPES[name]).proto
    own.CopyToProto(theirs)
    for proto in (theirs, ours):
        for unimportant in ("name", "options", "source_code_info"):
            proto.ClearField(unimportant)
        for field in (field for message in proto.message_type for field in message.field):
            field.ClearField("json_name")
    assert ours == theirs


@pytest.mark.parametrize("text", [TRICKY, *GOOGLE_TYPES.values()])
def test_options_in_order_say_what_they_said(text: str) -> None:
    sorted_text = sorted_options(text)
    assert sorted_options(sorted_text) == sorted_text
    assert ProtobufSchema(sorted_text).proto == ProtobufSchema(text).proto
