"""What tests of the command line share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from .serving import Serving


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
