"""What every test of the exactly-once sink proves at its end, with Spark and without: each row once, nothing open."""

from __future__ import annotations

from typing import Any

import ottla

_BUSY = ("Ongoing", "PrepareCommit", "PrepareAbort")


def visible_rows(bootstrap_servers: str, topic: str) -> dict[int, list[int]]:
    """The numbers that a read_committed reader finds, by partition in offset order."""
    found: dict[int, list[int]] = {}
    with ottla.Reader(bootstrap_servers, topic, isolation_level="read_committed") as reader:
        for batch in reader:
            rows = [int(value) for value in batch.column("value").to_pylist()]
            found.setdefault(batch.column("partition")[0].as_py(), []).extend(rows)
    return found


def busy(bootstrap_servers: str, prefix: str = "") -> list[Any]:
    """What ListTransactions says of transactions that are not over, on every broker."""
    with ottla.Admin(bootstrap_servers) as admin:
        return [each for each in admin.list_transactions(prefix) if each.state in _BUSY]


def ongoing(bootstrap_servers: str, prefix: str) -> list[Any]:
    """Those of them whose end nobody has asked for."""
    return [each for each in busy(bootstrap_servers, prefix) if each.state == "Ongoing"]


def assert_rows_once(found: dict[int, list[int]], count: int, keys: int) -> None:
    """The rows 0 to `count` once each, and those of one key (row modulo `keys`) in order."""
    assert sorted(row for rows in found.values() for row in rows) == list(range(count))
    for rows in found.values():
        for key in range(keys):
            of_key = [row for row in rows if row % keys == key]
            assert of_key == sorted(of_key)
