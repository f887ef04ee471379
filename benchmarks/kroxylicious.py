"""Kroxylicious with no filter, the other proxy that decodes Kafka's protocol: measured beside ours where it is there.

`KROXYLICIOUS_JARS` names the folder with its jars, dependencies included (the `libs` of its distribution), and
`JAVA_HOME` a Java that can run them (21 or newer). Nothing of it is fetched or built here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tools.ports import free_ports

VARIABLE = "KROXYLICIOUS_JARS"
_MAIN = "io.kroxylicious.app.Kroxylicious"
_PATIENCE_S = 60
_CONFIG = """
virtualClusters:
  - name: bench
    targetCluster:
      bootstrapServers: {upstream}
    gateways:
      - name: plain
        portIdentifiesNode:
          bootstrapAddress: 127.0.0.1:{port}
          nodeIdRanges:
            - name: brokers
              start: 1
              end: 1
"""


def jars() -> Path | None:
    """The folder of its jars; None where it is not to be measured. SystemExit where the folder has none."""
    given = os.environ.get(VARIABLE)
    if not given:
        return None
    if not list(Path(given).glob("kroxylicious-runtime-*.jar")):
        raise SystemExit(f"{VARIABLE}={given} has no kroxylicious-runtime-*.jar; name the folder of its jars")
    return Path(given)


@contextlib.contextmanager
def started(folder: Path, upstream: str) -> Iterator[str]:
    """The address of Kroxylicious in front of a cluster of one broker, whose id is 1."""
    port = free_ports(2)[0]
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    if java is None:
        raise SystemExit("Kroxylicious needs Java 21 or newer: set JAVA_HOME")
    with tempfile.TemporaryDirectory(prefix="kroxylicious-") as scratch, (Path(scratch) / "log").open("w") as said:
        config = Path(scratch) / "config.yaml"
        config.write_text(_CONFIG.format(upstream=upstream, port=port))
        command = [java, "-Xmx1g", "-cp", f"{folder}/*", _MAIN, "--config", str(config)]
        process = subprocess.Popen(command, stdout=said, stderr=said)
        try:
            _await_listening(process, port, Path(said.name))
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def _await_listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    give_up = time.monotonic() + _PATIENCE_S
    while time.monotonic() < give_up and process.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        time.sleep(0.1)
    raise SystemExit(f"Kroxylicious did not start:\n{log.read_text()[-2000:]}")
