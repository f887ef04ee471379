"""The mechanism's port to simulated brokers: the shipped `Kafka` and the shipped clients' cores, on simulated time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any, cast

from ottla.client.admin import Admin
from ottla.client.admin_driver import AdminDriver
from ottla.client.config_admin import ConfigAdmin
from ottla.client.interceptors import BatchSeen
from ottla.client.partition_admin import PartitionAdmin
from ottla.client.producer import Producer
from ottla.client.topic_admin import TopicAdmin
from ottla.client.transaction_handle import EndingDriver
from ottla.connection.address_book import AddressBook
from ottla.connection.asking import AskingCore
from ottla.connection.standing import Standing
from ottla.errors import TransactionUnfinished
from ottla.host.runner import Runner
from ottla.producer.events import InitializeTransactions
from ottla.producer.transaction_endings import Ended, EndingCore
from ottla.producer.transaction_states import TransactionIdentity
from ottla.reader.events import Assign
from ottla.reader.settings import ReaderSettings
from ottla.records.batch_header import Buffer
from ottla.simulation.clients import SimulatedProducer, SimulatedReader
from ottla.simulation.world import World
from ottla.sink.identities import is_ticket_id
from ottla.sink.kafka import Kafka
from ottla.sink.settings import SinkSettings

from .processes import Process

_PATIENCE_S = 60
_PAUSE_S = 0.02
# Of `SealedBatch.outcome`.
_ACKED = 1


class PlaceOfProcess:
    """The world as clients of one process see it: who lets time pass is the process."""

    def __init__(self, world: World, process: Process) -> None:
        self.world = world
        self.process = process

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world, name)

    def run_until(self, reached: Callable[[], bool], *, limit_us: int = _PATIENCE_S * 1_000_000) -> bool:
        return self.process.wait(reached, limit_us)

    def client(self, kind: Any, **settings: Any) -> Any:
        """A client of this process; it dies with it."""
        found = World.producer(cast(World, self), kind, "", **settings)
        self.process.dying.append(found.die)
        return found


class _Loop:
    """In place of an I/O thread: the core on the world's schedule."""

    def __init__(self, place: PlaceOfProcess, number: int, core: Any, perform: Callable[[Any], None]) -> None:
        self._place, self._number, self._performs = place, number, perform
        # Nobody gives up for what is wrong with an address.
        self.addresses = AddressBook([])
        self.addresses.answered = True
        self.runner = Runner(place.world.scheduler, core, self._perform, place.clients.clock_of(number))

    def post(self, event: Any) -> None:
        self.runner.deliver(event)

    def _perform(self, output: Any) -> None:
        if not self._place.network.perform(self._number, self.runner.deliver, output):
            self._performs(output)


class _Clock:
    def __init__(self, place: PlaceOfProcess) -> None:
        self._place = place

    def now_us(self) -> int:
        return self._place.world.scheduler.now_us


class _Waiting:
    def __init__(self, place: PlaceOfProcess) -> None:
        self._place = place

    def wait(self, done: Callable[[], bool], timeout_s: float | None) -> bool:
        limit_s = _PATIENCE_S if timeout_s is None else timeout_s
        return self._place.process.wait(done, int(limit_s * 1_000_000))


class _OnSchedule:
    """What a shipped driver needs of its loop, without a thread."""

    def _on_schedule(self, place: PlaceOfProcess, number: int, core: Any) -> None:
        self.clock = _Clock(place)
        self.waiting = _Waiting(place)
        self.standing = Standing()
        self._number, self._place = number, place
        self._changed = False
        self._answers: dict[int, Any] = {}
        self._tokens = itertools.count(1)
        self.loop = _Loop(place, number, core, self.perform)  # type: ignore[attr-defined]

    def look_again(self) -> None:
        self.loop.runner.look_again()

    def die(self) -> None:
        """The process ends."""
        self.loop.runner.die()
        self._place.network.remove_client(self._number)


class SimulatedAdminDriver(_OnSchedule, AdminDriver):  # type: ignore[misc]
    def __init__(self, place: PlaceOfProcess, number: int, settings: Mapping[str, Any], rng: Random) -> None:
        self._settings = ReaderSettings({"bootstrap_servers": place.bootstrap_servers, **settings})
        self._core = AskingCore(self._settings.connection, rng)
        self._awaited: set[int] = set()
        self._on_schedule(place, number, self._core)


class SimulatedEndingDriver(_OnSchedule, EndingDriver):  # type: ignore[misc]
    def __init__(self, place: PlaceOfProcess, number: int, settings: Mapping[str, Any], rng: Random) -> None:
        self._settings = ReaderSettings({"bootstrap_servers": place.bootstrap_servers, **settings})
        self._core = EndingCore(self._settings.connection, rng)
        self._on_schedule(place, number, self._core)


class SimulatedAdminClient(Admin):
    def __init__(self, place: PlaceOfProcess, settings: Mapping[str, Any]) -> None:
        self._driver: SimulatedAdminDriver = place.client(SimulatedAdminDriver, **settings)
        self._settings = self._driver._settings
        self._topics = TopicAdmin(self._driver, self._settings.connection.request_timeout_ms)
        self._configs = ConfigAdmin(self._driver)
        self._partitions = PartitionAdmin(self._driver, self._topics, self._settings)
        self._transactions = None

    def close(self) -> None:
        self._driver.die()


class SinkProducer(SimulatedProducer):
    """With the names of `ottla.Producer` that the mechanism uses."""

    def __init__(self, place: PlaceOfProcess, number: int, settings: Mapping[str, Any], rng: Random) -> None:
        given = {name.replace(".", "_"): value for name, value in settings.items()}
        self.hears: Callable[[BatchSeen], None] | None = None
        given.pop("bootstrap_servers", None)
        self._is_open = False
        super().__init__(cast(World, place), number, given, rng)

    def init_transactions(self, identity: TransactionIdentity, *, transaction_version: int) -> None:
        transactions = self.transactions
        token = transactions._ask(InitializeTransactions, identity, transaction_version)
        transactions._let_time_pass(transactions._wait(token, "init_transactions"))

    @property
    def transaction_identity(self) -> TransactionIdentity | None:
        return self.core.transaction_identity

    def begin_transaction(self) -> None:
        self.transactions.begin()
        self._is_open = True

    def prepare_transaction(self) -> None:
        self.transactions.end(None)
        self._is_open = False

    def commit_transaction(self) -> None:
        self.transactions.end(True)
        self._is_open = False

    def abort_transaction(self) -> None:
        self._is_open = False
        self.transactions.end(False)

    def close(self) -> None:
        if self._is_open:
            self.abort_transaction()
        self.die()

    def _settle(self, output: Any) -> None:
        super()._settle(output)
        batch = output.batch
        if batch.outcome == _ACKED and self.hears is not None:
            self.hears(BatchSeen(batch.topic, batch.partition, batch.record_count, 0, "acked", batch.base_offset))


class SinkReader(SimulatedReader):
    def fetch_between(self, topic: str, start: int, end: int) -> list[Buffer]:
        """Partition 0 from `start` (-2: the first offset) to `end`."""
        place = topic, 0
        self._fetched[place] = []
        self._runner.deliver(Assign(topic, 0, start, end))
        self._world.run_until(lambda: place in self._finished)
        error = self._finished.pop(place)
        if error is not None:
            raise error
        return [each.records for each in self._fetched.pop(place)]


class SimulatedKafka(Kafka):
    """The port of one process; `days_ms` is how far all clocks have been set ahead, `taken` hears of producers."""

    def __init__(
        self,
        settings: SinkSettings,
        place: PlaceOfProcess,
        days_ms: Callable[[], int],
        taken: Callable[[TransactionIdentity], None],
    ) -> None:
        super().__init__(settings)
        self._taken = taken
        self._place = place
        self._days_ms = days_ms
        self._kept: list[tuple[Mapping[str, Any], SinkProducer]] = []
        self._settings_of: dict[Any, Mapping[str, Any]] = {}
        self._driver: SimulatedEndingDriver | None = None

    def _new_admin(self, **more: Any) -> Admin:
        return SimulatedAdminClient(self._place, {**self._reading, **more})

    def next_identity(self, transactional_id: str, timeout_ms: int) -> TransactionIdentity:
        if not is_ticket_id(transactional_id):
            self._place.process.takes_an_id()
        return super().next_identity(transactional_id, timeout_ms)

    def first_identity(
        self, transactional_id: str, timeout_ms: int, ticket: TransactionIdentity
    ) -> TransactionIdentity | None:
        self._place.process.takes_an_id()
        return super().first_identity(transactional_id, timeout_ms, ticket)

    def begin(self, identity: TransactionIdentity, topic: str) -> bool:
        self._place.process.takes_an_id()
        return super().begin(identity, topic)

    def end(self, versions: Mapping[TransactionIdentity, int], committed: bool) -> Mapping[TransactionIdentity, Ended]:
        if committed:
            self._place.process.begins_to_apply()
        # Kept as in `Kafka.end`: its connections may be older than the cluster's transaction version.
        self._driver = self._driver or self._place.client(SimulatedEndingDriver, **self._reading)
        told = cast(Mapping[TransactionIdentity, Ended], self._driver.end(versions, committed))
        if any(isinstance(each.error, TransactionUnfinished) for each in told.values()):
            self._driver.die()
            self._driver = None
        return told

    def read(self, topic: str, start_offset: int, end_offset: int, patience_s: float | None = None) -> Iterator[Buffer]:
        reader = self._place.client(SinkReader, **self._reading)
        try:
            yield from reader.fetch_between(topic, start_offset or -2, end_offset)
        finally:
            reader.die()

    def producer(
        self,
        settings: Mapping[str, Any],
        identity: TransactionIdentity,
        version: int,
        hears: Callable[[BatchSeen], None] | None = None,
    ) -> Producer:
        """As `KeptProducers`, for a process that does one thing after the other."""
        self._taken(identity)
        kept = next((producer for of_kept, producer in self._kept if of_kept == settings), None)
        given = {**settings, "transactional.id": identity.transactional_id}
        producer = kept or self._place.client(SinkProducer, **given)
        self._kept = [each for each in self._kept if each[1] is not kept]
        self._settings_of[producer] = settings
        producer.hears = hears
        producer.init_transactions(identity, transaction_version=version)
        return cast(Producer, producer)

    def keep(self, producer: Producer) -> None:
        self._kept.append((self._settings_of[producer], cast(SinkProducer, producer)))

    def now_ms(self) -> int:
        return self._place.world.now_ms() + self._days_ms()

    def passed_s(self) -> float:
        return self._place.world.scheduler.now_us / 1_000_000

    def pause(self, pause_s: float = _PAUSE_S) -> None:
        self._place.process.wait(None, int(pause_s * 1_000_000))

    def close(self) -> None:
        """The process's end closes it."""
