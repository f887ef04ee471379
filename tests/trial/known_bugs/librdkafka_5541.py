# ruff: noqa: T201
"""librdkafka#5541: a member of a consumer group (KIP-848) that polls too late does not come back.

    python tests/trial/known_bugs/librdkafka_5541.py 127.0.0.1:9092

This needs Linux and confluent-kafka, nothing else, so it runs with any version of it. It makes a topic with 20 records,
and reads them as the only member of a group. Then it does not poll for longer than `max.poll.interval.ms`, and the
member leaves its group. When it polls again, it has to come back, read 20 more records, and commit its offsets.

The bug is a race inside librdkafka: the answer to its leaving must arrive before its main thread goes on. Whoever
reads librdkafka's log decides when that is, because the thread waits until its line is taken: the log is a pipe that
holds one line, and the line about the leaving stays in it for a while.

The exit status is 0 if the member came back, 1 if it did not, and 2 if it never left, which proves nothing.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
import uuid
from concurrent.futures import TimeoutError as NoAnswer

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, libversion
from confluent_kafka.admin import AdminClient, NewTopic

_AS_MEMBER = "LIBRDKAFKA_5541_MEMBER"
_COUNT = 20
_POLL_INTERVAL_MS = 3000
_PATIENCE_S = 30
_HELD_S = 0.5
# F_SETPIPE_SZ, which Python 3.9 does not name. With O_DIRECT each write is a packet, and one page holds one.
_SET_PIPE_SIZE = 1031
_PAGE = 4096


def usage() -> int:
    """What is to be given."""
    print("give the address of one Kafka broker, for example 127.0.0.1:9092", file=sys.stderr)
    return 2


def read_log() -> int:
    """Start the member with a log that is read line by line, and wait where it says that it leaves."""
    log, end = os.pipe2(os.O_DIRECT)
    fcntl.fcntl(end, _SET_PIPE_SIZE, _PAGE)
    with subprocess.Popen([sys.executable, *sys.argv], stderr=end, env={**os.environ, _AS_MEMBER: "1"}) as member:
        os.close(end)
        is_late = has_left = False
        while line := os.read(log, 1 << 16):
            is_late |= b"|MAXPOLL|" in line
            if is_late and not has_left and b"|LEAVE|" in line:
                has_left = True
                time.sleep(_HELD_S)
            if not line.startswith(b"%"):
                sys.stderr.buffer.write(line)
    if not has_left:
        print("the member never left its group: this proves nothing")
        return 2
    return member.returncode


def live(bootstrap: str) -> int:
    """The member: read, be late, read again."""
    topic = f"librdkafka-5541-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    try:
        admin.create_topics([NewTopic(topic, 1)])[topic].result(_PATIENCE_S)
    except (NoAnswer, KafkaException) as error:
        why = str(error) or f"no answer within {_PATIENCE_S} s"
        print(f"no topic can be made at {bootstrap} ({why}): is a Kafka running there?", flush=True)
        return 2
    print("librdkafka", libversion()[0], flush=True)
    settings = {"group.id": topic, "group.protocol": "consumer", "auto.offset.reset": "earliest"}
    late = {"max.poll.interval.ms": _POLL_INTERVAL_MS, "debug": "cgrp"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings, **late})
    consumer.subscribe([topic])
    write(bootstrap, topic, 0)
    if not has_read(consumer, 0):
        return 1
    time.sleep(_POLL_INTERVAL_MS / 1000 + 2)
    write(bootstrap, topic, _COUNT)
    came_back = has_read(consumer, _COUNT) and has_committed(consumer)
    consumer.close()
    return 0 if came_back else 1


def write(bootstrap: str, topic: str, first: int) -> None:
    """The records from this number on."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(first, first + _COUNT):
        producer.produce(topic, b"%d" % number)
    producer.flush(_PATIENCE_S)


def has_read(consumer: Consumer, first: int) -> bool:
    """Does the consumer read the records from this number on?"""
    missing = set(range(first, first + _COUNT))
    give_up = time.monotonic() + _PATIENCE_S
    while missing and time.monotonic() < give_up:
        try:
            message = consumer.poll(0.1)
        except KafkaException as error:
            print("poll raises:", error, flush=True)
            return False
        if message is None:
            continue
        error = message.error()
        if error is None:
            missing.discard(int(message.value()))
        elif error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            print("poll says:", error.str(), flush=True)
        if error is not None and error.fatal():
            return False
    print(f"{_COUNT - len(missing)} of {_COUNT} records read", flush=True)
    return not missing


def has_committed(consumer: Consumer) -> bool:
    """Is the consumer a member of its group? It may go on with what it had, and not know that it is none."""
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        print("commit fails:", error.args[0].str(), flush=True)
        return False
    print("offsets committed", flush=True)
    return True


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(usage())
    sys.exit(live(sys.argv[1]) if _AS_MEMBER in os.environ else read_log())
