"""Loads Spark in a thread of its own while the producer works: it takes seconds, and nothing waits for it yet.

Loading includes a first small job, so that the Python workers, too, are there before the first real one needs them.

Spark works in a Java process of its own. If that process ends during the work (killed, out of memory), PySpark raises
one of several exceptions; at the end of the block it becomes an OttlaError of one sentence.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ottla.errors import OttlaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE_S = 300.0
_JAVA_ENDS_S = 2.0  # its sockets break before its parent can learn how it ended
# From so many records on, Java's C2 compiler and Spark's compiled queries save more time than they take.
_MANY_RECORDS = 1_000_000
# A JVM that lives for half a minute takes a third less CPU without C2, on two cores.
_SHORT_LIVED = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
# Without these, Spark writes Java code for each query and compiles it, which takes seconds.
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def java_settings(records: int) -> dict[str, str]:
    """A session's settings that suit work on so many records."""
    return {} if records >= _MANY_RECORDS else _SHORT_LIVED


def query_settings(records: int) -> dict[str, str]:
    """Settings of a query over so many records, given when it begins."""
    return {} if records >= _MANY_RECORDS else _INTERPRETED


class SparkLoading:
    """`with SparkLoading(...) as loading: ...; loading.session()`; the session is stopped at the end of the block.

    `master`, `app_name` and `settings` are those of `session_at`.
    """

    def __init__(self, app_name: str, master: str | None = None, settings: dict[str, str] | None = None) -> None:
        self._app_name, self._master, self._settings = app_name, master, settings
        self._session: SparkSession | None = None
        self._error: BaseException | None = None
        self._given_up = False
        # Set once there is a session or an error; the first small job may still be running then.
        self._began = threading.Event()
        self._thread = threading.Thread(target=self._load, name="ottla-spark-loading", daemon=True)

    def session(self) -> SparkSession:
        """Wait until the session is there and its first job is done; raises the error of loading it."""
        self._thread.join(_PATIENCE_S)
        if self._thread.is_alive():
            raise OttlaError(f"Spark did not start within {_PATIENCE_S:.0f} s")
        if self._error is not None:
            raise self._error
        if self._session is None:
            raise OttlaError("Spark gave no session")
        return self._session

    def __enter__(self) -> Self:
        try:
            self._thread.start()
        except BaseException:
            # Interrupted while this waited for the thread to start; the thread starts all the same.
            self._given_up = True
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A JVM that is just starting cannot be stopped, and would go on writing to a folder that is being removed.
        self._given_up = True
        self._began.wait(_PATIENCE_S)
        ending = None
        failed = isinstance(error, Exception) and not isinstance(error, OttlaError)
        if self._session is not None:
            from ottla.spark.session import how_java_ended

            ending = how_java_ended(_JAVA_ENDS_S if failed else 0.0)
            try:
                # PySpark warns where Java is gone already, as it is when SIGTERM was for the whole group.
                with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
                    self._session.stop()
            except Exception:
                # A Java that is gone needs no stopping.
                if how_java_ended(_JAVA_ENDS_S) is None:
                    raise
        self._thread.join(_PATIENCE_S)
        if ending is not None and failed:
            raise OttlaError(
                f"Spark's Java process ended in the middle of its work ({ending}): where the system was short of "
                "memory, make some free and run again"
            ) from error

    def _load(self) -> None:
        try:
            from ottla.spark.session import session_at

            if self._given_up:
                return
            self._session = session_at(self._master, self._app_name, settings=self._settings)
            _be_quiet_without_java(self._session)
            self._began.set()
            if not self._given_up:
                _warm_up(self._session)
        except BaseException as error:
            self._error = error
        finally:
            self._began.set()


def _be_quiet_without_java(session: SparkSession) -> None:
    """Keep a thread of PySpark from printing a traceback when Java ends; `SparkLoading` has one sentence for that."""
    server = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None


def _warm_up(session: SparkSession) -> None:
    """Have Spark start its planner and its Python workers, with all that these import."""
    source = session.read.format("ottla").option("kafka.bootstrap.servers", "localhost:9092")
    source.option("subscribe", "nothing-is-read-yet").load()
    session.range(2, numPartitions=2).mapInArrow(_pass_on, "id long").count()


def _pass_on(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches
