"""Records with a schema of a registry: decoded, searched by their fields, and shown as they are where that fails."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

import ottla
from ottla.console.console import Console
from ottla.console.server import ConsoleServer
from ottla.console.shown import Registry
from ottla.registry.serializers import AvroSerializer, JsonSchemaSerializer

from .conftest import Asking

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "raw", "type": "bytes"}],
    }
)


def test_values_are_decoded_by_their_schema_and_searched(cluster: ottla.Cluster, kafka_name: str) -> None:
    cluster.create_topic(kafka_name)
    with ottla.Registry(cluster.bootstrap_servers) as registry:
        with ottla.Producer(
            cluster.bootstrap_servers, value_serializer=AvroSerializer(registry.url, SCHEMA)
        ) as producer:
            for number in range(5):
                producer.send(kafka_name, {"id": number, "raw": b"\xff"})
        with ottla.Producer(cluster.bootstrap_servers) as producer:
            producer.send(kafka_name, b"\x00\x00\x00\x27\x0fno such schema")
            producer.send(kafka_name, b'{"id": 3}')
        with (
            Console(cluster.bootstrap_servers, registry=registry.url) as console,
            ConsoleServer(console, "127.0.0.1", 0) as server,
        ):
            asking = Asking(server.url)
            path = f"api/topics/{kafka_name}"
            values = [each["value"] for each in asking.get(f"{path}/records?start=oldest")["records"]]
            assert (values[2]["as"], json.loads(values[2]["text"])) == ("avro", {"id": 2, "raw": "ff"})
            assert values[5]["as"] == "hex"
            assert "9999" in values[5]["error"]
            assert values[6]["as"] == "text"
            lines = asking.lines(f"{path}/search?path=id&operator=%3D&operand=3")
            assert [line["match"]["offset"] for line in lines if "match" in line] == [3, 6]
            plain = asking.get(f"{path}/records?start=oldest&decode=false")["records"][2]["value"]
            assert plain["as"] == "hex"


def test_half_a_surrogate_pair_in_a_decoded_value_hides_no_record(cluster: ottla.Cluster, kafka_name: str) -> None:
    cluster.create_topic(kafka_name)
    with ottla.Registry(cluster.bootstrap_servers) as registry:
        serializer = JsonSchemaSerializer(registry.url, json.dumps({"type": "object"}))
        with ottla.Producer(cluster.bootstrap_servers, value_serializer=serializer) as producer:
            first = producer.send(kafka_name, {"text": "whole"}).result(30)
        [record] = ottla.read_table(cluster.bootstrap_servers, kafka_name).to_pylist()
        with ottla.Producer(cluster.bootstrap_servers) as producer:
            producer.send(kafka_name, record["value"][:5] + b'{"text": "\\ud800"}')
        with (
            Console(cluster.bootstrap_servers, registry=registry.url) as console,
            ConsoleServer(console, "127.0.0.1", 0) as server,
        ):
            asking = Asking(server.url)
            path = f"api/topics/{kafka_name}"
            values = [each["value"] for each in asking.get(f"{path}/records?start=oldest")["records"]]
            assert [json.loads(each["text"]) for each in values] == [{"text": "whole"}, {"text": "\ud800"}]
            found = [line["match"]["offset"] for line in asking.lines(f"{path}/search") if "match" in line]
            assert found == [first.offset, first.offset + 1]


def test_a_registry_is_asked_once_for_a_schema_that_it_lacks() -> None:
    asked: list[str] = []

    class Lacking(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = b'{"error_code":40403,"message":"Schema not found"}'
            self.send_response(404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Lacking) as server:
        threading.Thread(target=server.serve_forever).start()
        registry = Registry(f"http://127.0.0.1:{server.server_port}")
        for number in range(6):
            with pytest.raises(ottla.RegistryError, match="40403"):
                registry.decode("t", "value", b"\0\0\0\0" + bytes([number % 2]) + b"more", ())
        registry.close()
        server.shutdown()
    assert asked == ["/schemas/ids/0", "/schemas/ids/1"]
