"""One seed, one history: batches, drivers that are killed, held up or replaced, broken brokers, days of rest.

Drivers follow one another until all batches are finished. At first each has its fate, and brokers have faults; in the
end all is well, and one driver must be able to finish what is left. If it is refused, `recover` must bring that to an
end.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ottla.errors import OttlaError
from ottla.faults.effect import Effect
from ottla.faults.isolate import Isolate
from ottla.faults.jump_clock import JumpClock
from ottla.faults.lose_ack import LoseAck
from ottla.faults.lose_request import LoseRequest
from ottla.faults.move_leader import MoveLeader
from ottla.faults.pause import Pause
from ottla.simulation.chance import Chance
from ottla.simulation.world import World
from ottla.sink.identities import SLOTS
from ottla.sink.recovery import recover
from ottla.sink.settings import SinkSettings

from .engine import PARTITIONS, TOPIC, Query
from .judge import judge
from .kafka import PlaceOfProcess, SimulatedAdminClient
from .processes import Process, Processes

_S = 1_000_000
_DAY_MS = 24 * 3_600_000
TIMEOUT_MS = 60_000
_BROKERS = 3
_STATE_TOPIC = "__transaction_state"
_STATE_PARTITIONS = 4
_APIS = ("EndTxn", "InitProducerId", "ListTransactions", "DescribeTransactions", "FindCoordinator", "Produce", "Fetch")
_EAGER = {
    "log_retention_check_interval_ms": 5_000,
    "log_retention_ms": -1,
    "log_cleaner_backoff_ms": 5_000,
    "producer_id_expiration_check_interval_ms": 5_000,
    "transaction_remove_expired_transaction_cleanup_interval_ms": 5_000,
    "transaction_state_log_num_partitions": _STATE_PARTITIONS,
}
_LIVES = 6
_TASKS_MOST = 4
_LIFE_US = 7_200 * _S


@dataclass
class Outcome:
    """What became of a seed."""

    seed: int
    findings: list[str]
    happened: list[str]
    runs: int = 0
    told_lost: dict[int, int] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)


class History:
    """Draws a history, and plays it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._chance = chance = Chance(f"sink {seed}")
        self._version = version = chance.choice((2, 2, 1))
        self._was_in_version_1 = version == 1
        self.world = World(seed, brokers=_BROKERS, transaction_version=version, **_EAGER)
        self.world.create_topic(TOPIC, partitions=PARTITIONS, min_insync_replicas=2)
        self.processes = Processes(self.world)
        self.happened = self.processes.happened
        settings = SinkSettings(
            "orders",
            self.world.bootstrap_servers,
            {"retry.backoff.ms": 10, "linger.ms": 0},
            transaction_timeout_ms=TIMEOUT_MS,
        )
        self._is_wild = True
        tasks = chance.randint(1, _TASKS_MOST)
        changes_tasks = chance.random() < 0.3
        self.query = Query(
            self.world,
            self.processes,
            settings,
            batch_rows=[chance.randint(0, 9) for _ in range(chance.randint(2, 5))],
            repeats=chance.random() < 0.7,
            chance=chance,
            draw_tasks=lambda batch: chance.randint(1, _TASKS_MOST) if changes_tasks else tasks,
            draw_fate=self._draw_fate,
            copies_share=chance.choice((0.0, 0.0, 0.3)),
        )
        slow = Chance(f"slow {seed}")
        if slow.random() < 0.3:
            self.query.between_tasks_us = slow.choice((15, 25, 40)) * _S
        if slow.random() < 0.5:
            self.query.settings = replace(settings, same_rows=True)
        self.query.remembers = slow.random() < 0.5
        self._clocks = Chance(f"clock {seed}")
        if self._clocks.random() < 0.3:
            self.query.draw_clock_ms = lambda: self._clocks.choice((-3_600_000, -30_000, 0, 30_000, 3_600_000))
        self._upgrades = Chance(f"upgrade {seed}")
        if self._upgrades.random() < 0.25:
            # Ids come again after four batches; the same rows each time are what brokers may take for duplicates.
            self.query.batch_rows = [self._upgrades.choice((1, 2, 3, 9))] * self._upgrades.randint(6, 10)
            for _ in range(self._upgrades.choice((1, 1, 2))):
                at_us = self._upgrades.choice((2, 2, 20)) * self._upgrades.randint(0, _S) + self.query.between_tasks_us
                self.world.scheduler.after(at_us, self._change_version)
        self._cuts = Chance(f"cut {seed}")
        self.query.copies_most = self._cuts.choice((1, 1, 3, 6))
        self.told_lost: dict[int, int] = {}
        self.refusals: list[str] = []
        self._zombies: list[Process] = []
        self._cut_offs: list[Effect] = []
        self._tell(
            f"transaction version {version}, batches of {self.query.batch_rows} rows, "
            f"{'any number of' if changes_tasks else tasks} tasks, rows {'' if self.query.repeats else 'do not '}"
            f"repeat, {self.query.between_tasks_us / _S:.0f} s between tasks, same_rows={self.query.settings.same_rows}"
        )

    def _tell(self, what: str) -> None:
        self.happened.append(f"{self.world.scheduler.now_us / _S:.3f} s: {what}")

    # ---- chance ---------------------------------------------------------------------------------------------------

    def _draw_fate(self, process: Process, kind: str) -> None:
        chance = self._chance
        if not self._is_wild or chance.random() < (0.8 if kind == "task" else 0.2):
            return
        if kind == "driver" and chance.random() < 0.3:
            process.dies_in_apply_us = chance.randint(0, 8_000)
            return
        if kind == "task" and chance.random() < 0.2:
            process.hesitates_us = chance.choice((100_000, 200_000, 2 * _S, 20 * _S, 200 * _S))
            return
        wait = chance.randint(1, 60 if kind == "task" else 90 * len(self.query.batch_rows))
        if chance.random() < 0.5:
            process.fates[wait] = "kill"
        else:
            process.fates[wait] = chance.choice((100_000, 2 * _S, 30 * _S, 90 * _S, 1_000 * _S))

    def _fault(self) -> None:
        """Something that brokers suffer for a while."""
        chance, world = self._chance, self.world
        what = chance.choice(("none", "none", "lose", "lose", "kill", "move"))
        at_us = chance.randint(0, 3 * _S)
        if what == "lose":
            kind = chance.choice((LoseAck, LoseRequest))
            api = chance.choice(_APIS)
            fault = kind(api=api, probability=0.2, seed=chance.getrandbits(30))
            self._tell(f"{kind.kind} of {api}")
            effect = world.faults.add(fault)
            world.scheduler.after(10 * _S, effect.heal)
        elif what == "kill":
            broker_id = chance.below(_BROKERS)
            self._tell(f"broker {broker_id} is killed soon")
            world.scheduler.after(at_us, self._kill_broker, broker_id)
        elif what == "move":
            partition = chance.below(_STATE_PARTITIONS)
            self._tell(f"the coordinator of partition {partition} moves")
            world.scheduler.after(at_us, world.faults.add, MoveLeader(topic=_STATE_TOPIC, partition=partition))

    def _cut_off(self) -> None:
        """A broker that the others cannot reach, and clients can: it gives what it knew for as long as that lasts."""
        chance, world = self._cuts, self.world
        if chance.random() < 0.6:
            return
        broker_id = chance.below(_BROKERS)
        fault = chance.choice((Isolate(broker_id=broker_id), Pause(broker_id=broker_id, moment="now")))
        at_us, lasts_us = chance.randint(0, 20 * _S), chance.choice((5 * _S, 15 * _S, 60 * _S, 300 * _S))

        def begin() -> None:
            if self._is_wild and world.is_whole():
                self._tell(f"{fault.kind} of broker {broker_id} for {lasts_us / _S:.0f} s")
                self._cut_offs.append(world.faults.add(fault))
                world.scheduler.after(lasts_us, self._cut_offs[-1].heal)

        world.scheduler.after(at_us, begin)

    def _change_version(self) -> None:
        """Somebody sets the feature transaction.version; clients hear of it when they connect anew."""
        self._version = 3 - self._version
        self._was_in_version_1 = self._was_in_version_1 or self._version == 1
        self.world.change_transaction_version(self._version)
        self._tell(f"the transaction version is {self._version} from now on")

    def _change_settings(self) -> None:
        """A user gives other options to the next start."""
        chance, settings = self._cuts, self.query.settings
        if chance.random() < 0.2:
            timeout_ms = chance.choice((TIMEOUT_MS, 2 * TIMEOUT_MS))
            same_rows = chance.random() < 0.5
            self.query.settings = replace(settings, transaction_timeout_ms=timeout_ms, same_rows=same_rows)
            self._tell(f"the next start has a timeout of {timeout_ms} ms, same_rows={same_rows}")

    def _recover_beside(self) -> None:
        """Somebody calls `ottla sink recover` while a driver is at work."""
        chance = self._cuts
        if chance.random() < 0.2:
            self.world.scheduler.after(chance.randint(0, 5 * _S), self._start_recover, chance.random() < 0.3)

    def _start_recover(self, is_killed: bool) -> None:
        process = self.processes.start("recover beside", lambda process: recover(self.query.session(process)))
        if is_killed:
            process.fates[self._cuts.randint(1, 60)] = "kill"
        self._tell("somebody calls recover")

    def _kill_broker(self, broker_id: int) -> None:
        if self.world.is_whole():
            self.world.kill(broker_id)
            self.world.scheduler.after(8 * _S, self.world.start, broker_id)

    def _gap(self) -> None:
        """How long nobody drives the query."""
        gap = self._chance.choice(("none", "none", "none", "timeout", "days", "weeks"))
        if gap == "none":
            return
        self._tell(f"nobody drives: {gap}")
        self.processes.run(lambda: False, 2 * TIMEOUT_MS * 1000)
        if gap != "timeout":
            jump_ms = {"days": 2, "weeks": 10}[gap] * _DAY_MS
            self.query.days_ms += jump_ms
            for broker_id in range(_BROKERS):
                self.world.faults.add(JumpClock(broker_id=broker_id, jump_ms=jump_ms))
            self.processes.run(lambda: False, 30 * _S)

    # ---- playing --------------------------------------------------------------------------------------------------

    def play(self) -> Outcome:
        """Let it happen, and judge it."""
        try:
            for life in range(_LIVES):
                if self.query.is_finished():
                    break
                self._fault()
                self._cut_off()
                self._change_settings()
                self._recover_beside()
                self._drive(f"driver {life}")
                self._gap()
            findings = self._come_to_an_end()
        finally:
            self.processes.end()
        return Outcome(self.seed, findings, self.happened, self.query.runs, self.told_lost, self.refusals)

    def _drive(self, name: str) -> Process:
        driver = self.processes.start(name, self.query.drive)
        self._draw_fate(driver, "driver")
        patience_us = self._chance.choice((5 * _S, 200 * _S))
        # Somebody starts another one where nothing seems to happen.
        self.processes.run(lambda: driver.is_over or driver.is_held(patience_us), _LIFE_US)
        self._tell(f"{name}: {_end_of(driver)}; finished: {len(self.query.committed)}")
        return driver

    def _come_to_an_end(self) -> list[str]:
        self._is_wild = False
        self._tell("all is well from now on")
        self.world.site.mend_all()
        for each in self._cut_offs:
            each.heal()
        self.processes.run(self.world.is_whole, 60 * _S)
        self.processes.run(lambda: False, 15 * _S)
        # A batch that is longer than its transactions needs a start for each of its tasks.
        for attempt in range(4 + _TASKS_MOST * len(self.query.batch_rows)):
            if self.query.is_finished():
                break
            driver = self._drive(f"last driver {attempt}")
            if isinstance(driver.error, OttlaError):
                self._remedy(str(driver.error))
        # All who were held up go on; what they leave open times out, after a timeout that a remedy may have raised.
        self.processes.run(lambda: self.processes.are_all_over(), _LIFE_US)
        self.processes.run(lambda: False, 3 * self.query.settings.transaction_timeout_ms * 1000)
        if not self.query.is_finished():
            return [f"refused for good: {self.refusals[-1:] or 'no error'}"]
        findings = [*judge(self.query, self._visible(), self.told_lost), *self.query.taken_back, *self._hanging()]
        # In version 1 an attempt that was held up for as long as four batches take may end another's transaction.
        is_excused = self._was_in_version_1 and len(self.query.batch_rows) > SLOTS
        return findings if is_excused else [*findings, *self.query.missed]

    def _remedy(self, refusal: str) -> None:
        """What a user can do who is refused: in the end, what the refusal says."""
        self.refusals.append(refusal)
        settings = self.query.settings
        if "Start the query again: then only" in refusal:
            return
        if "set same_rows=True" in refusal and self.query.repeats:
            self.query.settings = replace(settings, same_rows=True)
        elif "raise transaction.timeout.ms" in refusal:
            self.query.settings = replace(settings, transaction_timeout_ms=10 * TIMEOUT_MS)
        elif "leave that option out" in refusal:
            self.query.settings = replace(settings, same_rows=False)
        accept_loss = "--accept-loss" in refusal
        done = self._outside("recover", lambda process: recover(self.query.session(process), accept_loss))
        if accept_loss and done.result is not None and done.result.lost:
            batch = done.result.decision.batch.batch_id
            self.told_lost[batch] = sum(entry.totals.rows for entry in done.result.lost)

    def _outside(self, name: str, work: object) -> Process:
        process = self.processes.start(name, work)  # type: ignore[arg-type]
        self.processes.run(lambda: process.is_over, _LIFE_US)
        self._tell(f"{name}: {_end_of(process)}")
        return process

    # ---- looking --------------------------------------------------------------------------------------------------

    def _visible(self) -> list[str]:
        """What a read_committed reader finds."""
        reader = self.world.reader(isolation_level="read_committed")
        rows = [row for partition in range(PARTITIONS) for row in reader.read(TOPIC, partition)]
        return [(row.value or b"").decode() for row in rows]

    def _hanging(self) -> list[str]:
        """Partitions in which a transaction is open, which nobody will end."""
        ends = []
        for level in ("read_committed", "read_uncommitted"):

            def look(process: Process, level: str = level) -> dict[int, int]:
                place = PlaceOfProcess(self.world, process)
                return SimulatedAdminClient(place, {"isolation_level": level}).end_offsets(TOPIC)

            process = self._outside(f"end offsets, {level}", look)
            if process.error is not None:
                raise process.error
            ends.append(process.result)
        stable, high = ends
        return [
            f"readers of {TOPIC}-{each} hang at {stable[each]} of {high[each]}"
            for each in high
            if stable[each] != high[each]
        ]


def _end_of(process: Process) -> str:
    if not process.is_over:
        return "does not end"
    if process.is_dead:
        return "is dead"
    error = process.error
    if error is None:
        return "done"
    return f"{type(error).__name__}: {error}"


def play(seed: int) -> Outcome:
    """The history of a seed."""
    return History(seed).play()
