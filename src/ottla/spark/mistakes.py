"""How Spark shows ottla's errors: the message, without a traceback through ottla, with settings as Spark's options.

Spark puts Python's whole traceback into its own error. A user who has mistyped an option needs to read what is allowed,
and not where in ottla the error was raised. Other exceptions (bugs) keep their traceback.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from pickle import PickleError
from typing import ParamSpec, TypeVar

from ottla.errors import OttlaError, UserMistake
from ottla.spark.option_names import SETTINGS

_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")
# What nobody can give as an option is called by Kafka's name.
_NO_OPTIONS = frozenset({"transactional.id"})
_OPTIONS = {spelling: f"kafka.{name}" for spelling, name in SETTINGS.items() if name not in _NO_OPTIONS}
# A name of one word, such as acks, is a setting where its value follows.
_NAMES = "|".join(re.escape(name) + ("" if re.search("[._]", name) else "(?==)") for name in _OPTIONS)
_NAMED = re.compile(rf"(?<![\w./-])(?:{_NAMES})(?![\w-]|\.\w)")


class NotPlanned(UserMistake, PickleError):
    """An error of planning, raised while Spark pickles the writer; Spark passes on a PickleError as it is."""


def plainly(method: Callable[_Given, _Answer]) -> Callable[_Given, _Answer]:
    """The same method, called by Spark."""
    return _shown(method, _without_way)


def while_pickling(method: Callable[_Given, _Answer]) -> Callable[_Given, _Answer]:
    """The same method, called when Spark pickles its object: its errors are NotPlanned."""
    return _shown(method, lambda error: NotPlanned(_with_options(str(error))))


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
    error.args = tuple(_with_options(each) if isinstance(each, str) else each for each in error.args)
    return error.with_traceback(None)


def _with_options(told: str) -> str:
    """The same sentence with settings of the client as options of Spark: kafka.max.request.size."""
    return _NAMED.sub(lambda name: _OPTIONS[name[0]], told)
