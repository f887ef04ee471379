"""Offsets of many partitions, each leader asked once: what is not told now is left out, and nobody is waited for.

For who shows a cluster as it is. `OffsetLookup` is for who needs the offsets, and waits for leaders that move.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.admin_driver import LEADER_PATIENCE_MS, AdminDriver
from ottla.client.offset_lookup import Place
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic


class Wanted(NamedTuple):
    """One question: `timestamp` in ms since 1970, -1 for the end or -2 for the beginning."""

    timestamp: int
    read_committed: bool = False


def partition_offsets(driver: AdminDriver, leaders: Mapping[Place, int], *wanted: Wanted) -> list[dict[Place, int]]:
    """For each question {(topic, partition): offset} of those whose leaders, {(topic, partition): broker id}, answer.

    With `read_committed` the end is the last stable offset. A time behind the last record gives -1.
    """
    by_leader: dict[int, dict[str, list[int]]] = {}
    for (topic, partition), leader in leaders.items():
        by_leader.setdefault(leader, {}).setdefault(topic, []).append(partition)
    asked = [
        (
            ListOffsetsRequest(
                replica_id=-1,
                isolation_level=int(question.read_committed),
                topics=[
                    ListOffsetsTopic(
                        name=name,
                        partitions=[
                            ListOffsetsPartition(
                                partition_index=each, current_leader_epoch=-1, timestamp=question.timestamp
                            )
                            for each in partitions
                        ],
                    )
                    for name, partitions in topics.items()
                ],
            ),
            leader,
        )
        for question in wanted
        for leader, topics in by_leader.items()
    ]
    found: list[dict[Place, int]] = [{} for _ in wanted]
    for number, answer in enumerate(driver.ask_all(asked, LEADER_PATIENCE_MS)):
        if answer is None or answer.message is None:
            continue
        of_question = found[number // len(by_leader)]
        for topic in answer.message.topics:
            for part in topic.partitions:
                if not part.error_code:
                    of_question[topic.name, part.partition_index] = part.offset
    return found
