"""Offsets of many partitions (ListOffsets): one request to each leader for each question, all at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ottla.client.admin_driver import LEADER_PATIENCE_MS, AdminDriver, left_out, unanswered
from ottla.errors import OttlaError
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.reader.offset_request import CLIENT, OF_LOG, AskedOffset, list_offsets_request, told_offsets

Place = tuple[str, int]
"""(topic, partition)"""


class OffsetQuestion(NamedTuple):
    """`timestamps`: {(topic, partition): ms since 1970, -1 for the end or -2 for the beginning}.

    With `read_committed` the end is the last stable offset, with `of_log` the leader's log end offset, else the high
    watermark. A time behind the last record gives -1.
    """

    timestamps: Mapping[Place, int]
    read_committed: bool
    of_log: bool = False


class Wanted(NamedTuple):
    """One question about all partitions, as in `OffsetQuestion`."""

    timestamp: int
    read_committed: bool = False
    of_log: bool = False


def partition_offsets(driver: AdminDriver, leaders: Mapping[Place, int], *wanted: Wanted) -> list[dict[Place, int]]:
    """For each question {(topic, partition): offset}; `leaders` is {(topic, partition): broker id}.

    For showing a cluster as it is: partitions whose leader does not answer are left out, and nothing is tried again.
    `OffsetLookup` is for callers that need all offsets: it waits for leaders that move.
    """
    known = {place: (leader_id, -1) for place, leader_id in leaders.items()}
    questions = [
        OffsetQuestion(dict.fromkeys(leaders, each.timestamp), each.read_committed, each.of_log) for each in wanted
    ]
    return list_offsets(driver, known, questions, LEADER_PATIENCE_MS)[0]


def list_offsets(
    driver: AdminDriver,
    leaders: Mapping[Place, tuple[int, int]],
    questions: Sequence[OffsetQuestion],
    timeout_ms: int,
) -> tuple[list[dict[Place, int]], OttlaError | None]:
    """For each question {(topic, partition): offset}, and the last reason why one is missing; None where none is.

    `leaders`: {(topic, partition): (broker id or -1, leader epoch or -1)}.
    """
    last_error: OttlaError | None = None
    numbers: list[int] = []
    asked: list[tuple[Any, int]] = []
    for number, question in enumerate(questions):
        by_leader: dict[int, list[AskedOffset]] = {}
        for (topic, partition), timestamp in question.timestamps.items():
            leader_id, leader_epoch = leaders[topic, partition]
            if leader_id < 0:
                last_error = kafka_error(ErrorCode.LEADER_NOT_AVAILABLE, topic=topic, partition=partition)
                continue
            of_leader = by_leader.setdefault(leader_id, [])
            of_leader.append(AskedOffset(topic, partition, leader_epoch, timestamp))
        for leader_id, of_leader in by_leader.items():
            replica_id = OF_LOG if question.of_log else CLIENT
            numbers.append(number)
            asked.append((list_offsets_request(of_leader, int(question.read_committed), replica_id), leader_id))
    found: list[dict[Place, int]] = [{} for _ in questions]
    for number, (request, leader_id), answer in zip(numbers, asked, driver.ask_all(asked, timeout_ms), strict=True):
        if answer is None or answer.message is None:
            last_error = unanswered("ListOffsets", answer, leader_id)
            continue
        parts = told_offsets(answer.message)
        for place in ((topic.name, part.partition_index) for topic in request.topics for part in topic.partitions):
            told = parts.get(place)
            if told is None:
                last_error = left_out(
                    f"the offset of {place[0]}-{place[1]}", answer, topic=place[0], partition=place[1]
                )
            elif told.error_code:
                last_error = kafka_error(told.error_code, topic=place[0], partition=place[1], broker_id=leader_id)
            else:
                found[number][place] = told.offset
    return found, last_error
