"""CreateTopics, versions 2 to 7: passed on to the controller; the topics exist everywhere when it is answered.

The controller's decisions and errors are in `ottla.broker.controller.topics`. Where it cannot be reached every topic
gets NOT_CONTROLLER, which clients retry.
"""

from __future__ import annotations

from typing import Any

from ottla.broker.apis.port import BrokerPort
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Pass the request on."""
    broker.pass_on(request, unreachable)


def unreachable(message: CreateTopicsRequest) -> Any:
    """The answer where there is no controller."""
    detail = "the controller cannot be reached"
    topics = [
        CreatableTopicResult(name=topic.name, error_code=ErrorCode.NOT_CONTROLLER, error_message=detail)
        for topic in message.topics
    ]
    return CreateTopicsResponse(topics=topics)
