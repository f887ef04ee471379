"""Loads Spark in a thread of its own while the producer works: it takes seconds, and nothing waits for it yet.

Loading includes a first small job, so that the Python workers, too, are there before the first real one needs them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ottla.errors import OttlaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE_S = 120.0
# A JVM that lives for half a minute does not earn back what its best compiler costs: a third less CPU on two cores.
_SHORT_LIVED = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}


class SparkLoading:
    """`with SparkLoading() as loading: ...; loading.session()`; the session is stopped at the end of the block."""

    def __init__(self) -> None:
        self._session: SparkSession | None = None
        self._error: BaseException | None = None
        self._given_up = False
        # Set once there is a session or an error; the first small job may still be running then.
        self._began = threading.Event()
        self._thread = threading.Thread(target=self._load, name="ottla-spark-loading", daemon=True)

    def session(self) -> SparkSession:
        """The session, once it is there and warm; raises what loading it ended with."""
        self._thread.join(_PATIENCE_S)
        if self._thread.is_alive():
            raise OttlaError(f"Spark did not start within {_PATIENCE_S:.0f} s")
        if self._error is not None:
            raise self._error
        if self._session is None:
            raise OttlaError("Spark gave no session")
        return self._session

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A JVM that is just starting cannot be stopped, and would go on writing to a folder that is being removed.
        self._given_up = True
        self._began.wait(_PATIENCE_S)
        if self._session is not None:
            self._session.stop()
        self._thread.join(_PATIENCE_S)

    def _load(self) -> None:
        try:
            from ottla.spark.session import local_session

            self._session = local_session("ottla run", settings=_SHORT_LIVED)
            self._began.set()
            if not self._given_up:
                _warm_up(self._session)
        except BaseException as error:
            self._error = error
        finally:
            self._began.set()


def _warm_up(session: SparkSession) -> None:
    """Have Spark start its planner and its Python workers, with all that these import."""
    source = session.read.format("ottla").option("kafka.bootstrap.servers", "localhost:9092")
    source.option("subscribe", "nothing-is-read-yet").load()
    session.range(2, numPartitions=2).mapInArrow(_pass_on, "id long").count()


def _pass_on(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches
