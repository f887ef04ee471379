"""A quiet Spark session on this machine, for `ottla run` and for trying things out.

Spark is configured from nothing but what stands here: a configuration folder that does not exist keeps the user's
`spark-defaults.conf` and logging out, and a `SPARK_HOME` of another version is not looked at. The environment is as
before once the session is up.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.errors import OttlaError, UserMistake
from ottla.spark.java import check_bash, find_java, lay_java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JAVA_ENDS_S = 2.0
# What goes wrong reaches Python as an exception. The appender is there because Spark takes a configuration that has
# none for no configuration at all, and brings its own; the gateway's level because it is announced where it differs.
_LOGGING = """\
appender.none.type = Null
appender.none.name = none
rootLogger.level = off
rootLogger.appenderRef.none.ref = none
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
"""


def local_session(
    app_name: str = "ottla", *, cores: int = 2, memory_mib: int = 1024, settings: dict[str, str] | None = None
) -> SparkSession:
    """A session with `cores` threads in one JVM of at most `memory_mib` MiB of heap; `settings` are added to ours.

    Raises UserMistake where PySpark, bash or a Java it runs on is missing, OttlaError where that Java does not stay up.
    Where a session is already running in this process, Spark returns that one.
    """
    try:
        import pyspark
        from pyspark.sql import SparkSession
    except ImportError:
        raise UserMistake("PySpark is not installed: run `pip install 'ottla[spark]'`.") from None
    check_bash()
    java, version = find_java()
    folder = Path(tempfile.mkdtemp(prefix="ottla-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING)
    options = (os.environ.get("SPARK_SUBMIT_OPTS"), f"-Dlog4j2.configurationFile={logging.as_uri()}")
    environment = {
        "JAVA_HOME": str(lay_java_home(java, version, folder / "java")),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        # The same for all, and not there: Java shares prepared classes only among those who have one classpath, which
        # begins with this folder.
        "SPARK_CONF_DIR": str(Path(pyspark.__file__).parent / "no-conf"),
        "SPARK_SUBMIT_OPTS": " ".join(option for option in options if option),
        "SPARK_LOCAL_IP": "127.0.0.1",
        # Otherwise workers run whatever `python3` is on PATH, which has no ottla.
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    builder = SparkSession.builder.appName(app_name).master(f"local[{cores}]")
    for name, value in (_settings(cores, memory_mib, folder) | (settings or {})).items():
        builder = builder.config(name, value)
    with _environment(environment):
        try:
            return builder.getOrCreate()
        except Exception as error:
            ending = _how_it_ended(_java_that_never_came_up(error), _JAVA_ENDS_S) or how_java_ended(_JAVA_ENDS_S)
            if ending is None:
                raise
            raise OttlaError(f"Spark's Java process ended before Spark was up ({ending}); it was {java}") from error


def how_java_ended(patience_s: float) -> str | None:
    """How the Java process behind this program's Spark came to its end, in words; None where it is alive.

    Where it was killed, its sockets break a moment before its parent can learn how it ended: `patience_s` is for that.
    """
    from pyspark import SparkContext

    return _how_it_ended(getattr(SparkContext._gateway, "proc", None), patience_s)


def _java_that_never_came_up(error: BaseException) -> subprocess.Popen[bytes] | None:
    """The Java process that PySpark has waited for in vain: it tells nobody of it, but its frame still knows it."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        process = frame.f_locals.get("proc")
        if isinstance(process, subprocess.Popen):
            return process
    return None


def _how_it_ended(java: subprocess.Popen[bytes] | None, patience_s: float) -> str | None:
    if java is None:
        return None
    try:
        status = java.wait(patience_s)
    except subprocess.TimeoutExpired:
        return None
    return f"killed by signal {-status}" if status < 0 else f"exit status {status}"


def _settings(cores: int, memory_mib: int, folder: Path) -> dict[str, str]:
    return {
        "spark.driver.memory": f"{memory_mib}m",
        "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.python.worker.reuse": "true",
    }


@contextlib.contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
