"""Builds the clients that are not written in Python, once, by the tools of their own language.

What is built is kept in ~/.cache/ottla/clients (or under XDG_CACHE_HOME), in a folder whose name identifies the source
from which it was built. A folder gets its name when it is complete, so a build that was cut short leaves none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import as_file, files
from pathlib import Path

from ottla.errors import UserMistake

_PATIENCE_S = 600


@dataclass(slots=True, frozen=True)
class _Build:
    """`folder` of the source, the tools it needs by the name of what brings them, how it is built and started."""

    folder: str
    tools: dict[str, str]
    steps: tuple[tuple[str, ...], ...]
    command: tuple[str, ...]


BUILDS = {
    "java": _Build(
        "java",
        {"java": "a JDK of version 17 or newer", "javac": "a JDK of version 17 or newer", "mvn": "Maven"},
        (
            ("mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies", "-DoutputDirectory=jars"),
            ("javac", "-cp", "jars/*", "-d", ".", "TrialClient.java"),
        ),
        ("java", "-cp", "{folder}:{folder}/jars/*", "TrialClient"),
    ),
    "franz-go": _Build(
        "franz_go",
        {"go": "Go"},
        (("go", "build", "-o", "client", "."),),
        ("{folder}/client",),
    ),
    "kafkajs": _Build(
        "kafkajs",
        {"node": "Node.js", "npm": "npm"},
        (("npm", "ci", "--silent", "--no-audit", "--no-fund"),),
        ("node", "{folder}/client.js"),
    ),
    "rskafka": _Build(
        "rskafka",
        {"cargo": "Rust"},
        (("cargo", "build", "--quiet", "--locked"),),
        ("{folder}/target/debug/client",),
    ),
}
"""By the names that `--client` takes."""


def built_client(name: str, say: Callable[[str], None]) -> list[str]:
    """The command that starts the client of this name, which is built first where it is not yet.

    Raises UserMistake where a tool is missing or the build fails. `say` is told what takes long.
    """
    build = BUILDS[name]
    for tool, brought_by in build.tools.items():
        if shutil.which(tool) is None:
            raise UserMistake(f"--client {name} needs {brought_by}: there is no {tool!r} on the PATH")
    with as_file(files("ottla.trial.clients") / build.folder) as source:
        folder = _cache() / f"{name}-{_fingerprint(source)}"
        if not folder.is_dir():
            say(f"Building the client {name}, once, in {folder}")
            _build(name, build, source, folder)
    return [part.format(folder=folder) for part in build.command]


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "ottla" / "clients"


def _fingerprint(source: Path) -> str:
    found = sha256()
    for path in _files(source):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:12]


def _files(source: Path) -> list[Path]:
    return sorted(path for path in source.iterdir() if path.is_file())


def _build(name: str, build: _Build, source: Path, folder: Path) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder.parent) as scratch:
            arriving = Path(scratch) / name
            arriving.mkdir()
            for path in _files(source):
                shutil.copy(path, arriving)
            for step in build.steps:
                _take(name, step, arriving)
            try:
                arriving.rename(folder)
            except OSError:
                # Another build of the same source was quicker, and has the same result.
                if not folder.is_dir():
                    raise
    except OSError as error:
        raise UserMistake(f"--client {name} cannot be built in {folder.parent}: {error.strerror}") from None


def _take(name: str, step: tuple[str, ...], folder: Path) -> None:
    try:
        done = subprocess.run(
            step, cwd=folder, capture_output=True, text=True, errors="replace", timeout=_PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise UserMistake(f"--client {name} was not built within {_PATIENCE_S} s: {' '.join(step)}") from None
    if done.returncode:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        telling = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "it said nothing")
        raise UserMistake(f"--client {name} cannot be built: {' '.join(step)} failed: {telling}")
