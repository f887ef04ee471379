"""What brokers say a user may do with a topic (KIP-430): a bit for each of Kafka's AclOperations."""

from __future__ import annotations

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
    """The operations' names; None where the broker does not tell."""
    if bits == _NOT_TOLD:
        return None
    return frozenset(name for number, name in _OF_TOPICS.items() if bits & 1 << number)
