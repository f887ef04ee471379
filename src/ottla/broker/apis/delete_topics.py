"""DeleteTopics, versions 1 to 6: passed on to the controller; the topics are gone everywhere when it is answered.

Topics are named, or from version 6 on given by topic id. Where the controller cannot be reached every topic gets
NOT_CONTROLLER, which clients ask again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

if TYPE_CHECKING:
    from ottla.broker.core import BrokerCore


def handle(core: BrokerCore, request: Request, now_us: int) -> None:
    """Pass the request on."""
    core.ask_controller(request, unreachable)


def unreachable(message: DeleteTopicsRequest) -> Any:
    """The answer where there is no controller."""
    responses = [
        DeletableTopicResult(name=name, topic_id=topic_id, error_code=ErrorCode.NOT_CONTROLLER)
        for name, topic_id in topics_asked(message)
    ]
    return DeleteTopicsResponse(responses=responses)


def topics_asked(message: DeleteTopicsRequest) -> list[tuple[str | None, bytes]]:
    """(name, topic id) of the topics to delete; one of the two is given."""
    asked: list[tuple[str | None, bytes]] = [(name, ZERO_UUID) for name in message.topic_names]
    asked += [(topic.name, topic.topic_id) for topic in message.topics]
    return asked
