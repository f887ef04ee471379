"""A standalone cluster of Spark's own: a master and workers on this machine, each a process."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.client.in_time import wait_until
from tests.spark.sink_driver import QUICK_JAVA
from tests.spark.sink_engine import PATIENCE_S

from ottla.spark.java import find_java as java_of_this_machine
from ottla.spark.java import lay_java_home


class Daemons:
    """Spark's own master and workers."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        (folder / "conf").mkdir(parents=True)
        self._folder = folder
        self._program = home / "bin" / "spark-class"
        self._environment = os.environ | {
            "JAVA_HOME": str(lay_java_home(*java_of_this_machine(), folder / "java")),
            "SPARK_HOME": str(home),
            "SPARK_CONF_DIR": str(folder / "conf"),
            "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA,
            "SPARK_WORKER_DIR": str(folder / "work"),
            **environment,
        }
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, host: str, *arguments: str, said: str) -> None:
        """Start one and wait until it has said so."""
        words = self._folder / f"{name}-{len(self._processes)}.out"
        command = [str(self._program), f"org.apache.spark.deploy.{name}", "--host", host, "--webui-port", "0"]
        with words.open("wb") as out:
            self._processes.append(
                subprocess.Popen(
                    [*command, *arguments],
                    env=self._environment | {"SPARK_LOCAL_IP": host},
                    stdout=out,
                    stderr=subprocess.STDOUT,
                )
            )
        wait_until(lambda: said in words.read_text(), words.read_text, PATIENCE_S)

    def stop(self) -> None:
        """Workers first; they end their executors."""
        for process in reversed(self._processes):
            process.terminate()
            process.wait()
