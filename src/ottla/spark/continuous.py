"""Refuses continuous processing into the sink: Spark allows it, and then drops every row without an error.

Spark passes whole partitions to a Python sink. In a continuous query Spark has rows one by one, and passes nothing: no
task calls `write`, each epoch is committed with None in place of the tasks' messages, and the checkpoint goes on past
rows that were never written.

Spark does not tell a sink which trigger a query has, so there are two checks:
- When a writer is planned, if the checkpoint is a folder of this machine. Spark writes a micro-batch to the
  checkpoint's `offsets` before it is planned, and an epoch only when it is over. A writer that commits or aborts does
  not check this, because another driver may have finished the micro-batch by then.
- Otherwise at the first commit. Spark writes that error to its log, and the query makes no progress.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.errors import UserMistake
from ottla.spark.checkpoint import folder_of

if TYPE_CHECKING:
    from pyspark.sql.datasource import WriterCommitMessage

_REFUSED = (
    "Continuous processing cannot be used with the ottla sink, because Spark gives the sink no rows there: use "
    "trigger(processingTime=...) or trigger(availableNow=True)."
)


def refuse_continuous_query(checkpoint: str | None) -> None:
    """UserMistake where the query that is planned is continuous, as far as its checkpoint tells."""
    folder = folder_of(checkpoint)
    if folder is None:
        return
    if (folder / "metadata").is_file() and _newest(folder / "offsets") <= _newest(folder / "commits"):
        raise UserMistake(_REFUSED)


def refuse_epoch(messages: Sequence[WriterCommitMessage | None]) -> None:
    """UserMistake if a task's message is missing, which never happens in the commit of a micro-batch."""
    if None in messages:
        raise UserMistake(_REFUSED)


def _newest(log: Path) -> int:
    """The newest number in one of a checkpoint's logs, -1 where there is none."""
    try:
        return max((int(entry.name) for entry in log.iterdir() if entry.name.isdecimal()), default=-1)
    except OSError:
        return -1
