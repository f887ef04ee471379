"""The producer core: batches go in with their first record; requests and outcomes of batches come out.

`ProducerCore` joins the files of this room: `partitioner` (how many partitions topics have), `accumulator` (the queues,
and what can be sent), `batch` and `in_flight` (what is known of one batch, one request), `sender` (requests, answers),
`idempotence` (sequence numbers), `partition_load` (how long queues are) and `metrics`; where they are wanted also
`transactions`, `telemetry` (metrics for brokers) and `cluster_view` (for a user's partitioner). `receive` and `tick`
only note what happened. The work is done once for all events, by the next `outputs` or `deadline_us`: so many events
make few requests.

Invariant: every batch that came in by `BatchesAdded` comes out in exactly one of `BatchAcked`, `BatchFailed`,
`BatchUnknown`, or in `BatchSplit`, then each of its parts does; at the latest at its delivery timeout or at the
deadline of closing. Only a batch that a thread is still compressing then comes out later.
"""

from __future__ import annotations

from math import nan
from random import Random
from typing import TYPE_CHECKING, Any

from ottla.connection.core import ConnectionCore
from ottla.connection.metadata import Metadata
from ottla.connection.sampled import SampleClock
from ottla.errors import ClosedError, OttlaError
from ottla.producer.accumulator import Accumulator, OpenBatches
from ottla.producer.cluster_view import ClusterViews
from ottla.producer.events import (
    BatchClosed,
    BatchesAdded,
    BatchesFilled,
    BatchFailed,
    BatchUnknown,
    BeginTransaction,
    ClientInstanceWanted,
    Closed,
    CloseRequested,
    CommitOffsets,
    EndTransaction,
    InitializeTransactions,
    MetricsRead,
    OpenBatchesWanted,
    TopicForgotten,
    TopicWanted,
)
from ottla.producer.figures import Metrics
from ottla.producer.idempotence import Idempotence
from ottla.producer.in_flight import InFlightRequest
from ottla.producer.metrics import ProducerMetrics
from ottla.producer.partition_load import PartitionLoads
from ottla.producer.partitioner import TopicPartitions
from ottla.producer.sender import Sender
from ottla.producer.settings import ProducerSettings
from ottla.protocol.messages import GET_TELEMETRY_SUBSCRIPTIONS
from ottla.protocol.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from ottla.producer.diagnosis import Observed
    from ottla.producer.telemetry import Telemetry
    from ottla.producer.transaction_states import TransactionIdentity, TransactionState
    from ottla.producer.transactions import Transactions

_CLOSING_QUESTION = object()
_VERBS = frozenset((InitializeTransactions, BeginTransaction, CommitOffsets, EndTransaction))


class ProducerCore:
    """One producer's decisions; for one thread at a time, driven by `receive`, `tick`, `outputs` and `deadline_us`."""

    def __init__(self, settings: ProducerSettings, rng: Random) -> None:
        """Begin without a connection; `rng` is for everything that is drawn at random."""
        self.settings = settings
        self._rng = rng
        self._connection = ConnectionCore(settings.connection, rng, auto_create_topics=True)
        self.addresses = self._connection.addresses
        clock = SampleClock(settings.metrics_sample_window_ms, settings.metrics_num_samples)
        self.meters = ProducerMetrics(clock, self._connection.meters, settings.connection.client_id)
        self._idempotence = Idempotence(settings.idempotent, self._connection, self._backoff_us)
        self._accumulator = Accumulator(
            self._connection,
            self._idempotence,
            settings.in_flight_max,
            settings.delivery_timeout_ms * 1000,
            settings.linger_ms * 1000,
            tells_closed=bool(settings.interceptor_classes),
        )
        self._sender = Sender(settings, self._connection, self._accumulator, self._idempotence, self.meters)
        self._transactions: Transactions | None = None
        if settings.transactional_id is not None:
            # Imported here: most producers never see a transaction.
            from ottla.producer.transactions import Transactions

            self._transactions = Transactions(
                settings.transactional_id,
                settings.transaction_timeout_ms,
                self._connection,
                self._idempotence,
                self._accumulator,
                self._backoff_us,
            )
        self._telemetry: Telemetry | None = None
        self._brokers_met = 0
        self._topics = TopicPartitions()
        self._topic_idle_us = settings.metadata_max_idle_ms * 1000
        self._views = None if settings.partition_function is None else ClusterViews()
        self._loads = PartitionLoads(
            self._accumulator,
            adaptive=settings.partitioner_adaptive_partitioning_enable and settings.partitioner != "round_robin",
            availability_timeout_us=settings.partitioner_availability_timeout_ms * 1000,
        )
        self._outputs: list[Any] = []
        self._now_us = 0
        self._work_to_do = False
        self._metadata_version = 0
        # When metadata of all topics last came in one answer.
        self._refreshed_us = 0
        # Topics that may have to be announced. A dict for its order.
        self._heard_of: dict[str, None] = {}
        self._close_at_us: int | None = None
        # Until when closing waits for a transaction to end; the coordinator aborts one that did not end.
        self._end_until_us: int | None = None
        # How many brokers must still answer before the connections are closed; -1 until they are asked.
        self._closing_questions = -1
        self._closed = False

    def close_batches_by(self, open_batches: OpenBatches) -> None:
        """Set what closes open batches: the appender that fills them."""
        self._accumulator.open_batches = open_batches

    @property
    def metadata(self) -> Metadata:
        """The cluster by the last metadata."""
        return self._connection.metadata

    def reach_error(self) -> OttlaError | None:
        """Return why no broker can be reached (`AddressBook.error`); None when one can, or no attempt failed yet."""
        return self._connection.reach_error()

    @property
    def transaction_identity(self) -> TransactionIdentity | None:
        """The identity of the open, prepared or next transaction; None without `transactional.id`."""
        return None if self._transactions is None else self._transactions.identity

    @property
    def transactions_ready(self) -> bool:
        """Whether a transaction can begin at once."""
        return self._transactions is not None and self._transactions.is_ready

    @property
    def transaction_state(self) -> TransactionState | None:
        """The state of its transactions; None without `transactional.id`."""
        return None if self._transactions is None else self._transactions.state

    @property
    def transaction_refusal(self) -> OttlaError | None:
        """Why no batch is taken now; None where batches are taken."""
        return None if self._transactions is None else self._transactions.refusal

    def transaction_problem(self) -> str:
        """Why the transaction's coordinator has not answered yet, as a clause for a person."""
        told = self._transactions.problem if self._transactions is not None else ""
        return told or str(self.reach_error() or "batches are still on their way")

    def metrics(self, now_us: int | None = None, **gauges: float) -> Metrics:
        """Return the figures under the names of Kafka's producer metrics, as of `now_us` or of the last event.

        `gauges` are figures that only the driver has, with `_` for `-`. Any thread may call this.
        """
        if now_us is None:
            now_us = self._now_us
        updated_us = self.metadata.updated_us
        # A copy, made in one step: users' threads call this while the core goes on.
        in_flight = sum(len(queue.in_flight) for queue in list(self._accumulator.queues.values()))
        looked_up = {name.replace("_", "-"): value for name, value in gauges.items()}
        looked_up["ottla-batches-in-flight"] = in_flight
        looked_up["ottla-batches-unsettled"] = self._sender.unsettled
        looked_up["ottla-idempotence-enabled"] = self.settings.idempotent
        looked_up["requests-in-flight"] = self._connection.requests_in_flight()
        looked_up["metadata-age"] = (now_us - updated_us) / 1_000_000 if self.metadata.version else nan
        looked_up["connection-count"] = self._connection.open_connections()
        return self.meters.read(now_us, looked_up)

    def observe(self, now_us: int, callers_waiting: int, buffer_available: int) -> Observed:
        """Return what a diagnosis is made of; any thread may call this."""
        queues = list(self._accumulator.queues.values())
        horizon_us = self.meters.clock.forgets_until_us(now_us)
        partitions = sum(queue.sent_us > horizon_us and queue.sent_us > 0 for queue in queues)
        return self.meters.observe(now_us, partitions, callers_waiting, buffer_available)

    def receive(self, event: Any, now_us: int) -> None:
        """Take in one event of `producer.events` or `connection.events`."""
        self._now_us = now_us
        self.meters.tick(now_us)
        self._work_to_do = True
        kind = type(event)
        if kind is BatchesAdded:
            self._sender.unsettled += len(event.batches)
            for sealed in event.batches:
                self._accumulator.add(sealed, now_us)
                if self._transactions is not None:
                    self._transactions.batch_added(sealed.topic, sealed.partition)
        elif kind is BatchesFilled:
            for sealed in event.batches:
                self._accumulator.filled(sealed, now_us)
        elif kind is OpenBatchesWanted:
            self._accumulator.release_open(now_us)
        elif kind is TopicWanted:
            self._topics.want(event.topic)
            self._connection.want_topic(event.topic, now_us)
            known = self.metadata.topics.get(event.topic)
            if known is not None and not known.error_code:
                self._heard_of[event.topic] = None
        elif kind is CloseRequested:
            self._close_at_us = event.deadline_us
            if self._transactions is not None:
                self._transactions.close()
                self._end_until_us = min(event.deadline_us, now_us + self.settings.max_block_ms * 1000)
        elif kind in _VERBS:
            if self._transactions is None:
                raise RuntimeError(f"{kind.__name__} without transactional.id")
            self._transactions.receive(event)
        elif kind is MetricsRead:
            if self._telemetry is not None:
                self._telemetry.take_metrics(event, now_us)
        elif kind is ClientInstanceWanted:
            if self._telemetry is None:
                # A broker gives the id, and there may be no connection to one yet: this opens one.
                self._connection.refresh_metadata(now_us)
        else:
            self._connection.receive(event, now_us)

    def tick(self, now_us: int) -> None:
        """Note the time, and let the connections do what is due."""
        self._now_us = now_us
        self.meters.tick(now_us)
        self._work_to_do = True
        self._connection.tick(now_us)

    def outputs(self) -> list[Any]:
        """Return what the driver must now do: outputs about topics, batches and connections, and `Closed`."""
        self._work()
        taken = self._outputs
        taken.extend(self._connection.outputs())
        self._outputs = []
        return taken

    def usual_outputs(self) -> list[Any]:
        """Return the outputs of taking answers and sending alone; all other work is left to `outputs`.

        For producers without transactions (RuntimeError), when no deadline has come. It calls nothing that is not
        compiled: it is the fast way.
        """
        if self._transactions is not None:
            raise RuntimeError("usual_outputs leaves out what transactions want")
        self._take_answers(self._now_us)
        self._sender.send_ready(self._now_us, may_connect=False)
        taken = self._outputs + self._sender.settled + self._connection.outputs()
        self._outputs, self._sender.settled = [], []
        return taken

    def deadline_us(self) -> int | None:
        """Return when `tick` must be called at the latest, None when nothing is waited for."""
        self._work()
        if self._closed:
            return None
        earliest: int | None = None
        for due in (
            self._connection.deadline_us(),
            self._accumulator.deadline_us(),
            self._idempotence.deadline_us() if self._accumulator.is_ready else None,
            self._closing_due_us(),
            self._end_until_us,
            self._transactions.deadline_us() if self._transactions is not None else None,
            self._telemetry.deadline_us() if self._telemetry is not None else None,
        ):
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        return earliest

    def _work(self) -> None:
        if not self._work_to_do:
            return
        self._work_to_do = False
        now_us = self._now_us
        self._take_answers(now_us)
        if self.metadata.version != self._metadata_version:
            self._metadata_version = self.metadata.version
            # Nothing here may loop over all topics for each answer: with many topics there may be one answer for each.
            heard_of = self.metadata.take_heard_of()
            if self.metadata.updated_us != self._refreshed_us:
                self._refreshed_us = self.metadata.updated_us
                self._forget_idle_topics(now_us)
            self._accumulator.leaders_changed(heard_of, now_us)
            self._sender.give_up_topics_without_hope()
            # The producer id is requested now, not with the first batch, which would have to wait for it.
            self._idempotence.ready(now_us)
            self._heard_of.update(heard_of)
            self._loads.heard_of(heard_of)
        if self._heard_of:
            heard_of, self._heard_of = self._heard_of, {}
            found = self._topics.news(heard_of, self.metadata)
            if self._views is not None:
                # Before `TopicKnown`: a call that waits for the topic needs its view as soon as that is there.
                told = [topic for topic in heard_of if topic in self._topics.told]
                self._outputs.extend(self._views.news(told, self.metadata))
            self._outputs.extend(found)
        self._accumulator.rest_over(now_us)
        self._sender.give_up_expired(now_us)
        transactions = self._transactions
        if transactions is not None:
            self._work_on(transactions, now_us)
        if transactions is None or transactions.may_send:
            self._sender.send_ready(now_us)
        # Sending may answer a request at once: one for which the broker has no version.
        while self._take_answers(now_us):
            if transactions is not None:
                self._work_on(transactions, now_us)
            if transactions is None or transactions.may_send:
                self._sender.send_ready(now_us)
        if self._connection.brokers_met != self._brokers_met:
            self._meet_brokers(now_us)
        if self._telemetry is not None and self._close_at_us is None:
            self._telemetry.work(now_us)
        if self._close_at_us is not None:
            self._close(self._close_at_us, now_us)
        self._outputs.extend(self._loads.news(self._topics.told, self.metadata, now_us))
        self._tell_of_batches()
        if transactions is not None and transactions.outputs:
            # After the batches: when a transaction is reported as over, all its deliveries have their outcome.
            self._outputs.extend(transactions.outputs)
            transactions.outputs = []
        if self._telemetry is not None and self._telemetry.outputs:
            self._outputs.extend(self._telemetry.outputs)
            self._telemetry.outputs = []

    def _tell_of_batches(self) -> None:
        if self._accumulator.closed:
            self._outputs.extend([BatchClosed(sealed) for sealed in self._accumulator.closed])
            self._accumulator.closed = []
        if self._sender.settled:
            self._outputs.extend(self._sender.settled)
            self._sender.settled = []

    def _meet_brokers(self, now_us: int) -> None:
        """Begin to push metrics once a broker is connected that takes them (KIP-714)."""
        self._brokers_met = self._connection.brokers_met
        if (
            self._telemetry is None
            and self.settings.enable_metrics_push
            and self._connection.speaking(GET_TELEMETRY_SUBSCRIPTIONS)
        ):
            # Imported here: few brokers ask for metrics.
            from ottla.producer.telemetry import Telemetry

            self._telemetry = Telemetry(self._connection, self._rng, self._idempotence, now_us)

    def _work_on(self, transactions: Transactions, now_us: int) -> None:
        """Report lost batches to the transaction, give up batches that it may not send any more, and let it work."""
        for output in self._sender.settled:
            if isinstance(output, BatchFailed | BatchUnknown):
                transactions.batch_lost(output.batch, output.error, unknown=type(output) is BatchUnknown)
        if not transactions.may_send and self._sender.unsettled:
            self._sender.give_up_waiting(transactions.batch_error(), now_us)
        transactions.work(now_us)

    def _forget_idle_topics(self, now_us: int) -> None:
        """Drop the metadata of topics that nothing was sent to for `metadata.max.idle.ms` (KIP-526).

        Done when metadata has come, as in Java. The partitions' queues stay, because they have the sequence numbers.
        """
        idle = self._connection.topics_unused_since(now_us - self._topic_idle_us)
        if not idle:
            return
        queues = list(self._accumulator.queues.values())
        busy = dict.fromkeys(queue.topic for queue in queues if queue.waiting or queue.in_flight)
        for topic in idle:
            if topic not in busy and not self._topics.is_waited_for(topic):
                self._connection.forget_topic(topic)
                self._topics.forget(topic)
                self._loads.forget(topic)
                if self._views is not None:
                    self._views.forget(topic)
                self._outputs.append(TopicForgotten(topic))

    def _take_answers(self, now_us: int) -> bool:
        answers = self._connection.take_answers()
        for answer in answers:
            if type(answer.token) is InFlightRequest:
                self._sender.take_answer(answer, now_us)
            elif answer.token is _CLOSING_QUESTION:
                self._closing_questions -= 1
            elif answer.token is self._telemetry and self._telemetry is not None:
                self._telemetry.take_answer(answer, now_us)
            elif self._transactions is not None:
                self._transactions.take_answer(answer, now_us)
            else:
                self._idempotence.take_answer(answer, now_us)
        return bool(answers)

    def _close(self, close_at_us: int, now_us: int) -> None:
        """Close once every batch is settled; when the time is over, give up those that are not."""
        if self._sender.unsettled and (self._closed or now_us >= close_at_us):
            self._sender.give_up_all(ClosedError("the producer was closed before the records were stored"))
        if self._sender.unsettled or self._closed or self._must_end(now_us):
            return
        if self._telemetry is not None and not self._telemetry.is_over(close_at_us, now_us):
            return
        if self._closing_questions < 0:
            self._ask_closing_questions(now_us)
        if self._closing_questions == 0 or now_us >= close_at_us:
            self._closed = True
            self._connection.close(now_us)
            self._connection.take_answers()
            self._tell_of_batches()
            self._outputs.extend(self._connection.outputs())
            self._outputs.append(Closed())

    def _closing_due_us(self) -> int | None:
        """When the time to close is over; None after that, when only batches are left that are being compressed."""
        return None if self._close_at_us is None or self._close_at_us <= self._now_us else self._close_at_us

    def _must_end(self, now_us: int) -> bool:
        """Whether closing still waits for a transaction to end."""
        if self._end_until_us is None or self._transactions is None:
            return False
        if self._transactions.is_at_rest or now_us >= self._end_until_us:
            self._end_until_us = None
        return self._end_until_us is not None

    def _ask_closing_questions(self, now_us: int) -> None:
        """With acks=0, send each broker one more request, which it answers.

        Brokers handle the requests of a connection in order, so the answer shows that the Produce requests before it
        were handled: what is not lost can be read when `close` returns.
        """
        nodes = [] if self.settings.acks else self._connection.ready_nodes()
        self._closing_questions = len(nodes)
        for node_id in nodes:
            self._connection.request(node_id, MetadataRequest(topics=[]), _CLOSING_QUESTION, now_us)

    def _backoff_us(self, failures: int) -> int:
        connection = self.settings.connection
        return self._connection.backoff_us(failures, connection.retry_backoff_ms, connection.retry_backoff_max_ms)
