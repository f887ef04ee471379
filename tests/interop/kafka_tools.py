"""Kafka's command line tools in one JVM, one after the other: each would take longer to start than to do its work."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.apache_kafka import Java

_SOURCE = Path(__file__).with_name("ToolsOfKafka.java")
_PATIENCE_S = 120


class KafkaTools:
    """Use it in a `with` statement; `run` gives what a tool prints, RuntimeError where it fails."""

    def __init__(self, java: Java) -> None:
        self._process = subprocess.Popen(java.command(str(_SOURCE)), stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, main_class: str, *arguments: str) -> str:
        """Have a tool do its work."""
        status, said = self.try_to_run(main_class, *arguments)
        if status:
            raise RuntimeError(f"{main_class} failed:\n{said}")
        return said

    def try_to_run(self, main_class: str, *arguments: str) -> tuple[int, str]:
        """The tool's exit status, and what it prints."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join((main_class, *arguments)).encode() + b"\n")
        self._process.stdin.flush()
        # A tool that never ends ends here.
        watch = threading.Timer(_PATIENCE_S, self._process.kill)
        watch.start()
        head = self._process.stdout.readline().split()
        if len(head) != 2:
            raise RuntimeError(f"{main_class} did not come to an end within {_PATIENCE_S} s")
        said = self._process.stdout.read(int(head[1]))
        watch.cancel()
        return int(head[0]), said.decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()
