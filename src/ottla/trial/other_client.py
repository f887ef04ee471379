"""A side whose records another client sends: handed over at the side's pace, flushed, and noted in the ledger.

The protocol for other clients has no transactions, notes and starts of an application; a side that needs them is not
possible with other clients, and says so. Errors, and the number of attempts before them, are compared for ottla's
producer only: every client has its own names for errors.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from ottla.trial.fault_schedule import FaultSchedule
from ottla.trial.instance import PRODUCER
from ottla.trial.ledger import SideLedger
from ottla.trial.scenario import Scenario, Side
from ottla.trial.sender import ClientEnded, Sender, SendingOrder
from ottla.trial.side_cluster import SideCluster
from ottla.trial.workload import Workload

# Few clients have it, and those that do need not have it of this length.
_NOT_EVERYWHERE = ("max_block_ms",)


def why_impossible(scenario: Scenario, side: Side) -> str | None:
    """Why no other client can send this side; None where one can."""
    if side.group:
        return "what reads and sends as a member of a group is ottla's producer"
    if side.transaction_records:
        return "transactions are for ottla's producer"
    if scenario.restart_at is not None:
        return "an application that is started again is ottla's producer"
    return None


def order(cluster: SideCluster, side: Side) -> SendingOrder:
    """What the client has to do."""
    ours = {name: value for name, value in PRODUCER.items() if name not in _NOT_EVERYWHERE}
    settings = {**ours, **side.producer, **cluster.client_settings}
    return SendingOrder(
        bootstrap_servers=cluster.bootstrap_servers,
        topic=cluster.topic,
        settings={_dotted(name): value for name, value in settings.items()},
        required=frozenset(map(_dotted, {**side.producer, **cluster.client_settings})),
        side=side.name,
    )


def send_all(
    sender: Sender,
    scenario: Scenario,
    side: Side,
    ledger: SideLedger,
    faults: FaultSchedule,
    advance: Callable[[], None],
) -> None:
    """Hand over all records, for as long as the client takes them; then all outcomes are in the ledger."""
    try:
        if sender.takes_records:
            # Why a client has ended is among its problems.
            with suppress(ClientEnded):
                _hand_over_all(sender, scenario, side, ledger, faults, advance)
        sender.close()
    except BaseException:
        # Do not wait, least of all after Ctrl+C.
        sender.abandon()
        raise


def _hand_over_all(
    sender: Sender,
    scenario: Scenario,
    side: Side,
    ledger: SideLedger,
    faults: FaultSchedule,
    advance: Callable[[], None],
) -> None:
    workload, began, pace = Workload(scenario), time.monotonic(), side.records_per_second
    for number in range(scenario.records):
        if pace:
            time.sleep(max(0.0, began + number / pace - time.monotonic()))
        faults.pass_record(number)
        record = workload.record(number)
        ledger.hand_over(number, record.partition, record.key, record.value)
        sender.hand_over(number, record.partition, record.key, record.value, record.headers)
        if scenario.flush_every and (number + 1) % scenario.flush_every == 0:
            sender.flush()
            ledger.note_flush()
        advance()
    faults.pass_record(scenario.records)
    sender.flush()


def _dotted(name: str) -> str:
    return name.replace("_", ".")
