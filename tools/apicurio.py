"""A real Apicurio Registry, which has a REST API as Confluent's: what tests hold our registry and our clients against.

It is started from what Maven Central has, listens on loopback only, keeps its schemas in memory, and ends with the
`with` statement.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

from tools import kafka_jars
from tools.apache_kafka import BRIEF_OPTIONS
from tools.ports import free_ports

_PATIENCE_S = 120


class Apicurio:
    """A registry at `url`; raises kafka_jars.JarsUnavailable where it, or a Java to run it, cannot be had."""

    def __init__(self, *, heap_mb: int = 512) -> None:
        [port] = free_ports(1)
        self._folder = tempfile.TemporaryDirectory(prefix="apicurio-")
        self._command = [
            kafka_jars.find_java(),
            f"-Xmx{heap_mb}m",
            *BRIEF_OPTIONS,
            f"-Djava.io.tmpdir={self._folder.name}",
            "-Dquarkus.http.host=127.0.0.1",
            f"-Dquarkus.http.port={port}",
            "-jar",
            str(kafka_jars.fetch_apicurio() / kafka_jars.APICURIO_JAR),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{port}/apis/ccompat/v7"

    def start(self) -> None:
        """Until it answers."""
        output_file = Path(self._folder.name) / "output"
        with output_file.open("wb") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=subprocess.STDOUT)
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/subjects", timeout=_PATIENCE_S).close()
                return
            except urllib.error.URLError as error:
                if self._process.poll() is not None or time.monotonic() > until:
                    said = output_file.read_text(errors="replace")[-3000:]
                    raise RuntimeError(f"Apicurio Registry did not start ({error}):\n{said}") from None
            time.sleep(0.1)

    def stop(self) -> None:
        """End it and remove its folder; there is nothing worth a clean shutdown."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, _kind: type | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self.stop()
