"""What `partitioner.class` may be: a name, Java's or a short one.

    default               murmur2 of the key; without a key KIP-794's sticky partition
    uniform_sticky        the sticky partition, whatever the key
    round_robin           the next partition for every record, whatever the key
    consistent_random     CRC-32 of the key, as librdkafka's clients (confluent-kafka) do unless told otherwise

Java's classes count as the short name beside them. `murmur2_random` is librdkafka's name for Java's default.
"""

from __future__ import annotations

from typing import Any

from ottla.connection.setting import nearest_name
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


def read_partitioner(given: Any) -> str:
    """Return the short name; ConfigError for anything else."""
    known = PARTITIONERS.get(given.strip()) if isinstance(given, str) else None
    if known is None:
        nearest = nearest_name(given, PARTITIONERS) if isinstance(given, str) else None
        hint = f" Did you mean {nearest}?" if nearest else ""
        raise ConfigError(f"partitioner.class={given!r} is not known; allowed are {', '.join(PARTITIONERS)}.{hint}")
    return known
