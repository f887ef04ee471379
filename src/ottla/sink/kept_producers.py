"""Producers that are handed on: from one task to the next in the same worker, from one decision to the next.

To open a producer costs a thread, connections and the metadata of the topic, which grows with its partitions. What a
task has told the brokers is known by its identity alone (transactional id, producer id, epoch), and that is replaced
(`Producer.init_transactions`). So who has ended well leaves its producer to the next one with the same settings; after
any error it is closed. Spark runs one task of a Python worker after the other, so one of a kind is enough. After
`KEPT_S` a new one takes its place: a topic may have more partitions by then.

Invariants: a kept producer has no transaction that it would have to end, no record without an outcome, and no user. Its
last user hears nothing more of it. One that nobody takes is closed when its time is over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from ottla.client.interceptors import BatchSeen
from ottla.client.producer import Producer
from ottla.errors import OttlaError
from ottla.producer.transaction_states import TransactionIdentity

_log = logging.getLogger("ottla.sink")

KEPT_S = 60.0
"""So long after it was made; Spark ends a Python worker that has had nothing to do for as long."""
Hears = Callable[[BatchSeen], None]


class _Relay:
    """The producer's interceptor: it tells whoever uses the producer now what was acknowledged."""

    def __init__(self) -> None:
        self.to: Hears | None = None

    def on_ack(self, batch: BatchSeen) -> None:
        if self.to is not None:
            self.to(batch)


@dataclass(eq=False)
class _Kept:
    settings: Mapping[str, Any]
    relay: _Relay = field(default_factory=_Relay)
    made_s: float = field(default_factory=time.monotonic)
    timer: threading.Timer | None = None


class KeptProducers:
    """Those of one sink in one process; any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[Producer, _Kept] = {}
        self._used: WeakKeyDictionary[Producer, _Kept] = WeakKeyDictionary()

    def take(self, settings: Mapping[str, Any], identity: TransactionIdentity, hears: Hears | None) -> Producer:
        """A producer with these settings under this identity: a kept one, or a new one."""
        producer = self._taken(settings)
        if producer is not None:
            try:
                return self._begin(producer, identity, hears)
            except OttlaError as error:
                _log.info("the producer before cannot be used any more: %s", error)
        kept = _Kept(settings)
        given = {**settings, "transactional.id": identity.transactional_id, "interceptor.classes": [kept.relay]}
        producer = Producer.from_config(given)
        self._used[producer] = kept
        return self._begin(producer, identity, hears)

    def _begin(self, producer: Producer, identity: TransactionIdentity, hears: Hears | None) -> Producer:
        self._used[producer].relay.to = hears
        try:
            producer.init_transactions(identity)
        except BaseException:
            producer.close()
            raise
        return producer

    def keep(self, producer: Producer) -> None:
        """Its user has prepared or ended the transaction, and is done with it."""
        with self._lock:
            kept = self._used.pop(producer)
            kept.relay.to = None
            older = self._find(kept.settings)
            self._idle[producer] = kept
            left_s = max(0.0, kept.made_s + KEPT_S - time.monotonic())
            kept.timer = threading.Timer(left_s, self._close, (producer,))
            kept.timer.daemon = True
            kept.timer.start()
        for each in [older] if left_s else [older, producer]:
            if each is not None:
                self._close(each)

    def close(self) -> None:
        """Close those that nobody uses."""
        for producer in list(self._idle):
            self._close(producer)

    def _find(self, settings: Mapping[str, Any]) -> Producer | None:
        return next((producer for producer, kept in self._idle.items() if kept.settings == settings), None)

    def _taken(self, settings: Mapping[str, Any]) -> Producer | None:
        with self._lock:
            producer = self._find(settings)
            if producer is not None:
                self._used[producer] = self._unkept(producer)
            return producer

    def _unkept(self, producer: Producer) -> _Kept:
        kept = self._idle.pop(producer)
        assert kept.timer is not None
        kept.timer.cancel()
        return kept

    def _close(self, producer: Producer) -> None:
        with self._lock:
            if producer not in self._idle:
                return  # taken a moment ago
            self._unkept(producer)
        producer.close()
