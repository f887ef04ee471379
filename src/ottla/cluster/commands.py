"""The commands that a `Cluster` sends to its brokers' process.

`handle` carries out a command of the control channel. The command `start` opens the listening sockets, locks the
folder, makes the cores and accepts connections; `stop` closes all of it: connections, logs, folder.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable
from typing import Any

from ottla.broker.apis import VERSIONS
from ottla.broker.events import BrokerAddress, ClusterImage, Endpoint, MoveLeader, PartitionImage
from ottla.broker.settings import BrokerSettings
from ottla.clock import Clock
from ottla.cluster.brokers import EmbeddedBrokers
from ottla.cluster.data_dir import DataDir, broker_folder, unusable
from ottla.cluster.server import Acceptor, Entrance, open_acceptors
from ottla.errors import OttlaError, UserMistake
from ottla.faults.effect import Effect, not_fired_any_more, not_fired_in_time
from ottla.faults.fault import Fault, fault_from
from ottla.faults.fields import CONTROLLER
from ottla.faults.plan import FaultPlan
from ottla.host.host import DOWN
from ottla.nearest import nearest_name
from ottla.protocol.messages import MODULES
from ottla.sockets.event_loop import EventLoop
from ottla.sockets.listener import Listener

logger = logging.getLogger("ottla.cluster")

_TIMEOUT_MS = 30_000
_UNKNOWN_TOPIC_OR_PARTITION = 3
# At most so many of each broker.
_PRODUCERS_MAX = 100

_PREFERRED_LEADER_NOT_AVAILABLE = 80
_ELECTION_NOT_NEEDED = 84

Answer = Callable[[Any], None]
Watch = Callable[[], bool]


class Commands:
    """The brokers of one cluster; `stopped` is called when they have been closed."""

    def __init__(self, loop: EventLoop, stopped: Callable[[], None]) -> None:
        self._loop = loop
        self._stopped = stopped
        # A copy of the ottla.Clock that was given to the `Cluster`, if one was.
        self._clock = Clock()
        self._faults = FaultPlan()
        self._data_dir: DataDir | None = None
        self._temporary = False
        self._brokers: EmbeddedBrokers | None = None
        # By broker and file: where the synced bytes end. It makes the next `logs` cheaper.
        self._synced: dict[int, dict[str, tuple[int, int]]] = {}
        self._watches: list[Watch] = []
        # Like `_watches`, for commands that wait until a fault has fired.
        self._fault_watches: list[Watch] = []
        self._faults.on_fired = self._look_at_faults
        self._commands: dict[str, Callable[..., None]] = {
            "start": self._start,
            "stop": self._stop,
            "set_clock": self._set_clock,
            "create_topic": self._create_topic,
            "delete_topic": self._delete_topic,
            "topics": self._describe_topics,
            "partition": self._describe_partition,
            "replicas": self._describe_replicas,
            "logs": self._describe_logs,
            "metrics": self._metrics,
            "client_metrics": self._client_metrics,
            "connections": self._connections,
            "producers": self._producers,
            "await_partition": self._await_partition,
            "elect_leader": self._elect_leader,
            "move_leader": self._move_leader,
            "coordinating": self._coordinating,
            "brokers": self._describe_brokers,
            "kill": self._kill,
            "power_off": self._power_off,
            "pause": self._pause,
            "resume": self._resume,
            "start_broker": self._start_broker,
            "stop_broker": self._stop_broker,
            "add_fault": self._add_fault,
            "heal_fault": self._heal_fault,
            "count_fault": self._count_fault,
            "await_fault": self._await_fault,
            "record": self._record,
            "recorded": self._recorded,
        }

    def handle(self, command: str, fields: dict[str, Any], answer: Answer) -> None:
        """Carry out a command when no core is at work; `answer` gets its result or an OttlaError."""
        if self._brokers is None:
            self._commands[command](answer, **fields)
        else:
            self._brokers.schedule.post(self._carry_out, (command, fields, answer))

    def _carry_out(self, asked: tuple[str, dict[str, Any], Answer]) -> None:
        command, fields, answer = asked
        try:
            self._commands[command](answer, **fields)
        except OttlaError as error:
            answer(error)
        except Exception as error:
            logger.exception("the command %s failed", command)
            answer(OttlaError(f"the cluster could not carry out {command}: {error!r}"))

    def stop(self) -> None:
        """Close connections, logs and folder. Stopping twice is allowed."""
        brokers, self._brokers = self._brokers, None
        if brokers is not None:
            # A temporary folder is removed, so nothing in it needs to reach the disk.
            brokers.close(sync=not self._temporary)
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
        racks: list[str],
        clock: list[Any] | None = None,
    ) -> None:
        if clock is not None:
            self._clock.follow(clock)
            self._loop.go_by(self._clock)
        broker_settings = BrokerSettings(**settings)
        self._temporary = temporary
        acceptors: list[list[Acceptor]] = []
        try:
            # Ports first: if one cannot be had, no folder was made yet.
            entrances = [Entrance(name, Listener(**fields)) for name, fields in listeners.items()]
            for broker_id in range(1, brokers + 1):
                acceptors.append(open_acceptors(entrances, broker_id))
            self._data_dir = DataDir(data_dir, temporary=temporary)
            self._brokers = self._make_brokers(acceptors, broker_settings, self._data_dir, racks)
            self._brokers.boot()
        except BaseException as error:
            self._brokers = None
            for of_broker in acceptors:
                for acceptor in of_broker:
                    acceptor.socket.close()
            if self._data_dir is not None:
                self._data_dir.release()
            if isinstance(error, OSError):
                raise unusable(data_dir, error) from error
            raise
        addresses = [_address(number, of_broker) for number, of_broker in enumerate(acceptors, start=1)]
        answer({name: [address.on(name) for address in addresses] for name in listeners})

    def _set_clock(self, answer: Answer, state: list[Any]) -> None:
        """Set the clock; what is due by the new time runs before the answer."""
        self._clock.follow(state)
        if self._brokers is not None:
            self._brokers.clock_set_ahead()
        self._loop.call_soon(answer, None)

    def _make_brokers(
        self, acceptors: list[list[Acceptor]], settings: BrokerSettings, data_dir: DataDir, racks: list[str]
    ) -> EmbeddedBrokers:
        by_id = dict(enumerate(acceptors, start=1))
        rack_of = dict(enumerate(racks, start=1))
        brokers = EmbeddedBrokers(
            self._loop,
            [_address(broker_id, of_broker, rack_of.get(broker_id)) for broker_id, of_broker in by_id.items()],
            by_id,
            {broker_id: data_dir.storage(broker_folder(broker_id)) for broker_id in by_id},
            data_dir.storage("controller"),
            settings,
            self._faults,
            random.Random(int.from_bytes(os.urandom(16))),
        )
        brokers.published = self._look
        return brokers

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
        self._order(request, answer, lambda response: _outcome(response.topics[0]))

    def _delete_topic(self, answer: Answer, name: str) -> None:
        from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=_TIMEOUT_MS)
        self._order(request, answer, lambda response: _outcome(response.responses[0]))

    def _order(self, request: Any, answer: Answer, outcome: Callable[[Any], Any]) -> None:
        """Send a request to the controller, and answer with `outcome` of its response."""
        brokers = self._running()

        def answered(response: Any) -> None:
            answer(UserMistake(brokers.why_no_orders()) if response is None else outcome(response))

        brokers.host.links.order(request, answered)

    # Recording.

    def _record(self, answer: Answer, topic: str, number_header: str) -> None:
        self._running().record(topic, number_header)
        answer(None)

    def _recorded(self, answer: Answer) -> None:
        recorder = self._running().recorder
        answer(None if recorder is None else recorder.told())

    # Breaking brokers.

    def _running(self) -> EmbeddedBrokers:
        if self._brokers is None:
            raise OttlaError("the cluster is not running.")
        return self._brokers

    @property
    def _image(self) -> ClusterImage | None:
        return self._running().host.links.image

    def _describe_brokers(self, answer: Answer) -> None:
        answer({str(broker_id): state for broker_id, state in self._running().states().items()})

    def _kill(self, answer: Answer, broker_id: int | None) -> None:
        self._running().kill(broker_id)
        answer(None)

    def _power_off(self, answer: Answer, broker_id: int | None, seed: int | None) -> None:
        self._running().kill(broker_id, power=True, seed=seed)
        answer(None)

    def _pause(self, answer: Answer, broker_id: int | None) -> None:
        self._running().pause(broker_id)
        answer(None)

    def _resume(self, answer: Answer, broker_id: int | None) -> None:
        self._running().resume(broker_id)
        answer(None)

    def _start_broker(self, answer: Answer, broker_id: int | None) -> None:
        brokers = self._running()
        try:
            brokers.start(broker_id)
        except OSError as error:
            assert self._data_dir is not None
            raise unusable(self._data_dir.path, error) from error
        # A broker that runs again may lead a partition without new metadata.
        self._look()
        answer(None)

    def _stop_broker(self, answer: Answer, broker_id: int | None) -> None:
        self._running().stop(broker_id, lambda: answer(None))

    def _elect_leader(self, answer: Answer, topic: str, partition: int, unclean: bool) -> None:
        from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

        preferred = self._partition(topic, partition).replicas[0]
        if not unclean and self._running().host.state(preferred) == DOWN:
            # The controller does not know yet that it is down.
            raise _kafka_error(_PREFERRED_LEADER_NOT_AVAILABLE, f"the preferred leader, broker {preferred}, is down")
        wanted = [TopicPartitions(topic=topic, partitions=[partition])]
        request = ElectLeadersRequest(election_type=int(unclean), topic_partitions=wanted, timeout_ms=_TIMEOUT_MS)

        def outcome(response: Any) -> Any:
            result = response.replica_election_results[0].partition_result[0]
            if result.error_code and result.error_code != _ELECTION_NOT_NEEDED:
                return _kafka_error(result.error_code, result.error_message or "")
            return self._partition(topic, partition).leader

        self._order(request, answer, outcome)

    def _move_leader(self, answer: Answer, topic: str, partition: int, broker_id: int | None) -> None:
        """Move a leader to a broker that runs: the controller may not know yet that a broker has ended."""
        down = [each for each, state in self._running().states().items() if state == DOWN]
        if broker_id in down:
            raise UserMistake(f"broker {broker_id} is down: it cannot lead now.")
        image = None if self._image is None else self._image.topics.get(topic)
        if broker_id is None and image is not None and 0 <= partition < len(image.partitions):
            part = image.partitions[partition]
            others = [each for each in part.isr if each != part.leader]
            broker_id = next((each for each in others if each not in down), None)
            if others and broker_id is None:
                raise UserMistake(f"{topic}-{partition} cannot be led by another: {others} are in sync, and down.")
        order = MoveLeader(topic, partition, broker_id)
        self._order(order, answer, lambda moved: UserMistake(moved) if isinstance(moved, str) else moved)

    def _coordinating(self, answer: Answer, topic: str, key: str) -> None:
        """The partition whose leader coordinates a group or a transactional id."""
        from ottla.broker.internal_topics import partition_of_key

        image = self._image
        found = None if image is None else image.topics.get(topic)
        if found is None:
            raise UserMistake(f"nothing is coordinated yet: {topic} is made when the first client asks.")
        answer(partition_of_key(key, len(found.partitions)))

    def _await_partition(
        self, answer: Answer, topic: str, partition: int, patience_s: float, size: int | None, not_led_by: int | None
    ) -> None:
        """Answer when the partition has a running leader (not that one) and `size` running replicas in sync.

        The metadata still name a broker that has just ended, so its state is looked at, too.
        """

        def runs(broker_id: int) -> bool:
            return self._running().host.state(broker_id) != DOWN

        def is_there() -> bool:
            image = self._partition(topic, partition)
            wanted = len(image.replicas) if size is None else size
            is_led = image.leader not in (-1, not_led_by) and runs(image.leader)
            return is_led and sum(map(runs, image.isr)) >= wanted

        if is_there():
            self._describe_partition(answer, topic, partition)
            return

        def look() -> bool:
            try:
                if not is_there():
                    return False
                self._describe_partition(answer, topic, partition)
            except OttlaError as error:
                answer(error)
            return True

        def late() -> None:
            if look in self._watches:
                self._watches.remove(look)
                image = self._partition(topic, partition)
                down = [each for each in image.isr if not runs(each)]
                led = "has no leader" if image.leader == -1 else f"is led by broker {image.leader}"
                told = f"{topic}-{partition} {led} with {list(image.isr)} in sync after {patience_s:g} s"
                answer(OttlaError(f"{told}{f'; down are {down}' if down else ''}{self._if_stopped()}."))

        self._watches.append(look)
        self._loop.call_after(patience_s, late)

    def _if_stopped(self) -> str:
        """What to add to what did not come, where no time passes for the brokers."""
        if not self._clock.is_stopped:
            return ""
        return "; the cluster's clock is stopped: call clock.advance(...) or clock.go_on()"

    def _look(self) -> None:
        self._watches[:] = [look for look in self._watches if not look()]

    def _describe_partition(self, answer: Answer, topic: str, partition: int) -> None:
        answer(_described(self._partition(topic, partition)))

    def _describe_topics(self, answer: Answer) -> None:
        image = self._image
        topics = {} if image is None else image.topics
        answer({name: [_described(part) for part in topics[name].partitions] for name in sorted(topics)})

    def _describe_replicas(self, answer: Answer, topic: str) -> None:
        """The offsets of each replica of a topic, at one moment: no broker runs while this does."""
        self._partition(topic, 0)
        image = self._image
        parts = [] if image is None else image.topics[topic].partitions
        found: list[dict[str, Any]] = [
            {"leader": part.leader, "leader_epoch": part.leader_epoch, "isr": list(part.isr), "replicas": []}
            for part in parts
        ]
        for core in self._running().host.cores():
            for partition, replica in core.topics.get(topic, {}).items():
                # The broker may have a newer image than this one, with more partitions.
                if replica.log is not None and partition < len(found):
                    found[partition]["replicas"].append(
                        {
                            "broker": core.broker_id,
                            "broker_epoch": core.broker_epoch,
                            "leader_epoch": replica.leader_epoch,
                            "is_leader": replica.is_leader,
                            "high_watermark": replica.high_watermark,
                            "last_stable_offset": replica.last_stable_offset,
                            "log_start_offset": replica.log.log_start_offset,
                            "log_end_offset": replica.log.log_end_offset,
                        }
                    )
        answer(found)

    def _describe_logs(self, answer: Answer, topic: str) -> None:
        """The files and the producer state of each replica."""
        from ottla.cluster.inside import described_log

        self._partition(topic, 0)
        host = self._running().host
        answer(
            [
                {"broker": core.broker_id, "partition": partition}
                | described_log(
                    replica.log,
                    host.disks[core.broker_id].write_back,
                    self._synced.setdefault(core.broker_id, {}),
                )
                for core in host.cores()
                for partition, replica in sorted(core.topics.get(topic, {}).items())
                if replica.log is not None
            ]
        )

    def _partition(self, topic: str, partition: int) -> PartitionImage:
        image = self._image
        found = None if image is None else image.topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            detail = f"the cluster has no partition {partition} of topic {topic!r}"
            raise _kafka_error(_UNKNOWN_TOPIC_OR_PARTITION, detail)
        return found.partitions[partition]

    def _metrics(self, answer: Answer) -> None:
        answer([[server.broker_id, server.read_metrics()] for server in self._running().servers()])

    def _client_metrics(self, answer: Answer) -> None:
        from ottla.cluster.inside import described_clients

        answer(described_clients([each for server in self._running().servers() for each in server.client_instances()]))

    def _connections(self, answer: Answer) -> None:
        answer([each for server in self._running().servers() for each in server.read_connections()])

    def _producers(self, answer: Answer) -> None:
        from ottla.cluster.inside import described_producers

        rows: list[dict[str, Any]] = []
        for server in self._running().servers():
            clients = server.client_ids()
            core = next(each for each in self._running().host.cores() if each.broker_id == server.broker_id)
            rows += [
                {"broker": server.broker_id, "client_id": clients.get(each["producer_id"]), **each}
                for each in described_producers(core, _PRODUCERS_MAX)
            ]
        answer(rows)

    def _add_fault(self, answer: Answer, fault: dict[str, Any]) -> None:
        """Put a fault in force, and answer with its id, or with UserMistake if it has nothing to apply to."""
        made = fault_from(fault)
        _check_api(made)
        brokers = self._running()
        for broker_id in (getattr(made, "broker_id", None), getattr(made, "other_id", None)):
            if broker_id is not None and broker_id != CONTROLLER:
                brokers.check(broker_id)

        def began(effect: Effect) -> None:
            if effect.missed:
                # It is refused, so no command will heal it.
                effect.heal()
                refused()
                answer(UserMistake(f"the fault {effect.fault} has nothing to apply to: {effect.missed_because}."))
            else:
                answer(effect.fault_id)

        refused = _nothing if brokers.recorder is None else brokers.recorder.fault_begins(made)
        try:
            brokers.faults.add(made, began)
        except OSError as error:
            refused()
            raise OttlaError(f"the fault cannot be put into effect: {error.strerror}") from error
        except OttlaError:
            refused()
            raise

    def _heal_fault(self, answer: Answer, fault_id: int) -> None:
        brokers = self._running()
        effect = brokers.faults.effect(fault_id)
        if brokers.recorder is not None and not effect.is_over:
            brokers.recorder.fault_healed(effect.fault)
        brokers.faults.heal(fault_id)
        self._count_fault(answer, fault_id)
        # It does not fire any more: commands that wait for that get an error.
        self._look_at_faults()

    def _count_fault(self, answer: Answer, fault_id: int) -> None:
        answer(self._running().faults.counts(fault_id))

    def _await_fault(self, answer: Answer, fault_id: int, count: int, patience_s: float) -> None:
        """Answer when the fault has fired `count` times."""
        effect = self._running().faults.effect(fault_id)

        def look() -> bool:
            if effect.fired < count:
                if effect.is_over:
                    answer(not_fired_any_more(effect.fault, effect.fired))
                return effect.is_over
            # Answer after the broker has handled its event: only then can a held request be released.
            self._loop.call_soon(self._count_fault, answer, fault_id)
            return True

        def late() -> None:
            if look in self._fault_watches:
                self._fault_watches.remove(look)
                counts = self._running().faults.counts(fault_id)
                answer(not_fired_in_time(effect.fault, counts, count, patience_s, self._if_stopped()))

        if not look():
            self._fault_watches.append(look)
            self._loop.call_after(patience_s, late)

    def _look_at_faults(self) -> None:
        if self._brokers is not None and self._brokers.recorder is not None:
            self._brokers.recorder.look_at_faults()
        if self._fault_watches:
            self._fault_watches[:] = [look for look in self._fault_watches if not look()]


def _nothing() -> None:
    """There is no recorder that has noted the fault."""


def _check_api(fault: Fault) -> None:
    """ConfigError for a fault that waits for an API which brokers do not answer: it would never fire."""
    api = getattr(fault, "api", None)
    if api is None:
        return
    answered = sorted(MODULES[api_key][1] for api_key in VERSIONS)
    if api not in answered:
        near = nearest_name(api, answered)
        hint = f" did you mean {near!r}?" if near is not None else ""
        raise fault.wrong(f"api={api!r} is no request that brokers answer;{hint} they answer {', '.join(answered)}")


def _address(broker_id: int, acceptors: list[Acceptor], rack: str | None = None) -> BrokerAddress:
    endpoints = tuple(Endpoint(acceptor.name, *acceptor.advertised) for acceptor in acceptors)
    return BrokerAddress(broker_id, endpoints[0].host, endpoints[0].port, endpoints, rack)


def _described(part: PartitionImage) -> dict[str, Any]:
    return {"leader": part.leader, "isr": list(part.isr), "replicas": list(part.replicas)}


def _outcome(result: Any) -> OttlaError | None:
    """None if Kafka's result for one topic has no error code, otherwise the error."""
    if not result.error_code:
        return None
    return _kafka_error(result.error_code, result.error_message or "")


def _kafka_error(code: int, detail: str) -> OttlaError:
    from ottla.protocol.error_codes import kafka_error

    return kafka_error(code, detail)
