"""Objects that no schema takes: the error says how to make what it takes of them, and whether it is the key."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from typing import Any, NamedTuple

import pandas as pd
import pytest
from tests.registries import EitherRegistry

import ottla

AVRO = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "item", "type": "string"}]})
JSON = '{"type": "object", "properties": {"item": {"type": "string"}}}'
PROTO = 'syntax = "proto3"; message Order { string item = 1; }'


class Pydantic:
    """What a model of pydantic has."""

    def model_dump(self) -> dict[str, str]:
        return {"item": "x"}


@dataclasses.dataclass
class Order:
    item: str


class Pair(NamedTuple):
    item: str


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        (Order("x"), "to_dict=dataclasses.asdict, or a dict"),
        (Pydantic(), "to_dict=Pydantic.model_dump, or a dict"),
        (Pair("x"), "to_dict=Pair._asdict, or a dict"),
        ({"item": math.nan}, "Give None where there is no value"),
        ({"item": pd.NA}, "Give None where there is no value"),
    ],
)
def test_objects_that_are_no_dict_are_told_how_to_become_one(
    given: Any, advice: str, kafka_cluster: ottla.Cluster, kafka_topic: str, either_registry: EitherRegistry
) -> None:
    kinds: Any = ((ottla.AvroSerializer, AVRO), (ottla.JsonSchemaSerializer, JSON), (ottla.ProtobufSerializer, PROTO))
    for number, (kind, schema) in enumerate(kinds):
        topic = f"{kafka_topic}-{number}"
        kafka_cluster.create_topic(topic)
        for part in ("key", "value"):
            settings: Any = {f"{part}_serializer": kind(either_registry.url, schema)}
            with ottla.Producer(kafka_cluster.bootstrap_servers, **settings) as producer:
                with pytest.raises(ottla.RecordError, match=re.escape(advice)) as refused:
                    producer.send(topic, **{part: given})
                assert str(refused.value).startswith(f"The key of a record to {topic!r}: ") == (part == "key")


def test_a_part_of_a_dict_is_told_what_makes_a_dict_of_it(
    kafka_cluster: ottla.Cluster, kafka_topic: str, either_registry: EitherRegistry
) -> None:
    inner = {"type": "record", "name": "Line", "fields": [{"name": "item", "type": "string"}]}
    schema = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "line", "type": inner}]})
    serializer = ottla.AvroSerializer(either_registry.url, schema)
    with ottla.Producer(kafka_cluster.bootstrap_servers, value_serializer=serializer) as producer:
        for part, maker in ((Order("x"), "dataclasses.asdict"), (Pair("x"), "Pair._asdict")):
            with pytest.raises(ottla.RecordError, match=rf"{re.escape(maker)} makes a dict of it\.$"):
                producer.send(kafka_topic, {"line": part})
