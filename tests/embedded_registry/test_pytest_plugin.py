"""The fixture that comes with the package, and the command that serves a registry beside brokers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import ottla
from ottla.registry.client import RegistryClient


def test_a_test_of_others_has_a_registry_by_its_name(
    schema_registry: ottla.Registry, kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    with RegistryClient(schema_registry.url) as client:
        schema = client.register(f"{kafka_topic}-value", '"string"')
        assert client.by_id(schema.id).text == '"string"'
    with ottla.Admin(kafka_cluster.bootstrap_servers) as admin:
        assert len(admin.describe("_schemas").partitions) == 1


def test_it_is_still_there_for_the_next_test(schema_registry: ottla.Registry) -> None:
    with RegistryClient(schema_registry.url) as client:
        told = [name for name in client.subjects() if name.startswith("test-a-test-of-others")]
        assert len(told) == 1


def serve(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ottla", "serve", "--brokers", "1", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_ottla_serve_has_a_registry_beside_its_brokers() -> None:
    with serve("--port", "0", "--registry", "0", "--json") as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        with RegistryClient(told["schema_registry"]) as client:
            assert client.register("s", '"int"').version == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_a_registry_needs_a_listener_without_passwords(tmp_path: Path) -> None:
    users = tmp_path / "users.txt"
    users.write_text("ann:secret\n")
    users.chmod(0o600)
    listener = ("--listener", "S=SASL_PLAINTEXT://127.0.0.1:0", "--users-file", str(users))
    with serve(*listener, "--registry", "0") as process:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 2
        assert "give a listener PLAINTEXT" in " ".join(said.split())
