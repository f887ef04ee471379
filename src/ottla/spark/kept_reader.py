"""A reader that is reused by the next task of the same plan in the same Python worker.

To open a reader costs a thread, connections and the topic's metadata, which grows with its partitions: with 2,000
partitions that is more than reading one of them. So a task that is done passes its reader to the next task. That task
must be of the same plan, because a reader's metadata must not be older than the offsets that are read with it. A reader
is reused for a second at most, because a topic may be made anew meanwhile. Then a timer closes it.

Invariants: at most one reader is kept, and it is not in use. A reader that has not read its ranges to the end is
closed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from typing import Any

from ottla.client.reader import Reader

_KEPT_S = 1.0


class _Kept:
    """The reader that no task uses now, and the key of its plan and settings."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.key: Hashable = None
        self.reader: Reader | None = None
        self.timer: threading.Timer | None = None


_kept = _Kept()
# When each reader that is in use was made.
_made_s: dict[int, float] = {}


def take_reader(
    bootstrap_servers: str,
    settings: dict[str, Any],
    plan: str,
    assignments: dict[tuple[str, int], tuple[int, int]],
    topic_ids: dict[str, bytes],
) -> Reader:
    """A reader of these ranges: the kept one, where it is of this plan and has these settings, else a new one."""
    reader = _taken(_key(bootstrap_servers, settings, plan)) if plan else None
    if reader is not None:
        reader.assign(assignments, topic_ids=topic_ids)
        return reader
    reader = Reader(bootstrap_servers, assignments=assignments, topic_ids=topic_ids, **settings)
    _made_s[id(reader)] = time.monotonic()
    return reader


def give_back(reader: Reader, bootstrap_servers: str, settings: dict[str, Any], plan: str) -> None:
    """Keep a reader that is done with its ranges for the next task of the plan; close any other."""
    made_s = _made_s.pop(id(reader), 0.0)
    left_s = made_s + _KEPT_S - time.monotonic()
    if not plan or left_s <= 0 or not reader.is_done:
        reader.close()
        return
    with _kept.lock:
        older, _kept.reader, _kept.key = _kept.reader, reader, (_key(bootstrap_servers, settings, plan), made_s)
        if _kept.timer is not None:
            _kept.timer.cancel()
        _kept.timer = threading.Timer(left_s, _close, (reader,))
        _kept.timer.daemon = True
        _kept.timer.start()
    if older is not None:
        older.close()


def _key(bootstrap_servers: str, settings: dict[str, Any], plan: str) -> Hashable:
    return bootstrap_servers, tuple(sorted(settings.items())), plan


def _taken(key: Hashable) -> Reader | None:
    with _kept.lock:
        reader, kept = _kept.reader, _kept.key
        if reader is None:
            return None
        _kept.reader = _kept.key = None
        assert _kept.timer is not None
        _kept.timer.cancel()
    assert isinstance(kept, tuple)
    if kept[0] != key or kept[1] + _KEPT_S <= time.monotonic():
        reader.close()
        return None
    _made_s[id(reader)] = kept[1]
    return reader


def _close(reader: Reader) -> None:
    with _kept.lock:
        if _kept.reader is not reader:
            return
        _kept.reader = _kept.key = None
    reader.close()
