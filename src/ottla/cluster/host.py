"""All brokers of one embedded cluster and their controller, in one event loop.

`start` takes the ports, claims the folder, makes the cores and opens the doors; `handle` carries out what the holder
of the `Cluster` asks for over the control channel; `stop` closes everything in order: doors, logs, folder.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import Callable
from typing import Any

from ottla.broker.controller.core import ControllerCore
from ottla.broker.core import BrokerCore
from ottla.broker.events import BrokerAddress, Endpoint, PartitionImage
from ottla.broker.settings import BrokerSettings
from ottla.cluster.data_dir import DataDir, unusable
from ottla.cluster.links import Links
from ottla.cluster.listener import Listener
from ottla.cluster.server import BrokerServer, Door, Entrance, open_doors
from ottla.errors import OttlaError
from ottla.faults.plan import FaultPlan
from ottla.faults.rule import FaultRule

logger = logging.getLogger("ottla.cluster")

_TIMEOUT_MS = 30_000
_UNKNOWN_TOPIC_OR_PARTITION = 3

Answer = Callable[[Any], None]


class ClusterHost:
    """The brokers of one cluster; `stopped` is called when they have been closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, stopped: Callable[[], None]) -> None:
        self._loop = loop
        self._stopped = stopped
        self._faults = FaultPlan()
        self._links = Links(loop)
        self._data_dir: DataDir | None = None
        self._temporary = False
        self._cores: list[BrokerCore] = []
        self._servers: list[BrokerServer] = []
        self._commands: dict[str, Callable[..., None]] = {
            "start": self._start,
            "stop": self._stop,
            "create_topic": self._create_topic,
            "delete_topic": self._delete_topic,
            "partition": self._describe_partition,
            "metrics": self._metrics,
            "add_fault": self._add_fault,
            "heal_fault": self._heal_fault,
            "count_fault": self._count_fault,
        }

    def handle(self, command: str, fields: dict[str, Any], answer: Answer) -> None:
        """Carry out a command; `answer` gets its result or an OttlaError, or an OttlaError is raised."""
        self._commands[command](answer, **fields)

    def stop(self) -> None:
        """Close doors, logs and folder, in this order. Stopping twice is allowed."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        for core in self._cores:
            try:
                # Nobody comes back to a temporary folder, so nothing in it needs to reach the disk.
                core.close(sync=not self._temporary)
            except OSError as error:
                logger.warning("broker %d could not close its logs in order: %s", core.broker_id, error)
        self._cores.clear()
        if self._data_dir is not None:
            self._data_dir.release()
            self._data_dir = None
        self._stopped()

    def _start(
        self,
        answer: Answer,
        brokers: int,
        data_dir: str,
        temporary: bool,
        listeners: dict[str, dict[str, Any]],
        settings: dict[str, Any],
    ) -> None:
        broker_settings = BrokerSettings(**settings)
        self._temporary = temporary
        doors: list[list[Door]] = []
        try:
            # Ports first: taking one and letting go of it leaves nothing behind, making a folder does.
            entrances = [Entrance(name, Listener(**fields)) for name, fields in listeners.items()]
            for broker_id in range(1, brokers + 1):
                doors.append(open_doors(entrances, broker_id))
            self._data_dir = DataDir(data_dir, temporary=temporary)
            addresses = [_address(number, of_broker) for number, of_broker in enumerate(doors, start=1)]
            self._join(addresses, broker_settings, self._data_dir)
        except BaseException as error:
            for of_broker in doors:
                for door in of_broker:
                    door.socket.close()
            if self._data_dir is not None:
                self._data_dir.release()
            if isinstance(error, OSError):
                raise unusable(data_dir, error) from error
            raise
        self._links.start()
        for node, core, of_broker in zip(self._links.brokers(), self._cores, doors, strict=True):
            self._servers.append(BrokerServer(self._links, self._loop, node, of_broker, core))
        answer({name: [address.on(name) for address in addresses] for name in listeners})

    def _join(self, addresses: list[BrokerAddress], settings: BrokerSettings, data_dir: DataDir) -> None:
        seed = random.Random(int.from_bytes(os.urandom(16)))
        controller_storage = data_dir.storage("controller")
        self._links.join_controller(
            ControllerCore(addresses, controller_storage, settings, random.Random(seed.random()))
        )
        for address in addresses:
            storage = data_dir.storage(f"broker-{address.broker_id}")
            rng = random.Random(seed.random())
            wall_offset_us = (time.time_ns() - time.monotonic_ns()) // 1000
            core = BrokerCore(address.broker_id, storage, settings, rng, self._faults, wall_offset_us=wall_offset_us)
            self._cores.append(core)
            self._links.join(address.broker_id, core)

    def _stop(self, answer: Answer) -> None:
        self.stop()
        answer(None)

    def _create_topic(
        self, answer: Answer, name: str, partitions: int, replication_factor: int, configs: dict[str, str]
    ) -> None:
        from ottla.protocol.messages.create_topics import (
            CreatableTopic,
            CreatableTopicConfig,
            CreateTopicsRequest,
        )

        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS)
        self._links.order(request, lambda response: answer(_outcome(response.topics[0])))

    def _delete_topic(self, answer: Answer, name: str) -> None:
        from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=_TIMEOUT_MS)
        self._links.order(request, lambda response: answer(_outcome(response.responses[0])))

    def _describe_partition(self, answer: Answer, topic: str, partition: int) -> None:
        image = self._partition(topic, partition)
        answer({"leader": image.leader, "isr": list(image.isr), "replicas": list(image.replicas)})

    def _partition(self, topic: str, partition: int) -> PartitionImage:
        image = self._links.image
        found = None if image is None else image.topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            detail = f"the cluster has no partition {partition} of topic {topic!r}"
            raise _kafka_error(_UNKNOWN_TOPIC_OR_PARTITION, detail)
        return found.partitions[partition]

    def _metrics(self, answer: Answer) -> None:
        answer([[server.broker_id, server.read_metrics()] for server in self._servers])

    def _add_fault(self, answer: Answer, rule: dict[str, Any]) -> None:
        answer(self._faults.add(FaultRule.from_dict(rule)))

    def _heal_fault(self, answer: Answer, fault_id: int) -> None:
        self._faults.heal(fault_id)
        self._count_fault(answer, fault_id)

    def _count_fault(self, answer: Answer, fault_id: int) -> None:
        answer({"fired": self._faults.fired(fault_id), "matched": self._faults.matched(fault_id)})


def _address(broker_id: int, doors: list[Door]) -> BrokerAddress:
    endpoints = tuple(Endpoint(door.name, *door.advertised) for door in doors)
    return BrokerAddress(broker_id, endpoints[0].host, endpoints[0].port, endpoints)


def _outcome(result: Any) -> OttlaError | None:
    """None where Kafka's result for one topic says that all went well, otherwise the error it names."""
    if not result.error_code:
        return None
    return _kafka_error(result.error_code, result.error_message or "")


def _kafka_error(code: int, detail: str) -> OttlaError:
    from ottla.protocol.error_codes import kafka_error

    return kafka_error(code, detail)
