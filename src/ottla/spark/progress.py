"""Shows how far Spark is: its tasks done and to do, as its own status tracker counts them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.screen import Step

_LOOK_EVERY_S = 0.3


@contextmanager
def watching(spark: SparkSession, step: Step) -> Iterator[None]:
    """Keep the step's bar up to date with the jobs that start within the block."""
    ended = threading.Event()
    tracker = spark.sparkContext.statusTracker()
    known = set(tracker.getJobIdsForGroup(None))
    # Started and ended by the block: a thread that asks a stopped session would raise.
    thread = threading.Thread(
        target=_watch, args=(tracker, known, step, ended), name="ottla-spark-progress", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _watch(tracker: Any, known: set[int], step: Step, ended: threading.Event) -> None:
    # If Spark is gone, the caller that waits for its answer gets the error; there is nothing left to show.
    with suppress(Exception):
        _show_tasks(tracker, known, step, ended)


def _show_tasks(tracker: Any, known: set[int], step: Step, ended: threading.Event) -> None:
    # Spark's tracker forgets stages that have ended: what was last seen of them still counts.
    tasks: dict[int, tuple[int, int]] = {}
    while not ended.wait(_LOOK_EVERY_S):
        for job_id in tracker.getJobIdsForGroup(None):
            if job_id in known:
                continue
            job = tracker.getJobInfo(job_id)
            for stage_id in job.stageIds if job is not None else ():
                stage = tracker.getStageInfo(stage_id)
                if stage is not None:
                    tasks[stage_id] = (stage.numCompletedTasks, stage.numTasks)
        if tasks:
            step.show(sum(done for done, _ in tasks.values()), sum(total for _, total in tasks.values()))
