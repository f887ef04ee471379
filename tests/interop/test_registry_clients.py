"""Clients of schema registries in other languages, unchanged, against ours: what they are told, and each other's bytes.

Their programs are in `registry_clients`. Each is fetched and built by the tools of its language; where a tool or its
registry of packages is missing, its test is skipped.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla

pytestmark = pytest.mark.prove

_SOURCES = Path(__file__).with_name("registry_clients")
_PATIENCE_S = 300
ORDER = '{"type":"record","name":"Order","fields":[{"name":"item","type":"string"}]}'


@pytest.fixture(scope="module")
def registry() -> Iterator[ottla.Registry]:
    with ottla.Cluster(brokers=1) as cluster, ottla.Registry(cluster.bootstrap_servers) as registry:
        yield registry


class Exchange:
    """One subject, and what an `ottla` client and another one say of it."""

    def __init__(self, url: str, subject: str, folder: Path) -> None:
        self.url, self.subject, self._folder = url, subject, folder
        self.serializer = ottla.AvroSerializer(url, ORDER, subject_name_strategy=lambda *_: subject)
        self.value = self._encoded({"item": "tea"})

    def _encoded(self, value: Any) -> bytes:
        encode, prefix = self.serializer.of_part("value").for_topic("orders")
        made: bytes = encode(value, prefix)
        return made

    def read(self, deserializer: Any, value: str) -> Any:
        """What an `ottla` deserializer makes of a value in hex."""
        return deserializer.of_part("value").deserialize_with_headers("orders", bytes.fromhex(value), [])

    def told(self, language: str, fetch: list[str], build: list[str], command: list[str]) -> dict[str, Any]:
        """What the program of this language prints."""
        folder = self._folder / language
        shutil.copytree(_SOURCES / language, folder)
        for tool in {fetch[0], command[0]} - {"./client"}:
            if shutil.which(tool) is None:
                pytest.skip(f"the client in {language} needs {tool}, which is not on the PATH")
        fetched = _run(fetch, folder)
        if fetched.returncode:
            pytest.skip(f"what the client in {language} needs cannot be fetched: {fetched.stderr.strip()[-200:]}")
        if build:
            built = _run(build, folder)
            assert built.returncode == 0, built.stderr
        ran = _run([*command, self.url, self.subject, self.value.hex()], folder)
        assert ran.returncode == 0, ran.stderr
        found: dict[str, Any] = json.loads(ran.stdout)
        return found


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)


@pytest.fixture
def exchange(registry: ottla.Registry, kafka_name: str, tmp_path: Path) -> Exchange:
    return Exchange(registry.url, kafka_name, tmp_path)


@pytest.fixture
def first(exchange: Exchange) -> int:
    """The id of the schema of `Exchange.value`."""
    return int.from_bytes(exchange.value[1:5], "big")


MILK = {"item": "milk!", "count": 2}


def test_franz_go(exchange: Exchange, first: int) -> None:
    told = exchange.told("go", ["go", "mod", "download"], ["go", "build", "-o", "client", "."], ["./client"])
    assert exchange.read(ottla.AvroDeserializer(exchange.url), told.pop("value")) == MILK
    assert told == {
        "first": first,
        "again": first,
        "compatible": [True, False],
        "refused": 409,
        "version": 2,
        "text": ORDER,
        "item": "tea",
        "references": 1,
        "users": True,
        "level": "FULL",
        "lacking": 40403,
        "deleted": [1],
    }


def test_kafkajs(exchange: Exchange, first: int) -> None:
    told = exchange.told("javascript", ["npm", "ci", "--silent", "--no-audit", "--no-fund"], [], ["node", "client.js"])
    url = exchange.url
    assert exchange.read(ottla.AvroDeserializer(url), told.pop("value")) == MILK
    assert exchange.read(ottla.JsonSchemaDeserializer(url), told.pop("json")) == {"item": "tea"}
    assert told.pop("again") == told.pop("second")
    assert told == {"first": first, "item": "tea", "refused": 409, "lacking": 404, "protobuf": "tea"}


def test_confluents_java_in_flink(exchange: Exchange, first: int) -> None:
    fetch = ["mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies", "-DoutputDirectory=jars"]
    told = exchange.told("java", fetch, [], ["java", "-cp", "jars/*", "RegistryClient.java"])
    assert exchange.read(ottla.AvroDeserializer(exchange.url), told.pop("value")) == MILK
    assert told == {
        "first": first,
        "again": first,
        "compatible": [True, False],
        "refused": 409,
        "version": 2,
        "item": "tea",
        "count": 0,
        "level": "FULL",
        "lacking": 40403,
        "listed": True,
        "deleted": [1, 2],
    }
