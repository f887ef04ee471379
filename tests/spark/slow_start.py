"""Queries that Spark has ended because one of its Python processes started too slowly are started again.

Spark gives the process of a streaming source ten seconds, which no setting changes. On a busy machine it may take
longer; the query has done nothing by then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

STARTED_TOO_SLOWLY = "Python worker failed to connect back"
T = TypeVar("T")


def started_again(run: Callable[[], T]) -> T:
    """Return what `run` returns; run it again whenever it fails only because of a slow start."""
    while True:
        try:
            return run()
        except Exception as error:
            if STARTED_TOO_SLOWLY not in str(error):
                raise
