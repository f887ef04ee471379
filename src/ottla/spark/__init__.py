"""PySpark meets ottla: source and sink by Spark's Python Data Source API (no jar), and a session to try them in.

Importing it sets the environment variable PYSPARK_PYTHON where workers would run a Python without ottla
(`worker_python`); a session that is up already goes on as it was.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ottla.spark.stream_offsets import consumer_lag
from ottla.spark.worker_python import name_this_python

if TYPE_CHECKING:
    from ottla.spark.by_partition import sink_partitions

__all__ = ["consumer_lag", "sink_partitions"]

name_this_python(os.environ)


def __getattr__(name: str) -> Any:
    # It brings pyarrow along, which a driver's source has no need of.
    if name == "sink_partitions":
        from ottla.spark.by_partition import sink_partitions

        return sink_partitions
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
