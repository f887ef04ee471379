"""What tests of the command line share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .serving import Serving

# Commands wait five seconds for brokers, which may need more on a busy machine.
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
    """Commands that run in this process wait for brokers for a minute."""
    for name in ("admin_options", "completion", "produce", "read"):
        monkeypatch.setattr(f"ottla.cli.{name}._PATIENCE_MS", _PATIENCE_MS)


@pytest.fixture(scope="session")
def patient_config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file for `--command-config` with which commands wait for brokers for a minute.

    It does not change `ottla produce`, which would wait that long for missing topics, too.
    """
    path = tmp_path_factory.mktemp("patient") / "client.properties"
    path.write_text(f"default.api.timeout.ms={_PATIENCE_MS}\n")
    return path
