"""When records are sent (all at once, at a rate, in bursts, or hours apart), and how long brokers take.

Runs in which brokers answer at once show little about producers that wait for brokers. So in some runs brokers need
time for each Produce request, and the rate of the producer without transactions is drawn as records per request. A rate
below one needs no batches; higher rates need fuller ones, until full batches are not enough. In other runs the
producers send nothing for longer than clients and brokers keep connections, metadata and producer ids.
"""

from __future__ import annotations

from ottla.simulation.chance import Chance
from ottla.simulation.plan import BEGIN, COMMIT, PAUSE, SEND, Act, Plan, ProducerPlan, ServicePlan

# How long a Produce request takes at most; where the time varies, it takes a quarter of that at least.
_SERVICE_US = (2_000, 5_000, 20_000, 50_000)
_VARIES = 4
# How many records are sent in that time.
_RECORDS_PER_REQUEST = (0.3, 0.8, 3, 10, 30)
_BURSTS = (5, 20, 50)
# The share of producers with memory for about forty records, which wait for memory if brokers are too slow.
_LITTLE_MEMORY_SHARE = 0.25
_LITTLE_MEMORY = 8_192
# How long nothing is sent: long enough for metadata (5 min), connections (10 min) or producer ids (a day) to expire.
_IDLE_US = (400_000_000, 3_600_000_000, 90_000_000_000)
# Brokers that send few messages to each other; else simulating hours would take long.
IDLE_SETTINGS = {
    "broker_session_timeout_ms": 120_000,
    "broker_heartbeat_interval_ms": 40_000,
    "replica_lag_time_max_ms": 120_000,
    "replica_fetch_wait_max_ms": 60_000,
    "leader_imbalance_check_interval_seconds": 600,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 60_000,
    "replica_high_watermark_checkpoint_interval_ms": 60_000,
}


def keep_brokers_busy(plan: Plan, chance: Chance) -> None:
    """Brokers need time for requests; `p0` sends its records to one topic: all at once, at a rate, or in bursts."""
    most_us = chance.choice(_SERVICE_US)
    for broker in range(plan.brokers):
        # Now and then one of them is slower than the others.
        own_us = most_us if chance.random() < 0.7 else chance.choice(_SERVICE_US)
        plan.service.append(ServicePlan(broker, own_us // chance.choice((1, _VARIES)), own_us))
    producer = plan.producers[0]
    sends = [act for act in producer.acts if act.do == SEND]
    topic = plan.topics[0]
    partition = 0 if chance.random() < 0.7 else None
    for act in sends:
        act.topic, act.partition = topic.name, partition
    pause_us = int(most_us / chance.choice(_RECORDS_PER_REQUEST))
    burst = chance.choice((1, 1, *_BURSTS, len(sends)))
    producer.acts = []
    for number, act in enumerate(sends, 1):
        producer.acts.append(act)
        if number % burst == 0:
            producer.acts.append(Act(PAUSE, pause_us=pause_us * burst))
    if chance.random() < _LITTLE_MEMORY_SHARE:
        producer.settings["buffer_memory"] = _LITTLE_MEMORY


def idle_for_long(plan: Plan, chance: Chance) -> None:
    """Before its last records each producer does nothing for a long time, inside or outside a transaction."""
    plan.settings |= IDLE_SETTINGS
    idle_us = chance.choice(_IDLE_US)
    for producer in plan.producers:
        _idle(producer, idle_us, chance)


def _idle(producer: ProducerPlan, idle_us: int, chance: Chance) -> None:
    where = SEND if "transactional_id" not in producer.settings else chance.choice((SEND, BEGIN, COMMIT))
    places = [at for at, act in enumerate(producer.acts) if act.do == where]
    if places:
        producer.acts.insert(places[-chance.randint(1, min(20, len(places)))], Act(PAUSE, pause_us=idle_us))
