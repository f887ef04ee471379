"""The Kafka of a run: an embedded cluster of its own, or topics of its own on any Kafka, behind a proxy.

Producers send to `bootstrap_servers`, where faults are put in force. Spark and all other readers go to `read_from`: a
proxy is on this machine, and Spark's workers may be on others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ottla.sink.settings import CONTROL_TOPIC

if TYPE_CHECKING:
    from ottla.audit.chronicles.chronicle import ProducerPromise, TopicPromise
    from ottla.cluster.cluster import Cluster
    from ottla.evidence.times import RunClock
    from ottla.evidence.witness import TopicWitness
    from ottla.faults.verbs import Verbs
    from ottla.foreign.kafka import ForeignKafka


class RunKafka(ABC):
    """`where` is the address of a foreign Kafka, "" for an embedded cluster; `replicas`: how many each topic has.

    `client_settings` are of producers, `reader_settings` of readers, as keywords; `spark_options` the same for Spark.
    `control_topic`: where the exactly-once sink keeps its decisions.
    """

    where = ""
    control_topic = CONTROL_TOPIC
    bootstrap_servers: str
    read_from: str
    client_settings: Mapping[str, Any]
    reader_settings: Mapping[str, Any]
    spark_options: Mapping[str, str]
    faults: Verbs
    replicas: int

    @abstractmethod
    def name(self, topic: str) -> str:
        """What a topic of the run is called there."""

    @abstractmethod
    def create_topic(self, topic: str, partitions: int) -> None:
        """Make one, by the name that it has there."""

    @abstractmethod
    def delete_topic(self, topic: str) -> None:
        """Delete one before the end."""

    @abstractmethod
    def start_registry(self, stack: ExitStack) -> str:
        """Start a schema registry that keeps its schemas there, and that `stack` closes; its address."""

    @abstractmethod
    def witness(self, promise: TopicPromise, producer: ProducerPromise, clock: RunClock) -> TopicWitness:
        """The witness of a topic."""


class EmbeddedKafka(RunKafka):
    """A cluster that only this run has."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.bootstrap_servers = self.read_from = cluster.bootstrap_servers
        self.client_settings = self.reader_settings = {}
        self.spark_options = {}
        self.faults = cluster.faults
        self.replicas = len(cluster.bootstrap_servers.split(","))

    def name(self, topic: str) -> str:
        """The same name: no other run uses this cluster."""
        return topic

    def create_topic(self, topic: str, partitions: int) -> None:
        """With a replica on each broker."""
        self._cluster.create_topic(topic, partitions=partitions, replication_factor=self.replicas)

    def delete_topic(self, topic: str) -> None:
        """With all its records."""
        self._cluster.delete_topic(topic)

    def start_registry(self, stack: ExitStack) -> str:
        """In the topic that registries usually have."""
        from ottla.embedded_registry.registry import Registry

        return stack.enter_context(Registry(self.read_from)).url

    def witness(self, promise: TopicPromise, producer: ProducerPromise, clock: RunClock) -> TopicWitness:
        """One that asks brokers, and looks into their logs."""
        from ottla.evidence.witness import TopicWitness

        return TopicWitness(self._cluster, promise, producer, clock)


class ProxiedKafka(RunKafka):
    """Any Kafka; `stack` closes the proxy and deletes the topics."""

    def __init__(self, kafka: ForeignKafka, stack: ExitStack) -> None:
        self._kafka = kafka
        self._stack = stack
        self.where = self.read_from = kafka.bootstrap_servers
        self.client_settings, self.reader_settings = kafka.client_settings, kafka.settings
        self.spark_options = {f"kafka.{name.replace('_', '.')}": str(each) for name, each in kafka.security.items()}
        self.replicas = kafka.most_replicas
        self.control_topic = self.name("sink")
        # The sink makes them when it first writes.
        for topic in (self.control_topic, f"{self.control_topic}_markers"):
            stack.callback(kafka.remove_topic, topic)
        proxy = stack.enter_context(kafka.proxy())
        self.bootstrap_servers = proxy.bootstrap_servers
        self.faults = proxy.faults

    def name(self, topic: str) -> str:
        """The topic's name, with the run's own prefix."""
        return f"{self._kafka.beginning}-{topic}"

    def create_topic(self, topic: str, partitions: int) -> None:
        """One that is deleted at the end."""
        self._kafka.make_topic(topic, partitions, self.replicas, {}, self._stack)

    def delete_topic(self, topic: str) -> None:
        """At the end, like the others."""

    def start_registry(self, stack: ExitStack) -> str:
        """In a topic of the run's own, which is deleted at the end."""
        from ottla.embedded_registry.registry import Registry

        topic = self.name("schemas")
        self._stack.callback(self._kafka.remove_topic, topic)
        return stack.enter_context(Registry(self.read_from, topic=topic, **self._kafka.security)).url

    def witness(self, promise: TopicPromise, producer: ProducerPromise, clock: RunClock) -> TopicWitness:
        """One that reads: nothing else can be seen there."""
        from ottla.evidence.foreign_witness import ForeignWitness

        return ForeignWitness(self.read_from, self.reader_settings, promise, producer, clock)
