"""One paced sender in a process of its own: prints how long every n-th record took from `send` to its outcome, as JSON.

python -m benchmarks.paced_worker CLIENT TASK, where TASK is a `Task` as JSON. It connects and warms up, prints "ready",
waits for a line on standard input, sends, prints the figures, and ends at the end of standard input.

Record n is due at begin + n / rate. Every millisecond the records that are due are sent. The time of a record that is
sent late begins when it is sent; `behind_ms` is how late the sender was at worst. Nothing is sent later than 0.1 s
after the end. Only every n-th record (`every`) has a callback, so that callbacks cost each client little.
"""

from __future__ import annotations

import json
import os
import sys
import time
from array import array
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

KEYS = 10_000
TICK_S = 0.001
_WARM_UP_TIMEOUT_S = 30
_PIECE = 1_000
_GRACE_S = 0.1

PENDING, ACKED, FAILED, UNKNOWN = 0, 1, 2, 3

Tell = Callable[[int], None]


class Task:
    """Topic, rate, duration and so on; `settings` by Kafka's names, the same for every client."""

    def __init__(self, given: str) -> None:
        fields: dict[str, Any] = json.loads(given)
        self.bootstrap: str = fields["bootstrap"]
        self.topic: str = fields["topic"]
        self.rate: int = fields["rate"]
        self.seconds: float = fields["seconds"]
        self.every: int = fields["every"]
        self.drain_s: float = fields["drain_s"]
        self.warm_up_records: int = fields["warm_up_records"]
        self.warm_up_per_tick: int = fields["warm_up_per_tick"]
        self.value = b"v" * fields["value_bytes"]
        self.keys: list[bytes | None] = [b"%08d" % (n * 7919 % 100_000_000) for n in range(KEYS)]
        if not fields["keyed"]:
            self.keys = [None] * KEYS
        self.settings: dict[str, Any] = fields["settings"]


class Client(Protocol):
    """A measured client; `tell` is called with a record's outcome: ACKED, FAILED or UNKNOWN."""

    def send(self, value: bytes, key: bytes | None, tell: Tell | None, partition: int | None = None) -> None: ...

    def wait(self, seconds: float) -> None: ...

    def flush(self, seconds: float) -> bool: ...


class Ottla:
    def __init__(self, task: Task) -> None:
        import ottla

        settings = {name.replace(".", "_"): value for name, value in task.settings.items()}
        self._producer = ottla.Producer(task.bootstrap, **settings)
        self._topic = task.topic
        self._lost = ottla.DeliveryError
        self._unknown = ottla.DeliveryUnknown
        self.wait = time.sleep

    def send(self, value: bytes, key: bytes | None, tell: Tell | None, partition: int | None = None) -> None:
        if tell is None:
            self._producer.send(self._topic, value, key, partition=partition)
        else:
            self._producer.send(
                self._topic, value, key, partition=partition, on_delivery=partial(self._delivered, tell)
            )

    def _delivered(self, tell: Tell, delivery: Any) -> None:
        error = delivery.exception()
        tell(ACKED if error is None else UNKNOWN if isinstance(error, self._unknown) else FAILED)

    def flush(self, seconds: float) -> bool:
        try:
            self._producer.flush(seconds)
        except TimeoutError:
            return False
        except self._lost as error:
            print(error, file=sys.stderr)
        return True


class Confluent:
    """Its callbacks run in `poll`, which is how it waits for the next tick."""

    def __init__(self, task: Task) -> None:
        from confluent_kafka import Producer

        settings = dict(task.settings)
        # It has no max.request.size: a request holds one batch.
        del settings["max.request.size"]
        room = settings.pop("buffer.memory") // 1024
        own = {
            "queue.buffering.max.kbytes": room,
            "queue.buffering.max.messages": 0,
            "partitioner": "murmur2_random",
            "log_level": 3,
        }
        self._producer = Producer({"bootstrap.servers": task.bootstrap, **settings, **own})
        self._topic = task.topic

    def send(self, value: bytes, key: bytes | None, tell: Tell | None, partition: int | None = None) -> None:
        callback = None if tell is None else partial(self._delivered, tell)
        produce = self._producer.produce if partition is None else partial(self._producer.produce, partition=partition)
        while True:
            try:
                produce(self._topic, value, key, on_delivery=callback)
                return
            except BufferError:
                self._producer.poll(TICK_S)

    def _delivered(self, tell: Tell, error: Any, _message: Any) -> None:
        tell(ACKED if error is None else FAILED)

    def wait(self, seconds: float) -> None:
        until = time.perf_counter() + seconds
        # `poll` waits whole milliseconds only, and returns after the first callbacks.
        while (left := until - time.perf_counter()) > TICK_S:
            self._producer.poll(left)
        if left > 0:
            time.sleep(left)
        self._producer.poll(0)

    def flush(self, seconds: float) -> bool:
        return bool(self._producer.flush(seconds) == 0)


CLIENTS: dict[str, Callable[[Task], Client]] = {"ottla": Ottla, "confluent": Confluent}


class Samples:
    """For every n-th record: when it was sent, how long it took, and its outcome."""

    def __init__(self, count: int) -> None:
        self.sent_s = array("d", [0.0]) * count
        self.took_s = array("d", [0.0]) * count
        self.outcomes = bytearray(count)

    def tell(self, number: int, outcome: int) -> None:
        self.took_s[number] = time.perf_counter() - self.sent_s[number]
        self.outcomes[number] = outcome

    def figures(self, count: int, end_s: float) -> dict[str, Any]:
        """The figures of the first samples. A record without an outcome has taken until now, at least."""
        for number in range(count):
            if self.outcomes[number] == PENDING:
                self.took_s[number] = end_s - self.sent_s[number]
        seen = self.outcomes[:count]
        names = {"acked": ACKED, "failed": FAILED, "unknown": UNKNOWN, "not_told": PENDING}
        took_us = [round(each * 1e6) for each in self.took_s[:count]]
        return {"took_us": took_us, **{name: seen.count(outcome) for name, outcome in names.items()}}


def warm_up(client: Client, task: Task) -> None:
    """Connect, and send warm-up records to one partition, some each tick, so that Java compiles its code."""
    for number in range(task.warm_up_records):
        client.send(task.value, task.keys[number % KEYS], None, 0)
        if number % task.warm_up_per_tick == 0:
            client.wait(TICK_S)
    if not client.flush(_WARM_UP_TIMEOUT_S):
        raise SystemExit("the records to warm up did not go through")


def pace(client: Client, task: Task) -> dict[str, Any]:
    """Send at the task's rate, wait for the outcomes, and return the figures."""
    clock, send, value, keys, every = time.perf_counter, client.send, task.value, task.keys, task.every
    total = round(task.rate * task.seconds)
    samples = Samples(-(-total // every))
    sent, behind_s, begin = 0, 0.0, clock()
    while sent < total:
        now = clock()
        if now - begin > task.seconds + _GRACE_S:
            break
        behind_s = max(behind_s, now - begin - sent / task.rate)
        due = min(total, int((now - begin) * task.rate) + 1, sent + _PIECE)
        while sent < due:
            tell = None
            if sent % every == 0:
                number = sent // every
                tell = partial(samples.tell, number)
                samples.sent_s[number] = clock()
            send(value, keys[sent % KEYS], tell)
            sent += 1
        # The next millisecond, or when the next record is due.
        next_s = max((int((now - begin) / TICK_S) + 1) * TICK_S, sent / task.rate)
        client.wait(max(0.0, begin + next_s - clock()))
    sending_s = clock() - begin
    is_flushed = client.flush(task.drain_s)
    end = clock()
    told = {"sent": sent, "behind_ms": behind_s * 1000, "sending_s": sending_s, "all_s": end - begin}
    return {**told, "flushed": is_flushed, **samples.figures(-(-sent // every), end)}


def main() -> None:
    task = Task(sys.argv[2])
    client = CLIENTS[sys.argv[1]](task)
    warm_up(client, task)
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(pace(client, task)), flush=True)
    sys.stdin.readline()
    # This closes without waiting: records without an outcome are not part of the figures.
    os._exit(0)


if __name__ == "__main__":
    main()
