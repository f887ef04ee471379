"""DeleteTopics, versions 1 to 6: passed on to the controller; the topics are gone everywhere when it is answered.

Topics are named, or from version 6 on given by topic id. Where the controller cannot be reached every topic gets
NOT_CONTROLLER, which clients retry.
"""

from __future__ import annotations

from typing import Any

from ottla.broker.apis.port import BrokerPort
from ottla.broker.request import Request
from ottla.broker.topic_ids import topics_asked
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Pass the request on."""
    broker.pass_on(request, unreachable)


def unreachable(message: DeleteTopicsRequest) -> Any:
    """The answer where there is no controller."""
    responses = [
        DeletableTopicResult(name=name, topic_id=topic_id, error_code=ErrorCode.NOT_CONTROLLER)
        for name, topic_id in topics_asked(message)
    ]
    return DeleteTopicsResponse(responses=responses)
