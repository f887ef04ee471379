"""Names of other clients: what a program written for confluent-kafka, kafka-python or aiokafka asks of this package.

`ottla.KafkaProducer` and `producer.poll` do not exist. The error says what there is instead, or that the call can be
left out. Settings of other clients stand in `connection/foreign_settings.py`.

Readers and admins answer by `__getattr__`, which is hidden from type checkers: a name that does not exist stays an
error for them. Producers have no `__getattr__`, because each `producer.send` would be slower by it. Their base class
has a `ForeignName` for each name instead. `dir` does not list these, so that no mock has them.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache, wraps
from typing import Any, NoReturn, TypeVar

from ottla.errors import ConfigError
from ottla.nearest import nearest_name

Init = TypeVar("Init", bound=Callable[..., None])
_Rows = Iterable[tuple[str, str]]

_NO_GROUPS = "ottla has no consumer groups: ottla.Reader and ottla.read_table read the partitions they are given."
_READS = "iterate over the Reader: for batch in reader."
_ASSIGNED = "give topic= or assignments={(topic, partition): (start, end)} to ottla.Reader."
_NO_POLL = "nothing has to be polled here; leave the call out."
_SERIALIZERS = "key_serializer and value_serializer of a producer take a function, or the name of a serializer."
_COROUTINES = "ottla.AsyncProducer sends records from coroutines."
_NOT_HERE = "ottla.Admin does not have it; use the admin client of another library."
_NO_ACCESS = f"access is not administered here: {_NOT_HERE}"
_NO_GROUP_ADMIN = "groups are administered by the command line, `ottla groups`, or by another library."

_PACKAGE: _Rows = (
    ("KafkaProducer", "ottla.Producer sends records."),
    ("SerializingProducer", "ottla.Producer sends records; its settings key_serializer and value_serializer do that."),
    ("AIOKafkaProducer AIOProducer AsyncSerializingProducer", _COROUTINES),
    ("Consumer KafkaConsumer AIOKafkaConsumer AIOConsumer ShareConsumer", _NO_GROUPS),
    ("DeserializingConsumer AsyncDeserializingConsumer DeserializingShareConsumer", _NO_GROUPS),
    ("ConsumerRebalanceListener AsyncConsumerRebalanceListener", _NO_GROUPS),
    ("AdminClient KafkaAdminClient AIOKafkaAdminClient", "ottla.Admin creates, changes, deletes and describes topics."),
    ("KafkaClient AIOKafkaClient", "ottla.Admin asks the cluster about its brokers and topics."),
    ("NewTopic", 'ottla.Admin(...).create_topics("orders", partitions=3) takes names and numbers.'),
    ("NewPartitions", 'ottla.Admin(...).create_partitions("orders", 6) takes a name and a number.'),
    ("ConfigResource", 'ottla.Admin(...).describe_configs(topic="orders") takes a name.'),
    ("SchemaRegistryClient AsyncSchemaRegistryClient CachedSchemaRegistryClient", "ottla.RegistryClient is one."),
    ("SchemaRegistryError", "ottla.RegistryError says what a schema registry refused."),
    ("TopicPartition TopicPartitionInfo", "a partition is the tuple (topic, partition) here."),
    ("OffsetAndMetadata", "send_offsets_to_transaction takes an offset, or the tuple (offset, metadata)."),
    ("ConsumerGroupMetadata", "send_offsets_to_transaction takes the group's id, generation= and member_id=."),
    ("Message FutureRecordMetadata", "send returns an ottla.Delivery, which says what became of the record."),
    ("ConsumerRecord", "ottla.Reader and ottla.read_table return Arrow tables, one row for each record."),
    ("KafkaException", "ottla.OttlaError is the base class of all errors, ottla.KafkaError that of brokers' errors."),
    ("KafkaTimeoutError", "ottla raises BufferFull, Unreachable and TimeoutError."),
    ("Serializer StringSerializer IntegerSerializer DoubleSerializer", _SERIALIZERS),
    ("JsonSerializer JSONSerializer DefaultSerializer", _SERIALIZERS),
    ("JSONSchemaSerializer", "ottla.JsonSchemaSerializer is one."),
    ("SerializationContext MessageField", _SERIALIZERS),
    (
        "Deserializer StringDeserializer JSONDeserializer",
        "key_deserializer and value_deserializer of a Reader take a name or a function, for its records().",
    ),
    (
        "DefaultPartitioner RoundRobinPartitioner Murmur2Partitioner",
        "the setting partitioner_class takes its name.",
    ),
)
_PRODUCER: _Rows = (
    ("produce", "call send(topic, value, key, headers=, partition=, timestamp_ms=, on_delivery=)."),
    (
        "produce_batch create_batch send_batch",
        "send gathers records into batches; send_table sends many rows at once.",
    ),
    ("poll", _NO_POLL),
    ("flush_all", "flush() waits for the outcome of all records."),
    ("list_topics", "ottla.Admin(...).list_topics() does it; partitions_for(topic) has the partitions of one topic."),
    ("topics", "ottla.Admin(...).list_topics() does it."),
    ("purge", "records cannot be taken back; close(timeout=0) gives up those that have no outcome yet."),
    ("cluster_id", "ottla.Admin(...).cluster() describes the cluster, its id too."),
    ("bootstrap_connected", "a producer connects when it has to; ottla.Admin(...).cluster() asks a broker."),
    ("start", "a producer works as soon as it is made; leave the call out."),
    ("stop", "call close(), or use it in a with block (AsyncProducer: await close(), async with)."),
    ("send_and_wait", "send(...).result() waits until a record is stored (AsyncProducer: await (await send(...)))."),
    ("set_sasl_credentials", "sasl_username and sasl_password are settings: make another producer with the new ones."),
    ("max_usable_produce_magic", "a producer asks each broker for its API versions; leave the call out."),
)
_DELIVERY: _Rows = (
    ("get", "result(timeout=seconds) waits until the record is stored."),
    ("offset", "result().offset is it, once the record is stored."),
    ("add_callback add_errback", "add_done_callback(function) calls function(delivery) when the outcome is known."),
)
_READER: _Rows = (
    ("poll consume getone getmany", _READS),
    ("subscribe subscription unsubscribe assignment", _ASSIGNED),
    (
        "seek seek_to_beginning seek_to_end",
        "give start= and end= to ottla.Reader; make one for each range.",
    ),
    ("commit commit_async committed store_offsets", _NO_GROUPS),
    ("pause resume", "records are fetched ahead up to prefetch.max.bytes; stop iterating to pause."),
    ("position", "positions() has the offsets of all partitions."),
    (
        "beginning_offsets get_watermark_offsets",
        "ottla.Admin(...).begin_offsets(topic), and end_offsets, have them.",
    ),
    ("end_offsets", "ottla.Admin(...).end_offsets(topic) has them."),
    ("topics list_topics", "ottla.Admin(...).list_topics() does it."),
    ("partitions_for_topic", "ottla.Admin(...).describe(topic) has the partitions of a topic."),
)
_ADMIN: _Rows = (
    ("describe_topics", "describe(topic) describes one topic."),
    ("describe_cluster", "cluster() describes the cluster."),
    ("cluster_id", "cluster() describes the cluster, its id too."),
    (
        "incremental_alter_configs reset_configs",
        "alter_configs changes only the settings that it is given.",
    ),
    ("list_offsets list_partition_offsets", "begin_offsets(topic) and end_offsets(topic) have them."),
    ("wait_for_topics", "create_topics waits until all brokers know the topic; leave the call out."),
    ("create_acls describe_acls delete_acls", _NO_ACCESS),
    ("describe_user_scram_credentials alter_user_scram_credentials", _NO_ACCESS),
    ("list_groups describe_groups delete_groups list_group_offsets alter_group_offsets", _NO_GROUP_ADMIN),
    ("list_consumer_groups describe_consumer_groups delete_consumer_groups", _NO_GROUP_ADMIN),
    ("list_consumer_group_offsets alter_consumer_group_offsets", _NO_GROUP_ADMIN),
    ("poll", _NO_POLL),
)


def _by_name(rows: _Rows) -> Mapping[str, str]:
    return {name: instead for names, instead in rows for name in names.split()}


OF_PACKAGE = _by_name(_PACKAGE)
OF_PRODUCER = _by_name(_PRODUCER)
OF_DELIVERY = _by_name(_DELIVERY)
OF_READER = _by_name(_READER)
OF_ADMIN = _by_name(_ADMIN)


def about_callback(function: Callable[..., object], error: BaseException) -> str:
    """A sentence for the log if an `on_delivery` cannot be called with a Delivery alone; "" if it can."""
    if not isinstance(error, TypeError):
        return ""
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return " It is called with one argument, the Delivery: its exception() is the error, or None."
    except ValueError:
        pass  # a builtin without a signature
    return ""


def is_from_import() -> bool:
    """Whether the module's `__getattr__` is asked for by `from ottla import ...`.

    Python asks for the name with `hasattr` first, and puts an ImportError of its own in the place of an AttributeError.
    """
    asking = sys._getframe(3)
    return asking.f_code.co_name == "_handle_fromlist"


def no_attribute(instance: object, name: str, answers: Mapping[str, str]) -> AttributeError:
    """The error for an attribute that `instance` does not have."""
    instead = answers.get(name)
    told = f"'{type(instance).__name__}' object has no attribute {name!r}{'; ' + instead if instead else ''}"
    if instead is None:
        return AttributeError(told, name=name, obj=instance)
    # Without `obj`, so that Python adds no second hint to the traceback.
    return AttributeError(told, name=name)


class ForeignName:
    """A name that a class does not have: reading it raises an AttributeError that says what there is instead."""

    def __init__(self, name: str, instead: str) -> None:
        self._name = name
        self._instead = instead

    def __get__(self, instance: object, owner: type) -> NoReturn:
        what = f"type object '{owner.__name__}'" if instance is None else f"'{owner.__name__}' object"
        raise AttributeError(f"{what} has no attribute {self._name!r}; {self._instead}", name=self._name)


def without_foreign_names(owner: type, names: Iterable[str]) -> list[str]:
    """What `dir` lists of a class, or of an object of it: no name that is there for its answer only."""
    listed = []
    for name in names:
        home = next((base for base in owner.__mro__ if name in base.__dict__), None)
        if home is None or not isinstance(home.__dict__[name], ForeignName):
            listed.append(name)
    return listed


class ProducerNames:
    """The base class that gives producers their answers."""

    def __dir__(self) -> list[str]:
        return without_foreign_names(type(self), super().__dir__())


for _name, _instead in OF_PRODUCER.items():
    setattr(ProducerNames, _name, ForeignName(_name, _instead))


def servers_come_first(init: Init) -> Init:
    """Have an `__init__` that gets a whole configuration as keywords raise an error that says how to do it."""

    @wraps(init)
    def checked(self: object, *args: Any, **settings: Any) -> None:
        if not args and "bootstrap_servers" not in settings and "bootstrap.servers" in settings:
            kind = type(self).__name__
            how = f"; settings in a dict go to {kind}.from_config(config)"
            if not hasattr(self, "from_config"):
                how = f": {kind}(config.pop('bootstrap.servers'), **config)"
            raise ConfigError(f"{kind} takes the brokers' addresses as its first argument{how}.")
        init(self, *args, **settings)

    return checked  # type: ignore[return-value]


# Arguments of confluent_kafka's serializers that have other names here, or are not needed.
_OF_SERIALIZERS = ("schema_registry_client", "schema_str", "conf", "msg_type", "message_type", "return_record_name")
_SERIALIZER_ARGUMENTS_MOST = 2


def registry_comes_first(init: Init) -> Init:
    """Let a serializer's `__init__` take names with dots; a call as in confluent_kafka gets an error that says how."""

    @wraps(init)
    def checked(self: object, *args: Any, **settings: Any) -> None:
        kind: Any = type(self)
        name = kind.__name__
        if len(args) > _SERIALIZER_ARGUMENTS_MOST or any(each in settings for each in _OF_SERIALIZERS):
            raise ConfigError(
                f"{name} takes the registry's address first, then the schema's text, and all else by name: "
                f'{name}("http://localhost:8081", schema, ...); the page "Schemas" of the documentation lists them.'
            )
        named = {each.replace(".", "_"): value for each, value in settings.items()}
        known = _arguments_of(kind)
        unknown = [each for each in named if each not in known]
        if unknown:
            meant = nearest_name(unknown[0], known)
            advice = f"; did you mean {meant}?" if meant else f"; there are {', '.join(sorted(known))}."
            raise ConfigError(f"{name} has no argument {unknown[0]!r}{advice}")
        init(self, *args, **named)

    return checked  # type: ignore[return-value]


@cache
def _arguments_of(kind: Any) -> set[str]:
    """The names of all arguments of a class that passes some of them on to its base."""
    signatures = [inspect.signature(vars(base)["__init__"]) for base in kind.__mro__ if "__init__" in vars(base)]
    parameters = [each for signature in signatures for each in signature.parameters.values()]
    return {each.name for each in parameters if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)} - {"self"}
