"""The id under which brokers know a producer's metrics (KIP-714), asked for by `client_instance_id`.

A broker makes it up the first time it is asked which metrics it wants; only brokers with a plugin for them are asked.
So there is nothing to have until one is connected to, and never with other brokers: who asks says how long to wait.
Loaded when somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

from ottla.errors import ConfigError
from ottla.producer.events import ClientInstanceWanted

if TYPE_CHECKING:
    from ottla.client.producer_driver import ProducerDriver


def ask(driver: ProducerDriver) -> Callable[[], bool]:
    """Have a broker looked for that gives an id; what is returned says whether there is one, or never will be."""
    if not driver.settings.enable_metrics_push:
        raise ConfigError(
            "enable.metrics.push is False, so brokers give this producer no client instance id; leave it at True for "
            "one (KIP-714)"
        )
    driver.gate.check_process()
    if driver.client_instance_id is None:
        driver.gate.check_usable()
        driver.loop.post(ClientInstanceWanted())
    return lambda: driver.client_instance_id is not None or driver.is_over


def told(driver: ProducerDriver) -> UUID | None:
    """The id a broker gave; None where none has so far."""
    if driver.client_instance_id is None:
        driver.gate.check_usable()
        return None
    return UUID(driver.client_instance_id)
