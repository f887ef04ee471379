"""Whether ottla's producer, topics and brokers take the settings of a side: asked when its file is read.

So a mistake in the last side of a scenario is told before the first one is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.broker.settings import BrokerSettings
from ottla.broker.topic_settings import TOPIC_SETTINGS_BY_NAME, topic_config_fault
from ottla.errors import ConfigError
from ottla.nearest import nearest_name


def producer_mistake(settings: Mapping[str, Any], transactional_id: str | None) -> str | None:
    """What is wrong with a producer's settings, together with the trial's own; None where nothing is."""
    # Both are loaded only where a scenario is read: `instance` needs its words.
    from ottla.producer.settings import ProducerSettings
    from ottla.trial.instance import PRODUCER

    given: dict[str, Any] = {"bootstrap_servers": "localhost:9092", **PRODUCER, **settings}
    if transactional_id is not None:
        given["transactional_id"] = transactional_id
    try:
        ProducerSettings(given)
    except ConfigError as error:
        return str(error)
    return None


def broker_mistake(settings: Mapping[str, Any]) -> str | None:
    """What is wrong with brokers' settings; None where nothing is."""
    try:
        BrokerSettings(**settings)
    except ConfigError as error:
        return str(error)
    return None


def topic_mistake(settings: Mapping[str, str]) -> str | None:
    """What is wrong with a topic's settings; None where nothing is."""
    for name in settings:
        if name not in TOPIC_SETTINGS_BY_NAME:
            near = nearest_name(name, TOPIC_SETTINGS_BY_NAME)
            hint = f"; did you mean {near!r}?" if near is not None else ""
            return f"{name!r} is no topic setting{hint}"
    return topic_config_fault(settings.items())
