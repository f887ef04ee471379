"""`Value`: what is equal to another of its kind with the same fields, and is never changed once made.

For classes that a broker's process loads: they are written out, with `__slots__` and `__init__`, rather than decorated
as data classes, which would be made anew, by compiling their text, at every start.
"""

from __future__ import annotations

from typing import Any, Self


class Value:
    """The fields are those named in the class's own `__slots__`; `__init__` takes them by these names."""

    __slots__: tuple[str, ...] = ()

    def but(self, **changed: Any) -> Self:
        """The same with other values in these fields."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return type(self)(**{**fields, **changed})

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, name) for name in self.__slots__))

    def __reduce__(self) -> tuple[object, ...]:
        return _made, (type(self), {name: getattr(self, name) for name in self.__slots__})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


def _made(kind: type[Value], fields: dict[str, Any]) -> Value:
    return kind(**fields)
