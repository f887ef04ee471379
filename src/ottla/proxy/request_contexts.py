"""What a fault plan is told of a client's requests: the API, the partitions that they are about, and the broker.

A Fetch is about all partitions of its session (KIP-227), most of which it does not name. So the session of a connection
is followed from its first request on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.faults.plan import FaultContext, fault_context
from ottla.protocol.messages import FETCH
from ottla.proxy.request import WITH_PARTITIONS, Request


class RequestContexts:
    """Of one connection. `topic_names`: what is known of topic ids, which grows."""

    __slots__ = ("_session", "_topic_names")

    def __init__(self, topic_names: Mapping[bytes, str]) -> None:
        self._topic_names = topic_names
        # Partitions of the fetch session, which later requests do not name.
        self._session: dict[tuple[str, int], None] = {}

    def context_of(self, request: Request, broker_id: int) -> tuple[FaultContext, str | None]:
        """What the plan is told of a request, and what cannot be seen of it, in a sentence; None where all can."""
        message = request.message
        if message is None:
            context = FaultContext(request.api, (), broker_id)
            if request.api_key in WITH_PARTITIONS:
                return context, f"{request.api} version {request.version}: its partitions cannot be read"
            return context, None
        is_fetch = request.api_key == FETCH
        if is_fetch:
            self._follow_session(message)
        context = fault_context(message, broker_id, self._session if is_fetch else (), self._topic_names)
        if any(not topic for topic, _ in context.partitions):
            return context, f"{request.api} names a topic by an id that no Metadata has explained here"
        return context, None

    def _follow_session(self, message: Any) -> None:
        """Epochs 0 and -1 begin a session without any partitions."""
        names = self._topic_names
        if message.session_epoch <= 0:
            self._session = {}
        for forgotten in message.forgotten_topics_data:
            topic = forgotten.topic or names.get(forgotten.topic_id, "")
            for index in forgotten.partitions:
                self._session.pop((topic, index), None)
        for wanted in message.topics:
            topic = wanted.topic or names.get(wanted.topic_id, "")
            self._session.update(dict.fromkeys((topic, each.partition) for each in wanted.partitions))
