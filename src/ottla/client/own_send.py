"""Which `send` a producer has: the compiled one, unless a subclass overrides it or a test patches it.

The compiled `send` is an attribute of the instance: that costs nothing per record, but hides the `send` of the class.
So an instance has it only while its class has `ottla`'s own `send`. Instances of a subclass that overrides `send` do
not get it, and patching the class (`mock.patch.object(ottla.Producer, "send")`) removes it from all instances.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakSet

from ottla.foreign_names import without_foreign_names

Function = TypeVar("Function", bound=Callable[..., Any])

_own: list[Callable[..., Any]] = []
_living: WeakSet[Any] = WeakSet()


def own_send(function: Function) -> Function:
    """Mark a class's `send` as ottla's own: its instances then have the compiled one in its place."""
    _own.append(function)
    return function


class SendsOfProducers(ABCMeta):
    """The metaclass of producers; it derives from ABCMeta, so that a producer can also be an abstract class."""

    def __setattr__(cls, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "send":
            _look_again()

    def __delattr__(cls, name: str) -> None:
        super().__delattr__(name)
        if name == "send":
            _look_again()

    def __dir__(cls) -> list[str]:
        return without_foreign_names(cls, super().__dir__())


def begin_to_send(producer: Any) -> None:
    """Give the producer its compiled `_send` as `send`, unless its class overrides `send`."""
    _living.add(producer)
    if _has_own(producer):
        # Not through `__dict__`: reading that makes the instance a little slower from then on.
        producer.send = producer._send


def _has_own(producer: Any) -> bool:
    return any(type(producer).send is function for function in _own)


def _look_again() -> None:
    for producer in list(_living):
        attributes = producer.__dict__
        if _has_own(producer):
            attributes.setdefault("send", producer._send)
        elif attributes.get("send") is producer._send:
            del attributes["send"]
