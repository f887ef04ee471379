"""ottla: send to Kafka from Python, and prove that every record arrived exactly once.

The public names are resolved on first use, so that `import ottla` costs next to nothing and never loads numpy or
pyarrow. Type checkers see plain imports instead. `__getattr__` is hidden from them, because with it every misspelt name
would have the type Any.

Pages that docstrings and errors name (docs/settings.md) are in the folder of this file; `ottla docs` prints them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.client.admin import Admin as Admin
    from ottla.client.async_producer import AsyncProducer as AsyncProducer
    from ottla.client.interceptors import BatchSeen as BatchSeen
    from ottla.client.interceptors import ProducerRecord as ProducerRecord
    from ottla.client.opentelemetry import observe_metrics as observe_metrics
    from ottla.client.producer import Producer as Producer
    from ottla.client.read_records import ReadRecord as ReadRecord
    from ottla.client.reader import Reader as Reader
    from ottla.client.table_delivery import TableDelivery as TableDelivery
    from ottla.client.tables import read_table as read_table
    from ottla.client.tables import write_table as write_table
    from ottla.client.transaction_handle import TransactionHandle as TransactionHandle
    from ottla.client.transaction_handle import end_transactions as end_transactions
    from ottla.clock import Clock as Clock
    from ottla.cluster.cluster import Cluster as Cluster
    from ottla.connection.oauth_settings import OAuthBearerToken as OAuthBearerToken
    from ottla.embedded_registry.registry import Registry as Registry
    from ottla.errors import AuthenticationError as AuthenticationError
    from ottla.errors import BufferFull as BufferFull
    from ottla.errors import ClosedError as ClosedError
    from ottla.errors import ConfigError as ConfigError
    from ottla.errors import DeliveryError as DeliveryError
    from ottla.errors import DeliveryFailed as DeliveryFailed
    from ottla.errors import DeliveryUnknown as DeliveryUnknown
    from ottla.errors import DeserializationError as DeserializationError
    from ottla.errors import ForkError as ForkError
    from ottla.errors import KafkaError as KafkaError
    from ottla.errors import LogTruncated as LogTruncated
    from ottla.errors import MissingExtra as MissingExtra
    from ottla.errors import NotKafka as NotKafka
    from ottla.errors import OttlaError as OttlaError
    from ottla.errors import ProducerFenced as ProducerFenced
    from ottla.errors import RecordError as RecordError
    from ottla.errors import RegistryError as RegistryError
    from ottla.errors import TransactionAborted as TransactionAborted
    from ottla.errors import TransactionError as TransactionError
    from ottla.errors import TransactionMisuse as TransactionMisuse
    from ottla.errors import TransactionUnfinished as TransactionUnfinished
    from ottla.errors import TransactionUnknown as TransactionUnknown
    from ottla.errors import Unreachable as Unreachable
    from ottla.errors import UserMistake as UserMistake
    from ottla.producer.cluster_view import ClusterView as ClusterView
    from ottla.producer.diagnosis import Diagnosis as Diagnosis
    from ottla.producer.diagnosis import Finding as Finding
    from ottla.producer.diagnosis import Limit as Limit
    from ottla.producer.transaction_states import TransactionIdentity as TransactionIdentity
    from ottla.proxy.proxy import Proxy as Proxy
    from ottla.records.delivery import Delivery as Delivery
    from ottla.records.delivery import RecordMetadata as RecordMetadata
    from ottla.records.key_column import KeyColumn as KeyColumn
    from ottla.registry.client import RegistryClient as RegistryClient
    from ottla.registry.registered import RegisteredSchema as RegisteredSchema
    from ottla.registry.registered import SchemaReference as SchemaReference
    from ottla.registry.serializers import AvroDeserializer as AvroDeserializer
    from ottla.registry.serializers import AvroSerializer as AvroSerializer
    from ottla.registry.serializers import JsonSchemaDeserializer as JsonSchemaDeserializer
    from ottla.registry.serializers import JsonSchemaSerializer as JsonSchemaSerializer
    from ottla.registry.serializers import ProtobufDeserializer as ProtobufDeserializer
    from ottla.registry.serializers import ProtobufSerializer as ProtobufSerializer
    from ottla.sockets.listener import Listener as Listener

_HOMES = {
    "Admin": "ottla.client.admin",
    "BatchSeen": "ottla.client.interceptors",
    "AsyncProducer": "ottla.client.async_producer",
    "Clock": "ottla.clock",
    "Cluster": "ottla.cluster.cluster",
    "ClusterView": "ottla.producer.cluster_view",
    "Delivery": "ottla.records.delivery",
    "Diagnosis": "ottla.producer.diagnosis",
    "Finding": "ottla.producer.diagnosis",
    "KeyColumn": "ottla.records.key_column",
    "Limit": "ottla.producer.diagnosis",
    "Listener": "ottla.sockets.listener",
    "OAuthBearerToken": "ottla.connection.oauth_settings",
    "Producer": "ottla.client.producer",
    "ProducerRecord": "ottla.client.interceptors",
    "Proxy": "ottla.proxy.proxy",
    "ReadRecord": "ottla.client.read_records",
    "Reader": "ottla.client.reader",
    "RecordMetadata": "ottla.records.delivery",
    "RegisteredSchema": "ottla.registry.registered",
    "Registry": "ottla.embedded_registry.registry",
    "RegistryClient": "ottla.registry.client",
    "SchemaReference": "ottla.registry.registered",
    "TableDelivery": "ottla.client.table_delivery",
    "TransactionHandle": "ottla.client.transaction_handle",
    "TransactionIdentity": "ottla.producer.transaction_states",
    "end_transactions": "ottla.client.transaction_handle",
    "observe_metrics": "ottla.client.opentelemetry",
    "read_table": "ottla.client.tables",
    "write_table": "ottla.client.tables",
}
_HOMES.update(
    dict.fromkeys(
        (
            "AvroDeserializer",
            "AvroSerializer",
            "JsonSchemaDeserializer",
            "JsonSchemaSerializer",
            "ProtobufDeserializer",
            "ProtobufSerializer",
        ),
        "ottla.registry.serializers",
    )
)
_ERRORS = (
    "AuthenticationError",
    "BufferFull",
    "ClosedError",
    "ConfigError",
    "DeliveryError",
    "DeliveryFailed",
    "DeliveryUnknown",
    "DeserializationError",
    "ForkError",
    "KafkaError",
    "LogTruncated",
    "MissingExtra",
    "NotKafka",
    "OttlaError",
    "ProducerFenced",
    "RecordError",
    "RegistryError",
    "TransactionAborted",
    "TransactionError",
    "TransactionMisuse",
    "TransactionUnfinished",
    "TransactionUnknown",
    "Unreachable",
    "UserMistake",
)
_HOMES.update(dict.fromkeys(_ERRORS, "ottla.errors"))

__version__ = "0.1.0"
__all__ = ["__version__", *sorted(_HOMES)]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise _unknown(name)
        value = getattr(importlib.import_module(home), name)
        globals()[name] = value
        return value


def _unknown(name: str) -> AttributeError | ImportError:
    """The error for a name that is not here; `name` is given, so that Python adds no second hint to the traceback."""
    if name.startswith("_"):
        # Tools ask modules for such names; they are not misspelt.
        return AttributeError(f"module 'ottla' has no attribute {name!r}", name=name)
    import importlib.util

    from ottla.foreign_names import OF_PACKAGE, is_from_import
    from ottla.nearest import nearest_name

    instead = OF_PACKAGE.get(name)
    if instead is None:
        nearest = nearest_name(name, _HOMES, alike=0.75)
        instead = nearest and f"did you mean {nearest}?"
    if instead is None:
        return AttributeError(f"module 'ottla' has no attribute {name!r}", name=name)
    # A module that was not loaded yet, as ottla.clock, is asked for here first, and loaded after an AttributeError.
    if is_from_import() and importlib.util.find_spec(f"ottla.{name}") is None:
        return ImportError(f"cannot import name {name!r} from 'ottla'; {instead}", name="ottla")
    return AttributeError(f"module 'ottla' has no attribute {name!r}; {instead}", name=name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
