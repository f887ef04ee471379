"""A quiet Spark session, for `ottla run`, for `ottla audit` and for trying things out.

On this machine (`local_session`) only the settings in this module count. SPARK_CONF_DIR names a folder that does not
exist, so the user's `spark-defaults.conf` and logging have no effect, and SPARK_HOME is set to the installed PySpark.
On a cluster (`session_at`) the user's configuration counts. Environment variables are set only while the session
starts.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import socket
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

LOOPBACK = "127.0.0.1"
_LOCAL_CORES = 2
_JAVA_ENDS_S = 2.0
_CONNECT_S = 5.0
# No log: errors reach Python as exceptions. There is an appender because Spark uses its own configuration if this one
# has none. The gateway has a level because Spark announces it if it differs.
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
    own = {
        # Always the same folder, which does not exist: the classpath begins with it, and Java shares prepared classes
        # only between processes with one classpath.
        "SPARK_CONF_DIR": str(_pyspark_folder() / "no-conf"),
        "SPARK_LOCAL_IP": LOOPBACK,
    }
    folder = _scratch_folder()
    return _start(app_name, f"local[{cores}]", _settings(cores, memory_mib, folder) | (settings or {}), folder, own)


def session_at(master: str | None, app_name: str, *, settings: dict[str, str] | None = None) -> SparkSession:
    """A session at any master: `local[n]` here (None: two threads), else a cluster (`spark://host:port`, `yarn`, ...).

    A program that `spark-submit` has started gets the session of its options, whatever `master` says. A cluster's
    session is configured as the user's others are, but for `settings` and what `ottla` needs. UserMistake for a master
    that is unknown to Spark or takes no connection; otherwise as `local_session`.
    """
    if is_submitted():
        from pyspark.sql import SparkSession

        return SparkSession.builder.appName(app_name).getOrCreate()
    cores = local_cores(master)
    if cores is not None or master is None:
        return local_session(app_name, cores=cores or _LOCAL_CORES, settings=settings)
    own = {}
    host = _check_master(master)
    if host in ("localhost", LOOPBACK):
        # Its executors are here, too, and find the driver at this address whatever this machine is called.
        own["SPARK_LOCAL_IP"] = LOOPBACK
    given = {"spark.ui.showConsoleProgress": "false", "spark.sql.session.timeZone": "UTC"} | (settings or {})
    try:
        return _start(app_name, master, given, _scratch_folder(), own)
    except OttlaError:
        raise
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        raise OttlaError(f"Spark did not come up at {master}: {first}") from error


def is_submitted() -> bool:
    """Whether `spark-submit` has started this program."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def local_cores(master: str | None) -> int | None:
    """How many threads `local`, `local[n]` or `local[*]` has; None for a master that is elsewhere, or for none.

    UserMistake where it is neither, and no address that Spark knows.
    """
    if master is None:
        return None
    found = re.fullmatch(r"local(?:\[(\d{1,4}|\*)\])?", master)
    if found is not None and found[1] != "0":
        return (os.cpu_count() or 1) if found[1] == "*" else int(found[1] or 1)
    if re.fullmatch(r"spark://[^\s/]+|yarn|k8s://\S+", master):
        return None
    raise UserMistake(
        f"--master {master} is no master of Spark: give local[2], spark://host:7077, yarn or k8s://https://host:port"
    )


def _check_master(master: str) -> str | None:
    """The host of a standalone master, once one of those named has taken a connection."""
    if not master.startswith("spark://"):
        return None
    refused = ""
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S):
                return host
        except (OSError, ValueError) as error:
            refused = f"{address}: {error}"
    raise UserMistake(f"no master of Spark takes a connection at {master} ({refused}): is it running?")


def _pyspark_folder() -> Path:
    try:
        import pyspark
    except ImportError:
        raise UserMistake("PySpark is not installed: run `pip install 'ottla[spark]'`.") from None
    return Path(pyspark.__file__).parent


def _scratch_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="ottla-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _start(app_name: str, master: str, settings: dict[str, str], folder: Path, own: dict[str, str]) -> SparkSession:
    """A session whose Java has `own` in its environment; UserMistake and OttlaError as `local_session` says."""
    home = _pyspark_folder()
    from pyspark.sql import SparkSession

    check_bash()
    java, version = find_java()
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING)
    options = (os.environ.get("SPARK_SUBMIT_OPTS"), f"-Dlog4j2.configurationFile={logging.as_uri()}")
    environment = {
        "JAVA_HOME": str(lay_java_home(java, version, folder / "java")),
        "SPARK_HOME": str(home),
        "SPARK_SUBMIT_OPTS": " ".join(option for option in options if option),
        # Otherwise workers run whatever `python3` is on PATH, which has no ottla.
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        **own,
    }
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in settings.items():
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
    """How the Java process of this program's Spark ended, in words; None if it is alive.

    Where it was killed, its sockets break a moment before its parent can learn how it ended: `patience_s` is for that.
    """
    from pyspark import SparkContext

    return _how_it_ended(getattr(SparkContext._gateway, "proc", None), patience_s)


def _java_that_never_came_up(error: BaseException) -> subprocess.Popen[bytes] | None:
    """The Java process that PySpark waited for in vain; only a local variable in PySpark's frame has it."""
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
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
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
