"""The controller: which topics there are, who leads and who holds their partitions; publishes it as `ClusterImage`.

One controller serves a cluster. Brokers pass administrative requests on to it (`ControllerRequest` in,
`ControllerResponse` out); every change goes out as `ImagePublished` before the answer does, so a driver that
carries out outputs in order has told every broker of a topic before the client hears that it exists. The first
outputs hold the image as it was found in storage. What it knows is one small file, replaced whole: `cluster.json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from ottla.broker.events import BrokerAddress
from ottla.broker.settings import BrokerSettings
from ottla.broker.storage import Storage


class ControllerCore:
    """The controller of a cluster of these brokers; `storage` is its own folder.

    Raises UserMistake where the folder belongs to a cluster with brokers that are missing now, or is damaged.
    """

    def __init__(
        self, brokers: Sequence[BrokerAddress], storage: Storage, settings: BrokerSettings, rng: Random
    ) -> None:
        self.brokers = tuple(brokers)
        self.storage = storage
        self.settings = settings
        self.rng = rng

    def receive(self, event: Any, now_us: int) -> None:
        """Take a ControllerRequest."""
        raise NotImplementedError

    def outputs(self) -> list[Any]:
        """ImagePublished (for every broker) and ControllerResponse, in order; each is handed out once."""
        raise NotImplementedError

    def deadline_us(self) -> int | None:
        """Always None: the controller waits for nothing."""
        raise NotImplementedError

    def tick(self, now_us: int) -> None:
        """Nothing is ever due."""
