"""Produce requests that a fault has refused: what is left of them to be forwarded, and what is answered.

A refusal is about some partitions of a request; the others are appended as ever. What comes back of them and what is
refused here leaves as one answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

from ottla.faults.plan import Action
from ottla.protocol.frames import encode_request
from ottla.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.proxy.request import Request

_TOLD = "refused by the fault plan"
_LENGTH_BYTES = 4

_Names = Mapping[bytes, str]
_Pairs = tuple[tuple[str, int], ...]


def _name_of(topic: Any, names: _Names) -> str:
    name: str = topic.name
    return name or names.get(topic.topic_id, "")


def take_out(message: ProduceRequest, refused: _Pairs, names: _Names) -> ProduceRequest | None:
    """The request without the refused partitions: itself where none is in it, None where nothing is left."""
    topics = []
    count = 0
    for topic in message.topic_data:
        name = _name_of(topic, names)
        kept = [data for data in topic.partition_data if (name, data.index) not in refused]
        count += len(topic.partition_data) - len(kept)
        if kept:
            left = copy(topic)
            left.partition_data = kept
            topics.append(left)
    if not count:
        return message
    if not topics:
        return None
    request = copy(message)
    request.topic_data = topics
    return request


def frame_of(request: Request, message: ProduceRequest) -> memoryview:
    """The frame of what is left, without its length."""
    chunks = encode_request(request.correlation_id, request.client_id, message, request.version)
    return memoryview(b"".join(bytes(chunk) for chunk in chunks))[_LENGTH_BYTES:]


def answer(message: ProduceRequest, action: Action, names: _Names) -> ProduceResponse:
    """What is answered where every partition was refused."""
    response = ProduceResponse()
    add_refused(response, message, action, names)
    return response


def add_refused(response: ProduceResponse, message: ProduceRequest, action: Action, names: _Names) -> None:
    """Put what was refused of a request into the answer to the rest of it."""
    answered = {(topic.name, topic.topic_id): topic for topic in response.responses}
    for topic in message.topic_data:
        name = _name_of(topic, names)
        for data in topic.partition_data:
            if (name, data.index) not in action.partitions:
                continue
            key = topic.name, topic.topic_id
            if key not in answered:
                answered[key] = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[])
                response.responses.append(answered[key])
            refused = PartitionProduceResponse(index=data.index)
            _fail(refused, action.error)
            answered[key].partition_responses.append(refused)


def stored(response: ProduceResponse | None, names: _Names) -> _Pairs | None:
    """The partitions whose records upstream has stored; None where that cannot be read."""
    if response is None:
        return None
    return tuple(
        (_name_of(topic, names), each.index)
        for topic in response.responses
        for each in topic.partition_responses
        if not each.error_code
    )


def change_outcome(response: ProduceResponse, action: Action, names: _Names) -> bool:
    """Put an error in place of the success of these partitions, whose records are stored; whether there was one."""
    is_changed = False
    for topic in response.responses:
        name = _name_of(topic, names)
        for each in topic.partition_responses:
            if (name, each.index) in action.partitions and not each.error_code:
                _fail(each, action.error)
                is_changed = True
    return is_changed


def _fail(outcome: PartitionProduceResponse, error_code: int) -> None:
    outcome.error_code = error_code
    outcome.base_offset = -1
    outcome.log_append_time_ms = -1
    outcome.log_start_offset = -1
    outcome.error_message = _TOLD
