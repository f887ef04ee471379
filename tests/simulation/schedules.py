"""Plans that can be carried out in the simulated world and by real processes alike, and come to the same.

What a plan of `simulation.draw` comes to depends on who is faster. Here it does not, or says where it does:

* *counted*: faults fire for the n-th request of one kind, a producer waits for what became of a record before it sends
  the next one to the same place, and each producer has a topic of its own. Everything must agree: outcomes, offsets,
  what each batch in the logs looks like, how often each fault fired.
* *crashing*: the n-th request is the end of the broker that handles it (or freezes it). How often a request is sent
  again, and who leads then, is up to the clock; what becomes of the records is not.
* *timed*: brokers, links and disks go wrong by the clock, as in `simulation.forecast`. What Kafka promises to survive
  must be survived in both worlds: every record acknowledged, stored once and in order.

A schedule is a plan that the simulation has been asked about: faults that never fire are left out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ottla.faults.fault import fault_from, make_fault
from ottla.faults.fields import MOMENTS
from ottla.simulation.chance import Chance
from ottla.simulation.draw import add_headers
from ottla.simulation.plan import (
    ABORT,
    BEGIN,
    COMMIT,
    CRASH,
    FLUSH,
    OFFSETS,
    PAUSE,
    REPLACE,
    SEND,
    Act,
    Plan,
    ProducerPlan,
    ReaderPlan,
    TimedFault,
    TopicPlan,
)
from ottla.simulation.run import Run

COUNTED, CRASHING, TIMED = "counted", "crashing", "timed"
# Of every seven schedules; those with the clock in them take seconds.
_KINDS = (COUNTED, COUNTED, COUNTED, COUNTED, CRASHING, CRASHING, TIMED)

BEFORE_APPEND = ("lose_request", "refuse", "refuse", "delay_request")
AFTER_APPEND = ("lose_ack", "lose_ack", "lose_ack", "refuse_after_append", "delay_ack")
# They take a request timeout each: one for each producer, since simulated flushes last ten seconds at most.
_SILENT = ("drop_request", "drop_ack")
# After which producers send again: corrupt message, unknown partition, not leader, timeout, not enough replicas,
# storage. And after which they do not: unknown, invalid topic, not authorized, invalid timestamp, invalid record.
_RETRIED = (2, 3, 6, 7, 19, 56)
_FINAL = (-1, 17, 29, 32, 87)
# How often the others are asked again, while a coordinator loads or writes markers, is a matter of time.
_COUNTED_APIS = ("EndTxn",)
_FIRST_ONLY_APIS = ("TxnOffsetCommit", "AddPartitionsToTxn", "AddOffsetsToTxn", "FindCoordinator")

# Nothing is sent again but for the faults: no request is given up because the machine is loaded, and a batch that comes
# before the markers of the transaction before it waits for them.
_PATIENT_MS = 8_000
_CALM = {
    "broker_session_timeout_ms": 20_000,
    "broker_heartbeat_interval_ms": 2_000,
    "replica_lag_time_max_ms": 20_000,
    "replica_fetch_wait_max_ms": 2_000,
    "add_partitions_to_txn_retry_backoff_max_ms": _PATIENT_MS,
}
_HASTY = {
    "broker_session_timeout_ms": 800,
    "broker_heartbeat_interval_ms": 200,
    "replica_lag_time_max_ms": 1_500,
    "replica_fetch_wait_max_ms": 300,
}
_STRONG = {"min_insync_replicas": 2}
# Longer than any run takes until its faults have fired.
_IN_FORCE_US = 60_000_000
# Until others have taken over from a broker that is down.
_DOWN_US = 4_000_000
# What a transaction may take: longer than anything here lasts, however loaded the machine is.
_TRANSACTION_MS = 60_000
# How far a clock is moved: by less than that. To a coordinator whose clock is hours ahead, or was behind when they
# began, transactions have had their time, and whether it meets one is up to who is faster.
_JUMPS_MS = (-_TRANSACTION_MS // 2, _TRANSACTION_MS // 2)
# How long a replaced producer sleeps; the next one has long begun by then.
_ZOMBIE_US = 3_000_000


class Schedule(NamedTuple):
    """A plan, and how much of what it comes to is certain."""

    plan: Plan
    kind: str


def draw_schedule(seed: int, kind: str | None = None) -> Schedule:
    """The schedule of a seed; of this kind, where one is given."""
    chance = Chance(f"schedule {seed}")
    drawn = chance.choice(_KINDS)
    kind = kind or drawn
    plan = {COUNTED: _counted, CRASHING: _crashing, TIMED: _timed}[kind](chance, seed)
    add_headers(plan, Chance(f"headers {seed}"))
    run = Run(plan)
    fired = [fault.fired > 0 for fault in run.go().faults]
    plan.faults = [timed for timed, has_fired in zip(plan.faults, fired, strict=True) if has_fired]
    return Schedule(plan, kind)


def _plan(
    seed: int,
    settings: dict[str, Any],
    topics: list[TopicPlan],
    producers: list[ProducerPlan],
    faults: list[TimedFault],
) -> Plan:
    readers = [
        ReaderPlan("r0", topics[0].name, "read_uncommitted", 200_000),
        ReaderPlan("r1", topics[-1].name, "read_committed", 200_000),
    ]
    return Plan(seed, 3, False, settings, topics, producers, readers, faults)


# ---- counted ----------------------------------------------------------------------------------------------------


def _counted(chance: Chance, seed: int) -> Plan:
    topics = [
        TopicPlan("plain", chance.randint(1, 2), *chance.choice(((1, {}), (3, {}), (3, _STRONG)))),
        TopicPlan("transactional", chance.randint(1, 2), 3, _STRONG),
    ]
    plain = _plain_settings(chance)
    settings = {**_CALM, "transaction_version": chance.choice((1, 2))}
    producers = [
        ProducerPlan("p0", plain, _plain_acts(chance, topics[0], plain)),
        ProducerPlan("p1", _settings(chance) | _transactional(seed), _transactional_acts(chance, topics[1])),
    ]
    for producer in producers:
        producer.settings["request_timeout_ms"] = _PATIENT_MS
    faults = _faults_of_batches(chance, producers[0], topics[0], chance.randint(2, 5))
    faults += _faults_of_batches(chance, producers[1], topics[1], chance.randint(1, 3))
    faults += _faults_of_calls(chance, producers, chance.randint(0, 3))
    return _plan(seed, settings, topics, producers, faults)


def _settings(chance: Chance) -> dict[str, Any]:
    return {
        "acks": "all",
        "enable_idempotence": True,
        "linger_ms": 0,
        # Every record is a batch of its own.
        "batch_size": 1,
        "request_timeout_ms": 3_000,
        "delivery_timeout_ms": 60_000,
        "retry_backoff_ms": chance.choice((10, 50)),
        "max_in_flight_requests_per_connection": chance.choice((1, 5)),
        "max_block_ms": 20_000,
    }


def _plain_settings(chance: Chance) -> dict[str, Any]:
    settings = _settings(chance)
    if chance.random() < 0.5:
        settings |= {"enable_idempotence": False, "acks": chance.choice((0, 1, 1, "all"))}
    if chance.random() < 0.4:
        settings["retries"] = chance.randint(1 if settings["enable_idempotence"] else 0, 3)
    return settings


def _transactional(seed: int) -> dict[str, Any]:
    return {"transactional_id": f"tx {seed}", "transaction_timeout_ms": _TRANSACTION_MS}


def _send(chance: Chance, number: int, topic: TopicPlan, partition: int | None) -> Act:
    key = None if chance.random() < 0.3 else chance.randrange(12)
    return Act(SEND, number, topic.name, partition, key, chance.choice((8, 20, 120)))


def _plain_acts(chance: Chance, topic: TopicPlan, settings: dict[str, Any]) -> list[Act]:
    acts: list[Act] = []
    number = 0
    is_one_by_one = settings["max_in_flight_requests_per_connection"] == 1
    while number < 16:
        partition = chance.randrange(topic.partitions)
        for _ in range(chance.choice((1, 1, 3)) if is_one_by_one else 1):
            acts.append(_send(chance, number, topic, partition))
            number += 1
        acts.append(Act(FLUSH))
        # What of acks=0 has not been handled yet dies with its process, or does not.
        if settings["acks"] != 0 and chance.random() < 0.05:
            acts.append(Act(CRASH, pause_us=1_000))
    return acts


def _transactional_acts(chance: Chance, topic: TopicPlan) -> list[Act]:
    acts: list[Act] = []
    number, offset, transactions = 100, 0, chance.randint(3, 5)
    for left in range(transactions, 0, -1):
        acts.append(Act(BEGIN))
        for _ in range(chance.randint(1, 3)):
            acts += [_send(chance, number, topic, chance.randrange(topic.partitions)), Act(FLUSH)]
            number += 1
        if chance.random() < 0.4:
            offset += 1
            acts.append(Act(OFFSETS, offset, topic.name, 0))
        ending = chance.random() if left > 1 else 0.5
        if ending < 0.2:
            acts.append(Act(REPLACE if ending < 0.1 else CRASH, pause_us=_ZOMBIE_US))
        else:
            acts.append(Act(COMMIT if ending < 0.75 else ABORT))
    return acts


def _faults_of_batches(chance: Chance, producer: ProducerPlan, topic: TopicPlan, count: int) -> list[TimedFault]:
    """Faults on Produce requests to one partition of this producer's topic; now and then on retries, too."""
    sent = [act for act in producer.acts if act.do == SEND]
    drawn: dict[tuple[int, int], TimedFault] = {}
    for _ in range(count):
        partition = chance.choice(sent).partition
        assert partition is not None
        nth = chance.randint(1, sum(act.partition == partition for act in sent))
        for each in range(nth, nth + chance.choice((1, 1, 1, 3))):
            may_be_silent = all(each.kind not in _SILENT for each in drawn.values())
            fault = _fault_of(chance, producer.settings, topic.name, partition, each, may_be_silent)
            drawn.setdefault((partition, each), fault)
    return list(drawn.values())


def _fault_of(
    chance: Chance, settings: dict[str, Any], topic: str, partition: int, nth: int, may_be_silent: bool
) -> TimedFault:
    given: dict[str, Any] = {"api": "Produce", "topic": topic, "partition": partition, "nth": nth}
    # Where it is no duplicate to the broker, what comes again is stored whenever it comes.
    comes_again = settings["enable_idempotence"] and "transactional_id" not in settings
    if settings["acks"] == 0:
        # Nobody waits: what is late, or ends the connection, is a matter of time.
        given["kind"] = chance.choice(("lose_request", "lose_request", "lose_ack"))
    elif may_be_silent and chance.random() < 0.05:
        given["kind"] = chance.choice(_SILENT)
    elif comes_again and chance.random() < 0.15:
        given["kind"] = "redeliver"
    else:
        kind = given["kind"] = chance.choice(BEFORE_APPEND + AFTER_APPEND)
        if kind.startswith("refuse"):
            given["error"] = chance.choice(_RETRIED if chance.random() < 0.75 else _FINAL)
        elif kind.startswith("delay"):
            given["delay_ms"] = chance.choice((1, 30))
    return TimedFault(fault_from(given), 0, _IN_FORCE_US)


def _faults_of_calls(chance: Chance, producers: list[ProducerPlan], count: int) -> list[TimedFault]:
    """Faults on what the transactional producer says to coordinators, and nobody else does."""
    # When a replaced one asks for its end is a matter of time, too; and how often an end is asked for again while the
    # markers are written, so that the fault fires for one of them and no later one.
    is_replaced = any(act.do == REPLACE for act in producers[1].acts)
    apis = [*_FIRST_ONLY_APIS, *(() if is_replaced else _COUNTED_APIS * 3)]
    if not producers[0].settings["enable_idempotence"]:
        apis += ["InitProducerId"] * 2
    drawn: dict[str, TimedFault] = {}
    for _ in range(count):
        api = chance.choice(apis)
        nth = chance.randint(1, 3) if api in _COUNTED_APIS else 1
        given = {"api": api, "nth": nth, "kind": chance.choice(("lose_ack", "lose_ack", "lose_request", "delay_ack"))}
        if given["kind"] == "delay_ack":
            given["delay_ms"] = 20
        drawn.setdefault(api, TimedFault(fault_from(given), 0, _IN_FORCE_US))
    return list(drawn.values())


# ---- crashing ---------------------------------------------------------------------------------------------------


def _crashing(chance: Chance, seed: int) -> Plan:
    kind = chance.choice(("kill", "kill", "pause", "power_off", "cut_power"))
    is_alone = kind in ("kill", "pause") and chance.random() < 0.3
    plain = TopicPlan("plain", 1, 1, {}) if is_alone else TopicPlan("plain", 1, 3, dict(_STRONG))
    if kind == "cut_power":
        plain.settings["flush_messages"] = 1
    topics = [plain, TopicPlan("transactional", 2, 3, _STRONG)]
    settings = {**_HASTY, "transaction_version": chance.choice((1, 2))}
    producers = [ProducerPlan("p0", _settings(chance), _steady_acts(chance, plain, 12, 0))]
    if kind in ("kill", "pause"):
        producers.append(
            ProducerPlan("p1", _settings(chance) | _transactional(seed), _transactions(chance, topics[1], 0))
        )
    nth = chance.randint(2, 10)
    given = {"kind": kind, "topic": "plain", "partition": 0, "nth": nth, "moment": chance.choice(MOMENTS)}
    faults = [TimedFault(fault_from(given), 0, _DOWN_US)]
    if chance.random() < 0.5:
        kind, before = chance.choice(("lose_ack", "lose_request")), chance.randint(1, nth - 1)
        faults.append(TimedFault(make_fault(kind, topic="plain", nth=before), 0, _DOWN_US))
    return _plan(seed, settings, topics, producers, faults)


def _steady_acts(chance: Chance, topic: TopicPlan, count: int, pause_us: int) -> list[Act]:
    acts: list[Act] = []
    for number in range(count):
        acts.append(_send(chance, number, topic, chance.randrange(topic.partitions)))
        acts.append(Act(PAUSE, pause_us=pause_us) if pause_us else Act(FLUSH))
    return acts


def _transactions(chance: Chance, topic: TopicPlan, pause_us: int) -> list[Act]:
    acts: list[Act] = []
    for each in range(4):
        acts.append(Act(BEGIN))
        for record in range(3):
            acts.append(_send(chance, 100 + 3 * each + record, topic, chance.randrange(topic.partitions)))
            acts.append(Act(PAUSE, pause_us=pause_us) if pause_us else Act(FLUSH))
        acts.append(Act(COMMIT if each != 1 else ABORT))
    return acts


# ---- timed ------------------------------------------------------------------------------------------------------

_TIMED_KINDS = (
    "kill",
    "pause",
    "stop",
    "power_off",
    "isolate",
    "cut_link",
    "unplug",
    "half_open",
    "full_disk",
    "slow_disk",
    "jump_clock",
    "move_leader",
)


def _timed(chance: Chance, seed: int) -> Plan:
    topics = [TopicPlan("plain", 2, 3, _STRONG), TopicPlan("transactional", 2, 3, _STRONG)]
    settings = {**_HASTY, "transaction_version": chance.choice((1, 2))}
    producers = [
        ProducerPlan("p0", _settings(chance), _steady_acts(chance, topics[0], 40, 50_000)),
        ProducerPlan("p1", _settings(chance) | _transactional(seed), _transactions(chance, topics[1], 120_000)),
    ]
    faults: list[TimedFault] = []
    at_us = 200_000
    for _ in range(2):
        lasts_us = chance.choice((300_000, 1_200_000))
        faults.append(_by_the_clock(chance, at_us, lasts_us, topics))
        at_us += lasts_us + 100_000
    return _plan(seed, settings, topics, producers, faults)


def _by_the_clock(chance: Chance, at_us: int, lasts_us: int, topics: list[TopicPlan]) -> TimedFault:
    kind, broker = chance.choice(_TIMED_KINDS), chance.randrange(3)
    given: dict[str, Any] = {"broker_id": broker}
    if kind in ("kill", "pause"):
        given["moment"] = "now"
    elif kind == "power_off":
        given |= {"moment": "now", "in_sync_only": True, "seed": 1}
    elif kind == "cut_link":
        given["other_id"] = (broker + 1) % 3
    elif kind == "slow_disk":
        given["delay_ms"] = chance.choice((5, 200))
    elif kind == "jump_clock":
        given["jump_ms"] = chance.choice(_JUMPS_MS)
    elif kind == "move_leader":
        topic = chance.choice(topics)
        given = {"topic": topic.name, "partition": chance.randrange(topic.partitions)}
    return TimedFault(make_fault(kind, **given), at_us, lasts_us)
