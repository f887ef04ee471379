"""Has the markers of an ended transaction written: asks the leader of each of its partitions until all are done.

Each leader is asked with one WriteTxnMarkers for all its partitions; what failed is asked again after a pause, of the
leader at that time. Partitions that do not exist any more need no marker. If a leader has seen a newer coordinator,
nothing more is sent: that coordinator writes the markers. If a leader has seen a newer epoch of the producer, it needs
no marker of this one: the coordinator's log has lost that epoch, and asking again would never end.

Invariant: a partition is not asked twice at the same time, unless an answer is overdue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.broker.outbox import Outbox
from ottla.broker.partition import NO_BROKER
from ottla.broker.purgatory import Purgatory
from ottla.broker.replicas import Replicas
from ottla.broker.transactions.transaction import Place, Transaction, TransactionState
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_AGAIN_US = 100_000
_ANSWER_US = 30_000_000
_DONE = (0, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.INVALID_PRODUCER_EPOCH)
_FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.TRANSACTION_COORDINATOR_FENCED)


class MarkerWriter:
    """The markers of one transaction, whose coordinator was elected in `coordinator_epoch`.

    `written(now)` is called when all partitions have theirs, and again later where it says False.
    """

    def __init__(
        self,
        replicas: Replicas,
        purgatory: Purgatory,
        outbox: Outbox,
        transaction: Transaction,
        coordinator_epoch: int,
        written: Callable[[int], bool],
    ) -> None:
        self.bucket = -1
        self._replicas = replicas
        self._purgatory = purgatory
        self._outbox = outbox
        self._transaction = transaction
        self._coordinator_epoch = coordinator_epoch
        self._written = written
        self._outstanding: dict[Place, None] = dict.fromkeys(transaction.data.partitions)
        # Place -> when its leader was asked, for answers that are still to come.
        self._asked_us: dict[Place, int] = {}
        self._over = False

    def cancel(self) -> None:
        """Another broker coordinates the transaction now."""
        self._over = True
        self._purgatory.remove(self)

    def expire(self, now_us: int) -> None:
        """Time to ask again."""
        self.write(now_us)

    def write(self, now_us: int) -> None:
        """Ask for every missing marker, unless the answer to an earlier request is still to come."""
        by_leader: dict[int, list[Place]] = {}
        for place in list(self._outstanding):
            if self._asked_us.get(place, now_us - _ANSWER_US) > now_us - _ANSWER_US:
                continue
            topic = self._replicas.image.topics.get(place[0])
            if topic is None or not 0 <= place[1] < len(topic.partitions):
                del self._outstanding[place]
                continue
            leader = topic.partitions[place[1]].leader
            if leader != NO_BROKER:
                by_leader.setdefault(leader, []).append(place)
        for leader, places in by_leader.items():
            for place in places:
                self._asked_us[place] = now_us
            self._ask(leader, places)
        self._wait(now_us)

    def _ask(self, leader: int, places: Sequence[Place]) -> None:
        transaction = self._transaction
        topics: dict[str, list[int]] = {}
        for topic, index in places:
            topics.setdefault(topic, []).append(index)
        data = transaction.data
        marker = WritableTxnMarker(
            producer_id=data.producer_id,
            producer_epoch=data.epoch,
            transaction_result=data.state is TransactionState.PREPARE_COMMIT,
            topics=[WritableTxnMarkerTopic(name=name, partition_indexes=found) for name, found in topics.items()],
            coordinator_epoch=self._coordinator_epoch,
            transaction_version=data.client_version,
        )

        def answered(response: WriteTxnMarkersResponse | None, now_us: int) -> None:
            self._answered(places, response, now_us)

        self._outbox.ask_peer(leader, WriteTxnMarkersRequest(markers=[marker]), answered)

    def _answered(self, places: Sequence[Place], response: WriteTxnMarkersResponse | None, now_us: int) -> None:
        if self._over:
            return
        codes = {
            (topic.name, each.partition_index): each.error_code
            for marker in (response.markers if response is not None else ())
            for topic in marker.topics
            for each in topic.partitions
        }
        for place in places:
            self._asked_us.pop(place, None)
            code = codes.get(place, ErrorCode.NETWORK_EXCEPTION)
            if code in _DONE:
                self._outstanding.pop(place, None)
            elif code in _FENCED:
                self.cancel()
                return
        self._wait(now_us)

    def _wait(self, now_us: int) -> None:
        """Finish, or look again: soon where something must be asked again, else when answers are overdue."""
        purgatory = self._purgatory
        purgatory.remove(self)
        if not self._outstanding:
            self._over = True
            if not self._written(now_us):
                self._over = False
                purgatory.add(self, now_us + _AGAIN_US)
        elif any(place not in self._asked_us for place in self._outstanding):
            purgatory.add(self, now_us + _AGAIN_US)
        else:
            purgatory.add(self, now_us + _ANSWER_US)
