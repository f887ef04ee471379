"""Which Python Spark's workers run; these look for `format("ottla")`.

It is `PYSPARK_PYTHON`, else the first `python3` on PATH. If the virtual environment is not activated (`venv/bin/python
job.py`), that is another Python than the program's, and ottla is not installed there. The JVM reads PYSPARK_PYTHON and
PATH when it starts, so they must be right before the first session is made.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import MutableMapping
from pathlib import Path

# If one of these is set, the workers' Python is chosen already. The last one is set by spark-submit, whose JVM runs
# already, and which has a setting of its own (spark.pyspark.python).
_SAID_BY = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT")


def name_this_python(environment: MutableMapping[str, str]) -> None:
    """Set PYSPARK_PYTHON to this interpreter, unless it is chosen already or `python3` is this environment's.

    In the last case nothing is set, because the nodes of a cluster may have their `python3` in another folder.
    """
    if not sys.executable or any(name in environment for name in _SAID_BY):
        return
    found = shutil.which("python3", path=environment.get("PATH", os.defpath))
    if found is None or not Path(found).parent.samefile(Path(sys.executable).parent):
        environment["PYSPARK_PYTHON"] = sys.executable
