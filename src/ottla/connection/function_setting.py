"""Reads a setting that may be the name of a built-in function, a user's function, or an object with a method.

Names are not checked here: the functions that have them are in `schemas/`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.connection.setting import refuse_coroutine
from ottla.errors import ConfigError


def function_reader(setting: str, methods: tuple[str, ...], called: str) -> Callable[[Any], Any]:
    """Return the function that reads this setting; it raises ConfigError for what it cannot take.

    An object must have one of `methods`; errors name the last one, written as `called`. An object with a schema
    registry has `of_part` instead, which returns a serializer for keys or for values.
    """

    def read(given: Any) -> Any:
        if isinstance(given, str):
            return given.strip()
        named = ("of_part", *methods)
        method = next((found for name in named if (found := getattr(given, name, None)) is not None), None)
        if isinstance(given, type) and method is not None:
            raise ConfigError(f"{setting}={given.__qualname__} is a class; give an object of it.")
        if callable(given) or callable(method):
            refuse_coroutine(setting, given if method is None else method)
            return given
        raise ConfigError(
            f"{setting} is a name, a function of one object, or an object with a method {called}, "
            f"not {type(given).__name__}."
        )

    return read
