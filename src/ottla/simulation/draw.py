"""Draws a plan from a seed, so that runs differ in kind and not only in detail.

Swarm testing (Groce and others, "Swarm testing", ISSTA 2012): every seed first draws which kinds of faults may happen
at all, for many runs with a few kinds each find more than a run with all of them (`drawing`).

There are two kinds of plans, with different promises. In a *mild* plan nothing happens that Kafka does not survive
without syncs, so no record that was acknowledged with acks=all may be missing. In a *severe* one power may fail at any
time, and every missing record must be explained by that.
"""

from __future__ import annotations

from typing import Any

from ottla.faults.fault import make_fault
from ottla.records.batch_header import CODECS
from ottla.simulation.arrivals import idle_for_long, keep_brokers_busy
from ottla.simulation.chance import Chance
from ottla.simulation.drawing import draw_faults, draw_times
from ottla.simulation.moves import draw_moves
from ottla.simulation.plan import (
    ABORT,
    BEGIN,
    COMMIT,
    CRASH,
    MILD,
    OFFSETS,
    PAUSE,
    REPLACE,
    SEND,
    SEVERE,
    Act,
    Plan,
    ProducerPlan,
    ReaderPlan,
    TimedFault,
    TopicPlan,
)
from ottla.simulation.timetable import Timetable, spread

# In one of so many seeds messages are encoded and decoded, as on a real connection.
BYTES_EVERY = 20

# Short enough that all of it happens several times in a run of some simulated minutes.
BROKER_SETTINGS = {
    "leader_imbalance_check_interval_seconds": 7,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 500,
    "replica_high_watermark_checkpoint_interval_ms": 2000,
}
# How soon a cluster notices a fault: quickly (with the embedded cluster's session timeout), or slowly.
_PACES = (
    {
        "broker_session_timeout_ms": 1500,
        "broker_heartbeat_interval_ms": 500,
        "replica_lag_time_max_ms": 2500,
        "replica_fetch_wait_max_ms": 1000,
    },
    {
        "broker_session_timeout_ms": 6000,
        "broker_heartbeat_interval_ms": 2000,
        "replica_lag_time_max_ms": 6000,
        "replica_fetch_wait_max_ms": 2000,
    },
)
# The share of runs with failing disks, and of those the share whose topics have flush.messages.
_FAILING_DISKS_SHARE = 0.12
_FLUSHED_SHARE = 0.7
# The share of runs in which clients' clocks are wrong, and by how many parts per million.
_DRIFTING_SHARE = 0.1
_CLIENT_DRIFTS_PPM = (-500_000, -50_000, -200, 200, 50_000, 1_000_000)
# Of the runs in which messages come late: the share with transactions that end before their records arrive.
_HASTY_SHARE = 0.7
# The share of runs with two transactional producers, whose records alternate in the logs.
_SECOND_SHARE = 0.2
# The share of runs in which all batches in flight are sent again.
_SENT_AGAIN_SHARE = 0.04
# The share of runs in which an application restarts and sends its last records again.
_HANDED_OVER_AGAIN_SHARE = 0.04
# The share of runs with a reader that deletes what it has read.
_PURGING_SHARE = 0.06
# The share of runs in which replicas are moved, and among how many brokers.
_MOVING_SHARE = 0.08
_MOVING_BROKERS = (3, 4, 4, 5)
# The shares of runs in which brokers take time for requests, and in which producers send nothing for hours.
_BUSY_SHARE = 0.06
_IDLE_SHARE = 0.01
# Most records have no headers. A name may occur twice in a record; values may be null or empty.
_HEADER_COUNTS = (0, 0, 0, 0, 1, 2, 3)
_HEADER_NAMES = ("trace", "tenant", "tenant", "å", "")
_HEADER_VALUES = (None, "", "a", "b", "00-4bf92f3577b34da6-01")


def draw(seed: int, *, records: int = 200, faults: int = 10) -> Plan:
    """The plan of a seed: three brokers, two producers (one transactional), so many records and faults.

    If replicas are moved, there are up to five brokers. Some plans have a second transactional producer, which adds a
    quarter of `records`.
    """
    plan = _plan(seed, records)
    moving = Chance(f"moves {seed}")
    moves = moving.random() < _MOVING_SHARE
    if moves:
        plan.brokers = moving.choice(_MOVING_BROKERS)
    second = Chance(f"second transactional producer {seed}")
    if second.random() < _SECOND_SHARE:
        _add_transactional(plan, second, records)
    if Chance(f"late {seed}").random() < 0.1:
        plan.faults += _make_late(plan, Chance(f"hasty {seed}"))
    again = Chance(f"again {seed}")
    sends_again = again.random() < _SENT_AGAIN_SHARE
    if sends_again:
        _send_in_bursts(plan, again)
    anew = Chance(f"anew {seed}")
    if anew.random() < _HANDED_OVER_AGAIN_SHARE:
        _hand_over_again(plan, anew)
    arrivals = Chance(f"arrivals {seed}")
    drawn = arrivals.random()
    if drawn < _BUSY_SHARE:
        faults = arrivals.choice((0, 0, faults))
        keep_brokers_busy(plan, arrivals)
    chance = Chance(f"faults {seed}")
    times = draw_times(chance, faults)
    for producer in plan.producers:
        # When faults happen, producers are to be sending.
        spread(chance.fork(producer.name), producer, max(times, default=0))
    plan.faults += draw_faults(chance, times, plan)
    if sends_again:
        plan.faults += _fall_silent(plan, again)
    disks = Chance(f"disks {seed}")
    if faults and disks.random() < _FAILING_DISKS_SHARE:
        _promise_to_flush(plan, disks)
        plan.faults += draw_faults(disks, draw_times(disks, disks.choice((1, 2, 4))), plan, "failing_disk")
    if _BUSY_SHARE <= drawn < _BUSY_SHARE + _IDLE_SHARE:
        idle_for_long(plan, arrivals)
    clocks = Chance(f"client clocks {seed}")
    if clocks.random() < _DRIFTING_SHARE:
        plan.faults += _drifting(clocks, plan)
    add_headers(plan, Chance(f"headers {seed}"))
    purging = Chance(f"purging {seed}")
    if purging.random() < _PURGING_SHARE:
        purging.choice(plan.readers).purges = True
    if moves:
        plan.moves = draw_moves(moving, plan)
    return plan


def _promise_to_flush(plan: Plan, chance: Chance) -> None:
    """Often give the topics flush.messages: without it there are few syncs that could fail."""
    if chance.random() < _FLUSHED_SHARE:
        flush_messages = chance.choice((1, 1, 5))
        for topic in plan.topics:
            topic.settings["flush_messages"] = flush_messages


def add_headers(plan: Plan, chance: Chance) -> None:
    """Give each record some headers, of few names, beside the one with its number."""
    for producer in plan.producers:
        for act in producer.acts:
            if act.do == SEND:
                count = chance.choice(_HEADER_COUNTS)
                act.headers = [[chance.choice(_HEADER_NAMES), chance.choice(_HEADER_VALUES)] for _ in range(count)]


def _drifting(chance: Chance, plan: Plan) -> list[TimedFault]:
    """Let the clocks of one or two clients run too fast or too slow for the first 30 seconds."""
    names = [producer.name for producer in plan.producers] + [reader.name for reader in plan.readers]
    return [
        TimedFault(
            make_fault("drift_clock", client_id=name, drift_ppm=chance.choice(_CLIENT_DRIFTS_PPM)), 0, 30_000_000
        )
        for name in chance.sample(names, chance.randint(1, 2))
    ]


def _make_late(plan: Plan, chance: Chance) -> list[TimedFault]:
    """Let requests arrive after their producer gave them up, perhaps after their transaction (KIP-890 is off)."""
    plan.settings["transaction_version"] = 1
    for producer in plan.producers:
        producer.settings["request_timeout_ms"] = 500
    if chance.random() >= _HASTY_SHARE:
        return [TimedFault(make_fault("stall", probability=0.1, delay_max_ms=2_000), 0, 30_000_000)]
    _abort_in_haste(plan, chance)
    late = make_fault("delay_request", every=chance.choice((2, 3, 5)), delay_ms=800)
    return [TimedFault(late, 0, 30_000_000)]


def _abort_in_haste(plan: Plan, chance: Chance) -> None:
    """Abort transactions while their record is on its way; when it has arrived, the next one writes there, too."""
    producer = plan.producers[1]
    places = [(topic.name, partition) for topic in plan.topics for partition in range(topic.partitions)]
    numbers = [act.number for act in producer.acts if act.do == SEND]
    producer.acts = []
    for turn, (hasty, patient) in enumerate(zip(numbers[::2], numbers[1::2], strict=False)):
        topic, partition = places[turn % len(places)]
        producer.acts += [
            Act(BEGIN),
            Act(SEND, hasty, topic, partition, None, 8),
            Act(PAUSE, pause_us=chance.choice((20_000, 50_000, 200_000))),
            Act(ABORT),
            Act(PAUSE, pause_us=chance.choice((500_000, 2_000_000))),
            Act(BEGIN),
            Act(SEND, patient, topic, partition, None, 8),
            Act(COMMIT),
        ]


def _send_in_bursts(plan: Plan, chance: Chance) -> None:
    """Let `p0` have as many batches in flight as it may."""
    producer = plan.producers[0]
    numbers = [act.number for act in producer.acts if act.do == SEND]
    producer.acts = _bursts(chance, plan.topics, iter(numbers), len(numbers))
    producer.settings |= {
        "acks": "all",
        "enable_idempotence": True,
        "linger_ms": 0,
        "batch_size": 200,
        "max_in_flight_requests_per_connection": 5,
    }
    producer.settings.pop("retries", None)
    producer.settings["request_timeout_ms"] = 500


def _fall_silent(plan: Plan, chance: Chance) -> list[TimedFault]:
    """Let `p0` send its batches in flight again: a few times all of its connections become half-open at once.

    What it has sent before that arrives and is stored, but no answer does.
    """
    name, table, at_us = plan.producers[0].name, Timetable(plan), 0
    found = []
    for _ in range(4):
        sending = table.next_sending(at_us + chance.randint(3_000, 30_000), chance, name)
        at_us = 0 if sending is None else sending.at_us
        found.append(TimedFault(make_fault("half_open", client_id=name), at_us, 200_000))
        at_us += 500_000
    return found


def _hand_over_again(plan: Plan, chance: Chance) -> None:
    """Let the application of `p0` crash a few times, and begin again with the last records of the instance before.

    No broker can see that these are the same records. So a copy for each time that a record was sent breaks no promise;
    more copies do.
    """
    acts = plan.producers[0].acts
    sends = [at for at, act in enumerate(acts) if act.do == SEND]
    for at in sorted(chance.sample(sends, 4), reverse=True):
        behind = [act for act in acts[: at + 1] if act.do == SEND][-chance.randint(1, 5) :]
        acts[at + 1 : at + 1] = [Act(CRASH, pause_us=chance.choice((1_000, 500_000))), *behind]


def _plan(seed: int, records: int) -> Plan:
    chance = Chance(f"plan {seed}")
    severity = chance.choice((MILD, MILD, SEVERE))
    settings: dict[str, Any] = {
        **BROKER_SETTINGS,
        **chance.choice(_PACES),
        "log_segment_bytes": chance.choice((4_096, 1 << 20)),
        "transaction_version": chance.choice((1, 2, 2)),
        "os_flush_interval_ms": chance.choice((1_000, 30_000)),
    }
    topics = [
        TopicPlan("t0", chance.randint(1, 3), 3, {"min_insync_replicas": 2}),
        TopicPlan("t1", chance.randint(1, 2), 3, {"min_insync_replicas": 2}),
    ]
    if chance.random() < 0.4:
        topics.append(_other_topic(chance.fork("other topic"), settings, severity))
    numbers = iter(range(records))
    share = records // 2
    plain = _producer_settings(chance)
    if chance.random() < 0.3:
        plain |= _weaker_settings(chance)
    if chance.random() < 0.05:
        plain["compression_type"] = chance.choice(CODECS[1:])
    producers = [
        ProducerPlan("p0", plain, _plain_acts(chance.fork("p0"), topics, numbers, share)),
        ProducerPlan(
            "p1",
            {**_producer_settings(chance), **_transactional_settings(chance)},
            _transactional_acts(chance.fork("p1"), topics, numbers, records - share),
        ),
    ]
    levels = ("read_uncommitted", "read_committed")
    readers = [
        ReaderPlan(f"r{number}", topics[number].name, level, chance.choice((500_000, 2_000_000, 5_000_000)))
        for number, level in enumerate(levels)
    ]
    return Plan(seed, 3, seed % BYTES_EVERY == 0, settings, topics, producers, readers, [], severity)


def _other_topic(chance: Chance, settings: dict[str, Any], severity: str) -> TopicPlan:
    """A topic that promises less than the others, or deletes or compacts its records."""
    kinds = ["one replica", "two replicas", "compacted", "short-lived", "flushed"]
    if severity == SEVERE:
        kinds += ["unclean", "unclean"]
    kind = chance.choice(kinds)
    configs: dict[str, Any] = {"min_insync_replicas": 1}
    replicas = {"one replica": 1, "two replicas": 2, "unclean": chance.choice((2, 3))}.get(kind, 3)
    if kind == "unclean":
        configs["unclean_leader_election_enable"] = True
    elif kind == "compacted":
        configs |= {"cleanup_policy": "compact", "segment_bytes": 1024, "min_cleanable_dirty_ratio": 0.01}
        settings["log_cleaner_backoff_ms"] = 1_000
    elif kind == "short-lived":
        configs |= {"retention_ms": chance.choice((2_000, 10_000)), "segment_bytes": 1024}
        settings |= {"log_retention_check_interval_ms": 1_000, "log_segment_delete_delay_ms": 1_000}
    elif kind == "flushed":
        configs |= {"flush_messages": 1, "min_insync_replicas": 2}
    return TopicPlan("t2", chance.randint(1, 2), replicas, configs)


def _producer_settings(chance: Chance) -> dict[str, Any]:
    linger_ms = chance.choice((0, 5))
    request_timeout_ms = chance.choice((500, 3_000))
    return {
        "acks": "all",
        "enable_idempotence": True,
        "linger_ms": linger_ms,
        "batch_size": chance.choice((200, 2_000, 16_384)),
        "request_timeout_ms": request_timeout_ms,
        "delivery_timeout_ms": chance.choice((5_000, 120_000)),
        "retry_backoff_ms": chance.choice((20, 100)),
        "max_in_flight_requests_per_connection": chance.choice((1, 2, 3, 5, 5)),
        "max_block_ms": chance.choice((2_000, 6_000)),
    }


def _weaker_settings(chance: Chance) -> dict[str, Any]:
    """Settings that promise less than idempotence."""
    weaker: dict[str, Any] = {"acks": chance.choice((0, 1, "all")), "enable_idempotence": False}
    if chance.random() < 0.2:
        weaker["retries"] = chance.randint(0, 3)
    return weaker


def _add_transactional(plan: Plan, chance: Chance, records: int) -> None:
    share = records // 4
    acts = _transactional_acts(chance, plan.topics, iter(range(records, records + share)), share)
    settings = {**_producer_settings(chance), **_transactional_settings(chance), "transactional_id": "tx-2"}
    plan.producers.append(ProducerPlan("p2", settings, acts))


def _transactional_settings(chance: Chance) -> dict[str, Any]:
    return {"transactional_id": "tx", "transaction_timeout_ms": chance.choice((4_000, 20_000))}


def _send(chance: Chance, topics: list[TopicPlan], number: int) -> Act:
    topic = chance.choice(topics)
    partition = chance.randrange(topic.partitions) if chance.random() < 0.5 else None
    return Act(SEND, number, topic.name, partition, chance.randrange(12), chance.choice((8, 20, 120)))


def _pause(chance: Chance) -> Act:
    return Act(PAUSE, pause_us=chance.choice((300, 5_000, 50_000, 500_000, 2_000_000)))


def _plain_acts(chance: Chance, topics: list[TopicPlan], numbers: Any, count: int) -> list[Act]:
    if chance.random() < 0.25:
        return _bursts(chance, topics, numbers, count)
    acts: list[Act] = []
    for _ in range(count):
        acts.append(_send(chance, topics, next(numbers)))
        if chance.random() < 0.15:
            acts.append(_pause(chance))
        if chance.random() < 0.01:
            acts.append(Act(CRASH, pause_us=chance.choice((1_000, 500_000))))
    return acts


def _bursts(chance: Chance, topics: list[TopicPlan], numbers: Any, count: int) -> list[Act]:
    """Sends to one partition, faster than it answers, with some pauses: as many batches in flight as allowed."""
    acts: list[Act] = []
    for _ in range(count):
        acts.append(Act(SEND, next(numbers), topics[0].name, 0, None, 120))
        rests = chance.random() < 0.06
        acts.append(Act(PAUSE, pause_us=chance.choice((50_000, 500_000, 2_000_000)) if rests else 150))
    return acts


def _transactional_acts(chance: Chance, topics: list[TopicPlan], numbers: Any, count: int) -> list[Act]:
    acts: list[Act] = []
    offset = 0
    while count:
        size = min(count, chance.choice((1, 3, 8, 20)))
        count -= size
        acts.append(Act(BEGIN))
        for _ in range(size):
            acts.append(_send(chance, topics, next(numbers)))
            if chance.random() < 0.1:
                acts.append(_pause(chance))
        if chance.random() < 0.3:
            offset += 1
            acts.append(Act(OFFSETS, offset, topics[0].name, 0))
        ending = chance.random()
        if ending < 0.08:
            acts.append(Act(chance.choice((CRASH, REPLACE)), pause_us=chance.choice((1_000, 1_000_000))))
        else:
            acts.append(Act(COMMIT if ending < 0.8 else ABORT))
        if chance.random() < 0.3:
            acts.append(_pause(chance))
    return acts
