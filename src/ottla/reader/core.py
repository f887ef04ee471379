"""The reader's decisions: which offsets to read between, which broker to ask, how far to read ahead.

Every assigned partition has a `Position`. While its offsets are missing, the leader is asked for them (ListOffsets);
then it is fetched. There is one Fetch per node at a time, for all positions there that have room: the next answer comes
while the user works on the last one. Positions that got records go to the end of the next request, because an answer's
size is bounded and the first ones fill it. Fetch sessions (KIP-227) are not used: with one request for whole megabytes
they save nothing.

A retriable error (such as a leader that moved) is tried again after a pause, with new metadata. A position that cannot
go on for `default.api.timeout.ms` fails with the last reason. If a Fetch answer names the new leader (KIP-951), that is
used.

A new leader's log may lack records that were read already. So every position keeps the leader epoch of the last record
read, and of the start and end offsets that a leader gave it. Before the first Fetch to a new leader, the reader asks
where these epochs end in the leader's log (OffsetForLeaderEpoch); each Fetch also has the last epoch. If the log was
truncated, the position fails with `LogTruncated`: reading on would skip records, or give other records for offsets
already read. Brokers before Kafka 2.3 cannot be asked; their logs are not checked.

With `client.rack` a leader may answer with the id of a replica nearby in place of records (KIP-392). The position is
then fetched from there, for `metadata.max.age.ms` or until the leader changes; offsets and epochs are still asked of
the leader. If the replica answers with an error, cannot be reached or is no longer in the metadata, the position goes
back to the leader. Its requests then have no rack for `metadata.max.age.ms`, so the leader sends the records itself.

Invariants: `Fetched` buffers hold whole batches only, in offset order per partition, without gaps or repetitions;
`Positioned` comes before the first `Fetched`; if a position ends, its last output is one `Finished` or `ReadFailed`.
KIPs: 74 (size bounds), 98 (isolation), 207 (OFFSET_NOT_AVAILABLE), 320 (truncated logs), 392 (nearest replica), 595
(diverging epochs), 951.

The file is long because the three kinds of requests (offsets, epochs, records) depend on each other's answers.
"""

from __future__ import annotations

from random import Random
from typing import Any

from ottla.connection.core import ConnectionCore
from ottla.connection.request import Answer
from ottla.errors import OttlaError, Unreachable
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.reader.events import (
    Assign,
    AssignTopic,
    Consumed,
    Fetched,
    Finished,
    Positioned,
    ReadFailed,
    TopicAssigned,
)
from ottla.reader.failures import made_anew, no_whole_batch, out_of_range, topic_error, truncated
from ottla.reader.offset_request import AskedOffset, list_offsets_request, told_offsets
from ottla.reader.position import Position, PositionEvent, PositionState
from ottla.reader.settings import ReaderSettings
from ottla.records.batch_header import CorruptBatch
from ottla.records.decode_columns import whole_batches

# It takes a moment until all brokers know a new topic; a topic that is unknown for longer does not exist.
_MISSING_TOPIC_PATIENCE_US = 2_000_000

# Older versions of OffsetForLeaderEpoch are for followers only; older ones of Fetch have no last epoch.
_EPOCHS_TOLD_FROM_VERSION = 3
_EPOCH_FETCHED_FROM_VERSION = 12
# From here on Fetch has topic ids in place of names (KIP-516): a topic that was made anew is not taken for the old one.
_BY_ID_FROM_VERSION = 13


class ReaderCore:
    """Reads assigned partitions; time and randomness are arguments."""

    def __init__(self, settings: ReaderSettings, rng: Random) -> None:
        self.connection = ConnectionCore(settings.connection, rng)
        self.addresses = self.connection.addresses
        self._settings = settings
        self._nearest_us = settings.connection.metadata_max_age_ms * 1000
        self._isolation_level = 1 if settings.read_committed else 0
        self._positions: dict[tuple[str, int], Position] = {}
        # Positions that are not over; those that got records least recently come first.
        self._open: list[Position] = []
        self._topics: dict[str, _WantedTopic] = {}
        self._fetching: dict[int, bool] = {}
        self._outputs: list[Any] = []

    # ---- the surface every core has -----------------------------------------------------------------------------

    def receive(self, event: Any, now_us: int) -> None:
        """Take in an event of `reader.events` or `connection.events`."""
        if isinstance(event, Assign):
            self._assign(event, now_us)
        elif isinstance(event, AssignTopic):
            self._topics[event.topic] = _WantedTopic(event, now_us)
            self.connection.want_topic(event.topic, now_us)
        elif isinstance(event, Consumed):
            position = self._positions.get((event.topic, event.partition))
            if position is not None:
                position.buffered_bytes -= event.size
        else:
            self.connection.receive(event, now_us)
        self._advance(now_us)

    def outputs(self) -> list[Any]:
        """Return what the driver must now do, in order; each output is returned once."""
        outputs = self.connection.outputs()
        if self._outputs:
            outputs = [*outputs, *self._outputs]
            self._outputs = []
        return outputs

    def deadline_us(self) -> int | None:
        """Return when `tick` must be called at the latest, None when nothing is waited for."""
        earliest = self.connection.deadline_us()
        timeout_us = self._settings.default_api_timeout_ms * 1000
        for position in self._open:
            if position.stuck_since_us is None:
                continue
            due = position.stuck_since_us + timeout_us
            if position.not_before_us and not position.in_flight:
                due = min(due, position.not_before_us)
            if earliest is None or due < earliest:
                earliest = due
        for wanted in self._topics.values():
            due = wanted.since_us + timeout_us
            if wanted.missing_since_us is not None:
                due = min(due, wanted.missing_since_us + _MISSING_TOPIC_PATIENCE_US)
            if earliest is None or due < earliest:
                earliest = due
        return earliest

    def tick(self, now_us: int) -> None:
        """Let time pass: timeouts and the end of pauses."""
        self.connection.tick(now_us)
        self._advance(now_us)

    # ---- assignments --------------------------------------------------------------------------------------------

    def _assign(self, event: Assign, now_us: int) -> None:
        key = (event.topic, event.partition)
        known = self._positions.get(key)
        if known is not None and not known.is_over:
            return
        position = Position(
            event.topic, event.partition, event.start, event.end, event.start_is_timestamp, event.topic_id
        )
        self._positions[key] = position
        self._open.append(position)
        self.connection.want_topic(event.topic, now_us)

    def _expand_topics(self, now_us: int) -> None:
        for name, wanted in list(self._topics.items()):
            known = self.connection.metadata.topics.get(name)
            if known is not None and not known.error_code and known.partitions:
                del self._topics[name]
                self._outputs.append(TopicAssigned(name, len(known.partitions)))
                event = wanted.event
                for partition in known.partitions:
                    self._assign(Assign(name, partition, event.start, event.end, event.start_is_timestamp), now_us)
                continue
            error = self._topic_error(wanted, known, now_us)
            if error is not None:
                del self._topics[name]
                self._outputs.append(ReadFailed(name, -1, error))
            elif known is not None:
                self.connection.want_topic(name, now_us)

    def _topic_error(self, wanted: _WantedTopic, known: Any, now_us: int) -> OttlaError | None:
        """The error by which waiting for a topic ends; None while it goes on."""
        name = wanted.event.topic
        if known is not None and known.error_code:
            if wanted.missing_since_us is None:
                wanted.missing_since_us = now_us
            error = topic_error(name, known.error_code)
            if not error.retriable or now_us >= wanted.missing_since_us + _MISSING_TOPIC_PATIENCE_US:
                return error
        refused = self.connection.refused(now_us)
        if refused is not None:
            return refused
        if now_us >= wanted.since_us + self._settings.default_api_timeout_ms * 1000:
            return self.connection.reach_error() or Unreachable(
                f"the partitions of topic {name!r} could not be learned", topic=name
            )
        return None

    # ---- requests -----------------------------------------------------------------------------------------------

    def _advance(self, now_us: int) -> None:
        """Take in what was answered, then ask for what is missing."""
        while True:
            answers = self.connection.take_answers()
            for answer in answers:
                self._on_answer(answer, now_us)
            if self._topics:
                self._expand_topics(now_us)
            self._ask(now_us)
            if not answers:
                break
        still_open = [position for position in self._open if not position.is_over]
        if len(still_open) < len(self._open):
            self._open = still_open

    def _ask(self, now_us: int) -> None:
        questions: dict[int, list[Position]] = {}
        checks: dict[int, list[Position]] = {}
        fetches: dict[int, list[Position]] = {}
        room_bytes = self._settings.prefetch_max_bytes // max(1, len(self._open))
        for position in self._open:
            if position.in_flight or position.is_over:
                continue
            if self._gives_up(position, now_us) or position.not_before_us > now_us:
                continue
            # The pause is over. From here on it waits for events (a connection, an answer) and needs no deadline.
            position.not_before_us = 0
            if position.state is PositionState.LOCATING and position.asks_for() is None:
                self._located(position)
            reading = position.state is PositionState.READING
            if position.is_over or (reading and position.buffered_bytes > room_bytes):
                continue
            if reading and position.nearest >= 0 and self._keeps_nearest(position, now_us):
                if self.connection.can_send(position.nearest, now_us):
                    fetches.setdefault(position.nearest, []).append(position)
                continue
            node_id = self._reachable_leader(position, now_us)
            if node_id is None:
                continue
            if reading and self._is_in_doubt(position, node_id):
                position.begin_check()
            if position.state is PositionState.LOCATING:
                questions.setdefault(node_id, []).append(position)
            elif position.state is PositionState.VALIDATING:
                checks.setdefault(node_id, []).append(position)
            else:
                fetches.setdefault(node_id, []).append(position)
        for node_id, positions in questions.items():
            self._list_offsets(node_id, positions, now_us)
        for node_id, positions in checks.items():
            self._validate(node_id, positions, now_us)
        for node_id, positions in fetches.items():
            if not self._fetching.get(node_id):
                self._fetch(node_id, positions, now_us)

    def _keeps_nearest(self, position: Position, now_us: int) -> bool:
        """Whether to go on reading from the replica that the leader named."""
        connection, node_id = self.connection, position.nearest
        epoch = connection.metadata.leader_epoch(position.topic, position.partition)
        if now_us >= position.nearest_until_us or epoch != position.checked_epoch:
            position.nearest = -1
            return False
        if node_id not in connection.metadata.brokers or connection.why_not(node_id) is not None:
            self._leave_nearest(position, now_us)
            return False
        return True

    def _leave_nearest(self, position: Position, now_us: int) -> None:
        """Go back to the leader, and send it no rack for a while: the replica's problem may last."""
        position.nearest = -1
        position.shuns_nearest_until_us = now_us + self._nearest_us
        self.connection.refresh_metadata(now_us)

    def _reachable_leader(self, position: Position, now_us: int) -> int | None:
        """The leader's node id if a request can be sent now; else None, and the position is stuck or failed."""
        topic, partition = position.topic, position.partition
        if position.topic_id and self._is_made_anew(position):
            self._fail(position, made_anew(position))
            return None
        node_id = self.connection.leader(topic, partition)
        if node_id is not None:
            if self.connection.can_send(node_id, now_us):
                return node_id
            why = self.connection.why_not(node_id)
            told = "cannot be reached" if why is None else f"at {why}"
            position.is_stuck(f"the leader, broker {node_id}, {told}", now_us)
            return None
        known = self.connection.metadata.topics.get(topic)
        if known is not None and not known.error_code and partition not in known.partitions:
            count = len(known.partitions)
            self._fail(
                position,
                kafka_error(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"the topic has {count} partitions, numbered from 0",
                    topic=topic,
                    partition=partition,
                ),
            )
        elif known is not None and known.error_code:
            position.is_stuck("", now_us)
            error = topic_error(topic, known.error_code, partition)
            waited_us = now_us - (now_us if position.stuck_since_us is None else position.stuck_since_us)
            if not error.retriable or waited_us >= _MISSING_TOPIC_PATIENCE_US:
                self._fail(position, error)
            else:
                self._pause(position, str(error), now_us)
                self.connection.want_topic(topic, now_us)
        else:
            position.is_stuck("its leader is not known", now_us)
            self.connection.want_topic(topic, now_us)
        return None

    def _is_made_anew(self, position: Position) -> bool:
        """Whether the topic of this name has another id than the one to be read; False without ids in the cluster."""
        known = self.connection.metadata.topics.get(position.topic)
        return known is not None and any(known.topic_id) and known.topic_id != position.topic_id

    def _is_in_doubt(self, position: Position, node_id: int) -> bool:
        """Whether this leader must first be asked about its log; if it cannot be, count it as checked."""
        epoch = self.connection.metadata.leader_epoch(position.topic, position.partition)
        if epoch < 0 or epoch == position.checked_epoch:
            return False
        if position.checked_epoch >= 0 and position.has_claims:
            version = self.connection.highest_version(node_id, OffsetForLeaderEpochRequest.API_KEY)
            if version >= _EPOCHS_TOLD_FROM_VERSION:
                return True
        position.checked_epoch = epoch
        return False

    def _gives_up(self, position: Position, now_us: int) -> bool:
        timeout_ms = self._settings.default_api_timeout_ms
        refused = self.connection.refused(now_us)
        if refused is not None:
            self._fail(position, refused)
            return True
        if position.stuck_since_us is None or now_us < position.stuck_since_us + timeout_ms * 1000:
            return False
        error = self.connection.reach_error()
        self._fail(
            position,
            error
            or Unreachable(
                f"{position.topic}-{position.partition} could not be read for {timeout_ms} ms: {position.stuck_reason}",
                topic=position.topic,
                partition=position.partition,
                broker_id=self.connection.leader(position.topic, position.partition),
            ),
        )
        return True

    def _list_offsets(self, node_id: int, positions: list[Position], now_us: int) -> None:
        asked = [
            AskedOffset(position.topic, position.partition, self._begin_request(position), position.asks_for() or 0)
            for position in positions
        ]
        request = list_offsets_request(asked, self._isolation_level)
        self.connection.request(node_id, request, _Asked(positions, is_fetch=False), now_us)

    def _begin_request(self, position: Position) -> int:
        """Note that a request about the position is under way; return the epoch of the leader that it is for."""
        position.in_flight = True
        position.asked_epoch = self.connection.metadata.leader_epoch(position.topic, position.partition)
        return position.asked_epoch

    def _validate(self, node_id: int, positions: list[Position], now_us: int) -> None:
        """Ask the leader where the positions' epochs end in its log."""
        topics: dict[str, OffsetForLeaderTopic] = {}
        for position in positions:
            topic = topics.setdefault(position.topic, OffsetForLeaderTopic(topic=position.topic))
            topic.partitions.append(
                OffsetForLeaderPartition(
                    partition=position.partition,
                    current_leader_epoch=self._begin_request(position),
                    leader_epoch=position.claim()[1],
                )
            )
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=list(topics.values()))
        self.connection.request(node_id, request, _Asked(positions, is_fetch=False), now_us)

    def _fetch(self, node_id: int, positions: list[Position], now_us: int) -> None:
        settings = self._settings
        version = self.connection.highest_version(node_id, FetchRequest.API_KEY)
        ids = self._ids_of(positions) if version >= _BY_ID_FROM_VERSION else {}
        topics: list[FetchTopic] = []
        named = ""
        for position in positions:
            # The broker fills the answer in the order of positions, so that is kept: only neighbours of one topic share
            # an entry, and a topic may have several.
            if position.topic != named:
                named = position.topic
                topics.append(FetchTopic(topic_id=ids[named]) if ids else FetchTopic(topic=named))
            topics[-1].partitions.append(
                FetchPartition(
                    partition=position.partition,
                    current_leader_epoch=self._begin_request(position),
                    fetch_offset=position.fetch_offset,
                    last_fetched_epoch=(
                        position.epoch if position.has_read and version >= _EPOCH_FETCHED_FROM_VERSION else -1
                    ),
                    partition_max_bytes=settings.max_partition_fetch_bytes,
                )
            )
        shuns = any(position.shuns_nearest_until_us > now_us for position in positions)
        request = FetchRequest(
            rack_id="" if shuns else settings.client_rack,
            max_wait_ms=settings.fetch_max_wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            isolation_level=self._isolation_level,
            topics=topics,
        )
        self._fetching[node_id] = True
        asked = _Asked(positions, is_fetch=True, ids=ids)
        by_id = min(version, FetchRequest.MAX_VERSION) if ids else -1
        self.connection.request(node_id, request, asked, now_us, True, by_id)

    def _ids_of(self, positions: list[Position]) -> dict[str, bytes]:
        """{topic: id}, the assigned id if there is one, else the metadata's; empty if one topic has none."""
        ids: dict[str, bytes] = {}
        for position in positions:
            known = self.connection.metadata.topics.get(position.topic)
            topic_id = position.topic_id or (b"" if known is None else known.topic_id)
            if not any(topic_id):
                return {}
            ids[position.topic] = topic_id
        return ids

    # ---- answers ------------------------------------------------------------------------------------------------

    def _on_answer(self, answer: Answer, now_us: int) -> None:
        asked: _Asked = answer.token
        node_id = answer.node_id
        broker_id = node_id if node_id is not None and node_id >= 0 else None
        if asked.is_fetch and node_id is not None:
            self._fetching[node_id] = False
        for position in asked.positions:
            position.in_flight = False
        if asked.is_fetch and (answer.message is None or answer.message.error_code):
            for position in asked.positions:
                if position.nearest == node_id:
                    self._leave_nearest(position, now_us)
        if answer.message is None:
            for position in asked.positions:
                self._pause(position, answer.failure or "the request was not answered", now_us)
        elif isinstance(answer.message, OffsetForLeaderEpochResponse):
            self._on_epoch_ends(answer.message, asked, broker_id, now_us)
        elif not asked.is_fetch:
            self._on_offsets(answer.message, asked, broker_id, now_us)
        elif answer.message.error_code:
            for position in asked.positions:
                self._on_error(position, answer.message.error_code, broker_id, now_us)
        else:
            self._on_fetched(answer.message, asked, broker_id, now_us)

    def _matched(self, asked: _Asked, told: dict[tuple[str, int], Any], now_us: int) -> list[tuple[Position, Any]]:
        """Each position of the request with its part of the answer; those that are left out are asked for again later.

        Parts that were not asked for are ignored.
        """
        matched = []
        for position in asked.positions:
            part = told.get((position.topic, position.partition))
            if part is not None:
                matched.append((position, part))
            elif not position.is_over:
                self._pause(position, "the broker's answer leaves out the partition", now_us)
        return matched

    def _on_offsets(self, response: Any, asked: _Asked, broker_id: int | None, now_us: int) -> None:
        for position, told in self._matched(asked, told_offsets(response), now_us):
            if told.error_code:
                self._on_error(position, told.error_code, broker_id, now_us)
            elif told.offset < 0 and not position.asks_by_time:
                self._pause(position, f"the broker's answer names offset {told.offset}", now_us)
            else:
                position.went_well()
                position.learn(told.offset, told.leader_epoch)
                if position.asks_for() is None:
                    self._located(position)

    def _on_epoch_ends(self, response: Any, asked: _Asked, broker_id: int | None, now_us: int) -> None:
        parts = {(topic.topic, part.partition): part for topic in response.topics for part in topic.partitions}
        for position, told in self._matched(asked, parts, now_us):
            if told.error_code:
                self._on_error(position, told.error_code, broker_id, now_us)
            elif position.is_kept_by(told.leader_epoch, told.end_offset):
                position.went_well()
                position.claim_kept()
            else:
                self._fail(position, truncated(position, told.end_offset, broker_id))

    def _located(self, position: Position) -> None:
        """Both offsets are known: output `Positioned`, and `Finished` if there is nothing between them."""
        assert position.start is not None
        position.move(PositionEvent.LOCATED)
        position.fetch_offset = position.start
        self._outputs.append(Positioned(position.topic, position.partition, position.start, position.end))
        self._finish_at_end(position)

    def _on_fetched(self, response: Any, asked: _Asked, broker_id: int | None, now_us: int) -> None:
        served: list[Position] = []
        # `_matched` keeps the order of the request, in which the broker filled the answer.
        names = {topic_id: name for name, topic_id in asked.ids.items()}
        parts = {
            (names.get(topic.topic_id, topic.topic), part.partition_index): part
            for topic in response.responses
            for part in topic.partitions
        }
        for position, told in self._matched(asked, parts, now_us):
            if position.is_over:
                continue
            diverging = told.diverging_epoch is not None and told.diverging_epoch.end_offset >= 0
            if position.nearest >= 0 and position.nearest == broker_id and (told.error_code or diverging):
                # The replica may lack records that the leader has: ask the leader.
                self._learn_leader(position, told)
                self._leave_nearest(position, now_us)
            elif told.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._fail(position, out_of_range(position, told, broker_id))
            elif told.error_code:
                self._learn_leader(position, told)
                self._on_error(position, told.error_code, broker_id, now_us)
            elif diverging:
                assert told.diverging_epoch is not None
                self._fail(position, truncated(position, told.diverging_epoch.end_offset, broker_id))
            else:
                position.went_well()
                if told.preferred_read_replica >= 0 and not told.records:
                    position.nearest = told.preferred_read_replica
                    position.nearest_until_us = now_us + self._nearest_us
                if self._take_records(position, told, broker_id):
                    served.append(position)
        if served and len(asked.positions) > 1:
            self._open = [p for p in self._open if p not in served] + served

    def _take_records(self, position: Position, told: PartitionData, broker_id: int | None) -> bool:
        """Output the whole batches of one partition's answer; False where there are none."""
        records = told.records
        if not records:
            return False
        try:
            size, next_offset, epoch = whole_batches(records, position.end)
        except CorruptBatch as error:
            self._fail(
                position,
                CorruptBatch(
                    f"{position.topic}-{position.partition}: {error}",
                    topic=position.topic,
                    partition=position.partition,
                    broker_id=broker_id,
                ),
            )
            return False
        if next_offset <= position.fetch_offset:
            # Brokers give the first batch whole, however large it is: the next answer would be the same.
            self._fail(position, no_whole_batch(position, len(records), broker_id))
            return False
        if size:
            aborted = tuple((a.producer_id, a.first_offset) for a in told.aborted_transactions or ())
            position.buffered_bytes += size
            self._outputs.append(
                Fetched(
                    position.topic,
                    position.partition,
                    position.fetch_offset,
                    records[:size],
                    told.high_watermark,
                    told.last_stable_offset,
                    aborted,
                )
            )
        position.fetch_offset = next_offset
        position.epoch = epoch
        position.has_read = epoch >= 0
        self._finish_at_end(position)
        return True

    def _finish_at_end(self, position: Position) -> None:
        if position.end is not None and position.fetch_offset >= position.end:
            position.move(PositionEvent.REACHED_END)
            self._outputs.append(Finished(position.topic, position.partition, position.end))

    # ---- what goes wrong ----------------------------------------------------------------------------------------

    def _learn_leader(self, position: Position, told: PartitionData) -> None:
        leader = told.current_leader
        if leader is not None and leader.leader_id >= 0:
            self.connection.metadata.learn_leader(
                position.topic, position.partition, leader.leader_id, leader.leader_epoch
            )

    def _on_error(self, position: Position, error_code: int, broker_id: int | None, now_us: int) -> None:
        error = kafka_error(error_code, topic=position.topic, partition=position.partition, broker_id=broker_id)
        if error.retriable:
            self._pause(position, str(error), now_us)
            self.connection.refresh_metadata(now_us)
        else:
            self._fail(position, error)

    def _pause(self, position: Position, reason: str, now_us: int) -> None:
        """Try again in a while, longer each time."""
        settings = self._settings.connection
        position.failures += 1
        position.not_before_us = now_us + self.connection.backoff_us(
            position.failures, settings.retry_backoff_ms, settings.retry_backoff_max_ms
        )
        position.is_stuck(reason, now_us)

    def _fail(self, position: Position, error: OttlaError) -> None:
        if not position.is_over:
            position.move(PositionEvent.BROKE)
            self._outputs.append(ReadFailed(position.topic, position.partition, error))


class _WantedTopic:
    """A topic whose partitions are not known yet."""

    __slots__ = ("event", "missing_since_us", "since_us")

    def __init__(self, event: AssignTopic, now_us: int) -> None:
        self.event = event
        self.since_us = now_us
        self.missing_since_us: int | None = None


class _Asked:
    """The positions of a request; `ids` is {topic: id} if it names topics by id."""

    __slots__ = ("ids", "is_fetch", "positions")

    def __init__(self, positions: list[Position], *, is_fetch: bool, ids: dict[str, bytes] | None = None) -> None:
        self.positions = positions
        self.is_fetch = is_fetch
        self.ids = ids or {}
