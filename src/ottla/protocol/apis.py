"""The request and response class of each API key; a module is imported when one of its classes is first used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from ottla.protocol.message import ApiMessage
from ottla.protocol.messages import MODULES


class _Classes(Mapping[int, type[ApiMessage]]):
    """API key -> request class, or response class."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._loaded: dict[int, type[ApiMessage]] = {}

    def __getitem__(self, api_key: int) -> type[ApiMessage]:
        found = self._loaded.get(api_key)
        if found is None:
            module, name = MODULES[api_key]
            found = getattr(import_module(f"ottla.protocol.messages.{module}"), name + self._kind)
            self._loaded[api_key] = found
        return found

    def __contains__(self, api_key: object) -> bool:
        return api_key in MODULES

    def __iter__(self) -> Iterator[int]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


REQUESTS: Mapping[int, type[ApiMessage]] = _Classes("Request")
RESPONSES: Mapping[int, type[ApiMessage]] = _Classes("Response")


def response_class(request_class: type[ApiMessage]) -> type[ApiMessage]:
    """The response class of a request class."""
    return RESPONSES[request_class.API_KEY]
