"""Whether producers, topics and brokers take the settings of a side, and errors exist: asked when its file is read.

So the user learns of a mistake in the last side of a scenario before the first side is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from ottla import errors
from ottla.broker.settings import BrokerSettings
from ottla.broker.topic_settings import TOPIC_SETTINGS_BY_NAME, topic_config_fault
from ottla.errors import ConfigError
from ottla.nearest import nearest_name
from ottla.protocol.error_codes import ErrorCode

_READ_HERE = ("delivery_timeout_ms", "max_in_flight_requests_per_connection")
# By Kafka's name, or by the name of the class of an error that is not Kafka's.
_ERRORS = frozenset(name for name in vars(ErrorCode) if name.isupper() and name != "NONE") | frozenset(
    name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, errors.OttlaError)
)


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


def sent_mistake(settings: Mapping[str, Any]) -> str | None:
    """What is wrong with a producer's settings for any client; None where nothing is.

    A client gets them in JSON. A trial itself reads two of them: until when a record has an outcome, and whether
    records may be reordered.
    """
    for name, value in settings.items():
        dotted = name.replace("_", ".")
        if not isinstance(value, str | bool | int | float) or (isinstance(value, float) and not isfinite(value)):
            return f"{dotted} is {value} and must be a text, a number, true or false"
        if name in _READ_HERE and not str(value).isdecimal():
            return f"{dotted} is {value!r} and must be a whole number"
    return None


def error_mistake(name: str) -> str | None:
    """What is wrong with the name of an error that a producer has to report; None where nothing is."""
    if name in _ERRORS:
        return None
    if name == "NONE":
        return "NONE is no error: errors = [] stands for no errors"
    near = nearest_name(name, _ERRORS)
    hint = f"; did you mean {near!r}?" if near is not None else ""
    return f"there is no error {name!r}{hint}; it is a name of Kafka's, or of a class in ottla.errors"


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
