"""The decision record R, as it is stored in the control topic: it names the transactions of a batch. Pure.

It is one record. Its key is the sink id, its value JSON, so that any Kafka tool can show it. It is written in the
driver's own transaction: the batch is decided when that transaction is committed, and in no other way.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, NamedTuple

from ottla.errors import OttlaError
from ottla.producer.transaction_states import TransactionIdentity
from ottla.sink.batch import BatchId, Entry, Totals

_VERSION = 1


class Decision(NamedTuple):
    """A decision: the rows of `batch` are those of the transactions in `entries`, and of no other.

    `tasks` is the number of tasks, also those without rows. `driver_identity` is the one that decided.
    `run_id` is the run of the query that decided it, or found later that it is done. `differed` is how often the batch
    was run again with other rows, which were not written.
    `loss_accepted`: the batch counts as done without its lost entries (`ottla sink recover --accept-loss`).
    """

    sink_id: str
    batch: BatchId
    totals: Totals
    tasks: int
    entries: tuple[Entry, ...]
    driver_identity: TransactionIdentity
    decided_ms: int
    run_id: str = ""
    differed: int = 0
    loss_accepted: bool = False

    @property
    def unsettled(self) -> tuple[Entry, ...]:
        """Entries without a note of what became of them."""
        return tuple(each for each in self.entries if not each.landed and not each.lost)

    @property
    def lost(self) -> tuple[Entry, ...]:
        """Entries whose rows are not there, because their transactions were not committed in time."""
        return tuple(each for each in self.entries if each.lost)

    def settled(self, lost: Collection[Entry]) -> Decision:
        """The decision with a note at each entry that had none: lost or landed (committed)."""
        gone = {each.receipt_offset for each in lost}

        def noted(entry: Entry) -> Entry:
            is_lost = entry.receipt_offset in gone
            return entry if entry.landed or entry.lost else entry._replace(landed=not is_lost, lost=is_lost)

        return self._replace(entries=tuple(noted(each) for each in self.entries))


def is_same(one: Decision, other: Decision) -> bool:
    """Whether both are the same decision; their notes may differ."""
    return (one.driver_identity, one.batch) == (other.driver_identity, other.batch)


def encode(decision: Decision) -> bytes:
    """The record's value."""
    # The names stay as they are: earlier versions of ottla wrote and read them.
    told = {
        "version": _VERSION,
        "sink": decision.sink_id,
        "query": decision.batch.query_id,
        "batch": decision.batch.batch_id,
        "rows": decision.totals.rows,
        "digest": decision.totals.digest,
        "tasks": decision.tasks,
        "coordinator": list(decision.driver_identity),
        "decided_ms": decision.decided_ms,
        "run": decision.run_id,
        "differed": decision.differed,
        "loss_accepted": decision.loss_accepted,
        "entries": [encode_entry(entry) for entry in decision.entries],
    }
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()


def encode_entry(entry: Entry) -> dict[str, Any]:
    """The entry as it is written in JSON."""
    return {
        "partition_id": entry.partition_id,
        "transaction": list(entry.identity),
        "rows": entry.totals.rows,
        "digest": entry.totals.digest,
        "marker": entry.receipt_offset,
        "landed": entry.landed,
        "lost": entry.lost,
    }


def decode(value: bytes, at: str = "") -> Decision:
    """Read a record's value; OttlaError for one that this version of ottla cannot read, with where it is stored."""
    try:
        told = json.loads(value)
        version = told["version"]
        if version != _VERSION:
            raise OttlaError(
                f"the decision {at or 'of this sink'} has format {version!r}, which this version of ottla does not "
                "know; go on with the version that wrote it, or a newer one"
            )
        return Decision(
            told["sink"],
            BatchId(told["query"], told["batch"]),
            Totals(told["rows"], told["digest"]),
            told["tasks"],
            tuple(_decode_entry(entry) for entry in told["entries"]),
            TransactionIdentity(*told["coordinator"]),
            told["decided_ms"],
            told["run"],
            told["differed"],
            told["loss_accepted"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise OttlaError(
            f"the record {at or 'of the control topic'} is no decision of a sink ({type(error).__name__}: {error}): "
            "only ottla may write to a sink's control topic. If sink.control.topic (--control-topic) names the wrong "
            "topic, correct it. If it is right, another program has written there: stop that program"
        ) from None


def _decode_entry(told: dict[str, Any]) -> Entry:
    return Entry(
        told["partition_id"],
        TransactionIdentity(*told["transaction"]),
        Totals(told["rows"], told["digest"]),
        told["marker"],
        told["landed"],
        told["lost"],
    )
