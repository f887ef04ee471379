"""What must be true of a history: each row of a finished batch once, nothing torn, no reader held up for good."""

from __future__ import annotations

from collections import Counter

from .engine import Query


def judge(query: Query, visible: list[str], told_lost: dict[int, int]) -> list[str]:
    """Findings, empty for a good history. `told_lost`: how many rows of a batch a user was told to be gone for good."""
    found = []
    for batch in range(len(query.batch_rows)):
        rows = [row for row in visible if int(row.split(".")[0]) == batch]
        if batch not in query.committed:
            if rows:
                found.append(f"batch {batch} is not finished, and {len(rows)} of its rows can be read")
            continue
        found += _of_batch(query, batch, rows, told_lost.get(batch, 0))
    return found


def _of_batch(query: Query, batch: int, rows: list[str], told_lost: int) -> list[str]:
    twice = [row for row, count in Counter(rows).items() if count > 1]
    if twice:
        return [f"batch {batch}: twice: {twice}"]
    candidates = _complete_runs(query, batch)
    if told_lost and any(set(rows) < set(one) and len(one) - len(rows) == told_lost for one in candidates):
        # Where rows do not repeat, another attempt of the task whose rows are lost may have had none.
        return []
    if any(sorted(rows) == sorted(expected) for expected in candidates):
        return [f"batch {batch}: {told_lost} rows were told lost, and none are"] if told_lost else []
    return [f"batch {batch}: {sorted(rows)} can be read, which no run of it has written ({told_lost} told lost)"]


def _complete_runs(query: Query, batch: int) -> list[list[str]]:
    """The rows of each run of a batch, one attempt a task; any attempt of a run where a task had more than one."""
    by_run: dict[int, dict[int, list[list[str]]]] = {}
    tasks: dict[int, int] = {}
    for written in query.written.values():
        if written.batch == batch:
            by_run.setdefault(written.run, {}).setdefault(written.partition_id, []).append(written.rows)
            tasks[written.run] = written.tasks
    complete: list[list[str]] = []
    for run, of_tasks in by_run.items():
        if len(of_tasks) == tasks[run]:
            options: list[list[str]] = [[]]
            for attempts in of_tasks.values():
                options = [[*one, *rows] for one in options for rows in attempts]
            complete += options
    return complete
