"""What `key.serializer`, `value.serializer` and `interceptor.classes` may be: objects of the user's, or names.

Which names there are is known where they are kept (`schemas/serializers.py`); here a name is only text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ottla.connection.setting import refuse_coroutine, shown
from ottla.errors import ConfigError

INTERCEPTOR_METHODS = ("on_send", "on_batch", "on_ack")


def serializer_reader(setting: str) -> Callable[[Any], Any]:
    """Return what reads this setting: a name, a function, or an object with `serialize`; ConfigError for the rest."""

    def read(given: Any) -> Any:
        if isinstance(given, str):
            return given.strip()
        method = getattr(given, "serialize_with_headers", None) or getattr(given, "serialize", None)
        if isinstance(given, type) and method is not None:
            raise ConfigError(f"{setting}={given.__qualname__} is a class; give an object of it.")
        if callable(given) or callable(method):
            refuse_coroutine(setting, given if method is None else method)
            return given
        raise ConfigError(
            f"{setting} is a name, a function of one object, or an object with a method serialize(topic, object), "
            f"not {type(given).__name__}."
        )

    return read


def read_interceptors(given: Any) -> tuple[Any, ...]:
    """Return the interceptors, made where classes were given; ConfigError for what has none of their methods."""
    if isinstance(given, str) and not given.strip():
        return ()
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ConfigError(
            f"interceptor.classes={shown(given)} is not a list of objects with {', '.join(INTERCEPTOR_METHODS)}; "
            "names of classes are not looked up, give the classes."
        )
    return tuple(_interceptor(each) for each in given)


def _interceptor(given: Any) -> Any:
    if not any(callable(getattr(given, method, None)) for method in INTERCEPTOR_METHODS):
        raise ConfigError(
            f"interceptor.classes: {shown(given)} has none of the methods {', '.join(INTERCEPTOR_METHODS)}."
        )
    made = _made(given) if isinstance(given, type) else given
    for method in (*INTERCEPTOR_METHODS, "close"):
        refuse_coroutine(f"interceptor.classes: {method} of {type(made).__qualname__}", getattr(made, method, None))
    return made


def _made(given: type) -> Any:
    try:
        return given()
    except Exception as error:
        raise ConfigError(
            f"interceptor.classes: {given.__qualname__}() raised {type(error).__name__}: {error}; give an object of "
            "it, or a class that needs no arguments."
        ) from error
