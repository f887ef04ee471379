"""Which topic names Kafka allows, and which ones are the brokers' own."""

from __future__ import annotations

NAME_LENGTH_MAX = 249
# Written by coordinators alone; clients may read them.
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL_TOPICS = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def topic_name_fault(name: str) -> str | None:
    """None for a good topic name, otherwise one sentence saying what is wrong with it."""
    if not name or name in (".", ".."):
        return f"a topic cannot be called {name!r}"
    if len(name) > NAME_LENGTH_MAX:
        return f"a topic name has up to {NAME_LENGTH_MAX} characters, not {len(name)}"
    wrong = [character for character in name if character not in _ALLOWED]
    if wrong:
        return f"topic name {name!r} contains {wrong[0]!r}; allowed are ASCII letters, digits, '.', '_' and '-'"
    return None
