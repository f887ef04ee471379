"""`ottla serve`, running as a program."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from typing import Any

TIMEOUT_S = 60


class Serving:
    """`ottla serve --json`, running."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "ottla", "serve", "--json", *arguments]
        if "--listener" not in arguments:
            command += ["--port", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], TIMEOUT_S)[0]
        line = self.process.stdout.readline()
        assert line, self.ended()
        self.told: dict[str, Any] = json.loads(line)
        self.servers: str = self.told["bootstrap_servers"]

    def ended(self) -> tuple[int, str]:
        """Exit status and what stood on stderr."""
        _, complaints = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, complaints

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        return self.ended()

    def kill(self) -> None:
        """kill -9 of the brokers and of the program that holds them."""
        os.kill(self.told["pid"], signal.SIGKILL)
        self.process.kill()
        self.ended()
