"""Our registry on Apache Kafka: its topic, restarts, and two registries that take turns."""

from __future__ import annotations

import pytest

import ottla
from ottla.registry.client import RegistryClient

pytestmark = pytest.mark.kafka


def test_a_registry_works_on_apache_kafka_and_is_found_again(apache_kafka: str, kafka_name: str) -> None:
    with ottla.Registry(apache_kafka, topic=kafka_name) as one, ottla.Registry(apache_kafka, topic=kafka_name) as other:
        ids = []
        for number in range(20):
            with RegistryClient((one, other)[number % 2].url) as client:
                ids.append(client.register(f"s{number}", f'{{"type":"fixed","name":"F{number}","size":{number}}}').id)
        assert ids == list(range(1, 21))
    with ottla.Registry(apache_kafka, topic=kafka_name) as again, RegistryClient(again.url) as client:
        for number, schema_id in enumerate(ids):
            assert client.version(f"s{number}").id == schema_id
    with ottla.Admin(apache_kafka) as admin:
        assert admin.describe_configs(topic=kafka_name)["cleanup.policy"].value == "compact"
