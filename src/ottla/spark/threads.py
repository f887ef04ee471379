"""What a thread of a user's program needs before it writes with `format("ottla")`.

Spark looks up Python data sources in the active session, and a new thread has none (DATA_SOURCE_NOT_FOUND). It also has
none of the local properties by which the sink knows the micro-batch that a function of foreachBatch writes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")


def thread_target(session: SparkSession) -> Callable[[Callable[_Given, _Answer]], Callable[_Given, _Answer]]:
    """`Thread(target=thread_target(rows.sparkSession)(function))`: the function can write in that thread.

    Within foreachBatch its rows belong to the micro-batch. Call this in the thread that starts the other one. It does
    what `pyspark.inheritable_thread_target` does, and makes this session the thread's active one.
    """
    from pyspark import inheritable_thread_target

    inherit: Any = inheritable_thread_target(session)

    def wrap(function: Callable[_Given, _Answer]) -> Callable[_Given, _Answer]:
        @functools.wraps(function)
        def call(*given: _Given.args, **named: _Given.kwargs) -> _Answer:
            # A session of Spark Connect has no JVM here, and looks data sources up on its server.
            jvm: Any = getattr(session, "_jvm", None) if hasattr(session, "_jsparkSession") else None
            if jvm is not None:
                jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)
            return function(*given, **named)

        wrapped: Callable[_Given, _Answer] = inherit(call)
        return wrapped

    return wrap
