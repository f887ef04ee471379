"""Which function is a producer's `send`: the appender's own, or one with interceptors and serializers before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.connection.setting import nearest_name, shown
from ottla.errors import ConfigError
from ottla.producer.settings import ProducerSettings

if TYPE_CHECKING:
    from ottla.records.intake import Serialization


def sending(
    append: Callable[..., Any], settings: ProducerSettings, interceptors: Any, later: Callable[..., Any] | None
) -> Callable[..., Any]:
    """Return `append` itself where nothing comes before it; ConfigError for an unknown name of a serializer.

    `later` is for producers in an event loop: see `Intake`.
    """
    key = _serializer("key.serializer", settings.key_serializer)
    value = _serializer("value.serializer", settings.value_serializer)
    if key is None and value is None and interceptors is None:
        return append
    from ottla.records.intake import Intake

    return Intake(append, key_serializer=key, value_serializer=value, interceptors=interceptors, later=later).send


def _serializer(setting: str, given: Any) -> Serialization | None:
    if given is None:
        return None
    from ottla.records.intake import Serialization

    if not isinstance(given, str):
        return Serialization(setting, given)
    from ottla.schemas.serializers import SERIALIZERS

    known = SERIALIZERS.get(given)
    if known is None:
        nearest = nearest_name(given, SERIALIZERS)
        hint = f" Did you mean {nearest}?" if nearest else ""
        raise ConfigError(
            f"{setting}={shown(given)} is not known; allowed are {', '.join(SERIALIZERS)}, a function, or an object "
            f"with a method serialize(topic, object).{hint}"
        )
    return Serialization(setting, known, given)
