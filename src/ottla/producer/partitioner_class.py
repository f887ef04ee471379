"""What `partitioner.class` may be: a name, Java's or a short one, or a function that places a whole column of keys.

    default               murmur2 of the key; without a key KIP-794's sticky partition
    uniform_sticky        the sticky partition, whatever the key
    round_robin           the next partition for every record, whatever the key
    consistent_random     CRC-32 of the key, the default of librdkafka's clients (confluent-kafka)

`PARTITIONERS` has the names of Java's classes, too. `murmur2_random` is librdkafka's name for Java's default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.connection.setting import nearest_name, refuse_coroutine, shown
from ottla.errors import ConfigError

_JAVA = "org.apache.kafka.clients.producer."
PARTITIONERS = {
    "default": "default",
    "uniform_sticky": "uniform_sticky",
    "round_robin": "round_robin",
    "consistent_random": "consistent_random",
    "murmur2_random": "default",
    f"{_JAVA}internals.DefaultPartitioner": "default",
    f"{_JAVA}UniformStickyPartitioner": "uniform_sticky",
    f"{_JAVA}RoundRobinPartitioner": "round_robin",
}


def read_partitioner(given: Any) -> str | Callable[..., Any]:
    """Return the short name, or the function itself; ConfigError for anything else."""
    if callable(given):
        if isinstance(given, type):
            raise ConfigError(
                f"partitioner.class={given.__qualname__} is a class; give a function, or an object of the class."
            )
        refuse_coroutine("partitioner.class", given)
        function: Callable[..., Any] = given
        return function
    known = PARTITIONERS.get(given.strip()) if isinstance(given, str) else None
    if known is None:
        nearest = nearest_name(given, PARTITIONERS) if isinstance(given, str) else None
        hint = f" Did you mean {nearest}?" if nearest else ""
        raise ConfigError(
            f"partitioner.class={shown(given)} is not known; allowed are {', '.join(PARTITIONERS)}, or a function "
            f"(keys, cluster) -> partitions.{hint}"
        )
    return known
