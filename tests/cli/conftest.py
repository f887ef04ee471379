"""What tests of the command line share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .serving import Serving

# Commands give brokers five seconds, and those of a busy machine may need more.
_PATIENCE_MS = 60_000


@pytest.fixture
def serve() -> Iterator[Callable[..., Serving]]:
    started: list[Serving] = []

    def start(*arguments: str) -> Serving:
        started.append(Serving(*arguments))
        return started[-1]

    yield start
    for serving in started:
        if serving.process.poll() is None:
            serving.end()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that are run in this process wait for brokers of a busy machine."""
    for name in ("admin_options", "completion", "produce", "read"):
        monkeypatch.setattr(f"ottla.cli.{name}._PATIENCE_MS", _PATIENCE_MS)


@pytest.fixture(scope="session")
def patient_config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file for `--command-config` with which programs do, all but `ottla produce`: that waits for missing topics."""
    path = tmp_path_factory.mktemp("patient") / "client.properties"
    path.write_text(f"default.api.timeout.ms={_PATIENCE_MS}\n")
    return path
