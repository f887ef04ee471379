"""Runs one plan: first with its faults; then all faults are healed, and everything must come to an end.

What happens is written into a chronicle, which `audit` judges. The same plan has the same trace hash on every machine.
An exception in a core is reported as `crashed`; what was recorded until then is judged all the same.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ottla.audit.chronicles.chronicle import Chronicle, FaultSeen, ProducerPromise, TopicPromise, TransactionSeen
from ottla.audit.chronicles.claims import read_promise
from ottla.audit.findings import UNCONTROLLED, UNREPEATABLE, Finding
from ottla.broker.settings import BrokerSettings
from ottla.evidence.decoded import DecodedBatches
from ottla.faults.drift_clock import DriftClock
from ottla.producer.settings_table import PRODUCER_SETTINGS
from ottla.simulation.fingerprint import fingerprint
from ottla.simulation.mover_script import MoverScript
from ottla.simulation.outcome import Outcome
from ottla.simulation.plan import SEND, Plan, ProducerPlan, ReaderPlan
from ottla.simulation.produced import ProduceRequests
from ottla.simulation.reader_script import ReaderScript, ScriptedReader
from ottla.simulation.scripts import ProducerScript, Script, ScriptedProducer, ZombieScript
from ottla.simulation.sent_records import contents
from ottla.simulation.states import States
from ottla.simulation.timed_faults import TimedFaults
from ottla.simulation.witness import Witness
from ottla.simulation.world import World

# In simulated time: how long the phase with faults may last, and how long the rest may take afterwards.
_FAULTS_US = 60_000_000
_PATIENCE_US = 600_000_000
# In the end: messages that were delayed longest arrive within this time.
_SETTLE_US_MIN = 6_000_000
# Defaults of settings that a producer's plan does not have.
_DEFAULTS = {row.name: row.default for row in PRODUCER_SETTINGS}
_TRANSACTION_TIMEOUT_MS = _DEFAULTS["transaction.timeout.ms"]
_LINGER_MS, _BATCH_SIZE = _DEFAULTS["linger.ms"], _DEFAULTS["batch.size"]
# Bytes before the records of a batch, and (at most) before the contents of a record and of a header.
_BATCH_HEADER_BYTES, _RECORD_HEAD_BYTES, _HEADER_HEAD_BYTES = 61, 16, 4
# Transactions that no client ends are aborted within this time and twice the longest transaction timeout.
_SETTLE_US = 10_000_000
# Findings that need more than one run.
_OF_MANY_RUNS = (UNCONTROLLED, UNREPEATABLE)
_LOOK_EVERY_US = 1_000_000
_MILLION = 1_000_000


class Run:
    """A plan in a world of its own; `chronicle` grows during the run."""

    def __init__(self, plan: Plan, *, keep_trace: bool = False) -> None:
        self.plan = plan
        self.world = World(
            plan.seed,
            brokers=plan.brokers,
            through_bytes=plan.through_bytes,
            keep_trace=keep_trace,
            **plan.settings,
        )
        self.chronicle = Chronicle(
            topics=[
                TopicPromise(
                    topic.name,
                    topic.partitions,
                    topic.replication_factor,
                    topic.settings.get("min_insync_replicas", 1),
                    topic.settings.get("unclean_leader_election_enable", False),
                    "cleanup_policy" in topic.settings or "retention_ms" in topic.settings,
                    topic.is_compacted,
                )
                for topic in plan.topics
            ],
            producers=[_promise(producer, _slowest_ppm(plan, producer.name)) for producer in plan.producers],
            produced=[],
            transaction_version=plan.settings.get("transaction_version", 2),
            producer_id_expiration_ms=BrokerSettings(**plan.settings).producer_id_expiration_ms,
            severity=plan.severity,
        )
        self.states = States()
        self.world.trace.listeners.append(self.states.hear)
        self.decoded = DecodedBatches()
        self.witness = Witness(self)
        self.faults = TimedFaults(self, plan.faults)
        self.world.site.powering_off = self._powering_off
        # The trace's name of a client -> its name in the plan: "client-3" -> "p1", or "p1.2" for its second instance.
        self.names: dict[str, str] = {}
        if plan.service:
            requests = ProduceRequests(self.world.network.owners)
            self.chronicle.produced = requests.seen
            self.world.trace.listeners.append(requests.hear)
        for each in plan.service:
            self.world.take_time(each.broker, each.least_us, each.most_us)
        self.began_us = 0
        # Scripts to look at: they may be able to go on.
        self.stirred: dict[Script, None] = {}
        self.mover: MoverScript | None = None
        self._unfinished: dict[Script, None] = {}
        self._writers: list[Script] = []
        self._dark: tuple[int, int] | None = None

    def go(self) -> Chronicle:
        """Run to the end."""
        for topic in self.plan.topics:
            self.world.create_topic(
                topic.name,
                partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                **topic.settings,
            )
        self.began_us = self.world.scheduler.now_us
        if self.plan.faults:
            self.chronicle.first_fault_us = self.began_us + min(each.at_us for each in self.plan.faults)
        partitions = {topic.name: topic.partitions for topic in self.plan.topics}
        for producer in self.plan.producers:
            self.add(ProducerScript(producer, self))
        for reader in self.plan.readers:
            self.add(ReaderScript(reader, partitions[reader.topic], self))
        if self.plan.moves:
            self.mover = MoverScript(self)
            self.add(self.mover)
        self.faults.begin()
        self._let_pass(lambda: not self._unfinished and self.faults.is_over, _FAULTS_US)
        self.faults.heal()
        self.chronicle.healed_us = self.world.scheduler.now_us
        if not self._let_pass(lambda: not self._unfinished, _PATIENCE_US + _longest_rest_us(self.plan)):
            self.chronicle.stuck += [script.waits_for() for script in self._unfinished]
        if not self._settle():
            self.chronicle.stuck.append(f"not all replicas are in sync: {self.witness.image()}")
        self.witness.take_stock()
        if self.mover is not None and not self.chronicle.stuck:
            self.mover.look_at_the_end()
        if not self.chronicle.stuck:
            self.chronicle.ended_us = self.world.scheduler.now_us
        self.chronicle.faults = [
            FaultSeen(timed.kind, fired, f"{timed.fault} at {timed.at_us} us", not missed, missed)
            for timed, fired, missed in zip(self.plan.faults, self.faults.fired, self.faults.missed, strict=True)
        ]
        self.chronicle.redeliveries = sum(
            fired for timed, fired in zip(self.plan.faults, self.faults.fired, strict=True) if timed.kind == "redeliver"
        )
        return self.chronicle

    def add(self, script: Script) -> None:
        """Add a script."""
        self._unfinished[script] = None
        if isinstance(script, ProducerScript | ZombieScript):
            self._writers.append(script)
        self.stirred[script] = None

    @property
    def nobody_writes(self) -> bool:
        """Whether all producers are done with their plans."""
        return all(script.is_over for script in self._writers)

    def new_producer(self, plan: ProducerPlan) -> ScriptedProducer:
        """A new instance of a producer."""
        return self.world.producer(ScriptedProducer, plan.name, **plan.settings)

    def new_reader(self, plan: ReaderPlan) -> ScriptedReader:
        """A new instance of a reader."""
        reader = self.world.reader(ScriptedReader, plan.name, isolation_level=plan.isolation_level)
        self.names[reader.client_name] = plan.name
        return reader

    def new_transaction(self, producer: str, instance: int) -> TransactionSeen:
        """A transaction that has just begun."""
        begun = TransactionSeen(
            len(self.chronicle.transactions), producer, instance, began_us=self.world.scheduler.now_us
        )
        self.chronicle.transactions.append(begun)
        return begun

    def expect(self, fact: bool, otherwise: str) -> None:
        """Note `otherwise` as an error of the run if `fact` is not true."""
        if not fact:
            self.chronicle.stuck.append(otherwise)

    # ---- power cuts ---------------------------------------------------------------------------------------------

    def _powering_off(self, broker_id: int) -> None:
        core: Any = self.world.brokers[broker_id].core
        self._dark = broker_id, core.broker_epoch

    def is_power_cut_unnoticed(self) -> bool:
        """Whether the controller still counts a broker as in sync whose power was cut."""
        return self._dark is not None and self.world.counts_as_in_sync(*self._dark)

    # ---- time ---------------------------------------------------------------------------------------------------

    def _let_pass(self, reached: Callable[[], bool] | None, limit_us: int) -> bool:
        scheduler = self.world.scheduler
        return scheduler.run_until(reached, limit_us=limit_us, stirred=self.stirred, poll=self._poll_stirred)

    def _poll_stirred(self) -> None:
        """Let scripts go on as far as they can; one may add others to `stirred`."""
        stirred, now_us = self.stirred, self.world.scheduler.now_us
        while stirred:
            for script in list(stirred):
                del stirred[script]
                script.poll(now_us)
                if script.is_over:
                    self._unfinished.pop(script, None)

    def _settle(self) -> bool:
        """Let time pass until nothing changes any more; False if not all replicas get in sync."""
        self._let_pass(None, _SETTLE_US_MIN)
        if not self._look_until(self.world.is_whole, _PATIENCE_US):
            return False
        self._look_until(self.witness.is_calm, _SETTLE_US + 2 * self._longest_transaction_us())
        return True

    def _look_until(self, reached: Callable[[], bool], limit_us: int) -> bool:
        """As `_let_pass`, but call `reached` once a second only, because it is slow."""
        end_us = self.world.scheduler.now_us + limit_us
        while not reached():
            if self.world.scheduler.now_us >= end_us:
                return False
            self._let_pass(None, _LOOK_EVERY_US)
        return True

    def _longest_transaction_us(self) -> int:
        return 1000 * max(
            (
                producer.settings.get("transaction_timeout_ms", _TRANSACTION_TIMEOUT_MS)
                for producer in self.plan.producers
                if "transactional_id" in producer.settings
            ),
            default=0,
        )


def _longest_rest_us(plan: Plan) -> int:
    """The sum of the pauses of the producer that pauses longest: some are idle for hours."""
    return max((sum(act.pause_us for act in each.acts) for each in plan.producers), default=0)


def _slowest_ppm(plan: Plan, client: str) -> int:
    """The slowest rate of a client's clock, in parts per million; 0 if it never is too slow."""
    drifts = (
        timed.fault.drift_ppm
        for timed in plan.faults
        if isinstance(timed.fault, DriftClock) and timed.fault.client_id == client
    )
    return min([0, *drifts])


def _promise(producer: ProducerPlan, slowest_ppm: int) -> ProducerPromise:
    settings = producer.settings
    promise = read_promise(producer.name, {"linger_ms": _LINGER_MS, **settings})
    timeout_ms = promise.delivery_timeout_ms
    # The producer measures the timeout with its own clock.
    if slowest_ppm:
        timeout_ms = timeout_ms * _MILLION // (_MILLION + slowest_ppm)
    batch_bytes = settings.get("batch_size", _BATCH_SIZE) - _BATCH_HEADER_BYTES
    return replace(
        promise, delivery_timeout_ms=timeout_ms, batch_records=max(1, batch_bytes // _largest_record(producer))
    )


def _largest_record(producer: ProducerPlan) -> int:
    """The bytes that a producer's largest record takes in a batch, or a few more."""
    largest = 1
    for act in producer.acts:
        if act.do == SEND:
            key, value, headers = contents(act)
            size = _RECORD_HEAD_BYTES + len(key or b"") + len(value)
            size += sum(_HEADER_HEAD_BYTES + len(name.encode()) + len(text or b"") for name, text in headers)
            largest = max(largest, size)
    return largest


def execute(plan: Plan, **options: Any) -> Outcome:
    """Run a plan and judge it; an exception in a core is part of the outcome."""
    try:
        run = Run(plan, **options)
    except Exception:
        # The cores could not be made: there is nothing to judge.
        return Outcome(plan.seed, "", crashed=traceback.format_exc())
    crashed = None
    try:
        run.go()
    except Exception:
        crashed = traceback.format_exc()
    return conclude(run, crashed)


def conclude(run: Run, crashed: str | None) -> Outcome:
    """The outcome of a run that has ended, with or without an exception (`crashed`)."""
    from ottla.audit.chronicles.judgement import judge

    if crashed is not None:
        run.witness.cut_short()
    judged: list[Finding] = []
    try:
        judged = judge(run.chronicle)
    except Exception:
        # An exception in the judge is no clean result. A core's traceback comes last: the last one names the outcome.
        crashed = traceback.format_exc() + (f"\n{crashed}" if crashed is not None else "")
    for kind in run.faults.met_moves:
        run.states.seen[f"replicas moving beside {kind}"] = None
    run.states.add_tallies(judged)
    fired: dict[str, int] = {}
    missed: dict[str, int] = {}
    for fault in run.chronicle.faults:
        fired[fault.kind] = fired.get(fault.kind, 0) + fault.fired
        if fault.missed:
            missed[fault.missed] = missed.get(fault.missed, 0) + 1
    return Outcome(
        run.plan.seed,
        fingerprint(run.world.trace.digest(), run.chronicle),
        [finding for finding in judged if finding.count],
        crashed,
        run.world.trace.messages,
        len(run.chronicle.sent),
        run.world.scheduler.now_us,
        fired,
        run.states.conclude(run.chronicle),
        tuple(finding.kind for finding in judged if finding.unseen and finding.kind not in _OF_MANY_RUNS),
        missed,
    )
