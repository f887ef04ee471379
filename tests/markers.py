"""Waiting for what a commit leaves to be done: tests that read committed records share it."""

from __future__ import annotations

import ottla


def await_markers(bootstrap_servers: str, topic: str) -> None:
    """Wait until no transaction is open or about to end: a commit is answered before its markers are written."""
    while True:
        ends = []
        for isolation_level in ("read_uncommitted", "read_committed"):
            with ottla.Reader(bootstrap_servers, topic, end="latest", isolation_level=isolation_level) as reader:
                for _ in reader.iter_raw():
                    pass
                ends.append({place: end for place, (_, end) in reader.positions().items()})
        if ends[0] == ends[1]:
            return
