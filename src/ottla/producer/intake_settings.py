"""What `interceptor.classes` may be: objects of the user's, or classes that need no arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.connection.setting import refuse_coroutine, shown
from ottla.errors import ConfigError

INTERCEPTOR_METHODS = ("on_send", "on_batch", "on_ack")


def read_interceptors(given: Any) -> tuple[Any, ...]:
    """Return the interceptors; a class is called to make one, and ConfigError is for what has none of their methods."""
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
