"""What a setting may be that takes a function of the user's: its name, the function, or an object with a method.

Which names there are is known where they are kept (`schemas/`); here a name is only text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.connection.setting import refuse_coroutine
from ottla.errors import ConfigError


def function_reader(setting: str, methods: tuple[str, ...], called: str) -> Callable[[Any], Any]:
    """Return what reads this setting; it raises ConfigError for the rest.

    `methods`: one of them makes an object such a function, the last one is `called` in errors. Objects with a schema
    registry have `of_part` instead, which makes one for keys or for values.
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
