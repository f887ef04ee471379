"""`Cluster`: an embedded Kafka cluster, started in a fraction of a second.

The brokers are ottla's broker cores behind real sockets and real segment files. They run in a child process. It gets
its commands over a control channel (`sockets/control.py`), and never outlives the program that made the `Cluster`.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, overload

from ottla.addresses import addresses_of
from ottla.broker.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.clock import Clock, read_clock
from ottla.cluster.arguments import check_arguments
from ottla.cluster.faults import Faults
from ottla.cluster.storage import remove_tree
from ottla.errors import ClosedError, ConfigError, ForkError, OttlaError, UserMistake
from ottla.faults.fields import SEED
from ottla.sockets.control import ControlClient, child_environment
from ottla.sockets.listener import DEFAULT_NAME, Listener, check_listeners

if TYPE_CHECKING:
    import subprocess

_BROKERS_MAX = 100
_START_TIMEOUT_S = 60.0  # opening the logs of a large data_dir after a crash means reading them
_COMMAND_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 30.0
_CLOSED = "this Cluster is closed: make a new one."


class Cluster:
    """An embedded Kafka cluster; use it in a `with` statement, or `close()` it.

    `brokers`: how many, with ids from 1. `data_dir`: the folder of the logs; None makes a temporary one, which is
    removed at the end. `port`: broker 1 listens there, the next ones on the ports after it; 0 takes free ports.
    `listeners`: several listeners, by name, instead of the one on `port`; see `Listener`.
    `in_process`: run the brokers in a thread of this program, to debug them. `settings`: broker settings by Kafka's
    names, with dots or underscores (`log.segment.bytes`, `log_segment_bytes`). `racks`: the `broker.rack` of each
    broker, in the order of their ids. `clock`: an ottla.Clock that brokers and controller use.

    Errors: UserMistake (port in use, folder not usable or in use), ConfigError. OttlaError, by any method, if the
    brokers' process has ended by itself.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        port: int = 0,
        listeners: Mapping[str, Listener] | None = None,
        in_process: bool = False,
        settings: Mapping[str, Any] | None = None,
        racks: Sequence[str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        _check_size(brokers, port)
        check_arguments(listeners=listeners, settings=settings)
        _check_racks(racks, brokers)
        self._clock = None if clock is None else read_clock(clock)
        if listeners is not None and port:
            raise ConfigError("port= and listeners= exclude each other: give each listener its port.")
        checked = check_listeners({DEFAULT_NAME: Listener(port=port)} if listeners is None else listeners, brokers)
        self.faults = Faults(self._ask, self._coordinating)
        self._brokers = brokers
        self._owner_pid = os.getpid()
        self._is_closing = False
        self._temporary = data_dir is None
        self._data_dir = _temporary_name() if data_dir is None else _folder_named(data_dir)
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        # Our end of the control channel, and the client that reads from it.
        self._channel: socket.socket | None = None
        self._control: ControlClient | None = None
        atexit.register(self.close)
        try:
            if self._temporary:
                _make_temporary(self._data_dir)
            self._control = ControlClient(self._launch(in_process))
            self._addresses: dict[str, list[tuple[str, int]]] = self._ask(
                "start",
                _START_TIMEOUT_S,
                brokers=brokers,
                data_dir=self._data_dir,
                temporary=self._temporary,
                listeners={name: listener.to_dict() for name, listener in checked.items()},
                settings=dict(settings or {}),
                racks=list(racks or ()),
                clock=None if self._clock is None else self._clock.state(),
            )
            if self._clock is not None:
                self._clock.watch(self._set_clock)
                # It may have been moved while the brokers started.
                self._set_clock()
        except BaseException:
            self._abandon()
            raise

    @property
    def bootstrap_servers(self) -> str:
        """The brokers' addresses on the first listener, "host:port,host:port"."""
        return addresses_of(next(iter(self._addresses.values())))

    def bootstrap_servers_of(self, listener: str) -> str:
        """The brokers' addresses on the listener of this name, "host:port,host:port"; raises ConfigError."""
        addresses = self._addresses.get(listener)
        if addresses is None:
            raise ConfigError(f"this Cluster has no listener {listener!r}, only {', '.join(self._addresses)}")
        return addresses_of(addresses)

    @property
    def listeners(self) -> tuple[str, ...]:
        """The names of the listeners, the first one being that of `bootstrap_servers`."""
        return tuple(self._addresses)

    @property
    def is_running(self) -> bool:
        """Whether the brokers' process runs (single brokers in it may have been ended on purpose)."""
        if self._process is not None:
            return self._process.poll() is None
        return self._thread is not None and self._thread.is_alive()

    @property
    def data_dir(self) -> str:
        """The folder of the logs: `broker-1/topic-0/*.log` and so on, in Kafka's own formats."""
        return self._data_dir

    @property
    def clock(self) -> Clock | None:
        """The clock that was given to the cluster; None if it uses the machine's."""
        return self._clock

    @property
    def pid(self) -> int:
        """The id of the process in which the brokers run."""
        return self._owner_pid if self._process is None else self._process.pid

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Make a topic; when this returns, every broker has it.

        `replication_factor`: 3 where None, or as many as there are brokers. Raises KafkaError.
        """
        check_arguments(name=name, partitions=partitions, replication_factor=replication_factor, configs=configs)
        self._ask(
            "create_topic",
            name=name,
            partitions=partitions,
            replication_factor=min(3, self._brokers) if replication_factor is None else replication_factor,
            configs=dict(configs or {}),
        )

    def delete_topic(self, name: str) -> None:
        """Remove a topic and its records; raises KafkaError."""
        check_arguments(name=name)
        self._ask("delete_topic", name=name)

    def topics(self) -> dict[str, list[dict[str, Any]]]:
        """All topics by name, internal ones included, each with a list of a dict for each partition.

        The dict has leader (-1 if there is none), isr and replicas, as ids of brokers.
        """
        found: dict[str, list[dict[str, Any]]] = self._ask("topics")
        return found

    def partition(self, topic: str, partition: int) -> dict[str, Any]:
        """Leader, isr and replicas of a partition at one moment, as in `topics`; raises KafkaError."""
        check_arguments(topic=topic, partition=partition)
        found: dict[str, Any] = self._ask("partition", topic=topic, partition=partition)
        return found

    def leader(self, topic: str, partition: int) -> int:
        """The id of the broker that leads a partition, -1 if none does; raises KafkaError."""
        leader: int = self.partition(topic, partition)["leader"]
        return leader

    def isr(self, topic: str, partition: int) -> tuple[int, ...]:
        """The ids of the brokers that are in sync for a partition; raises KafkaError."""
        return tuple(self.partition(topic, partition)["isr"])

    def replicas(self, topic: str) -> list[dict[str, Any]]:
        """The leader of each partition, and the offsets of each running replica, at one moment; raises KafkaError.

        One dict a partition, with leader, leader_epoch, isr and replicas. `replicas` has one dict each, with broker,
        broker_epoch, leader_epoch, is_leader, high_watermark, last_stable_offset, log_start_offset, log_end_offset.
        """
        check_arguments(topic=topic)
        found: list[dict[str, Any]] = self._ask("replicas", topic=topic)
        return found

    def logs(self, topic: str, *, resident: bool = True) -> list[dict[str, Any]]:
        """The files and the producer state of each running replica, at one moment; raises KafkaError.

        One dict a replica, with broker, partition, log_start_offset, log_end_offset, synced_offset (after a power cut
        now the log would end there or later), files and producers. A file has path, base_offset, bytes, synced_bytes
        and resident_bytes (in the page cache; None if the system does not say, and without `resident`). `producers` has
        the 50 that sent last, with producer_id, epoch, last_sequence, last_timestamp_ms, transaction_offset and
        batches: the last five, as [first sequence, last sequence, base offset]; a batch that is sent again is found
        among them. To read `resident_bytes` takes a millisecond for every 100 MB.
        """
        from ottla.cluster.data_dir import broker_folder
        from ottla.cluster.page_cache import resident_bytes

        check_arguments(topic=topic)
        found: list[dict[str, Any]] = self._ask("logs", topic=topic)
        for each in found:
            folder = os.path.join(self._data_dir, broker_folder(each["broker"]))
            for file in each["files"]:
                file["resident_bytes"] = resident_bytes(os.path.join(folder, file["path"])) if resident else None
        return found

    @overload
    def metrics(self, broker_id: int) -> dict[str, dict[str, float]]: ...
    @overload
    def metrics(self, broker_id: None = None) -> dict[int, dict[str, dict[str, float]]]: ...
    def metrics(self, broker_id: int | None = None) -> dict[Any, Any]:
        """A broker's metrics under Kafka's names, {JMX bean: {attribute: number}}; without an id {id: metrics of each}.

        For example `metrics(1)["kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=t"]["Count"]`. Gauges
        have a Value, meters Count and MeanRate, times (in milliseconds) and sizes Count, Mean, Max; raises ConfigError.
        """
        check_arguments(broker_id=broker_id)
        found: dict[int, dict[str, dict[str, float]]] = dict(self._ask("metrics"))
        if broker_id is None:
            return found
        if broker_id not in found:
            raise ConfigError(f"broker {broker_id!r} is not running, only {', '.join(map(str, found)) or 'none'}")
        return found[broker_id]

    def client_metrics(self) -> list[dict[str, Any]]:
        """The metrics that clients have pushed to brokers (KIP-714), the last push of each client.

        A client pushes if a subscription matches it: settings of the resource type CLIENT_METRICS (`metrics`,
        `interval.ms`, `match`). One dict a client: broker, client_instance_id, client_id, software_name,
        software_version, is_terminated, pushes (how many there were), resource (attributes) and metrics: a dict each
        with name, value, kind ("gauge" or "sum"), is_delta, attributes, start_ns and time_ns. A client is dropped
        three intervals after its last request about metrics, but not before a minute.
        """
        found: list[dict[str, Any]] = self._ask("client_metrics")
        return found

    def connections(self) -> list[dict[str, Any]]:
        """The connections of clients to brokers that are not down, and their requests, at one moment.

        One dict a connection: broker, listener, address, user, client_id (None before its first request),
        software_name, software_version, producer_id (of the last batch with a sequence number, or None), request (the
        API of the request that the broker handles, or None), requests_in_flight (that one, and those behind it that
        the broker has read) and unread_bytes: what waits in the socket until the broker has answered.
        """
        found: list[dict[str, Any]] = self._ask("connections")
        return found

    def producers(self) -> list[dict[str, Any]]:
        """The producer state of all partitions, from their leaders, at one moment.

        Of each broker at most 100, of each partition at most 50: those that sent last. One dict for a producer in a
        partition, with what `logs` has of it, and broker, topic, partition and client_id (of a connection that has sent
        with this producer id, or None).
        """
        found: list[dict[str, Any]] = self._ask("producers")
        return found

    def record(self, topic: str, number_header: str = "") -> None:
        """Record from now on what happens to a topic; `recorded` returns it.

        `number_header`: the name of the header in which a record has its number, as eight bytes. UserMistake if a topic
        is recorded already.
        """
        check_arguments(topic=topic)
        self._ask("record", topic=topic, number_header=number_header)

    def recorded(self) -> dict[str, Any] | None:
        """What was recorded since `record`, None without it: exchanges, events, watermarks and left_out, a number.

        An exchange is a batch of a Produce request, with what became of it: where it was appended, how it was answered,
        and which running brokers had it then, and had it synced. At most 50,000 exchanges, 50,000 watermarks and 5,000
        events are kept; left_out counts the further exchanges and events.
        """
        found: dict[str, Any] | None = self._ask("recorded")
        return found

    def brokers(self) -> dict[int, str]:
        """The state of each broker, by id: "running", "paused" or "down"."""
        return {int(broker_id): state for broker_id, state in self._ask("brokers").items()}

    def kill(self, broker_id: int | None = None) -> None:
        """End a broker as `kill -9` would, or (None) all of them and the controller; what they had written is kept.

        Its clients lose their connections and are refused until `start`. After `broker.session.timeout.ms` (1.5 s by
        default here) other replicas lead its partitions. UserMistake if the broker is down, ConfigError if there is no
        such broker. The methods below raise the same for a broker whose state does not allow the call.
        """
        check_arguments(broker_id=broker_id)
        self._ask("kill", broker_id=broker_id)

    def power_off(self, broker_id: int | None = None, *, seed: int | None = None) -> None:
        """Cut the power of a broker, or (None) of all and the controller: what was not synced to a disk is lost.

        A part of it may be left, cut anywhere; the same `seed` leaves the same part of the same writes.
        """
        if seed is not None and not SEED.may.holds(seed):
            raise ConfigError(f"seed={seed!r} must be {SEED.may.words}, or None for chance.")
        check_arguments(broker_id=broker_id)
        self._ask("power_off", broker_id=broker_id, seed=seed)

    def pause(self, broker_id: int | None = None) -> None:
        """Freeze a broker, or all that run (None): connections stay open, nothing is answered.

        The controller soon fences a paused broker, and other replicas lead its partitions.
        """
        check_arguments(broker_id=broker_id)
        self._ask("pause", broker_id=broker_id)

    def resume(self, broker_id: int | None = None) -> None:
        """Let a paused broker go on, or (None) all paused ones."""
        check_arguments(broker_id=broker_id)
        self._ask("resume", broker_id=broker_id)

    def stop(self, broker_id: int | None = None) -> None:
        """Shut a broker down in order, or (None) all that run: other replicas lead first, then its logs are closed."""
        check_arguments(broker_id=broker_id)
        self._ask("stop_broker", broker_id=broker_id)

    def start(self, broker_id: int | None = None) -> None:
        """Start a broker that is down, or (None) all of those, under their old addresses."""
        check_arguments(broker_id=broker_id)
        self._ask("start_broker", _START_TIMEOUT_S, broker_id=broker_id)

    def elect_leader(self, topic: str, partition: int, *, unclean: bool = False) -> int:
        """Let the first replica lead (or with `unclean`, if there is no leader, any that runs); return the leader's id.

        Raises KafkaError: PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE.
        """
        check_arguments(topic=topic, partition=partition, unclean=unclean)
        leader: int = self._ask("elect_leader", topic=topic, partition=partition, unclean=unclean)
        return leader

    def move_leader(self, topic: str, partition: int, broker_id: int | None = None) -> int:
        """Let another replica in sync lead (`broker_id`, or any) and return its id; UserMistake if there is none."""
        check_arguments(topic=topic, partition=partition, broker_id=broker_id)
        leader: int = self._ask("move_leader", topic=topic, partition=partition, broker_id=broker_id)
        return leader

    def coordinator(self, *, group: str | None = None, transactional_id: str | None = None) -> int:
        """The id of the broker that coordinates a group or a transactional id; -1 while there is none.

        UserMistake if no client has asked for a coordinator of that kind yet.
        """
        return self.leader(*self._coordinating(group, transactional_id))

    def move_coordinator(self, *, group: str | None = None, transactional_id: str | None = None) -> int:
        """Let another broker coordinate a group or a transactional id, and return its id; UserMistake."""
        return self.move_leader(*self._coordinating(group, transactional_id))

    def _coordinating(self, group: str | None, transactional_id: str | None) -> tuple[str, int]:
        if (group is None) == (transactional_id is None):
            raise ConfigError("name either a group or a transactional_id.")
        check_arguments(group=group, transactional_id=transactional_id)
        topic, key = (OFFSETS_TOPIC, group) if group is not None else (TRANSACTIONS_TOPIC, transactional_id)
        return topic, self._ask("coordinating", topic=topic, key=key)

    def await_isr(self, topic: str, partition: int, size: int | None = None, timeout: float = 30.0) -> tuple[int, ...]:
        """Wait until `size` replicas (None: all) run and are in sync; return the ISR; OttlaError after `timeout` s."""
        check_arguments(size=size)
        return tuple(self._await(topic, partition, timeout, size=size, not_led_by=None)["isr"])

    def await_leader(self, topic: str, partition: int, *, other_than: int | None = None, timeout: float = 30.0) -> int:
        """Wait until a running broker (not `other_than`) leads a partition, and return its id; OttlaError."""
        check_arguments(other_than=other_than)
        leader: int = self._await(topic, partition, timeout, size=1, not_led_by=other_than)["leader"]
        return leader

    def _await(self, topic: str, partition: int, timeout: float, **wanted: int | None) -> dict[str, Any]:
        check_arguments(topic=topic, partition=partition, timeout=timeout)
        limit_s = timeout + _COMMAND_TIMEOUT_S
        fields = {"topic": topic, "partition": partition, "patience_s": timeout, **wanted}
        found: dict[str, Any] = self._ask("await_partition", limit_s, **fields)
        return found

    def close(self) -> None:
        """Close the logs in order, end the brokers' process, remove a temporary folder. Closing twice is allowed."""
        if self._control is None or os.getpid() != self._owner_pid:
            return
        self.faults.remember_counts()
        self._is_closing = True
        try:
            # If the process is gone or does not answer, `_abandon` ends it.
            with contextlib.suppress(OttlaError):
                self._ask("stop", _STOP_TIMEOUT_S)
        finally:
            self._abandon()

    def __repr__(self) -> str:
        state = "closed" if self._control is None else "running" if self.is_running else "ended by itself"
        addresses = getattr(self, "_addresses", None)
        where = f" at {addresses_of(next(iter(addresses.values())))}" if addresses else ""
        return f"<Cluster of {self._brokers} broker{'' if self._brokers == 1 else 's'}{where}, {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, command: str, timeout_s: float = _COMMAND_TIMEOUT_S, **fields: Any) -> Any:
        if os.getpid() != self._owner_pid:
            raise ForkError("this Cluster was made before a fork: use it in the process that made it.")
        # Another thread may close the cluster meanwhile.
        control = self._control
        if control is None:
            raise ClosedError(_CLOSED)
        try:
            return control.ask(command, timeout_s, **fields)
        except EOFError:
            if self._is_closing:
                raise ClosedError(_CLOSED) from None
            raise OttlaError(f"the brokers' process ended by itself{self._how_it_ended()}.") from None
        except TimeoutError:
            raise OttlaError(f"the brokers' process did not answer {command} within {timeout_s:.0f} s.") from None

    def _set_clock(self) -> None:
        # A closed cluster needs no time.
        if self._clock is not None and self._control is not None:
            with contextlib.suppress(OttlaError):
                self._ask("set_clock", state=self._clock.state())

    def _how_it_ended(self) -> str:
        if self._process is None:
            return ""
        try:
            status = self._process.wait(_STOP_TIMEOUT_S)
        except Exception:
            return ""
        return f" (killed by signal {-status})" if status < 0 else f" (exit status {status})"

    def _launch(self, in_process: bool) -> socket.socket:
        """Start the brokers' process (or thread) and return our end of the control channel."""
        ours, theirs = socket.socketpair()
        self._channel = ours
        if in_process:
            from ottla.cluster.process import run_brokers

            self._thread = threading.Thread(target=run_brokers, args=(theirs,), name="ottla-brokers", daemon=True)
            self._thread.start()
            return ours
        import subprocess

        with theirs:
            command = [sys.executable, "-P", "-m", "ottla.cluster.process", str(theirs.fileno()), str(self._owner_pid)]
            try:
                # A session of its own: neither Ctrl+C nor a closed terminal reaches the brokers before the program.
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    env=child_environment(),
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        return ours

    def _abandon(self) -> None:
        """Close the channel, wait until the process ends, kill it if it does not, and remove a temporary folder."""
        control, self._control = self._control, None
        if self._clock is not None:
            self._clock.forget(self._set_clock)
            self._clock = None
        try:
            if control is not None:
                control.close()
            elif self._channel is not None:
                # After an interruption in __init__ a reading thread may exist already, and keep the socket open.
                with contextlib.suppress(OSError):
                    self._channel.shutdown(socket.SHUT_RDWR)
            if self._thread is not None:
                self._thread.join(_STOP_TIMEOUT_S)
            if self._process is not None:
                self._process.wait(_STOP_TIMEOUT_S)
        finally:
            try:
                if self._process is not None and self._process.poll() is None:
                    self._process.kill()
                    self._process.wait()
            finally:
                if self._temporary:
                    with contextlib.suppress(OSError):
                        remove_tree(self._data_dir)
                atexit.unregister(self.close)


def _folder_named(data_dir: str | os.PathLike[str]) -> str:
    folder = os.path.abspath(os.fsdecode(data_dir))
    try:
        os.fsencode(folder)
    except UnicodeEncodeError:
        raise ConfigError(
            f"data_dir={data_dir!a} cannot be written in the encoding of file names here "
            f"({sys.getfilesystemencoding()}): set PYTHONUTF8=1, or LC_ALL to a locale of UTF-8."
        ) from None
    return folder


def _check_racks(racks: Sequence[str] | None, brokers: int) -> None:
    if racks is None:
        return
    if isinstance(racks, str) or len(racks) != brokers or not all(isinstance(rack, str) and rack for rack in racks):
        raise ConfigError(f"racks={racks!r} must be {brokers} names, one for each broker.")


def _check_size(brokers: int, port: int) -> None:
    if type(brokers) is not int or not 1 <= brokers <= _BROKERS_MAX:
        raise ConfigError(f"brokers={brokers!r} must be an integer from 1 to {_BROKERS_MAX}")
    port_max = 65_536 - brokers
    if type(port) is not int or not 0 <= port <= port_max:
        raise ConfigError(f"port={port!r} must be 0 (free ports) or leave room for {brokers} brokers: 1 to {port_max}")


def _temporary_name() -> str:
    """The folder's name, chosen before the folder is made: so it can be removed after an interruption in between."""
    import secrets
    import tempfile

    with _saying_what_to_do():
        return os.path.join(tempfile.gettempdir(), f"ottla-{secrets.token_hex(8)}")


def _make_temporary(folder: str) -> None:
    with _saying_what_to_do():
        os.mkdir(folder, 0o700)


@contextlib.contextmanager
def _saying_what_to_do() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserMistake(
            f"no temporary folder can be made ({(error.strerror or str(error)).lower()}): "
            "make room, set TMPDIR, or name a folder with data_dir."
        ) from error
