"""`Cluster`: Kafka brokers of one's own, in a process of their own, up in a fraction of a second.

The brokers are ottla's broker cores behind real sockets and real segment files. They run in a child process that is
told what to do over a control channel and that never outlives the program that holds the `Cluster`.
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

from ottla.broker.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.clock import Clock, read_clock
from ottla.cluster.arguments import check_arguments
from ottla.cluster.faults import Faults
from ottla.cluster.storage import remove_tree
from ottla.errors import ClosedError, ConfigError, ForkError, OttlaError, UserMistake
from ottla.faults.fields import SEED
from ottla.sockets.control import ControlClient, child_environment
from ottla.sockets.listener import DEFAULT_NAME, Listener, bootstrap, check_listeners

if TYPE_CHECKING:
    import subprocess

_BROKERS_MAX = 100
_START_TIMEOUT_S = 60.0  # opening the logs of a large data_dir after a crash means reading them
_COMMAND_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 30.0
_CLOSED = "this Cluster is closed: make a new one."


class Cluster:
    """An embedded Kafka cluster; use it in a `with` statement, or `close()` it.

    `brokers`: how many, with ids from 1. `data_dir`: where the logs are kept; a temporary folder, removed at the
    end, where it is None. `port`: broker 1 listens there, the next ones on the ports after it; 0 takes free ports.
    `listeners`: several listeners, by name, instead of the one on `port`; see `Listener`.
    `in_process`: run the brokers in a thread of this program, to debug them. `settings`: broker settings by Kafka's
    names, with dots or underscores (`log.segment.bytes`, `log_segment_bytes`). `racks`: the `broker.rack` of each
    broker, in the order of their ids. `clock`: an ottla.Clock that brokers and controller go by.

    Errors: UserMistake (port in use, folder not usable or in use), ConfigError. The first use that finds the brokers'
    process dead raises OttlaError.
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
        doors = check_listeners({DEFAULT_NAME: Listener(port=port)} if listeners is None else listeners, brokers)
        self.faults = Faults(self._ask, self._coordinating)
        self._brokers = brokers
        self._owner_pid = os.getpid()
        self._is_closing = False
        self._temporary = data_dir is None
        self._data_dir = _temporary_name() if data_dir is None else _folder_named(data_dir)
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        # Our end of the control channel, and who reads from it.
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
                listeners={name: listener.to_dict() for name, listener in doors.items()},
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
        return bootstrap(next(iter(self._addresses.values())))

    def bootstrap_servers_of(self, listener: str) -> str:
        """The brokers' addresses on the listener of this name, "host:port,host:port"; raises ConfigError."""
        addresses = self._addresses.get(listener)
        if addresses is None:
            raise ConfigError(f"this Cluster has no listener {listener!r}, only {', '.join(self._addresses)}")
        return bootstrap(addresses)

    @property
    def listeners(self) -> tuple[str, ...]:
        """The names of the listeners, the first one being that of `bootstrap_servers`."""
        return tuple(self._addresses)

    @property
    def is_running(self) -> bool:
        """Whether the brokers' process is there (each of its brokers may have been ended on purpose)."""
        if self._process is not None:
            return self._process.poll() is None
        return self._thread is not None and self._thread.is_alive()

    @property
    def data_dir(self) -> str:
        """The folder of the logs: `broker-1/topic-0/*.log` and so on, in Kafka's own formats."""
        return self._data_dir

    @property
    def clock(self) -> Clock | None:
        """The clock that the cluster was given; None where it goes by the machine's."""
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
        """Make a topic; every broker knows of it when this returns.

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
        """All topics by name, the brokers' own among them, each with a dict for each partition.

        In it: leader (-1 where nobody can lead), isr and replicas, as ids of brokers.
        """
        found: dict[str, list[dict[str, Any]]] = self._ask("topics")
        return found

    def partition(self, topic: str, partition: int) -> dict[str, Any]:
        """Leader, isr and replicas of a partition of one moment, as `topics` tells them; raises KafkaError."""
        check_arguments(topic=topic, partition=partition)
        found: dict[str, Any] = self._ask("partition", topic=topic, partition=partition)
        return found

    def leader(self, topic: str, partition: int) -> int:
        """The id of the broker that leads a partition, -1 where nobody can; raises KafkaError."""
        leader: int = self.partition(topic, partition)["leader"]
        return leader

    def isr(self, topic: str, partition: int) -> tuple[int, ...]:
        """The ids of the brokers that are in sync for a partition; raises KafkaError."""
        return tuple(self.partition(topic, partition)["isr"])

    def replicas(self, topic: str) -> list[dict[str, Any]]:
        """Who leads each partition, and what each replica that runs holds, all of one moment; raises KafkaError.

        One dict a partition, with leader, leader_epoch, isr and replicas: a dict each with broker, broker_epoch,
        leader_epoch, is_leader, high_watermark, last_stable_offset, log_start_offset and log_end_offset.
        """
        check_arguments(topic=topic)
        found: list[dict[str, Any]] = self._ask("replicas", topic=topic)
        return found

    def logs(self, topic: str, *, resident: bool = True) -> list[dict[str, Any]]:
        """What each running replica has on disk and remembers of producers, all of one moment; raises KafkaError.

        One dict a replica, with broker, partition, log_start_offset, log_end_offset, synced_offset (where a power cut
        now would leave it at the least), files and producers. A file has path, base_offset, bytes, synced_bytes and
        resident_bytes (what is in the page cache; None where the system does not tell). A producer has producer_id,
        epoch, last_sequence, last_timestamp_ms, transaction_offset and batches: its last five, by which a batch that is
        sent again is recognised, as [first sequence, last sequence, base offset]. Without `resident` the page cache is
        not looked at, which takes a millisecond for every 100 MB.
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
        """What a broker counts, under Kafka's names: {JMX bean: {attribute: number}}; of all by id where none is given.

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
        """What clients have pushed of their own metrics to brokers (KIP-714), the last push of each of them.

        Clients push where a subscription asks for it: settings of the resource type CLIENT_METRICS (`metrics`,
        `interval.ms`, `match`). One dict a client: broker, client_instance_id, client_id, software_name,
        software_version, is_terminated, pushes (how many there were), resource (attributes) and metrics: a dict each
        with name, value, kind ("gauge" or "sum"), is_delta, attributes, start_ns and time_ns. A client is forgotten
        three intervals, but a minute at least, after it was last heard of.
        """
        found: list[dict[str, Any]] = self._ask("client_metrics")
        return found

    def connections(self) -> list[dict[str, Any]]:
        """The connections of clients to brokers that run, and what is under way on each, all at one moment.

        One dict a connection: broker, listener, address, user, client_id (None before its first request),
        software_name, software_version, producer_id (of the last numbered batch that came, or None), request (the kind
        of the one that the broker is at, or None), requests_in_flight (that one, and those behind it that the broker
        has read) and unread_bytes: what waits in the socket, for a broker reads on when it has answered.
        """
        found: list[dict[str, Any]] = self._ask("connections")
        return found

    def producers(self) -> list[dict[str, Any]]:
        """What the leaders of all partitions remember of producers, all of one moment: those that sent last, 100 each.

        One dict for a producer in a partition, with what `logs` tells of it (the last five batches among it), and
        broker, topic, partition and client_id: whose connection sends under this producer id now, None where none does.
        """
        found: list[dict[str, Any]] = self._ask("producers")
        return found

    def record(self, topic: str, number_header: str = "") -> None:
        """Have the brokers note from now on what happens to a topic; `recorded` tells it, and a test may look at that.

        `number_header`: the name of a header by which records tell their numbers, eight bytes each. UserMistake where
        something is recorded already.
        """
        check_arguments(topic=topic)
        self._ask("record", topic=topic, number_header=number_header)

    def recorded(self) -> dict[str, Any] | None:
        """What was noted since `record`, None without it: exchanges, events, watermarks and how much was left_out.

        An exchange is a batch of a Produce request, with what became of it: where it was appended, how it was answered,
        and which running brokers held and had synced it then. At most 50,000 are kept, and 5,000 events.
        """
        found: dict[str, Any] | None = self._ask("recorded")
        return found

    def brokers(self) -> dict[int, str]:
        """What each broker is: "running", "paused" or "down", by id."""
        return {int(broker_id): state for broker_id, state in self._ask("brokers").items()}

    def kill(self, broker_id: int | None = None) -> None:
        """End a broker as `kill -9` would, or all of them at once (None); what they had written is still there.

        Its clients lose their connections and are refused until `start`. After `broker.session.timeout.ms` (1.5 s
        here) others lead what it led. Raises UserMistake where it is down, and ConfigError where it is unknown; so do
        the verbs below.
        """
        check_arguments(broker_id=broker_id)
        self._ask("kill", broker_id=broker_id)

    def power_off(self, broker_id: int | None = None, *, seed: int | None = None) -> None:
        """Cut the power of a broker, or of all of them at once (None): what was not synced to its disk is lost.

        A part of it may be left, cut anywhere; the same `seed` leaves the same part of the same writes. ConfigError.
        """
        if seed is not None and not SEED.may.holds(seed):
            raise ConfigError(f"seed={seed!r} must be {SEED.may.words}, or None for chance.")
        check_arguments(broker_id=broker_id)
        self._ask("power_off", broker_id=broker_id, seed=seed)

    def pause(self, broker_id: int | None = None) -> None:
        """Freeze a broker, or all that run (None): connections stay open, nothing is answered.

        The others soon take a paused broker for dead.
        """
        check_arguments(broker_id=broker_id)
        self._ask("pause", broker_id=broker_id)

    def resume(self, broker_id: int | None = None) -> None:
        """Let a paused broker, or all that are (None), go on where it was."""
        check_arguments(broker_id=broker_id)
        self._ask("resume", broker_id=broker_id)

    def stop(self, broker_id: int | None = None) -> None:
        """Shut a broker, or all that run (None), down in order: others lead first, then its logs are closed."""
        check_arguments(broker_id=broker_id)
        self._ask("stop_broker", broker_id=broker_id)

    def start(self, broker_id: int | None = None) -> None:
        """Start a broker that is down, or all that are (None), under their old addresses."""
        check_arguments(broker_id=broker_id)
        self._ask("start_broker", _START_TIMEOUT_S, broker_id=broker_id)

    def elect_leader(self, topic: str, partition: int, *, unclean: bool = False) -> int:
        """Have the first replica lead (or, `unclean`, any living one where nobody does) and return the leader's id.

        Raises KafkaError: PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE.
        """
        check_arguments(topic=topic, partition=partition, unclean=unclean)
        leader: int = self._ask("elect_leader", topic=topic, partition=partition, unclean=unclean)
        return leader

    def move_leader(self, topic: str, partition: int, broker_id: int | None = None) -> int:
        """Let another replica in sync lead (`broker_id`, or any) and return its id; UserMistake where there is none."""
        check_arguments(topic=topic, partition=partition, broker_id=broker_id)
        leader: int = self._ask("move_leader", topic=topic, partition=partition, broker_id=broker_id)
        return leader

    def coordinator(self, *, group: str | None = None, transactional_id: str | None = None) -> int:
        """The id of the broker that coordinates a group, or the transactions of an id; -1 while nobody does.

        Raises UserMistake where no client has asked for any coordinator of that kind yet.
        """
        return self.leader(*self._coordinating(group, transactional_id))

    def move_coordinator(self, *, group: str | None = None, transactional_id: str | None = None) -> int:
        """Let another broker coordinate a group, or the transactions of an id, and return its id; UserMistake."""
        return self.move_leader(*self._coordinating(group, transactional_id))

    def _coordinating(self, group: str | None, transactional_id: str | None) -> tuple[str, int]:
        if (group is None) == (transactional_id is None):
            raise ConfigError("name either a group or a transactional_id.")
        check_arguments(group=group, transactional_id=transactional_id)
        topic, key = (OFFSETS_TOPIC, group) if group is not None else (TRANSACTIONS_TOPIC, transactional_id)
        return topic, self._ask("coordinating", topic=topic, key=key)

    def await_isr(self, topic: str, partition: int, size: int | None = None, timeout: float = 10.0) -> tuple[int, ...]:
        """Wait until so many replicas (None: all) are in sync, and return their ids; OttlaError after `timeout` s."""
        check_arguments(size=size)
        return tuple(self._await(topic, partition, timeout, size=size, not_led_by=None)["isr"])

    def await_leader(self, topic: str, partition: int, *, other_than: int | None = None, timeout: float = 10.0) -> int:
        """Wait until somebody (`other_than` that broker) leads a partition, and return the id; OttlaError."""
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
            # Where the process is gone or does not answer, ending it is all that is left to do.
            with contextlib.suppress(OttlaError):
                self._ask("stop", _STOP_TIMEOUT_S)
        finally:
            self._abandon()

    def __repr__(self) -> str:
        state = "closed" if self._control is None else "running" if self.is_running else "ended by itself"
        addresses = getattr(self, "_addresses", None)
        where = f" at {bootstrap(next(iter(addresses.values())))}" if addresses else ""
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
        # A cluster that is gone shows no time.
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
        """Hang up, wait for the end of the process, make sure of it, and leave nothing temporary behind."""
        control, self._control = self._control, None
        if self._clock is not None:
            self._clock.forget(self._set_clock)
            self._clock = None
        try:
            if control is not None:
                control.close()
            elif self._channel is not None:
                # An interruption may have come when the reader was already there, who would keep it open.
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
    """Known before it is made: an interruption that comes in between would leave a folder nobody knows of."""
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
