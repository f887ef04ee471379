"""PySpark meets ottla: source and sink by Spark's Python Data Source API (no jar), and a session to try them in.

If Spark's workers would run another Python than this program, importing it sets the environment variable PYSPARK_PYTHON
(`worker_python`). A session that runs already is not changed.
"""

from __future__ import annotations

import os

from ottla.spark.stream_offsets import consumer_lag
from ottla.spark.worker_python import name_this_python

__all__ = ["consumer_lag"]

name_this_python(os.environ)
