"""Writes what requests change into the topic of schemas: one writer at a time, of however many registries there are.

All registries of a topic write in transactions of one transactional id. Whoever makes a producer with it fences all
others: brokers take nothing more from them, and abort what they had not committed. So a registry that has made its
producer writes a record that says nothing and reads up to it: then it knows all that was ever committed. As long as its
producer is not fenced, nobody else has committed anything since, and what it decides by what it knows holds: no id is
given twice, no version written twice, no schema let in that an unseen one speaks against. A registry that learns that
it is fenced takes over again, and decides the same requests anew.

Requests that come while a transaction is under way are decided one after the other and written by the next one
together. Whether a commit whose answer was lost has happened is seen in the log.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from ottla.client.producer import Producer
from ottla.embedded_registry.changes import Change, Decide, Record
from ottla.embedded_registry.refusals import STORE, TOO_LARGE, Refusal
from ottla.embedded_registry.store import Store
from ottla.embedded_registry.topic_reader import Read, TopicReader
from ottla.errors import OttlaError, ProducerFenced

logger = logging.getLogger("ottla.registry")

# How long a request may wait for brokers, and for other registries.
PATIENCE_S = 15.0
_TOGETHER_MAX = 500
_WAITING_MAX = 10_000
_UNTAKEN_MAX = 20_000
_PAUSE_S = 0.01
_PAUSE_MAX_S = 0.5
# What a record batch has around its record.
_AROUND_BYTES = 1024
# What brokers say besides PRODUCER_FENCED to one of two producers of one transactional id.
_OVERTAKEN = ("INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE")
_NOOP = b'{"keytype":"NOOP","magic":0}'

# Called with the answer, or with the Refusal, in the writer's thread.
Done = Callable[[Any], None]
Request = tuple[Decide, Done, float]


class _Behind(OttlaError):
    """What was written cannot be read back in time."""


class TopicWriter:
    """`committed()` gives a copy of the store of what has been read, from any thread."""

    def __init__(
        self,
        servers: str,
        topic: str,
        settings: Mapping[str, Any],
        reader: TopicReader,
        committed: Callable[[], Store],
        *,
        record_bytes_max: int,
    ) -> None:
        self._topic, self._reader, self._committed = topic, reader, committed
        self._producer_settings: dict[str, Any] = {
            **settings,
            "bootstrap_servers": servers,
            "transactional_id": f"ottla-schema-registry-{topic}",
            "acks": "all",
            "max_block_ms": int(PATIENCE_S * 1000 / 2),
            "delivery_timeout_ms": int(PATIENCE_S * 1000),
            "request_timeout_ms": int(PATIENCE_S * 1000 / 2),
            "transaction_timeout_ms": int(PATIENCE_S * 1000 * 2),
            "batch_size": 512 << 10,
            # A schema of any size that is let in, with what JSON makes of it.
            "max_request_size": 32 << 20,
        }
        self._record_bytes_max = record_bytes_max - _AROUND_BYTES
        self._producer: Producer | None = None
        self._store: Store | None = None
        self._read: deque[Read] = deque()
        self._unheard: tuple[int, list[Any]] | None = None
        self._requests: queue.Queue[Request | None] = queue.Queue()
        self._is_closing = self._has_lost = False
        self._random = random.Random()
        self._thread = threading.Thread(target=self._run, name="ottla-registry-writer", daemon=True)

    def start(self) -> None:
        """Take over as the writer, which reads all there is; raises what keeps it from that."""
        until_s = time.monotonic() + 2 * PATIENCE_S
        while True:
            try:
                self._take_over(PATIENCE_S)
                break
            except OttlaError as error:
                self._give_up()
                # Another registry may start at this moment.
                if not _is_fenced(error) or time.monotonic() > until_s:
                    raise
                time.sleep(self._random.uniform(_PAUSE_S, _PAUSE_MAX_S))
        self._thread.start()

    def lost(self) -> None:
        """What was read may not hold any more; called in the reader's thread."""
        self._read.clear()
        self._has_lost = True

    def took(self, records: list[Read]) -> None:
        """What the reader has read; called in its thread."""
        self._read.extend(records)
        if len(self._read) > _UNTAKEN_MAX:
            # Other registries write, and this one does not: drop what was read, and take over anew if it must write.
            self.lost()

    def ask(self, decide: Decide, done: Done) -> None:
        """Decide and write a change when its turn comes; Refusal where too many wait already."""
        if self._requests.qsize() >= _WAITING_MAX:
            raise Refusal(STORE, f"{_WAITING_MAX} changes wait to be written already: try again soon.")
        self._requests.put((decide, done, time.monotonic() + PATIENCE_S))

    def end(self) -> None:
        """Refuse what waits; what is being written is tried no more than once."""
        self._is_closing = True
        self._requests.put(None)

    def close(self) -> None:
        """End, and wait for it."""
        self.end()
        if self._thread.is_alive():
            self._thread.join()
        self._give_up()

    def _run(self) -> None:
        while True:
            requests = self._together()
            if requests is None:
                return
            try:
                answers = self._carry_out(requests)
            except Exception as error:
                logger.exception("changes could not be carried out")
                self._give_up()
                answers = [Refusal(STORE, f"the change could not be carried out ({type(error).__name__}).")] * len(
                    requests
                )
            for (_, done, _), answer in zip(requests, answers, strict=True):
                done(answer)

    def _together(self) -> list[Request] | None:
        """The requests that wait by now, at least one; None at the end."""
        found: list[Request] = []
        while True:
            try:
                request = self._requests.get(block=not found)
            except queue.Empty:
                return found
            if request is None or self._is_closing:
                for _, done, _ in [*found, *([] if request is None else [request])]:
                    done(Refusal(STORE, "the registry is being closed."))
                return None
            found.append(request)
            if len(found) == _TOGETHER_MAX:
                return found

    def _carry_out(self, requests: list[Request]) -> list[Any]:
        until_s = min(request[2] for request in requests)
        pause_s = _PAUSE_S
        self._unheard = None
        while True:
            try:
                if self._has_lost:
                    self._has_lost = False
                    self._give_up()
                if self._producer is None:
                    self._take_over(max(1.0, until_s - time.monotonic()))
                    if (answers := self._heard()) is not None:
                        return answers
                return self._decide_and_write(requests)
            except OttlaError as error:
                self._give_up()
                if time.monotonic() >= until_s or self._is_closing:
                    return [_refusal(error)] * len(requests)
                if not _is_fenced(error):
                    logger.warning("schemas cannot be written for now: %s", error)
            # Of two registries that fence each other, one gets through while the other waits.
            time.sleep(self._random.uniform(0, pause_s))
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def _take_over(self, patience_s: float) -> None:
        """Become the one that writes, and know all that was written."""
        self._producer = producer = Producer(**self._producer_settings)
        producer.init_transactions()
        producer.begin_transaction()
        delivery = producer.send(self._topic, None, _NOOP, partition=0)
        producer.commit_transaction()
        self._await(delivery.result(0).offset, patience_s)
        self._store = self._committed()

    def _await(self, offset: int, patience_s: float) -> None:
        if not self._reader.await_offset(offset, patience_s):
            raise _Behind(f"what was written to {self._topic} could not be read back within {patience_s:.0f} s")

    def _heard(self) -> list[Any] | None:
        """The answers of a transaction whose commit was not answered, where it is in the log all the same."""
        unheard, self._unheard = self._unheard, None
        if unheard is None or all(offset != unheard[0] for offset, _, _ in self._read):
            return None
        return unheard[1]

    def _decide_and_write(self, requests: list[Request]) -> list[Any]:
        store = self._store
        assert store is not None
        assert self._producer is not None
        while self._read:
            _, key, value = self._read.popleft()
            store.apply(key, value)
        answers: list[Any] = []
        records: list[Record] = []
        for decide, _, _ in requests:
            try:
                change = decide(store)
                self._check_size(change)
            except Refusal as refusal:
                answers.append(refusal)
                continue
            for key, value in change.records:
                store.apply(key, value)
            records += change.records
            answers.append(change.answer)
        producer = self._producer
        producer.begin_transaction()
        # Also if all were refused: only a write shows whether other registries have written meanwhile.
        deliveries = [producer.send(self._topic, value, key, partition=0) for key, value in records or [(_NOOP, None)]]
        producer.flush()
        self._unheard = deliveries[0].result(0).offset, answers
        producer.commit_transaction()
        self._await(deliveries[-1].result(0).offset, PATIENCE_S)
        return answers

    def _check_size(self, change: Change) -> None:
        size = max((len(key) + len(value or b"") for key, value in change.records), default=0)
        if size > self._record_bytes_max:
            told = f"it makes a record of {size} bytes, and {self._topic} takes {self._record_bytes_max} at most"
            raise Refusal(TOO_LARGE, f"Register operation failed because schema is too large: {told}.")

    def _give_up(self) -> None:
        """Be the writer no more; what was decided and not committed is forgotten."""
        producer, self._producer, self._store = self._producer, None, None
        if producer is not None:
            try:
                producer.close(timeout=0)
            except OttlaError as error:
                logger.debug("the producer of schemas was closed: %s", error)


def _is_fenced(error: OttlaError) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ProducerFenced) or getattr(cause, "name", "") in _OVERTAKEN:
            return True
        cause = getattr(cause, "first", None) or cause.__cause__
    return False


def _refusal(error: OttlaError) -> Refusal:
    if _is_fenced(error):
        told = "another registry writes to the same topic all the time: let clients write to one of them"
    else:
        told = f"the brokers cannot be written to for now ({error})"
    return Refusal(STORE, f"{told}. Whether the change was made is not known: ask again.")
