"""Producers that are reused: by the next task in the same worker, or for the next decision.

To open a producer costs a thread, connections and the metadata of the topic, which grows with its partitions. Brokers
know a task's transaction by its identity alone (transactional id, producer id, epoch), and the next task brings its own
(`Producer.init_transactions`). So a producer is kept for the next task with the same settings; after an error it is
closed. A Python worker of Spark runs one task after the other, so one producer for each settings is enough. It is
replaced after `KEPT_S`, because a topic may have more partitions by then.

Invariants: a kept producer has no transaction that it must end, no record without an outcome, and no user. Its last
user gets no more outcomes from it. If it is not reused, it is closed after `KEPT_S`.
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
"""A producer is reused for this long after it was made. Spark ends a Python worker that was idle for as long."""
Hears = Callable[[BatchSeen], None]


class _Relay:
    """The producer's interceptor: it passes outcomes of batches to the present user of the producer."""

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
    """The kept producers of one sink in one process; any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[Producer, _Kept] = {}
        self._used: WeakKeyDictionary[Producer, _Kept] = WeakKeyDictionary()

    def take(
        self, settings: Mapping[str, Any], identity: TransactionIdentity, version: int, hears: Hears | None
    ) -> Producer:
        """A producer with these settings, this identity and its transaction version: a kept one, or a new one."""
        producer = self._taken(settings)
        if producer is not None:
            try:
                return self._begin(producer, identity, version, hears)
            except OttlaError as error:
                _log.info("the kept producer cannot be used any more: %s", error)
        kept = _Kept(settings)
        given = {**settings, "transactional.id": identity.transactional_id, "interceptor.classes": [kept.relay]}
        producer = Producer.from_config(given)
        self._used[producer] = kept
        return self._begin(producer, identity, version, hears)

    def _begin(self, producer: Producer, identity: TransactionIdentity, version: int, hears: Hears | None) -> Producer:
        self._used[producer].relay.to = hears
        try:
            producer.init_transactions(identity, transaction_version=version)
        except BaseException:
            producer.close()
            raise
        return producer

    def keep(self, producer: Producer) -> None:
        """Keep a producer whose user has prepared or ended its transaction, and no longer uses it."""
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
        """Close the producers that are not in use."""
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
