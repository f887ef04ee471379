"""What options may name in a topic: partitions, its beginning, its end, an offset, a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime

from ottla.errors import UserMistake

Where = int | str | datetime
"""An offset, "earliest", "latest", or a time with its zone."""

A_TIME = "a time such as 2026-11-27T09:00 (UTC unless it has a zone)"
_OFFSET_MAX = 2**63 - 1


def parse_where(option: str, text: str, words: tuple[str, ...] = ("earliest", "latest")) -> Where:
    """What `text` names: one of `words`, an offset or a time; UserMistake."""
    given = text.strip()
    if given in words:
        return given
    if given.isascii() and given.isdecimal() and int(given) <= _OFFSET_MAX:
        return int(given)
    # Digits alone would be a date to Python.
    if not given.isdecimal():
        try:
            time = datetime.fromisoformat(given)
        except ValueError:
            pass
        else:
            return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    raise UserMistake(f"{option} {text} is neither {', '.join(words)}, an offset, nor {A_TIME}")


def check_partitions(topic: str, given: Iterable[int], known: Collection[int]) -> None:
    """UserMistake for a partition that the topic does not have."""
    for each in given:
        if each not in known:
            raise UserMistake(f"{topic} has no partition {each}: it has {len(known)}, from 0 to {len(known) - 1}")
