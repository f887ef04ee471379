"""PySpark meets ottla: source and sink by Spark's Python Data Source API (no jar), and a session to try them in.

If Spark's workers would run another Python than this program, importing it sets the environment variable PYSPARK_PYTHON
(`worker_python`). A session that runs already is not changed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ottla.spark.stream_offsets import consumer_lag
from ottla.spark.threads import thread_target
from ottla.spark.worker_python import name_this_python

if TYPE_CHECKING:
    from ottla.spark.lag import LagListener, offsets_behind_latest
    from ottla.spark.schema_functions import avro_schema, from_avro, from_protobuf, to_avro, to_protobuf

__all__ = [
    "LagListener",
    "avro_schema",
    "consumer_lag",
    "from_avro",
    "from_protobuf",
    "offsets_behind_latest",
    "thread_target",
    "to_avro",
    "to_protobuf",
]

name_this_python(os.environ)


def __getattr__(name: str) -> Any:
    # They import PySpark's sessions, which the source does not need on the driver.
    if name in ("LagListener", "offsets_behind_latest"):
        from ottla.spark import lag

        return getattr(lag, name)
    if name in ("avro_schema", "from_avro", "from_protobuf", "to_avro", "to_protobuf"):
        from ottla.spark import schema_functions

        return getattr(schema_functions, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
