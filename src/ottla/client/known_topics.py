"""What a producer knows of its topics: partition counts, the load of partitions (for records without a key), leaders.

The I/O thread writes the core's outputs here (`perform`) and gives the appender what that needs. Users' threads read,
and wait elsewhere (`wants.py`) for what is not known yet. Waiting for a topic that does not exist is logged once.
"""

from __future__ import annotations

import logging

from ottla.errors import KafkaError, shown_name
from ottla.producer.cluster_view import ClusterView
from ottla.producer.events import LoadKnown, TopicForgotten, TopicKnown
from ottla.protocol.error_codes import ErrorCode
from ottla.records.append import Appender
from ottla.records.partitions import PartitionLoad

_log = logging.getLogger("ottla.producer")

# A topic that was just created is often unknown in the first answers: the third error is the first one logged.
_REFUSALS_UNTIL_LOGGED = 3


class KnownTopics:
    """The topics of one producer."""

    __slots__ = ("_appender", "_client_id", "_known", "_loads", "_refusals", "_views")

    def __init__(self, appender: Appender, client_id: str) -> None:
        self._appender = appender
        self._client_id = client_id
        self._known: dict[str, TopicKnown] = {}
        self._loads: dict[str, PartitionLoad | None] = {}
        self._views: dict[str, ClusterView] = {}
        # How many answers in a row had a retriable error for a topic.
        self._refusals: dict[str, int] = {}

    # ---- users' threads ---------------------------------------------------------------------------------------------

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic has; 0 while that is not known."""
        known = self._known.get(topic)
        return 0 if known is None else known.partition_count

    def is_answered(self, topic: str) -> bool:
        """Whether the topic's partitions are known, or the answer was an error that is not retriable."""
        known = self._known.get(topic)
        if known is None:
            return False
        return known.partition_count > 0 or (known.error is not None and not known.error.retriable)

    def refusal(self, topic: str, waited_ms: int) -> KafkaError | None:
        """The error that brokers gave for the topic; None where they gave none."""
        known = self._known.get(topic)
        if known is None or known.error is None:
            return None
        error = known.error
        told = f"topic {shown_name(topic)}: {error}"
        if error.retriable:
            told = (
                f"topic {shown_name(topic)} could not be used within max.block.ms ({waited_ms} ms): {error}; "
                "create it first, or check its name"
            )
        return KafkaError(error.code, error.name, told, retriable=error.retriable, fatal=error.fatal, topic=topic)

    def view(self, topic: str) -> ClusterView | None:
        """The topic's partitions as the user's partitioner sees them."""
        return self._views.get(topic)

    def load(self, topic: str) -> PartitionLoad | None:
        """The load of the topic's partitions, for records without a key; None: all partitions get as many."""
        return self._loads.get(topic)

    # ---- the I/O thread ---------------------------------------------------------------------------------------------

    def perform(self, output: TopicKnown | TopicForgotten | ClusterView | LoadKnown) -> None:
        """Keep what the core knows now of a topic."""
        topic = output.topic
        if isinstance(output, TopicKnown):
            if output.partition_count or not self.partition_count(topic):
                self._known[topic] = output
            if output.partition_count:
                self._refusals.pop(topic, None)
                self._appender.set_topic(topic, output.partition_count)
            elif output.error is not None and output.error.retriable:
                self._refused(topic, output.error)
        elif isinstance(output, TopicForgotten):
            # `_known` first: a thread that finds no view waits for the topic.
            self._known.pop(topic, None)
            self._refusals.pop(topic, None)
            self._views.pop(topic, None)
            self._loads.pop(topic, None)
            self._appender.forget_topic(topic)
        elif isinstance(output, ClusterView):
            self._views[topic] = output
        else:
            self._loads[topic] = output.load
            self._appender.set_load(topic, output.load)

    def _refused(self, topic: str, error: KafkaError) -> None:
        """Count a retriable error, and log once that the producer waits for the topic."""
        if self.partition_count(topic):
            return  # no call waits: the partitions are known from before
        count = self._refusals.get(topic, 0) + 1
        self._refusals[topic] = count
        if count == _REFUSALS_UNTIL_LOGGED:
            what_to_do = "; create it, or check its name" if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else ""
            _log.warning(
                "%s: waiting for topic %s, up to max.block.ms: %s%s",
                self._client_id,
                shown_name(topic),
                error,
                what_to_do,
            )
