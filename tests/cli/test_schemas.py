"""`produce` and `read` with a schema registry: lines and files of rows as Avro and Protobuf, and options that do not go
together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.papers import Papers

import ottla
from ottla.cli import main
from ottla.registry.client import RegistryClient
from ottla.schemas.framing import id_prefix

TIMEOUT_S = 60
SCHEMA = """{"type": "record", "name": "Order", "fields": [
    {"name": "item", "type": "string"}, {"name": "count", "type": ["null", "int"], "default": null}]}"""
JSON_SCHEMA = '{"type": "object", "properties": {"item": {"type": "string"}, "count": {"type": "integer"}}}'
PROTO = 'syntax = "proto3"; message Other { string a = 1; } message Order { string item = 1; int32 count = 2; }'


def run(
    *arguments: str, given: str = "", environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ottla", *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={**os.environ, **(environment or {})},
    )


@pytest.fixture(scope="module")
def url(kafka_cluster: ottla.Cluster) -> Iterator[str]:
    with ottla.Registry(kafka_cluster.bootstrap_servers) as registry:
        yield registry.url


def where(cluster: ottla.Cluster, url: str, value_format: str = "avro") -> list[str]:
    return ["--bootstrap-servers", cluster.bootstrap_servers, "--value-format", value_format, "--registry", url]


@pytest.mark.parametrize(
    ("value_format", "text", "more"),
    [("avro", SCHEMA, []), ("protobuf", PROTO, ["--value-message", "Order"]), ("json", JSON_SCHEMA, [])],
)
def test_lines_of_json_come_back_decoded(
    value_format: str,
    text: str,
    more: list[str],
    kafka_cluster: ottla.Cluster,
    kafka_topic: str,
    url: str,
    tmp_path: Path,
) -> None:
    schema = tmp_path / "order.schema"
    schema.write_text(text)
    there = [kafka_topic, *where(kafka_cluster, url, value_format), *more]
    sent = run("produce", *there, "--value-schema", str(schema), given='{"item": "tea", "count": 2}\n')
    assert sent.returncode == 0, sent.stderr
    # From now on the topic has a schema.
    sent = run("produce", *there, "--key-separator", "|", given='k|{"item": "käse", "count": 1}\n')
    assert sent.returncode == 0, sent.stderr
    found = run("read", *there, "--format", "json")
    records = [json.loads(line) for line in found.stdout.splitlines()]
    assert sorted((record["key"] or "", record["value"]["item"], record["value"]["count"]) for record in records) == [
        ("", "tea", 2),
        ("k", "käse", 1),
    ]
    values = run("read", *there, "--format", "value").stdout.splitlines()
    assert sorted(json.loads(value)["item"] for value in values) == ["käse", "tea"]


def test_rows_of_a_file_come_back_as_columns(
    kafka_cluster: ottla.Cluster, kafka_topic: str, url: str, tmp_path: Path
) -> None:
    rows, output = tmp_path / "rows.parquet", tmp_path / "read.parquet"
    table = pa.table({"id": [7, 8], "name": ["Ada", None]})
    pq.write_table(table, rows)
    there = [kafka_topic, *where(kafka_cluster, url)]
    sent = run("produce", *there, "--input", str(rows), "--key", "id")
    assert sent.returncode == 0, sent.stderr
    found = run("read", *there, "--output", str(output))
    assert found.returncode == 0, found.stderr
    assert sorted(pq.read_table(output).column("value").to_pylist(), key=str) == table.to_pylist()


def test_rows_of_a_file_need_no_key(kafka_cluster: ottla.Cluster, kafka_topic: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,x\n")
    servers = ["--bootstrap-servers", kafka_cluster.bootstrap_servers]
    sent = run("produce", kafka_topic, *servers, "--input", str(tmp_path / "rows.csv"))
    assert sent.returncode == 0, sent.stderr
    [record] = map(json.loads, run("read", kafka_topic, *servers, "--format", "json").stdout.splitlines())
    assert (record["key"], json.loads(record["value"])) == (None, {"a": 1, "b": "x"})


def test_files_that_a_protobuf_file_imports_are_found_beside_it(
    kafka_cluster: ottla.Cluster, kafka_topic: str, url: str, tmp_path: Path
) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "unit.proto").write_text('syntax = "proto3"; package shop; message Unit { string name = 1; }')
    (tmp_path / "money.proto").write_text(
        'syntax = "proto3"; import "shop/unit.proto"; message Money { shop.Unit unit = 1; int64 cents = 2; }'
    )
    schema = tmp_path / "order.proto"
    schema.write_text(
        'syntax = "proto3"; import "money.proto"; import "google/protobuf/timestamp.proto";'
        "message Order { string item = 1; Money price = 2; google.protobuf.Timestamp at = 3; }"
    )
    there = [kafka_topic, *where(kafka_cluster, url, "protobuf"), "--value-schema", str(schema)]
    line = {"item": "tea", "price": {"unit": {"name": "EUR"}, "cents": 250}}
    sent = run("produce", *there, given=json.dumps(line))
    assert sent.returncode == 0, sent.stderr
    pq.write_table(pa.Table.from_pylist([line]), tmp_path / "rows.parquet")
    sent = run("produce", *there, "--input", str(tmp_path / "rows.parquet"))
    assert sent.returncode == 0, sent.stderr
    with ottla.RegistryClient(url) as client:
        assert list(client.referred(client.version(f"{kafka_topic}-value"))) == ["shop/unit.proto", "money.proto"]
    found = run("read", *there, "--format", "value")
    assert [json.loads(value) for value in found.stdout.splitlines()] == [{**line, "at": None}] * 2, found.stderr
    (tmp_path / "money.proto").unlink()
    refused = run("read", *there)
    assert refused.returncode == 2
    told = f"order.proto imports 'money.proto', and there is no file {tmp_path / 'money.proto'}: put it there"
    assert told in refused.stderr


@pytest.mark.prove
def test_a_password_comes_from_a_file_or_the_environment(
    kafka_cluster: ottla.Cluster, kafka_topic: str, papers: Papers, tmp_path: Path
) -> None:
    schema, password, token = tmp_path / "order.avsc", tmp_path / "password", tmp_path / "token"
    schema.write_text(SCHEMA)
    password.write_text("s3cret ž\n")
    token.write_text("t0ken\n")
    for each in (password, token):
        each.chmod(0o600)
    listener = ottla.Listener(protocol="SSL", certificate=papers.server)
    with ottla.Registry(
        kafka_cluster.bootstrap_servers, listener=listener, topic="_locked", users={"ann": "s3cret ž"}, token="t0ken"
    ) as registry:
        there = [kafka_topic, *where(kafka_cluster, registry.url), "--registry-ca", str(papers.ca)]
        named = ["--registry-user", "ann", "--registry-password-file", str(password)]
        sent = run("produce", *there, *named, "--value-schema", str(schema), given='{"item": "tea"}\n')
        assert sent.returncode == 0, sent.stderr
        for more, environment in (
            (["--registry-user", "ann"], {"OTTLA_REGISTRY_PASSWORD": "s3cret ž"}),
            (["--registry-token-file", str(token)], {}),
            ([], {"OTTLA_REGISTRY_TOKEN": "t0ken"}),
        ):
            found = run("read", *there, *more, "--format", "value", environment=environment)
            assert found.stdout == '{"item": "tea", "count": null}\n', found.stderr
        for options, told in (
            (there, "does not let this client in; check --registry-user and its password, or --registry-token-file"),
            (there[:-2], "is not trusted"),
            ([*there[:-1], str(papers.other_ca)], "name who issued its certificate as --registry-ca"),
        ):
            refused = run("read", *options)
            assert (refused.returncode, refused.stdout) == (2, "")
            assert told in refused.stderr
            assert "schema.registry.url" not in refused.stderr


@pytest.mark.parametrize(
    ("command", "given", "told"),
    [
        (["produce", "--value-format", "avro"], "", "--value-format avro needs --registry: the address of a schema"),
        (
            ["read", "--value-format", "xml", "--registry", "URL"],
            "",
            "--value-format xml is not one of avro, protobuf, json",
        ),
        (["produce", "--schema-id-in", "header"], "", "--schema-id-in needs --value-format: give avro"),
        (
            ["produce", "--value-format", "avro", "--registry", "URL", "--schema-id-in", "footer"],
            "",
            "--schema-id-in footer is not one of prefix, header",
        ),
        (["read", "--value-schema", "x.avsc"], "", "--value-schema needs --value-format: give avro, protobuf or json"),
        (
            ["read", "--value-format", "avro", "--registry", "URL", "--value-message", "M"],
            "",
            "--value-message is for --value-format protobuf",
        ),
        (
            ["produce", "--value-format", "avro", "--registry", "URL", "--value-schema", "nowhere.avsc"],
            "",
            "nowhere.avsc cannot be read (No such file or directory): check --value-schema",
        ),
        (
            ["produce", "--value-format", "avro", "--registry", "URL"],
            "{}\n",
            "(40401): give one with --value-schema, or",
        ),
        (["read", "--value-format", "avro", "--registry", "http://127.0.0.1:9"], "", "check --registry, and whether"),
        (["read", "--value-format", "avro", "--registry", "nowhere"], "", "--registry: 'nowhere' is not http://HOST"),
        (["read", "--value-format", "avro", "--registry", "URL", "--registry-user", "ann"], "", "ann needs a password"),
        (
            ["read", "--value-format", "avro", "--registry", "URL", "--registry-password-file", "p"],
            "",
            "--registry-password-file needs --registry-user",
        ),
        (
            [
                "read",
                "--value-format",
                "avro",
                "--registry",
                "URL",
                "--registry-user",
                "a",
                "--registry-token-file",
                "t",
            ],
            "",
            "--registry-user and --registry-token-file exclude each other",
        ),
        (
            ["read", "--value-format", "avro", "--registry", "URL", "--registry-token-file", "nowhere"],
            "",
            "nowhere cannot be read (No such file or directory): check --registry-token-file",
        ),
        (
            ["read", "--value-format", "avro", "--registry", "URL", "--registry-ca", "nowhere"],
            "",
            "--registry-ca is for https://, and all addresses are http://",
        ),
        (["read", "--registry-ca", "x"], "", "--registry-ca needs --value-format"),
        (
            ["read", "--value-format", "avro", "--registry", "URL", "--registry-user", "joe:s3cret"],
            "",
            "--registry-user has a colon, which a name cannot have in HTTP: give the name alone",
        ),
        (
            ["produce", "--value-format", "avro", "--registry", "URL", "--value-schema", "a.proto"],
            "",
            "a.proto is a schema of protobuf by its name, and --value-format is avro: give --value-format protobuf",
        ),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line(
    command: list[str], given: str, told: str, kafka_cluster: ottla.Cluster, kafka_topic: str, url: str
) -> None:
    name, *options = [url if word == "URL" else word for word in command]
    servers = ["--bootstrap-servers", kafka_cluster.bootstrap_servers]
    found = run(name, kafka_topic, *servers, *options, given=given)
    assert (found.returncode, found.stdout) == (2, "")
    assert told in found.stderr
    assert "Traceback" not in found.stderr
    assert "s3cret" not in found.stderr


LOGICAL = """{"type": "record", "name": "R", "fields": [
    {"name": "fare", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}]},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "opens", "type": {"type": "array", "items": {"type": "int", "logicalType": "time-millis"}}},
    {"name": "tags", "type": {"type": "map", "values": "string"}},
    {"name": "ratio", "type": "double"}]}"""


def test_lines_that_were_read_can_be_sent_again(
    kafka_cluster: ottla.Cluster, kafka_topic: str, url: str, tmp_path: Path
) -> None:
    schema = tmp_path / "order.avsc"
    schema.write_text(LOGICAL)
    value = {
        "fare": "1.50",
        "at": "2024-01-01T00:00:00.500+00:00",
        "local": "2024-01-01T00:00:00",
        "day": "2024-02-29",
        "opens": ["08:30:00"],
        "tags": {"a": "b"},
        "ratio": 0.25,
    }
    there = [kafka_topic, *where(kafka_cluster, url)]
    lines = [json.dumps(value), json.dumps({**value, "fare": 1.5, "at": "2024-01-01T00:00:00.5Z"})]
    for given in (*lines, None):
        if given is None:
            given = run("read", *there, "--format", "value").stdout
            assert len(given.splitlines()) == 2
        sent = run("produce", *there, "--value-schema", str(schema), given=given)
        assert sent.returncode == 0, sent.stderr
    found = run("read", *there, "--format", "value").stdout.splitlines()
    assert len(found) == 4
    assert len({*found}) == 1
    assert json.loads(found[0])["fare"] == "1.50"


PROTOBUF_VALUES = """syntax = "proto3";
    import "google/protobuf/timestamp.proto";
    message M {
        bytes data = 1;
        google.protobuf.Timestamp at = 2;
        oneof either { string text = 3; int64 number = 4; }
        map<bool, float> ratios = 5;
    }"""
AVRO_VALUES = """{"type": "record", "name": "R", "fields": [
    {"name": "data", "type": "bytes"}, {"name": "either", "type": ["null", "string", "long"]}]}"""


@pytest.mark.parametrize(
    ("value_format", "text", "values"),
    [
        (
            "protobuf",
            PROTOBUF_VALUES,
            [
                {"data": "/wBh", "at": "2024-01-01T00:00:00.000001Z", "number": "5", "ratios": {"true": "NaN"}},
                {"at": "9999-12-31T00:00:00Z", "text": ""},
            ],
        ),
        ("avro", AVRO_VALUES, [{"data": "\xff\x00a", "either": {"member0": None, "member1": 5}}]),
    ],
)
def test_bytes_and_values_of_several_types_can_be_sent_again(
    value_format: str,
    text: str,
    values: list[Any],
    kafka_cluster: ottla.Cluster,
    kafka_topic: str,
    url: str,
    tmp_path: Path,
) -> None:
    schema = tmp_path / "a.schema"
    schema.write_text(text)
    there = [kafka_topic, *where(kafka_cluster, url, value_format)]
    for value in values:
        sent = run("produce", *there, "--value-schema", str(schema), given=json.dumps(value) + "\n")
        assert sent.returncode == 0, sent.stderr
    found = run("read", *there, "--format", "value")
    # The year 9999 is beyond nanoseconds of 64 bits.
    assert ("shown in microseconds" in found.stderr) == (value_format == "protobuf")
    columns = run("read", *there, "--output", str(tmp_path / "a.parquet"))
    assert ("nanoseconds do not reach; write CSV or NDJSON" in columns.stderr) == (value_format == "protobuf")
    lines = found.stdout
    sent = run("produce", *there, given=lines)
    assert sent.returncode == 0, sent.stderr
    again = run("read", *there, "--format", "value").stdout.splitlines()
    assert sorted(again) == sorted(lines.splitlines() * 2)


def test_values_of_json_are_shown_as_they_are_and_can_be_sent_again(
    kafka_cluster: ottla.Cluster, kafka_topic: str, url: str, tmp_path: Path
) -> None:
    schema = tmp_path / "a.json"
    schema.write_text('{"type": "object", "properties": {"any": {}, "count": {"type": "integer"}}}')
    there = [kafka_topic, *where(kafka_cluster, url, "json")]
    lines = ['{"any": {"b": [1, "x"]}, "more": 2.50}', '{"any": "text", "count": 5}', "{}"]
    for given in ("\n".join(lines) + "\n", None):
        text = run("read", *there, "--format", "value").stdout if given is None else given
        sent = run("produce", *there, "--value-schema", str(schema), given=text)
        assert sent.returncode == 0, sent.stderr
    found = run("read", *there, "--format", "value").stdout.splitlines()
    assert sorted(found) == sorted([line.replace("2.50", "2.5") for line in lines] * 2)
    # As columns, a value is what the schema has columns for.
    output = tmp_path / "a.parquet"
    assert run("read", *there, "--output", str(output)).returncode == 0
    assert {field.name for field in pq.read_schema(output).field("value").type} == {"any", "count"}
    prefix = id_prefix(RegistryClient(url).version(f"{kafka_topic}-value").id, None)
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        place = producer.send(kafka_topic, prefix + b'{"count": "x"}', partition=0).result().offset
    failed = run("read", *there, "--format", "value")
    assert failed.returncode == 1
    assert f"The record at offset {place} of {kafka_topic}-0 cannot be decoded (value): Field 'count'" in failed.stderr


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("nothing", "line 2: 'nothing' is not JSON (Expecting value: line 1 column 1 (char 0)); with --value-format"),
        ('{"item": 5}', "line 2: The value of 'item' is 5 (int), which is not of its type, string."),
    ],
)
def test_a_line_that_cannot_be_sent_is_told_by_its_number(
    line: str, told: str, kafka_cluster: ottla.Cluster, kafka_topic: str, url: str, tmp_path: Path
) -> None:
    schema = tmp_path / "order.avsc"
    schema.write_text(SCHEMA)
    there = [kafka_topic, *where(kafka_cluster, url), "--value-schema", str(schema)]
    sent = run("produce", *there, given=f'{{"item": "tea"}}\n{line}\n{{"item": "milk"}}\n')
    assert sent.returncode == 2
    assert told in sent.stderr
    assert sent.stderr.strip().endswith("The lines before it (1) were sent.")


@pytest.mark.parametrize("value_format", ["avro", "json", pytest.param("protobuf", marks=pytest.mark.prove)])
def test_random_records_have_a_schema_of_their_own_and_stand_the_audit(
    value_format: str,
    kafka_cluster: ottla.Cluster,
    kafka_topic: str,
    url: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    there = [kafka_topic, *where(kafka_cluster, url, value_format)]
    ledger = str(tmp_path / "sent.parquet")
    assert main(["produce", *there, "--random", "50", "--ledger", ledger]) == 0
    capfd.readouterr()
    assert main(["read", *there, "--json"]) == 0
    values = [json.loads(line)["value"] for line in capfd.readouterr().out.splitlines()]
    assert len(values) == 50
    assert all(list(value) == ["name", "location", "status"] for value in values)
    assert {value["status"] for value in values} == {"OPEN", "CLOSED", "MOVED"}
    servers = ["-b", kafka_cluster.bootstrap_servers]
    assert main(["audit", "--ledger", ledger, "--topic", kafka_topic, *servers]) == 0


@pytest.mark.prove
@pytest.mark.parametrize("place", ["prefix", "header"])
def test_rows_with_a_schema_stand_the_audit(
    place: str, kafka_cluster: ottla.Cluster, kafka_topic: str, url: str, tmp_path: Path
) -> None:
    rows, ledger = tmp_path / "rows.ndjson", str(tmp_path / "sent.parquet")
    rows.write_text("".join(f'{{"id": {number}, "name": "n{number}"}}\n' for number in range(500)))
    there = [kafka_topic, *where(kafka_cluster, url), "--schema-id-in", place]
    assert main(["produce", *there, "--input", str(rows), "--key", "id", "--header", "a=b", "--ledger", ledger]) == 0
    servers = ["-b", kafka_cluster.bootstrap_servers]
    assert main(["audit", "--ledger", ledger, "--topic", kafka_topic, *servers]) == 0


@pytest.mark.parametrize(
    ("value_format", "text"),
    [("avro", SCHEMA), ("protobuf", PROTO), ("json", JSON_SCHEMA)],
    ids=["avro", "protobuf", "json"],
)
@pytest.mark.parametrize("has_ledger", [False, True])
def test_a_header_of_each_record_names_the_schema(
    value_format: str,
    text: str,
    has_ledger: bool,
    kafka_cluster: ottla.Cluster,
    kafka_topic: str,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schema, row = tmp_path / "order.schema", tmp_path / "row.ndjson"
    schema.write_text(text)
    row.write_text('{"item": "tea", "count": 2}\n')
    there = [kafka_topic, *where(kafka_cluster, url, value_format), "--schema-id-in", "header", "--header", "a=b"]
    there += ["--value-message", "Order"] * (value_format == "protobuf") + ["--value-schema", str(schema)]
    for number, given in enumerate(([], ["--input", str(row)])):
        ledger = ["--ledger", str(tmp_path / f"{number}.parquet")] * has_ledger
        with row.open() as lines:
            monkeypatch.setattr(sys, "stdin", lines)
            assert main(["produce", *there, *given, *ledger]) == 0
    with ottla.RegistryClient(url) as client:
        guid = bytes.fromhex(client.version(f"{kafka_topic}-value").guid.replace("-", ""))
    # The registry says which schema a GUID is, and no id stands in front of the value.
    stored = ottla.read_table(kafka_cluster.bootstrap_servers, kafka_topic).to_pylist()
    headers = [{each["key"]: each["value"] for each in record["headers"]} for record in stored]
    assert [each["a"] for each in headers] == [b"b"] * 2
    assert [each["__value_schema_id"][:17] for each in headers] == [b"\1" + guid] * 2
    assert all("ottla.sequence" in each for each in headers) is has_ledger
    assert all(record["value"][:1] != b"\0" for record in stored)
    how: dict[str, Any] = {"value_format": value_format, "registry": url}
    how |= {"value_message": "Order"} if value_format == "protobuf" else {}
    read = ottla.read_table(kafka_cluster.bootstrap_servers, kafka_topic, **how)
    assert [record["value"]["item"] for record in read.to_pylist()] == ["tea", "tea"]
