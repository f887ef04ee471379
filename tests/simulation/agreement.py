"""What must be the same when a plan is carried out in two worlds, and where it is not.

Certain of every schedule: what each producer was told of each record and each transaction, what is stored where, how
often and in what order, what of it readers of committed records see, where groups stand, that all replicas hold the
same, what the judges find, and that every fault has fired. Where faults are counted, also each acknowledged offset,
each batch in the logs and how often each fault has fired. By the clock, what becomes of the records of a transaction
that is aborted is left to who is faster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ottla.audit.chronicles.chronicle import Chronicle
from ottla.audit.chronicles.judgement import judge
from ottla.broker.topic_names import INTERNAL_TOPICS
from ottla.ledger.schema import ACKED

from .schedules import COUNTED, TIMED, Schedule

# By the clock they affect who happens to be there.
_BY_CHANCE = ("half_open", "unplug", "full_disk", "slow_disk")


@dataclass(slots=True)
class World:
    """One of the two: its name, and what was seen there."""

    name: str
    chronicle: Chronicle


def facts(schedule: Schedule, chronicle: Chronicle) -> dict[str, Any]:
    """What must be the same, by what it is about."""
    is_counted = schedule.kind == COUNTED
    # In reality nobody looks into the coordinators' own topics, and how often they write there is a matter of time.
    replicas = [each for each in chronicle.replicas or () if each.topic not in INTERNAL_TOPICS]
    chronicle = replace(chronicle, replicas=replicas)
    found: dict[str, Any] = {}
    undecided = _of_aborted(chronicle) if schedule.kind == TIMED else {}
    for sent in sorted(chronicle.sent, key=lambda each: each.number):
        if sent.number in undecided:
            continue
        what = f"record {sent.number} of {sent.producer}"
        found[f"{what}: outcome"] = sent.outcome, sent.partition
        if is_counted:
            found[f"{what}: offset"] = sent.offset if sent.outcome == ACKED else None
            found[f"{what}: instance"] = sent.instance
    for number, seen in enumerate(chronicle.transactions):
        found[f"transaction {number} of {seen.producer}"] = seen.outcome, seen.offsets, seen.offsets_taken
    for read in chronicle.reads:
        if read.is_final:
            numbers = [record.number for record in read.records if record.number not in undecided]
            found[f"{read.topic}-{read.partition} to {read.isolation_level}"] = numbers, read.error
    found["group offsets"] = chronicle.group_offsets
    for number, fault in enumerate(chronicle.faults):
        if fault.kind in _BY_CHANCE:
            continue
        fired: int | bool = fault.fired if is_counted else fault.fired > 0
        found[f"fault {number} ({schedule.plan.faults[number].kind} {fault.detail}) fired"] = fired
    found |= _logs(chronicle, is_counted)
    findings = judge(_seen_by_both(chronicle))
    found["judges"] = {each.kind: each.count for each in findings if each.count}
    found["judges who could not see everything"] = [each.kind for each in findings if each.unseen]
    return found


def _of_aborted(chronicle: Chronicle) -> dict[int, None]:
    """Records of aborted transactions: what had not left when the abort was asked for is never sent."""
    aborted = [each.number for each in chronicle.transactions if each.outcome == "aborted"]
    return {sent.number: None for sent in chronicle.sent if sent.transaction in aborted}


def _seen_by_both(chronicle: Chronicle) -> Chronicle:
    """Without what only the simulated world shows: of replicas there is nothing but their files."""
    assert chronicle.replicas is not None
    files = []
    for replica in chronicle.replicas:
        end = replica.batches[-1].last_offset + 1 if replica.batches else 0
        files.append(replace(replica, high_watermark=end, last_stable_offset=end))
    return replace(
        chronicle,
        replicas=files,
        watermarks=None,
        leaderships=None,
        commits=None,
        broker_ends=None,
        produced=None,
        first_fault_us=-1,
    )


def _logs(chronicle: Chronicle, is_counted: bool) -> dict[str, Any]:
    assert chronicle.replicas is not None
    found: dict[str, Any] = {}
    contents: dict[tuple[str, int], dict[int, None]] = {}
    for replica in chronicle.replicas:
        place = replica.topic, replica.partition
        contents.setdefault(place, {})[replica.bytes_crc] = None
        if is_counted:
            found[f"log of {place[0]}-{place[1]}"] = [
                (
                    batch.base_offset,
                    batch.last_offset,
                    batch.producer_id >= 0,
                    batch.producer_epoch,
                    batch.base_sequence,
                    batch.is_transactional,
                    batch.is_control,
                    batch.commits,
                    [record.number for record in batch.records],
                )
                for batch in replica.batches
            ]
    for (topic, partition), different in contents.items():
        found[f"different replicas of {topic}-{partition}"] = len(different)
    return found


def differences(schedule: Schedule, *worlds: World) -> list[str]:
    """Every fact that is not the same in both worlds, a line each; also a fault that fired in neither."""
    names = [world.name for world in worlds]
    one, other = (facts(schedule, world.chronicle) for world in worlds)
    lines = [
        f"{what}: {one.get(what)!r} in {names[0]}, {other.get(what)!r} in {names[1]}"
        for what in dict.fromkeys((*one, *other))
        if one.get(what) != other.get(what)
    ]
    return lines + [f"{what} in neither" for what in one if what.endswith(" fired") and not one[what]]
