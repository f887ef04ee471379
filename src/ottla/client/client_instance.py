"""The id under which brokers know a producer's metrics (KIP-714), asked for by `client_instance_id`.

A broker makes the id when it is first asked which metrics it wants; only brokers with a plugin for them can be asked.
So there is no id before such a broker is connected to, and never one from others: the caller says how long to wait.
Loaded by the first call.
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
    """Look for a broker that gives an id; the function returned says whether one has, or none can any more."""
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
