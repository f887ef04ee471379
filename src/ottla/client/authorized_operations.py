"""What brokers say a user may do with a topic (KIP-430): a bit for each of Kafka's AclOperations.

A user who may only describe a topic gets no error from brokers until a request needs more; `check_allowed` raises it at
once.
"""

from __future__ import annotations

from collections.abc import Set

from ottla.protocol.error_codes import ErrorCode, kafka_error

_NOT_TOLD = -(2**31)
_OF_TOPICS = {
    3: "READ",
    4: "WRITE",
    5: "CREATE",
    6: "DELETE",
    7: "ALTER",
    8: "DESCRIBE",
    10: "DESCRIBE_CONFIGS",
    11: "ALTER_CONFIGS",
}


def read_operations(bits: int) -> frozenset[str] | None:
    """The operations' names; None where the broker has not sent any."""
    if bits == _NOT_TOLD:
        return None
    return frozenset(name for number, name in _OF_TOPICS.items() if bits & 1 << number)


def check_allowed(topic: str, allowed: Set[str] | None, needed: Set[str]) -> None:
    """Raise KafkaError (TOPIC_AUTHORIZATION_FAILED) if a needed operation is not allowed (None: not known)."""
    if allowed is not None and not needed <= allowed:
        lacking = " and ".join(sorted(needed - allowed))
        raise kafka_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"no {lacking} on the topic", topic=topic)
