"""A guarantee taken out of shipped cores that work over real sockets, for the negative controls of the main job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from ottla.broker.settings import BrokerSettings
from ottla.cluster.cluster import Cluster
from ottla.producer.settings import ProducerSettings
from ottla.reader.settings import ReaderSettings
from ottla.weaknesses import Weaknesses


@contextmanager
def weakened(*weaknesses: Weaknesses) -> Iterator[None]:
    """Every broker, producer and reader made meanwhile in this process has these weaknesses; brokers all run in it."""

    def weaken(kind: type) -> Any:
        make = kind.__init__  # type: ignore[misc]

        def made(self: Any, *arguments: Any, **more: Any) -> None:
            make(self, *arguments, **more)
            self.weaknesses = weaknesses

        return patch.object(kind, "__init__", made)

    launch = Cluster._launch
    with ExitStack() as stack:
        for kind in (BrokerSettings, ProducerSettings, ReaderSettings):
            stack.enter_context(weaken(kind))
        stack.enter_context(patch.object(Cluster, "_launch", lambda self, _: launch(self, True)))
        yield
