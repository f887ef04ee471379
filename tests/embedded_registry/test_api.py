"""The REST API as clients use it: every path, what it answers, and the number of each refusal."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

import ottla
from ottla.schemas.protobuf.schema import ProtobufSchema

from .conftest import Asking, record


@pytest.fixture
def subject(kafka_name: str) -> str:
    """A subject of the test's own."""
    return kafka_name


def test_a_schema_is_found_by_id_guid_and_version(ask: Asking, subject: str) -> None:
    schema = record(("a", "int"))
    status, told = ask("POST", f"/subjects/{subject}/versions", {"schema": json.dumps(schema)})
    assert (status, told["version"]) == (200, 1)
    text = json.dumps(schema, separators=(",", ":"))
    assert ask("GET", f"/schemas/ids/{told['id']}") == (200, {"schema": text, "guid": told["guid"]})
    assert ask("GET", f"/schemas/ids/{told['id']}/schema") == (200, schema)
    assert ask("GET", f"/schemas/ids/{told['id']}/subjects") == (200, [subject])
    assert ask("GET", f"/schemas/ids/{told['id']}/versions") == (200, [{"subject": subject, "version": 1}])
    assert ask("GET", f"/schemas/guids/{told['guid']}")[1]["schema"] == text
    assert ask("GET", f"/schemas/guids/{told['guid']}/ids") == (200, [{"context": ".", "id": told["id"]}])
    version = {"subject": subject, "version": 1, "id": told["id"], "guid": told["guid"], "schema": text}
    for name in ("1", "latest", "-1"):
        assert ask("GET", f"/subjects/{subject}/versions/{name}") == (200, version)
    assert ask("GET", f"/subjects/{subject}/versions/1/schema") == (200, schema)
    assert ask("POST", f"/subjects/{subject}", {"schema": json.dumps(schema)}) == (200, version)
    assert ask("GET", f"/subjects/{subject}/versions") == (200, [1])
    assert subject in ask("GET", "/subjects")[1]
    assert version in ask("GET", f"/schemas?subjectPrefix={subject}")[1]
    assert ask("GET", "/schemas/types") == (200, ["AVRO", "JSON", "PROTOBUF"])


def test_the_same_schema_has_one_id_in_all_subjects_and_is_registered_once(ask: Asking, subject: str) -> None:
    schema = record(("a", "long"), name=subject.replace("-", "_"))
    first = ask.register(subject, schema)
    assert ask.register(subject, json.dumps(schema, indent=4)) == first
    assert ask.register(f"{subject}-other", schema) == first
    assert ask("GET", f"/subjects/{subject}/versions") == (200, [1])
    assert ask("GET", f"/schemas/ids/{first}/subjects") == (200, [subject, f"{subject}-other"])


def test_names_of_subjects_may_have_any_printable_character(ask: Asking) -> None:
    for name in ('a/b"', "{x}", "a b", "ü", "a%2Fb", "a:b"):
        ask.register(quote(name, safe=""), '"string"')
        assert ask("GET", f"/subjects/{quote(name, safe='')}/versions") == (200, [1])
        assert name in ask("GET", "/subjects")[1]


def test_another_schema_must_be_compatible(ask: Asking, subject: str) -> None:
    ask.register(subject, record(("a", "int")))
    body = {"schema": json.dumps(record(("a", "string")))}
    status, told = ask("POST", f"/subjects/{subject}/versions", body)
    assert (status, told["error_code"]) == (409, 409)
    assert "/a: string cannot read what was written as int" in told["message"]
    path = f"/compatibility/subjects/{subject}/versions"
    for version in ("", "/1", "/latest"):
        status, told = ask("POST", f"{path}{version}?verbose=true", body)
        assert (status, told["is_compatible"]) == (200, False)
        assert "TYPE_MISMATCH at /a" in told["messages"][0]
    assert ask("PUT", f"/config/{subject}", {"compatibility": "none"}) == (200, {"compatibility": "NONE"})
    assert ask("POST", f"{path}/latest", body) == (200, {"is_compatible": True})
    ask.register(subject, record(("a", "string")))


def test_levels_look_at_the_latest_version_or_at_all(ask: Asking, subject: str) -> None:
    ask("PUT", f"/config/{subject}", {"compatibility": "NONE"})
    ask.register(subject, record(("a", "int")))
    ask.register(subject, record(("b", "int", 0)))
    # It reads version 2, and not version 1.
    newest = {"schema": json.dumps(record(("a", "string", "")))}
    for level, is_compatible in (("BACKWARD", True), ("BACKWARD_TRANSITIVE", False)):
        ask("PUT", f"/config/{subject}", {"compatibility": level})
        assert ask("POST", f"/compatibility/subjects/{subject}/versions", newest)[1]["is_compatible"] is is_compatible
    lacking = {"schema": json.dumps(record(("c", "int", 0)))}
    for level, is_compatible in (
        ("FORWARD", True),
        ("FORWARD_TRANSITIVE", False),
        ("FULL", True),
        ("FULL_TRANSITIVE", False),
    ):
        ask("PUT", f"/config/{subject}", {"compatibility": level})
        assert ask("POST", f"/compatibility/subjects/{subject}/versions", lacking)[1]["is_compatible"] is is_compatible


def test_deleted_versions_are_found_by_id_until_they_are_deleted_for_good(ask: Asking, subject: str) -> None:
    schema_id = ask.register(subject, record(("a", "int"), name=subject.replace("-", "_")))
    assert ask("DELETE", f"/subjects/{subject}/versions/1?permanent=true")[1]["error_code"] == 40407
    assert ask("DELETE", f"/subjects/{subject}/versions/latest") == (200, 1)
    assert ask("DELETE", f"/subjects/{subject}/versions/1")[1]["error_code"] == 40406
    assert ask("GET", f"/subjects/{subject}/versions")[1]["error_code"] == 40401
    assert ask("GET", f"/subjects/{subject}/versions?deleted=true") == (200, [1])
    assert subject not in ask("GET", "/subjects")[1]
    assert subject in ask("GET", "/subjects?deleted=true")[1]
    assert subject in ask("GET", "/subjects?deletedOnly=true")[1]
    assert ask("GET", f"/schemas/ids/{schema_id}")[0] == 200
    assert ask("GET", f"/schemas/ids/{schema_id}/subjects") == (200, [])
    assert ask("DELETE", f"/subjects/{subject}/versions/1?permanent=true") == (200, 1)
    assert ask("GET", f"/schemas/ids/{schema_id}") == (
        404,
        {"error_code": 40403, "message": f"Schema {schema_id} not found"},
    )


def test_a_deleted_subject_goes_on_with_the_next_version(ask: Asking, subject: str) -> None:
    ask.register(subject, record(("a", "int")))
    ask.register(subject, record(("a", "int"), ("b", "int", 1)))
    assert ask("DELETE", f"/subjects/{subject}?permanent=true")[1]["error_code"] == 40405
    assert ask("DELETE", f"/subjects/{subject}") == (200, [1, 2])
    assert ask("DELETE", f"/subjects/{subject}")[1]["error_code"] == 40404
    ask.register(subject, record(("z", "string")))
    assert ask("GET", f"/subjects/{subject}/versions") == (200, [3])
    assert ask("DELETE", f"/subjects/{subject}") == (200, [3])
    assert ask("DELETE", f"/subjects/{subject}?permanent=true") == (200, [1, 2, 3])
    assert ask("DELETE", f"/subjects/{subject}")[1]["error_code"] == 40401


def test_what_is_referred_to_cannot_be_deleted(ask: Asking, subject: str) -> None:
    ask.register(f"{subject}-inner", record(("a", "int"), name="Inner"))
    reference = {"name": "Inner", "subject": f"{subject}-inner", "version": 1}
    schema_id = ask.register(f"{subject}-outer", record(("i", "Inner"), name="Outer"), references=[reference])
    assert ask("GET", f"/schemas/ids/{schema_id}")[1]["references"] == [reference]
    assert ask("GET", f"/subjects/{subject}-inner/versions/1/referencedby") == (200, [schema_id])
    status, told = ask("DELETE", f"/subjects/{subject}-inner")
    assert (status, told["error_code"]) == (422, 42206)
    assert f"{subject}-outer version 1" in told["message"]
    assert ask("DELETE", f"/subjects/{subject}-inner/versions/1")[1]["error_code"] == 42206
    assert ask("DELETE", f"/subjects/{subject}-outer") == (200, [1])
    assert ask("DELETE", f"/subjects/{subject}-inner") == (200, [1])


def test_settings_of_a_subject_stand_above_those_of_all(ask: Asking, subject: str) -> None:
    assert ask("GET", "/config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert ask("GET", f"/config/{subject}")[1]["error_code"] == 40408
    assert ask("GET", f"/config/{subject}?defaultToGlobal=true") == (200, {"compatibilityLevel": "BACKWARD"})
    assert ask("PUT", f"/config/{subject}", {"compatibility": "FULL"}) == (200, {"compatibility": "FULL"})
    assert ask("GET", f"/config/{subject}") == (200, {"compatibilityLevel": "FULL"})
    assert ask("DELETE", f"/config/{subject}") == (200, {"compatibilityLevel": "FULL"})
    assert ask("GET", f"/config/{subject}")[1]["error_code"] == 40408
    assert ask("GET", "/mode") == (200, {"mode": "READWRITE"})
    assert ask("PUT", f"/mode/{subject}", {"mode": "READONLY"}) == (200, {"mode": "READONLY"})
    status, told = ask("POST", f"/subjects/{subject}/versions", {"schema": '"int"'})
    assert (status, told["error_code"]) == (422, 42205)
    assert ask("DELETE", f"/mode/{subject}") == (200, {"mode": "READONLY"})
    ask.register(subject, '"int"')


def test_ids_and_versions_of_others_are_kept_in_import_mode(ask: Asking, subject: str) -> None:
    wanted = {"schema": json.dumps(record(("a", "int"), name="Imported")), "id": 70_000, "version": 7}
    assert ask("POST", f"/subjects/{subject}/versions", wanted)[1]["error_code"] == 42205
    assert ask("PUT", f"/mode/{subject}", {"mode": "IMPORT"}) == (200, {"mode": "IMPORT"})
    assert ask("POST", f"/subjects/{subject}/versions", wanted)[1]["id"] == 70_000
    assert ask("GET", f"/subjects/{subject}/versions") == (200, [7])
    other = {**wanted, "schema": '"long"', "version": 8}
    assert ask("POST", f"/subjects/{subject}/versions", other)[1]["error_code"] == 42205
    ask("DELETE", f"/mode/{subject}")
    assert ask.register(subject, record(("a", "int"), ("b", "int", 0), name="Imported")) > 70_000


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", "/subjects/none/versions", None, 40401),
        ("GET", "/subjects/there/versions/9", None, 40402),
        ("GET", "/subjects/there/versions/x", None, 42202),
        ("GET", "/subjects/there/versions/0", None, 42202),
        ("GET", "/schemas/ids/999999", None, 40403),
        ("GET", "/schemas/ids/x", None, 404),
        ("GET", "/schemas/ids/99999999999999999999", None, 404),
        ("GET", "/schemas/guids/x", None, 40403),
        ("GET", "/nothing", None, 404),
        ("PATCH", "/subjects", None, 405),
        ("DELETE", "/subjects", None, 405),
        ("POST", "/subjects/none", {"schema": '"int"'}, 40401),
        ("POST", "/subjects/there", {"schema": '"long"'}, 40403),
        ("POST", "/subjects/there/versions", {"schema": "int"}, 42201),
        ("POST", "/subjects/there/versions", {"schema": '{"type":"nothing"}'}, 42201),
        ("POST", "/subjects/there/versions", {"schema": ""}, 42201),
        ("POST", "/subjects/there/versions", {}, 42201),
        ("POST", "/subjects/there/versions", -1, 422),
        ("POST", "/subjects/there/versions", {"schema": '"\ud800"'}, 422),
        ("POST", "/subjects/there/versions", {"schema": '"int"', "schemaType": "XML"}, 422),
        ("POST", "/subjects/there/versions", {"schema": '"int"', "references": [1]}, 422),
        ("POST", "/subjects/there/versions", {"schema": '"int"', "metadata": 1}, 422),
        (
            "POST",
            "/subjects/there/versions",
            {"schema": '"N"', "references": [{"name": "N", "subject": "none", "version": 1}]},
            42201,
        ),
        ("POST", "/subjects/:.other:there/versions", {"schema": '"int"'}, 42208),
        ("POST", "/subjects/%20%00/versions", {"schema": '"int"'}, 42208),
        ("POST", "/compatibility/subjects/none/versions/1", {"schema": '"int"'}, 40402),
        ("PUT", "/config/there", {"compatibility": "SIDEWAYS"}, 42203),
        ("PUT", "/config/there", {"compatibilityGroup": "a"}, 422),
        ("PUT", "/mode/there", {"mode": "SIDEWAYS"}, 42204),
        ("PUT", "/mode/there", {"mode": "IMPORT"}, 42205),
        ("DELETE", "/config/there", None, 40401),
        ("GET", "/subjects?deleted=maybe", None, 400),
        ("GET", "/subjects?limit=x", None, 400),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_number_and_a_sentence(
    ask: Asking, method: str, path: str, body: Any, code: int
) -> None:
    ask.register("there", '"int"')
    status, told = ask(method, path, body)
    assert (told["error_code"], status) == (code, code if code < 1000 else code // 100)
    assert len(told["message"]) > 10


def test_a_page_in_a_browser_changes_nothing(registry: ottla.Registry, ask: Asking) -> None:
    page = Asking(registry.url, {"Origin": "http://example.com"})
    assert page("GET", "/schemas/types")[0] == 200
    assert page("POST", "/subjects/page/versions", {"schema": '"int"'})[0] == 403
    assert ask("GET", "/subjects/page/versions")[0] == 404


def test_metadata_is_kept_and_given_back(ask: Asking, subject: str) -> None:
    metadata = {"properties": {"owner": "ann"}}
    schema_id = ask.register(subject, '"int"', metadata=metadata)
    assert ask("GET", f"/schemas/ids/{schema_id}")[1]["metadata"] == metadata
    # Another schema by what belongs to it, the same where that is not named.
    assert ask.register(subject, '"int"', metadata={"properties": {"owner": "bob"}}) != schema_id
    assert ask.register(subject, '"int"', metadata=metadata) == schema_id
    assert ask("GET", f"/subjects/{subject}/versions") == (200, [1, 2])


def test_a_version_may_be_written_with_zeros_in_front_and_is_a_number_up_to_2147483647(
    ask: Asking, subject: str
) -> None:
    ask.register(subject, '"int"')
    assert ask("GET", f"/subjects/{subject}/versions/{'0' * 20}1")[1]["version"] == 1
    for version in ("0", "0" * 20, "0" * 20 + "1" * 5000, f"{'0' * 20}2147483648"):
        assert ask("GET", f"/subjects/{subject}/versions/{version}")[1]["error_code"] == 42202


def raw(registry: ottla.Registry, content: bytes) -> bytes:
    """All that comes back for these bytes until the registry hangs up."""
    host, port = urlsplit(registry.url).netloc.split(":")
    with socket.create_connection((host, int(port)), timeout=30) as sock:
        sock.sendall(content)
        sock.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: sock.recv(65_536), b""))


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"nothing\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nx\r\n\r\n", 400),
        (b"POST /subjects/a HTTP/1.1\r\nX: a\nContent-Length: 9\r\n\r\n", 400),
        (b"POST /subjects/a HTTP/1.1\r\nX: a\rContent-Length: 9\r\n\r\n", 400),
        (b"BREW / HTTP/1.1\r\n\r\n", 405),
        (b"POST /subjects/a HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"POST /subjects/a HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"POST /subjects/a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"POST /subjects/a HTTP/1.1\r\nContent-Length: 1\r\n\r\n{", 400),
        (b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\n\r\n", 431),
    ],
)
def test_what_is_no_request_is_answered_and_the_connection_ends(
    registry: ottla.Registry, content: bytes, status: int
) -> None:
    with_close = content.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") if status == 400 else content
    assert raw(registry, with_close).startswith(f"HTTP/1.1 {status} ".encode())


def test_requests_that_come_together_are_answered_one_after_the_other(registry: ottla.Registry, ask: Asking) -> None:
    schema_id = ask.register("together", '"int"')
    by_id = f"GET /schemas/ids/{schema_id} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    body = json.dumps({"schema": '"int"'}).encode()
    posted = b"POST /subjects/together HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    last = b"HEAD /subjects HTTP/1.1\r\nConnection: close\r\n\r\n"
    came = raw(registry, by_id + by_id + posted + last)
    assert came.count(b"HTTP/1.1 200 OK") == 4
    assert came.count(b'"schema":"\\"int\\""') == 3
    assert came.endswith(b"\r\n\r\n")


def test_thousands_of_requests_that_come_together_are_answered(registry: ottla.Registry, ask: Asking) -> None:
    schema_id = ask.register("together", '"int"')
    one = f"GET /schemas/ids/{schema_id} HTTP/1.1\r\n\r\n".encode()
    came = raw(registry, one * 5000 + b"GET /subjects HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert came.count(b"HTTP/1.1 200 OK") == 5001


def test_who_asks_and_does_not_read_is_not_answered_from_memory_without_end(
    registry: ottla.Registry, ask: Asking
) -> None:
    fields = [(f"field{number}", "int") for number in range(10_000)]
    schema_id = ask.register("large", record(*fields, name="Large"))
    host, port = urlsplit(registry.url).netloc.split(":")
    with socket.create_connection((host, int(port))) as sock:
        sock.settimeout(0.5)
        one = f"GET /schemas/ids/{schema_id} HTTP/1.1\r\n\r\n".encode()
        # Answers to all of these would be 200 MiB; what is sent beyond what is answered stays with the sender.
        with contextlib.suppress(TimeoutError):
            sock.sendall(one * 500)
        assert registry.pid is not None
        assert ask("GET", "/schemas/types")[0] == 200
        [size] = re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{registry.pid}/status").read_text())
        assert int(size) < 200_000
        left = 500 * len(raw(registry, one))
        sock.settimeout(30)
        while left > 0:
            left -= len(sock.recv(1 << 20))
        assert left == 0


def test_a_schema_is_found_however_it_is_written(ask: Asking, subject: str) -> None:
    schema_id = ask.register(subject, {"type": "int", "name": "unheard"})
    assert ask("POST", f"/subjects/{subject}", {"schema": '"int"'})[1]["id"] == schema_id
    written = {"schema": '{"type":"object","title":"t"}', "schemaType": "JSON"}
    assert ask("POST", f"/subjects/{subject}-json/versions", written)[0] == 200
    written["schema"] = '{"title": "t", "type": "object"}'
    assert ask("POST", f"/subjects/{subject}-json", written)[1]["schema"] == '{"type":"object","title":"t"}'
    assert ask("POST", f"/subjects/{subject}-json/versions?normalize=true", written)[1]["version"] == 1


DOG = """syntax = "proto3"; package kennel;
enum Size { SMALL = 0; LARGE = 1; }
message Dog { string name = 1; Size size = 2; repeated string toys = 4; map<string, Place> places = 5;
  message Place { double at = 1; } }"""


def test_a_descriptor_and_its_text_are_one_schema(ask: Asking, subject: str) -> None:
    descriptor = ProtobufSchema(DOG).serialized()
    found = ask.register(subject, DOG, schemaType="PROTOBUF")
    # Another order of what the file declares, and comments, do not make another schema.
    enum, message = "enum Size { SMALL = 0; LARGE = 1; }", DOG[DOG.index("message") :]
    turned = f'syntax = "proto3"; package kennel; /* first */ {message} {enum}'
    for text in (descriptor, turned):
        assert ask.register(subject, text, schemaType="PROTOBUF") == found
        assert ask.register(f"{subject}-{len(text)}", text, schemaType="PROTOBUF") == found or text is turned
        told = ask("POST", f"/subjects/{subject}", {"schema": text, "schemaType": "PROTOBUF"})[1]
        assert (told["version"], told["schema"]) == (1, DOG)
    # First the descriptor, then the text.
    other = DOG.replace("kennel", subject.replace("-", "_"))
    found = ask.register(f"{subject}-other", ProtobufSchema(other).serialized(), schemaType="PROTOBUF")
    assert ask.register(f"{subject}-text", other, schemaType="PROTOBUF") == found
    changed = DOG.replace("toys = 4", "toys = 6")
    assert ask.register(f"{subject}-changed", changed, schemaType="PROTOBUF") != found


def test_options_that_are_not_protobufs_own_make_another_schema(ask: Asking, subject: str) -> None:
    assert ask("PUT", f"/config/{subject}", {"compatibility": "NONE"})[0] == 200
    text = """syntax = "proto3"; import "google/protobuf/descriptor.proto";
        extend google.protobuf.MessageOptions { string note = 50001; } message M { option (note) = "%s"; }"""
    first = ask.register(subject, text % "a", schemaType="PROTOBUF")
    assert ask.register(subject, text % "b", schemaType="PROTOBUF") != first


def test_normalized_protobuf_has_its_options_in_order(ask: Asking, subject: str) -> None:
    text = """syntax = "proto3"; // kept
option java_package = "p";
option java_multiple_files = true;
message M { option deprecated = true; int32 a = 1 [json_name = "x", deprecated = true]; }
option cc_enable_arenas = true;
"""
    status, told = ask(
        "POST", f"/subjects/{subject}/versions?normalize=true", {"schema": text, "schemaType": "PROTOBUF"}
    )
    assert status == 200, told
    assert (
        ask("GET", f"/schemas/ids/{told['id']}")[1]["schema"]
        == """syntax = "proto3"; // kept
option cc_enable_arenas = true;
option java_multiple_files = true;
message M { option deprecated = true; int32 a = 1 [deprecated = true, json_name = "x"]; }
option java_package = "p";
"""
    )


def test_what_confluents_registry_has_built_in_need_not_be_given(ask: Asking, subject: str) -> None:
    names = "calendar_period color date datetime dayofweek expr fraction latlng money month postal_address quaternion"
    imports = "".join(f'import "google/type/{name}.proto"; ' for name in (*names.split(), "timeofday"))
    text = f'syntax = "proto3"; {imports} message M {{ google.type.Money price = 1; google.type.Color c = 2; }}'
    assert ask.register(subject, text, schemaType="PROTOBUF") > 0


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, "application/vnd.schemaregistry.v1+json"),
        ("*/*", "application/vnd.schemaregistry.v1+json"),
        ("application/*", "application/vnd.schemaregistry.v1+json"),
        ("text/html, image/gif, *; q=.2, */*; q=.2", "application/vnd.schemaregistry.v1+json"),
        ("application/json", "application/json"),
        ("application/json; q=0.5, application/vnd.schemaregistry+json", "application/vnd.schemaregistry+json"),
        ("application/vnd.schemaregistry.v2+json; q=0.1, application/json; q=0.9", "application/json"),
        ("application/vnd.schemaregistry.v2+json", None),
        ("text/*", None),
        ("application/json; q=0", None),
    ],
)
@pytest.mark.parametrize("path", ["/subjects", "/schemas/ids/%d"])
def test_answers_have_the_media_type_that_was_asked_for(
    path: str, accept: str | None, kind: str | None, registry: ottla.Registry, ask: Asking
) -> None:
    place = path % ask.register("accepted", '"int"') if "%" in path else path
    header = "" if accept is None else f"Accept: {accept}\r\n"
    head = raw(registry, f"GET {place} HTTP/1.1\r\n{header}\r\n".encode()).partition(b"\r\n\r\n")[0].decode()
    assert head.startswith("HTTP/1.1 406 " if kind is None else "HTTP/1.1 200 ")
    assert f"\r\nContent-Type: {kind or 'application/vnd.schemaregistry.v1+json'}\r\n" in head


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        (None, 404),
        ("application/vnd.schemaregistry.v1+json", 404),
        ("Application/JSON; charset=utf-8", 404),
        ("application/octet-stream", 404),
        ("application/x-www-form-urlencoded", 415),
        ("text/plain", 415),
    ],
)
def test_a_body_that_is_said_to_be_something_else_is_not_read(
    content_type: str | None, status: int, registry: ottla.Registry
) -> None:
    body = b'{"schema": "\\"int\\""}'
    header = "" if content_type is None else f"Content-Type: {content_type}\r\n"
    request = f"POST /subjects/unknown HTTP/1.1\r\n{header}Content-Length: {len(body)}\r\n\r\n".encode() + body
    answer = raw(registry, request).decode()
    assert answer.startswith(f"HTTP/1.1 {status} ")
    assert ("send the header Content-Type: application/vnd.schemaregistry.v1+json" in answer) == (status == 415)
