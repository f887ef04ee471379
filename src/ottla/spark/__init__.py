"""PySpark meets ottla: source and sink by Spark's Python Data Source API (no jar), and a session to try them in.

If Spark's workers would run another Python than this program, importing it sets the environment variable PYSPARK_PYTHON
(`worker_python`). A session that runs already is not changed.
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
