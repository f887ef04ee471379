"""How Spark shows ottla's errors: the message, without a traceback through ottla.

Spark puts Python's whole traceback into its own error. A user who has mistyped an option needs to read what is allowed,
and not where in ottla the error was raised. Other exceptions (bugs) keep their traceback.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pickle import PickleError
from typing import ParamSpec, TypeVar

from ottla.errors import OttlaError, UserMistake

_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")


class NotPlanned(UserMistake, PickleError):
    """An error of planning, raised while Spark pickles the writer; Spark passes on a PickleError as it is."""


def plainly(method: Callable[_Given, _Answer]) -> Callable[_Given, _Answer]:
    """The same method, called by Spark."""
    return _shown(method, _without_way)


def while_pickling(method: Callable[_Given, _Answer]) -> Callable[_Given, _Answer]:
    """The same method, called when Spark pickles its object: its errors are NotPlanned."""
    return _shown(method, lambda error: NotPlanned(str(error)))


def each_plainly(items: Iterator[_Answer]) -> Iterator[_Answer]:
    """The same items, for Spark to iterate over."""
    try:
        yield from items
    except OttlaError as error:
        raise _without_way(error) from None


def _shown(
    method: Callable[_Given, _Answer], shown_as: Callable[[OttlaError], OttlaError]
) -> Callable[_Given, _Answer]:
    @functools.wraps(method)
    def call(*given: _Given.args, **named: _Given.kwargs) -> _Answer:
        try:
            return method(*given, **named)
        except OttlaError as error:
            raise shown_as(error) from None

    return call


def _without_way(error: OttlaError) -> OttlaError:
    return error.with_traceback(None)
