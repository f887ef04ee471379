"""Is it async? Nobody awaits what a callback or a serializer returns, so it would never run (compiled).

Asked once per record that has a callback, so without a call into Python.
"""

from __future__ import annotations

from functools import partial
from types import FunctionType, MethodType

import cython
from cython.cimports.ottla.async_functions import CO_ASYNC_GENERATOR, CO_COROUTINE, code_flags

_FUNCTION = cython.declare(object, FunctionType)
_METHOD = cython.declare(object, MethodType)
_PARTIAL = cython.declare(object, partial)


@cython.ccall
@cython.exceptval(-1)
def is_async(function: object) -> cython.bint:
    """Whether calling it would make a coroutine or an async generator: a function, a method, or an object's."""
    while type(function) is _PARTIAL:
        function = function.func
    if type(function) is _METHOD:
        function = function.__func__
    elif type(function) is not _FUNCTION:
        function = type(function).__call__
    return type(function) is _FUNCTION and code_flags(function) & (CO_COROUTINE | CO_ASYNC_GENERATOR) != 0
