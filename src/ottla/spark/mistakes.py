"""An error of ours as Spark shows it: its sentence, without the way to it.

Spark puts Python's whole traceback into its own error, and who has mistyped an option wants to read what is allowed,
not where in ottla that was found. What is no error of ours, a bug say, keeps its traceback.
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
    """What went wrong in planning, told while Spark pickles the writer; it takes other errors for those of pickling."""


def plainly(method: Callable[_Given, _Answer]) -> Callable[_Given, _Answer]:
    """The same method, called by Spark."""
    return _shown(method, _without_way)


def while_pickling(method: Callable[_Given, _Answer]) -> Callable[_Given, _Answer]:
    """The same method, called when Spark pickles its object: its errors are NotPlanned."""
    return _shown(method, lambda error: NotPlanned(str(error)))


def each_plainly(items: Iterator[_Answer]) -> Iterator[_Answer]:
    """The same items, gone through by Spark."""
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
