"""A broker's requests as they come in, one at a time from each connection, and their answers as they go out.

A request in a version that is not supported ends its connection (ApiVersions is answered, KIP-511). Before `handle`
gets a request, its topic ids become names, and the fault plan decides. The handler answers it once, at once or later;
then the next request of its connection is handled. Fetches that wait and have news are attempted again between two
requests, never within one.

Followers' fetches come the same way, but no fault applies to them, and their versions are not limited to those in
ApiVersions.
"""

from __future__ import annotations

from typing import Any, Protocol

from ottla.broker.apis import VERSIONS
from ottla.broker.connections import Connections
from ottla.broker.events import RequestReceived
from ottla.broker.fetch_sessions import CONSUMER, FetchSessions, follower_id
from ottla.broker.metrics import FOLLOWER_FETCH, BrokerMetrics
from ottla.broker.request import Request
from ottla.broker.request_faults import Handle, RequestFaults
from ottla.broker.spoken_versions import unsupported_version_response
from ottla.broker.topic_ids import FROM_VERSION as TOPIC_IDS_FROM_VERSION
from ottla.broker.topic_ids import TopicIds
from ottla.protocol.messages import API_VERSIONS, FETCH, PRODUCE


class Waiting(Protocol):
    """A request that waits for news."""

    def attempt(self, now_us: int) -> bool:
        """There may be some: answer if there is enough; True where it is answered."""
        ...


class RequestChannel:
    """The request channel of one broker; `handle` handles a request that has come in."""

    __slots__ = ("_connections", "_faults", "_fetch_sessions", "_handle", "_metrics", "_topic_ids", "_woken")

    def __init__(
        self,
        connections: Connections,
        faults: RequestFaults,
        metrics: BrokerMetrics,
        topic_ids: TopicIds,
        fetch_sessions: FetchSessions,
        handle: Handle,
    ) -> None:
        self._connections = connections
        self._faults = faults
        self._metrics = metrics
        self._topic_ids = topic_ids
        self._fetch_sessions = fetch_sessions
        self._handle = handle
        self._woken: dict[Waiting, None] = {}

    def receive(self, event: RequestReceived, now_us: int) -> None:
        """A request has come: handle it, unless one in front of it on its connection is not answered yet."""
        if self._connections.arrived(event):
            self._come_in(event, now_us)

    def step(self, now_us: int) -> bool:
        """Do one thing that the last one set in motion; False where there is nothing to do.

        Fetches with news come first, then a request whose turn has come.
        """
        if self._woken:
            woken, self._woken = self._woken, {}
            for waiting in woken:
                waiting.attempt(now_us)
            return True
        event = self._connections.next_due()
        if event is None:
            return False
        self._come_in(event, now_us)
        return True

    def wake(self, waiting: Waiting) -> None:
        """Attempt it again once the present request or event is done."""
        self._woken[waiting] = None

    def answer(self, request: Request, message: Any, now_us: int) -> None:
        """Send a request's answer, or do to it what the fault plan says."""
        if request.context is not None:
            self._faults.handled(request, None, now_us)
        if request.after is not None and self._faults.instead_of_answer(request, message, now_us):
            return
        self._connections.send(request, message if request.expects_answer else None)

    def records_stored(self, request: Request, stored: tuple[tuple[str, int], ...], now_us: int) -> None:
        """The records of a request are in the log of these partitions: the fault plan decides what happens now."""
        self._faults.handled(request, stored, now_us)

    def _come_in(self, event: RequestReceived, now_us: int) -> None:
        request = Request(event)
        message = event.message
        api_key = message.API_KEY
        from_peer = api_key == FETCH and follower_id(message) != CONSUMER
        self._metrics.requested(FOLLOWER_FETCH if from_peer else api_key, event.size)
        lowest, highest = VERSIONS.get(api_key, (0, -1))
        if not (lowest <= event.version <= highest or from_peer):
            if api_key == API_VERSIONS:
                request.version = 0
                self._connections.send(request, unsupported_version_response())
                return
            reason = f"API {api_key} version {event.version} is not supported"
            self._connections.hang_up(event.connection_id, reason)
            return
        if event.version >= TOPIC_IDS_FROM_VERSION and api_key in (PRODUCE, FETCH) and not from_peer:
            if api_key == PRODUCE:
                self._topic_ids.name_all(message.topic_data, "name")
            else:
                self._topic_ids.name_all(message.topics, "topic")
        if api_key == PRODUCE and message.acks == 0:
            request.expects_answer = False
        if not from_peer and self._faults.plan.active:
            session = self._fetch_sessions.of(message) if api_key == FETCH else None
            if self._faults.before(request, session, now_us):
                return
        self._handle(request, now_us)
